"""A smoke test of the error rates of the whole procedure, by few simulated runs with fixed seeds.

Every bound is a binomial tail: if the claimed rate held exactly, a fresh seed would break it less than once in a
million times. So it finds gross errors alone; test_nominal_rates.py finds a rate of twice the claimed one.
"""

import math

import numpy as np
import pytest
from made_samples import Machine, a_case, measured, noisy
from scipy import stats

from opduel.comparator import RunAnalysis, plan_looks
from opduel.comparator.empirical_bayes import fit_prior, shrink_variance
from opduel.comparator.trimmed_mean import estimate_trimmed_mean, shifted_t_p
from opduel.records import FLAGGED, Comparison, Verdict

LOOKS = plan_looks()


def most(trials: int, rate: float) -> int:
    """The count that a rate exceeds with a probability below one in a million."""
    return int(stats.binom.isf(1e-6, trials, rate))


def fewest(trials: int, rate: float) -> int:
    """The count that a rate falls short of with a probability below one in a million."""
    return int(stats.binom.ppf(1e-6, trials, rate))


def a_run(seed: int, changes: list[float], alpha: float = 0.05) -> list[Comparison]:
    """One whole run: every case has its own noise, processes are off now and then."""
    rng = np.random.default_rng(seed)
    machine = Machine(rng, changes, (0.014 * np.exp(rng.normal(0, 0.6, len(changes)))).tolist())
    cases = [a_case(name, 0.02) for name in machine.shift]
    samples = measured(cases, machine, LOOKS, alpha)
    return RunAnalysis(cases, samples, {}, LOOKS, alpha).comparisons()


def verdicts(seed: int, changes: list[float], alpha: float = 0.05) -> list[Verdict]:
    return [comparison.verdict for comparison in a_run(seed, changes, alpha)]


@pytest.mark.parametrize(("change", "cleared"), [(0.02, "not_worse"), (1 / 1.02 - 1, "not_better")])
def test_one_case_at_the_boundary_is_flagged_at_most_at_alpha_and_cleared_at_most_at_half_of_it(
    change: float, cleared: Verdict
) -> None:
    """Any smaller change is flagged less often, and any larger one cleared less often."""
    alpha, trials = 0.2, 150
    verdict_by_run = [verdicts(seed, [change], alpha)[0] for seed in range(trials)]
    assert sum(verdict in FLAGGED for verdict in verdict_by_run) <= most(trials, alpha)
    assert sum(verdict in ("unchanged", cleared) for verdict in verdict_by_run) <= most(trials, alpha / 2)


def test_large_changes_among_forty_need_three_fresh_pairs() -> None:
    runs = [a_run(seed, [0.5] * 10 + [3.0] * 5 + [0.2 - 1] * 5 + [0.0] * 20) for seed in range(10)]
    changed = [comparison for run in runs for comparison in run[:20]]
    assert sum(comparison.verdict in FLAGGED for comparison in changed) >= fewest(200, 0.99)
    assert sum(comparison.rounds == 8 for comparison in changed) >= fewest(200, 0.85)
    assert min(comparison.rounds for comparison in changed) == 8
    assert not any(comparison.verdict in FLAGGED for run in runs for comparison in run[20:])
    intervals = [
        (comparison.ci, true)
        for run in runs
        for comparison, true in zip(run[:20], [1.5] * 10 + [4.0] * 5 + [0.2] * 5, strict=True)
    ]
    covered = sum(ci is not None and ci[0] <= true <= ci[1] for ci, true in intervals)
    assert covered >= fewest(200, 0.95)


@pytest.mark.parametrize("family", [1, 2, 3])
def test_a_large_change_is_found_in_a_small_family(family: int) -> None:
    """Also where there is no prior: a case that takes four times as long is found after eight rounds."""
    runs = [a_run(seed, [2.93] + [0.0] * (family - 1)) for seed in range(60)]
    rounds = [run[0].rounds for run in runs if run[0].verdict == "regressed"]
    assert len(rounds) >= fewest(60, 0.99)
    assert rounds.count(8) >= fewest(60, 0.85)
    assert not any(comparison.verdict in FLAGGED for run in runs for comparison in run[1:])


def test_a_run_of_forty_at_the_boundary() -> None:
    """The family-wise rate, which is the false discovery rate when nothing has changed beyond the threshold."""
    runs = [verdicts(seed, [0.02] * 20 + [1 / 1.02 - 1] * 20) for seed in range(15)]
    assert sum(any(verdict in FLAGGED for verdict in run) for run in runs) <= most(15, 0.05)
    cleared = sum(verdict == "unchanged" for run in runs for verdict in run)
    assert cleared <= most(600, 0.05)


def test_forty_cases_of_mixed_truth() -> None:
    """False discoveries, wrong clearances and power, over runs with changes up and down among unchanged ones."""
    changes = [0.0] * 16 + [0.02] * 4 + [0.1] * 10 + [1 / 1.1 - 1] * 6 + [0.03] * 4
    right = ["none"] * 20 + ["regressed"] * 10 + ["improved"] * 6 + ["regressed"] * 4
    runs = [verdicts(seed, changes) for seed in range(15)]
    pairs = [pair for run in runs for pair in zip(run, right, strict=True)]
    flags = [verdict == right_verdict for verdict, right_verdict in pairs if verdict in FLAGGED]
    assert flags.count(False) <= most(len(flags), 0.05)
    detected = sum(run[i] == right[i] for run in runs for i in range(20, 36))
    assert detected >= fewest(15 * 16, 0.95)
    wrongly_cleared = sum(run[i] == "unchanged" for run in runs for i in range(20, 40))
    assert wrongly_cleared <= most(15 * 20, 0.05)


def test_most_cases_of_a_run_without_changes_are_cleared() -> None:
    """How often one is flagged is tested at the boundary, where that happens most."""
    runs = [verdicts(seed, [0.0] * 40) for seed in range(10)]
    assert sum(verdict == "unchanged" for run in runs for verdict in run) >= fewest(400, 0.7)


def p_values_of_runs(
    seed: int, sds: list[float], n: int, runs: int, judged_cases: slice = slice(None)
) -> np.ndarray[tuple[int, ...], np.dtype[np.float64]]:
    """One-sided moderated p values without a change, shape (runs, judged cases); the prior is from other samples."""
    rng = np.random.default_rng(seed)
    rows = []
    for _ in range(runs):
        prior = fit_prior([estimate_trimmed_mean(noisy(rng, 5, sd=sd)) for sd in sds])
        fresh = [shrink_variance(estimate_trimmed_mean(noisy(rng, n, sd=sd)), prior) for sd in sds[judged_cases]]
        rows.append([shifted_t_p(trimmed_mean, 0.0) for trimmed_mean in fresh])
    return np.array(rows)


@pytest.mark.parametrize("n", [5, 12])
def test_moderated_t_is_nearly_exact_over_cases(n: int) -> None:
    """Known to be a little liberal, for a trimmed mean's t distribution is approximate: up to 1.3 times."""
    sds = (0.02 * np.exp(np.random.default_rng(1).normal(0, 0.6, 40))).tolist()
    p_values = p_values_of_runs(2, sds, n, 100)
    for level in (0.05, 0.01):
        errors = (p_values < level).sum()
        assert fewest(p_values.size, 0.6 * level) <= errors <= most(p_values.size, 1.3 * level), level


def test_a_noisy_case_among_quiet_ones_is_not_drowned_by_them() -> None:
    """Two cases of five times the noise: believing the others' variance flagged them 7.7 times too often, which 600
    runs show with a probability of 99 %."""
    p_values = p_values_of_runs(3, [0.02] * 38 + [0.1] * 2, 8, 600, judged_cases=slice(-2, None))
    assert (p_values < 0.01).sum() <= most(p_values.size, 0.03)
    assert math.isfinite(p_values.sum())
