"""The error rates in docs/explanation/statistics.md, by simulation: twice a stated rate is found with 95 % power.

The number of simulated runs follows from two binomial tails (``plan``): at the stated rate itself a test fails with
probability 0.001, at twice that rate it passes with probability 0.05 at most. The runs are the product's own decisions
on samples drawn with fixed seeds. ``make test-statistics`` runs them; test_error_rates.py is the smoke test.
"""

from collections.abc import Callable
from dataclasses import replace
from functools import cache

import numpy as np
import pytest
from made_samples import Machine, a_case, measured
from scipy import stats

from opduel.comparator import compare_cases, fit_priors, plan_looks, run_aa_checks
from opduel.comparator.aa_checks import AA_ALPHA
from opduel.records import FLAGGED, Case, Comparison, PairSample

ALPHA, THRESHOLD = 0.05, 0.02
FALSE_ALARM, POWER = 0.001, 0.95
LOOKS = plan_looks(30)
EDGES = (THRESHOLD, 1 / (1 + THRESHOLD) - 1)  # the largest changes of which nothing may be said
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


def machine(seed: int, changes: list[float]) -> tuple[list[Case], Machine]:
    """Every case has its own noise; processes are off now and then."""
    rng = np.random.default_rng(seed)
    made = Machine(rng, changes, (0.014 * np.exp(rng.normal(0, 0.6, len(changes)))).tolist())
    return [a_case(name, THRESHOLD) for name in made.shift], made


def a_run(seed: int, changes: list[float], screening_share: float = LOOKS.screening_share) -> list[Comparison]:
    looks = replace(LOOKS, screening_share=screening_share)
    cases, measure = machine(seed, changes)
    return compare_cases(cases, measured(cases, measure, looks, ALPHA), {}, looks, ALPHA)


def flags(run: list[Comparison]) -> int:
    return sum(one.verdict in FLAGGED for one in run)


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
    check(ALPHA / 2, lambda seed: flags(a_run(seed, [change])))


@nightly
@statistics
@pytest.mark.parametrize("change", EDGES)
def test_a_case_just_beyond_the_edge_is_called_unchanged_at_most_at_alpha(change: float) -> None:
    beyond = change * 1.01
    check(ALPHA, lambda seed: a_run(seed, [beyond])[0].verdict == "unchanged")


@nightly
@statistics
@pytest.mark.parametrize("share", [LOOKS.screening_share, 0.6])
def test_the_screening_flags_at_most_at_its_share_of_alpha(share: float) -> None:
    def flagged_at_screening(seed: int) -> bool:
        (one,) = a_run(seed, [THRESHOLD], share)
        return one.verdict in FLAGGED and one.decided_on == "screening"

    check(share * ALPHA, flagged_at_screening)


@nightly
@statistics
def test_a_run_of_twenty_cases_at_the_edge_has_a_flag_at_most_at_alpha() -> None:
    """With nothing changed beyond the threshold the false discovery rate is the share of runs with any flag."""
    check(ALPHA, lambda seed: flags(a_run(seed, [*EDGES] * 10)) > 0)


@nightly
@statistics
def test_false_discoveries_among_changes_are_alpha_of_the_flags_at_most() -> None:
    changes = [0.0] * 4 + [*EDGES] * 4 + [0.1] * 4 + [1 / 1.1 - 1] * 2 + [0.04] * 2
    right = ["none"] * 12 + ["regressed"] * 4 + ["improved"] * 2 + ["regressed"] * 2

    def share_of_false(seed: int) -> float:
        run = a_run(seed, changes)
        false = sum(one.verdict in FLAGGED and one.verdict != want for one, want in zip(run, right, strict=True))
        return false / max(1, flags(run))

    check(ALPHA, share_of_false)


@nightly
@statistics
def test_a_changed_case_among_others_is_called_unchanged_at_most_at_alpha() -> None:
    """One case of each run, which shares its prior with the others."""
    changes = [THRESHOLD * 1.01, *[0.0] * 7, *EDGES]
    check(ALPHA, lambda seed: a_run(seed, changes)[0].verdict == "unchanged")


@nightly
@statistics
def test_the_interval_of_a_large_change_misses_it_at_most_at_alpha() -> None:
    def misses(seed: int) -> bool:
        (one, *_) = a_run(seed, [0.5, 0.0, 0.0, 0.0])
        return one.ci is None or not one.ci[0] <= 1.5 <= one.ci[1]

    check(ALPHA, misses)


@nightly
@statistics
def test_a_second_measurement_of_cases_at_the_edge_flags_any_at_most_at_alpha() -> None:
    """Verification: fresh samples alone, with the prior of the run that flagged them."""

    def flags_again(seed: int) -> bool:
        cases, measure = machine(seed, [*EDGES] * 5)
        screened: dict[str, list[PairSample]] = {
            case.id: [measure(case.id, "screening") for _ in range(LOOKS.screening[0])] for case in cases
        }
        again, priors = cases[:3], fit_priors(cases, screened, LOOKS)
        for case in again:
            screened[case.id] += [measure(case.id, "confirmation") for _ in range(LOOKS.confirmation[-1])]
        samples = {case.id: screened[case.id] for case in again}
        return flags(compare_cases(again, samples, {}, LOOKS, ALPHA, priors=priors)) > 0

    check(ALPHA, flags_again)


@nightly
@statistics
@pytest.mark.parametrize("count", [1, 4])
def test_a_run_in_which_no_sentinel_differs_is_distrusted_at_most_at_the_stated_rate(count: int) -> None:
    def distrusted(seed: int) -> bool:
        cases, measure = machine(seed, [*EDGES] * 5)
        screened = {case.id: [measure(case.id, "screening") for _ in range(LOOKS.screening[0])] for case in cases}
        samples = {case.id: [measure(case.id, "screening") for _ in range(8)] for case in cases[:count]}
        checks = run_aa_checks(cases[:count], samples, fit_priors(cases, screened, LOOKS))
        return any(one.flagged for one in checks)

    check(AA_ALPHA, distrusted)
