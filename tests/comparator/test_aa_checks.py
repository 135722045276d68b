"""The run's own A/A comparisons: against a naive oracle, and their error rate."""

import math

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from made_samples import a_case, noisy, pairs
from naive_statistics import naive_squared_error, naive_trimmed_mean
from scipy import stats

from opduel.comparator import Bias, Prior, run_aa_checks
from opduel.comparator.aa_checks import AA_ALPHA
from opduel.comparator.empirical_bayes import fit_prior
from opduel.comparator.trimmed_mean import estimate_trimmed_mean
from opduel.records.run_record import AACheckRecord


def checked(*log_ratios: list[float], priors: dict[str, Prior] | None = None, threshold: float = 0.02) -> list[bool]:
    return [check.flagged for check in checks(*log_ratios, priors=priors, threshold=threshold)]


def checks(
    *log_ratios: list[float], priors: dict[str, Prior] | None = None, threshold: float = 0.02, alpha: float = 0.01
) -> list[AACheckRecord]:
    cases = [a_case(f"s{i}", threshold) for i in range(len(log_ratios))]
    samples = {case.id: pairs(case.id, "screening", values) for case, values in zip(cases, log_ratios, strict=True)}
    return run_aa_checks(cases, samples, priors or {}, alpha)


def naive_p(log_ratios: list[float], threshold: float, family: int) -> float:
    """Both directions and all A/A checks: everything by its definition, without a prior."""
    bound, n = math.log1p(threshold), len(log_ratios)
    error = max(math.sqrt(naive_squared_error(log_ratios)), 1e-5 / math.sqrt(n))
    above = stats.t.sf((naive_trimmed_mean(log_ratios) - bound) / error, n - 1)
    below = stats.t.cdf((naive_trimmed_mean(log_ratios) + bound) / error, n - 1)
    return min(1.0, family * min(1.0, 2 * min(above, below)))


@settings(max_examples=40, deadline=None)
@given(st.integers(0, 10_000), st.integers(2, 6), st.sampled_from([0.0, 0.03, -0.05, 0.2]))
@example(1016, 2, 0.0)  # two values that differ by less than the resolution
def test_against_the_naive_oracle(seed: int, n: int, change: float) -> None:
    rng = np.random.default_rng(seed)
    rows = [noisy(rng, n, change), noisy(rng, n)]
    for check, row in zip(checks(*rows), rows, strict=True):
        assert check.p_value == pytest.approx(naive_p(row, 0.02, 2), rel=1e-6)
        assert check.ratio == pytest.approx(math.exp(naive_trimmed_mean(row)))
        assert check.flagged == (check.p_value <= AA_ALPHA)
        assert check.rounds == n


def test_a_lean_to_either_side_is_flagged_and_names_its_case() -> None:
    rng = np.random.default_rng(3)
    lean = [noisy(rng, 8, 0.2, 0.005), noisy(rng, 8, -0.2, 0.005), noisy(rng, 8, 0.0, 0.005)]
    assert checked(*lean) == [True, True, False]
    assert checked(*lean, threshold=0.5) == [False] * 3


def test_the_interval_is_for_all_together() -> None:
    rows = [noisy(np.random.default_rng(4), 8)] * 4
    (alone,), (among, *_) = checks(rows[0]), checks(*rows)
    assert alone.ci is not None
    assert among.ci is not None
    assert among.ci[0] < alone.ci[0] < alone.ci[1] < among.ci[1]


def test_too_few_samples_say_nothing() -> None:
    (none, single) = checks([], [0.5])
    for check, rounds in ((none, 0), (single, 1)):
        assert (check.ratio, check.ci, check.p_value, check.flagged, check.rounds) == (None, None, None, False, rounds)


def test_runs_within_the_threshold_are_distrusted_at_most_at_alpha() -> None:
    """Whole runs: four A/A checks with noises of their own, a prior from forty cases, up to the threshold's edge."""
    rng = np.random.default_rng(5)
    alpha, priors = 0.05, []
    for _ in range(400):
        sds = (0.014 * np.exp(rng.normal(0, 0.6, 40))).tolist()
        priors.append((sds[:4], fit_prior([estimate_trimmed_mean(noisy(rng, 5, sd=sd)) for sd in sds])))
    for change, n in ((0.0, 5), (0.02, 5), (0.02, 12), (1 / 1.02 - 1, 30)):
        distrusted = 0
        for sds, prior in priors:
            rows = [noisy(rng, n, change, sd) for sd in sds]
            distrusted += any(check.flagged for check in checks(*rows, priors={"time": prior}, alpha=alpha))
        assert distrusted <= stats.binom.isf(1e-6, len(priors), alpha), (change, n)


def test_the_runs_prior_makes_few_rounds_enough() -> None:
    rng = np.random.default_rng(6)
    prior = fit_prior([estimate_trimmed_mean(noisy(rng, 5, sd=0.01)) for _ in range(22)])
    leans = [noisy(rng, 3, 0.1, 0.01) for _ in range(40)]
    with_prior = sum(checked(lean, priors={"time": prior})[0] for lean in leans)
    assert with_prior > 35
    assert sum(checked(lean)[0] for lean in leans) < with_prior


def bias(*ratios: float | None) -> Bias:
    """That of checks with these ratios, one of which found a difference: the last."""
    last = len(ratios) - 1
    checks = [AACheckRecord(case="a", ratio=ratio, flagged=number == last) for number, ratio in enumerate(ratios)]
    bias_of_checks = Bias.of(checks)
    assert bias_of_checks is not None
    return bias_of_checks


def test_a_bias_is_as_large_as_the_largest_difference_of_a_check() -> None:
    assert bias(1.02, None, 1 / 1.05) == Bias(pytest.approx(math.log(1.05)), 2)  # type: ignore[arg-type]


def test_without_a_check_that_found_a_difference_there_is_no_bias() -> None:
    assert Bias.of([AACheckRecord(case="a", ratio=1.5)]) is None
    assert Bias.of([]) is None


def test_checks_that_say_nothing_of_its_size_limit_no_bias() -> None:
    assert [bias(*ratios).p_value(5.0) for ratios in ([None], [1.0, None])] == [1.0] * 2


@given(st.floats(1e-4, 2), st.integers(1, 8), st.floats(-1, 3))
def test_the_p_value_of_a_bias_is_that_of_a_t_distribution(largest: float, count: int, excess: float) -> None:
    expected = 2 * stats.t.sf(excess / largest, count) if excess > 0 else 1.0
    assert Bias(largest, count).p_value(excess) == pytest.approx(expected, rel=1e-9, abs=0)


@pytest.mark.parametrize("count", [1, 2, 4])
def test_a_case_of_normal_biases_exceeds_what_the_checks_say_at_the_stated_rate_at_most(count: int) -> None:
    """With one check the p value is exact, with more it is too large. 20,000 runs: a rate of 5.5 % would fail."""
    runs = 20_000
    biases = np.random.default_rng(count).normal(0, 0.03, (runs, count + 1))
    below = sum(bias(*np.exp(row[1:]).tolist()).p_value(abs(row[0])) <= 0.05 for row in biases)
    assert below <= stats.binom.isf(0.001, runs, 0.05)
    assert below >= (stats.binom.isf(0.999, runs, 0.05) if count == 1 else 1)
