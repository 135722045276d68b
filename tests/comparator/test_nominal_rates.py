"""The error rates in docs/explanation/statistics.md, by simulation: twice a stated rate is found with 95 % power.

The number of simulated runs follows from two binomial tails (``plan``): at the stated rate itself a test fails with
probability 0.001, at twice that rate it passes with probability 0.05 at most. The runs are the product's own decisions
on samples drawn with fixed seeds. ``make test-statistics`` runs them; test_error_rates.py is the smoke test.
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import cache

import numpy as np
import pytest
from scipy import stats
from simulated_runs import Noise, Scenario, Simulation, measure_until_settled, run

from opduel.comparator import RunAnalysis, fit_priors, plan_looks, run_aa_checks
from opduel.comparator.aa_checks import AA_ALPHA
from opduel.records import FLAGGED, Comparison, Stage, Verdict

ALPHA, THRESHOLD = 0.05, 0.02
FALSE_ALARM, POWER = 0.001, 0.95
LOOKS = plan_looks()
EDGES = (THRESHOLD, 1 / (1 + THRESHOLD) - 1)  # the largest changes of which nothing may be said
# Hosts: noise of all levels that differs from case to case; of pairs alone, and of all cases alike; heavy tails; pairs
# that are off by any amount; a processor whose speed wanders, so that each round has noise of its own size; few blocks.
NOISES = {
    "levels": Noise(pair=0.005, blocks=0.012, spread=1.0, stray_share=0.0),
    "pairs": Noise(pair=0.01, blocks=0.001, spread=0.1, stray_share=0.0),
    "tails": Noise(pair=0.01, blocks=0.008, spread=1.0, tails=3.0, stray_share=0.0),
    "strays": Noise(pair=0.005, blocks=0.008, spread=0.7, stray_share=0.08, stray_sd=math.log(1.4)),
    "wandering": Noise(pair=0.003, blocks=0.015, spread=0.7, wandering=0.8, stray_share=0.01),
    "few blocks": Noise(pair=0.003, blocks=0.012, spread=0.7, freedom=5, stray_share=0.01),
}
of_all_noises = pytest.mark.parametrize("noise", NOISES.values(), ids=NOISES.keys())
statistics = pytest.mark.statistics
nightly = pytest.mark.nightly


@cache
def plan(rate: float) -> tuple[int, int]:
    """The fewest runs, and the most errors among them that are accepted, for the two tails above."""
    runs = int(1 / rate)
    while True:
        most = int(stats.binom.isf(FALSE_ALARM, runs, rate))
        if stats.binom.sf(most, runs, 2 * rate) >= POWER:
            return runs, most
        runs += 1


def check(rate: float, error: Callable[[int], float]) -> None:
    """``error`` (seed -> 1 or 0, or a share of the run's verdicts) happens at ``rate`` at most.

    A share in [0, 1] varies no more than a count of the same mean, so that the plan holds for it, too.
    """
    runs, most = plan(rate)
    errors = sum(error(seed) for seed in range(runs))
    assert errors <= most, f"{errors:g} errors in {runs} runs, where {rate:.1%} of them, {rate * runs:.0f}, are stated"


def a_run(seed: int, changes: Sequence[float], noise: Noise) -> list[Comparison]:
    return run(Simulation(Scenario(tuple(changes), THRESHOLD), noise, np.random.default_rng(seed)), LOOKS, ALPHA)


def flags(comparisons: list[Comparison]) -> int:
    return sum(comparison.verdict in FLAGGED for comparison in comparisons)


def answers(comparison: Comparison, *verdicts: Verdict) -> bool:
    return comparison.verdict in verdicts


@pytest.mark.parametrize("rate", [0.2, 0.05, 0.01])
def test_the_plan_finds_twice_the_rate_and_no_smaller_one_does(rate: float) -> None:
    runs, most = plan(rate)
    assert stats.binom.sf(most, runs, rate) <= FALSE_ALARM
    assert stats.binom.sf(most, runs, 2 * rate) >= POWER
    fewer = runs - 1
    assert stats.binom.sf(stats.binom.isf(FALSE_ALARM, fewer, rate), fewer, 2 * rate) < POWER


@pytest.mark.parametrize("rate", [0.05, 0.01])
def test_a_procedure_with_twice_the_rate_fails_and_one_with_the_rate_does_not(rate: float) -> None:
    draws = np.random.default_rng(5).random((100, plan(rate)[0]))

    def fails(row: np.ndarray, true: float) -> bool:
        try:
            check(rate, lambda seed: float(row[seed] < true))
        except AssertionError:
            return True
        return False

    assert sum(fails(row, 2 * rate) for row in draws) >= 88
    assert sum(fails(row, rate) for row in draws) <= 2


@nightly
@statistics
@pytest.mark.parametrize("change", EDGES)
def test_a_case_at_an_edge_is_flagged_at_most_at_half_of_alpha(change: float) -> None:
    """The other half is that of the other edge."""
    check(ALPHA / 2, lambda seed: flags(a_run(seed, [change], Noise())))


@nightly
@statistics
@of_all_noises
def test_cases_just_beyond_an_edge_are_called_unchanged_or_on_the_other_side_at_most_at_half_of_alpha(
    noise: Noise,
) -> None:
    """Five cases beyond either edge, which share their prior with five others."""
    changes = [edge * 1.01 for edge in EDGES for _ in range(5)] + [0.0] * 5
    wrong: list[Verdict] = ["not_worse"] * 5 + ["not_better"] * 5

    def share_of_wrong(seed: int) -> float:
        claims = zip(a_run(seed, changes, noise), wrong, strict=False)
        return sum(answers(comparison, "unchanged", side) for comparison, side in claims) / 10

    check(ALPHA / 2, share_of_wrong)


@nightly
@statistics
@of_all_noises
def test_a_run_of_twenty_cases_at_the_edge_has_a_flag_at_most_at_alpha(noise: Noise) -> None:
    """With nothing changed beyond the threshold the false discovery rate is the share of runs with any flag."""
    check(ALPHA, lambda seed: flags(a_run(seed, [*EDGES] * 10, noise)) > 0)


@nightly
@statistics
@of_all_noises
def test_a_run_of_forty_unchanged_cases_has_a_flag_at_most_at_alpha(noise: Noise) -> None:
    check(ALPHA, lambda seed: flags(a_run(seed, [0.0] * 40, noise)) > 0)


@nightly
@statistics
@pytest.mark.parametrize("noise", [NOISES["levels"], NOISES["strays"]], ids=["levels", "strays"])
def test_false_discoveries_among_changes_are_alpha_of_the_flags_at_most(noise: Noise) -> None:
    changes = [0.0] * 4 + [*EDGES] * 4 + [0.1] * 4 + [1 / 1.1 - 1] * 2 + [0.04] * 2
    right = ["none"] * 12 + ["regressed"] * 4 + ["improved"] * 2 + ["regressed"] * 2

    def share_of_false(seed: int) -> float:
        comparisons = a_run(seed, changes, noise)
        claims = [(comparison.verdict, want) for comparison, want in zip(comparisons, right, strict=True)]
        return sum(verdict in FLAGGED and verdict != want for verdict, want in claims) / max(1, flags(comparisons))

    check(ALPHA, share_of_false)


@nightly
@statistics
def test_one_case_of_a_quiet_run_with_strays_keeps_its_rates() -> None:
    """One of its process pairs in a dozen is off by 10 to 60 %: its own samples contradict the others' prior."""

    class OneStray(Simulation):
        def measure(self, case_id: str, stage: Stage) -> None:
            super().measure(case_id, stage)
            rng, samples = self.streams[case_id], self.samples[case_id]
            if case_id == self.cases[0].id and rng.random() < 1 / 12:
                off = float(rng.choice((-1, 1)) * rng.uniform(0.1, 0.6))
                ((log_ratio, standard_error),) = samples[-1].fork_ratios
                forks = ((log_ratio + off, standard_error),)
                samples[-1] = replace(samples[-1], log_ratio=log_ratio + off, fork_ratios=forks)

    quiet = Noise(pair=0.004, blocks=0.005, stray_share=0.0)

    def errs(seed: int) -> float:
        scenario = Scenario((THRESHOLD * 1.01, *[0.0] * 14), THRESHOLD)
        first, *_ = run(OneStray(scenario, quiet, np.random.default_rng(seed)), LOOKS, ALPHA)
        return float(answers(first, "unchanged", "not_worse"))

    check(ALPHA / 2, errs)


@nightly
@statistics
def test_the_interval_of_a_large_change_misses_it_at_most_at_alpha() -> None:
    def misses(seed: int) -> bool:
        (first, *_) = a_run(seed, [0.5, 0.0, 0.0, 0.0], Noise())
        return first.ci is None or not first.ci[0] <= 1.5 <= first.ci[1]

    check(ALPHA, misses)


@nightly
@statistics
def test_a_second_measurement_of_cases_at_the_edge_flags_any_at_most_at_alpha() -> None:
    """Verification: fresh samples alone, with the prior of the run that flagged them."""

    def flags_again(seed: int) -> bool:
        simulation = screened(seed)
        again, priors = simulation.cases[:3], fit_priors(simulation.cases, simulation.samples, LOOKS)
        samples = {case.id: simulation.samples[case.id] for case in again}
        measure_until_settled(simulation, again, samples, LOOKS, ALPHA, priors)
        return flags(RunAnalysis(again, samples, {}, LOOKS, ALPHA, priors=priors).comparisons()) > 0

    check(ALPHA, flags_again)


@nightly
@statistics
@pytest.mark.parametrize("count", [1, 4])
def test_a_run_in_which_no_sentinel_differs_is_distrusted_at_most_at_the_stated_rate(count: int) -> None:
    def distrusted(seed: int) -> bool:
        simulation, checked = screened(seed), screened(seed + 1_000_000, rounds=8)
        priors = fit_priors(simulation.cases, simulation.samples, LOOKS)
        cases = checked.cases[:count]
        checks = run_aa_checks(cases, {case.id: checked.samples[case.id] for case in cases}, priors)
        return any(check.flagged for check in checks)

    check(AA_ALPHA, distrusted)


def screened(seed: int, rounds: int = LOOKS.counts[0]) -> Simulation:
    """A run of ten cases at the edges, after so many rounds."""
    simulation = Simulation(Scenario(EDGES * 5, THRESHOLD), Noise(), np.random.default_rng(seed))
    for case in simulation.cases:
        for _ in range(rounds):
            simulation.measure(case.id, "screening")
    return simulation
