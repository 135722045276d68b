"""How noisy hosts are: against naive formulas, and the rates of the tests that mark them by simulation."""

import math
from collections.abc import Callable
from itertools import permutations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from opduel.comparator.aa_checks import AA_ALPHA
from opduel.comparator.history import host_noise
from opduel.comparator.history.host_noise import (
    AA_LEVEL,
    FEWEST_CASES,
    OTHERS_LEVEL,
    REFERENCE_RUNS,
    RISE_LEVEL,
    WINDOW,
    aa_failures_p,
    above_others_p,
    latest_rise,
    level_of,
    log_spread,
    run_noise,
)
from opduel.comparator.trimmed_mean import estimate_trimmed_mean

RARE = 1e-6  # the chance that a test of a rate fails without a fault
VALUES = st.lists(st.integers(-1000, 1000).map(lambda number: number / 1000), min_size=3, max_size=30, unique=True)


def history(rng: np.random.Generator, log_noise: np.ndarray, cases: int = 40, pairs: int = 6) -> list[float]:
    """Return the noise that the server would find in runs of that true noise (its log, by run), with stray pairs."""
    spreads = 0.01 * np.exp(rng.normal(0, 0.6, cases))
    references: dict[int, tuple[float, int]] = {}  # of each case: the sum of its log spreads, and of how many runs
    noise_of_runs = []
    for level in log_noise:
        log_ratios = rng.normal(0, 1, (cases, pairs)) * spreads[:, None] * np.exp(level)
        log_ratios *= np.where(rng.random(log_ratios.shape) < 0.03, 5, 1)
        logs = {case: spread for case, row in enumerate(log_ratios) if (spread := log_spread(row.tolist())) is not None}
        noise = run_noise(logs, {case: total / runs for case, (total, runs) in references.items()})
        for case, spread in logs.items():
            total, runs = references.get(case, (0.0, 0))
            if runs < REFERENCE_RUNS:
                references[case] = total + spread - (noise or 0.0), runs + 1
        if noise is not None:
            noise_of_runs.append(noise)
    return noise_of_runs


def most(trials: int, share: float) -> int:
    """The largest count that is no surprise at that rate."""
    return int(stats.binom.isf(RARE, trials, share))


def test_the_spread_is_that_which_was_drawn_however_few_the_pairs() -> None:
    """The mean of the log has no bias, so that long and short runs can be compared; of few pairs nothing is trimmed."""
    rng = np.random.default_rng(3)
    for pairs in (3, 4):
        spreads = [log_spread(rng.normal(0.3, 0.02, pairs)) for _ in range(6000)]
        logs = [spread for spread in spreads if spread is not None]
        error = float(np.std(logs)) / math.sqrt(len(logs))
        assert abs(float(np.mean(logs)) - math.log(0.02)) < 5 * error


def test_groups_are_pooled_by_their_degrees_of_freedom() -> None:
    first, second = [0.01, -0.02, 0.03, 0.0, 0.01], [0.1, -0.1, 0.05]
    parts = [estimate_trimmed_mean(group) for group in (first, second)]
    freedom = sum(part.degrees_of_freedom for part in parts)
    variance = sum(part.degrees_of_freedom * part.variance for part in parts) / freedom
    # E log(chi2_df / df) = digamma(df / 2) - log(df / 2): from scipy's own distribution
    bias = float(stats.chi2(freedom).expect(lambda x: np.log(x / freedom)))
    assert log_spread(first, second) == pytest.approx(0.5 * (math.log(variance) - bias), abs=1e-5)


def test_too_few_pairs_say_nothing() -> None:
    assert log_spread([0.1, 0.2]) is None
    assert log_spread([], [0.1]) is None
    assert log_spread([0.1, math.inf, 0.2]) is None
    assert log_spread([0.1, math.nan, 0.2]) is None
    assert log_spread([0.1, 0.2], [0.1, 0.3, 0.2]) == log_spread([0.1, 0.3, 0.2])
    spread = log_spread([0.5] * 4)
    assert spread is not None
    assert math.isfinite(spread)


@given(VALUES, st.floats(-3, 3), st.floats(0.5, 2))
def test_a_change_of_the_case_is_no_noise_and_a_factor_is(values: list[float], shift: float, factor: float) -> None:
    spread, moved = log_spread(values), log_spread([factor * value + shift for value in values])
    assert spread is not None
    assert moved == pytest.approx(spread + math.log(factor), abs=1e-6)


def test_the_noise_of_a_steady_host_stays_0_while_references_are_learnt() -> None:
    """A median over cases would drift by 17 %."""
    rng = np.random.default_rng(2)
    late = [noise for _ in range(20) for noise in history(rng, np.zeros(30))[-8:]]
    assert abs(float(np.mean(late))) < 0.05


def test_the_noise_of_a_run_is_the_mean_over_known_cases() -> None:
    spreads = {case: float(case) for case in range(1, FEWEST_CASES + 3)}
    references = dict.fromkeys(range(1, FEWEST_CASES + 1), 1.0)
    assert run_noise(spreads, references) == (1 + FEWEST_CASES) / 2 - 1
    spreads[1] = -1000.0
    far = run_noise(spreads, references)
    assert far is not None
    assert far > 0  # one odd case counts little
    del references[1]
    assert run_noise(spreads, references) is None


def test_a_split_is_that_of_the_rank_sum_test_and_its_p_value_that_of_all_orders() -> None:
    values = np.array([0.3, 0.1, 0.2, 0.9, 0.7, 0.8, 0.4])
    at, p_value = host_noise._split(values)
    z = {
        k: stats.mannwhitneyu(values[k:], values[:k], method="asymptotic", use_continuity=False, alternative="greater")
        for k in range(1, len(values))
    }
    best = min(z, key=lambda k: z[k].pvalue)
    assert at == best

    def largest(order: tuple[int, ...]) -> float:
        n = len(order)
        sums = [sum(order[k:]) - (n - k) * (n + 1) / 2 for k in range(1, n)]
        return max(rank_sum / math.sqrt(k * (n - k) * (n + 1) / 12) for k, rank_sum in enumerate(sums, 1))

    ranks = tuple(int(rank) for rank in stats.rankdata(values))
    all_orders = [largest(order) for order in permutations(range(1, len(values) + 1))]
    exact = float(np.mean(np.array(all_orders) >= largest(ranks) - 1e-9))
    assert p_value == pytest.approx(exact, abs=5 * math.sqrt(exact / 9999))


@pytest.mark.parametrize("count", [12, 40, WINDOW])
@pytest.mark.parametrize(
    "draw",
    [
        lambda rng, n: rng.normal(0, 0.1, n),
        lambda rng, n: rng.standard_t(2, n),
        lambda rng, n: rng.exponential(1, n),
        lambda rng, n: rng.integers(0, 4, n).astype(float),
    ],
    ids=["normal", "heavy tails", "skewed", "ties"],
)
def test_a_steady_host_is_rarely_marked(
    draw: Callable[[np.random.Generator, int], np.ndarray[tuple[int], np.dtype[np.float64]]], count: int
) -> None:
    rng = np.random.default_rng(count)
    marked = sum(latest_rise(draw(rng, count)) is not None for _ in range(1500))
    assert marked <= most(1500, RISE_LEVEL)


def test_a_host_that_became_noisier_is_marked_from_the_run_on() -> None:
    rng = np.random.default_rng(5)
    latest_rises = []
    for _ in range(100):
        noise = rng.normal(0, 0.15, 50)
        noise[-6:] += math.log(2)
        latest_rises.append(latest_rise(noise))
    rises = [rise for rise in latest_rises if rise is not None]
    assert len(rises) >= 95
    assert np.median([rise.start for rise in rises]) == 44
    assert np.median([rise.log_factor for rise in rises]) == pytest.approx(math.log(2), abs=0.1)


def test_a_host_that_recovered_is_not_marked_and_one_that_relapsed_is() -> None:
    rng = np.random.default_rng(6)
    noise = rng.normal(0, 0.1, 70)
    noise[20:45] += 1
    assert latest_rise(noise[:45]) is not None
    assert latest_rise(noise) is None
    noise[62:] += 1
    rise = latest_rise(noise)
    assert rise is not None
    assert rise.start == 62


def test_too_few_runs_mark_nothing() -> None:
    assert latest_rise([]) is None
    assert latest_rise([1.0]) is None
    assert latest_rise([0.0, 0.1, 5.0]) is None
    assert level_of([]) is None
    assert level_of([9.0, 1.0, 2.0, 3.0, 4.0, 5.0]) == 3.0


def test_one_host_against_others_is_a_t_test_of_a_further_value() -> None:
    rng = np.random.default_rng(7)
    levels = rng.normal(0.1, 0.2, (4000, 6))
    p_values = [above_others_p(float(row[0]), [float(level) for level in row[1:]]) for row in levels]
    assert stats.kstest(p_values, "uniform").pvalue > RARE
    assert sum(p <= OTHERS_LEVEL for p in p_values) <= most(len(p_values), OTHERS_LEVEL)
    row = levels[0]
    t = (row[0] - row[1:].mean()) / (row[1:].std(ddof=1) * math.sqrt(1 + 1 / 5))
    assert p_values[0] == pytest.approx(float(stats.t.sf(t, 4)))
    assert above_others_p(5.0, []) == above_others_p(5.0, [1.0]) == above_others_p(5.0, [1.0, 1.0]) == 1.0


@pytest.mark.parametrize(("failed", "parts"), [(0, 5), (1, 5), (2, 5), (3, 40), (5, 5)])
def test_failed_checks_are_counted_against_their_level(failed: int, parts: int) -> None:
    assert aa_failures_p(failed, parts) == pytest.approx(float(stats.binom.sf(failed - 1, parts, AA_ALPHA)))


def test_two_of_five_runs_mark_a_host_and_one_does_not() -> None:
    assert aa_failures_p(1, 5) > AA_LEVEL >= aa_failures_p(2, 5)
    assert aa_failures_p(3, 2) == 0.0
