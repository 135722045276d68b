"""What a second measurement does to verdicts."""

import math
from dataclasses import replace
from typing import get_args

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from made_samples import Machine, a_case, measured, pairs
from scipy import stats

from opduel.comparator import RunAnalysis, apply_replication, fit_priors, plan_looks
from opduel.records import FLAGGED, Cause, Comparison, Failure, Verdict
from opduel.records.measurement import Side

VERDICTS = get_args(Verdict)
LOOKS = plan_looks(12)


def comparison_of(
    name: str, verdict: Verdict, ratio: float | None = 1.051, decided_on: str | None = "confirmation"
) -> Comparison:
    bare = RunAnalysis(
        [a_case(name)],
        {name: [*pairs(name, "screening", [0.05]), *pairs(name, "confirmation", [0.06, 0.07])]},
        {},
        LOOKS,
    ).comparisons()
    return replace(bare[0], verdict=verdict, ratio=ratio, decided_on=decided_on, note="")


def test_what_the_second_measurement_found_of_a_confirmed_change_is_its_cause() -> None:
    cause = Cause("f accounts for 99 % of the added time")
    second = replace(comparison_of("a", "regressed"), cause=cause, note=f"two modes; {cause.words}")
    (confirmed,) = apply_replication([replace(comparison_of("a", "regressed"), note="first")], {"a": second})
    assert confirmed.cause == cause
    assert confirmed.note == "first; cause: f accounts for 99 % of the added time"
    assert confirmed.verification is not None
    assert confirmed.verification.note == "two modes"
    (other,) = apply_replication([comparison_of("a", "improved")], {"a": second})
    assert other.cause is None


@given(st.lists(st.tuples(st.sampled_from(VERDICTS), st.sampled_from([*VERDICTS, None])), max_size=6))
def test_only_what_was_flagged_twice_alike_stays_flagged(run: list[tuple[Verdict, Verdict | None]]) -> None:
    first = [comparison_of(f"c{i}", verdict) for i, (verdict, _) in enumerate(run)]
    again = {f"c{i}": comparison_of(f"c{i}", verdict) for i, (_, verdict) in enumerate(run) if verdict is not None}
    for (before, second), after in zip(run, apply_replication(first, again, "no time"), strict=True):
        assert (after.verdict in FLAGGED) == (before in FLAGGED and second == before)
        assert after.verdict in (before, "inconclusive")
        assert (after.verification is not None) == (before in FLAGGED)
        if after.verification is not None:
            assert (after.verification.first, after.verification.verdict) == (before, second)
        else:
            assert after.verdict == before


def test_a_confirmed_case_keeps_its_figures_and_gets_the_seconds_beside_them() -> None:
    (after,) = apply_replication([comparison_of("a", "regressed")], {"a": comparison_of("a", "regressed", 1.07)})
    again = after.verification
    assert (after.verdict, after.ratio, after.note) == ("regressed", 1.051, "")
    assert again is not None
    assert again.ratio == 1.07
    assert [sample.log_ratio for sample in again.samples] == pytest.approx([0.06, 0.07])
    assert again.rounds == 2
    assert {sample.stage for sample in again.samples} == {"confirmation"}


@pytest.mark.parametrize(
    ("second", "words"),
    [
        (comparison_of("a", "unchanged", 1.002), "unchanged +0.2% when measured again"),
        (comparison_of("a", "improved", 0.9), "improved -10.0% when measured again"),
        (comparison_of("a", "not_worse", 0.99), "not slower -1.0% when measured again"),
        (
            replace(comparison_of("a", "inconclusive", 1.03), note="straddles"),
            "inconclusive +3.0% when measured again (straddles)",
        ),
        (replace(comparison_of("a", "failed", None), failure=Failure("both", "crash", "died")), "it failed (died)"),
        (comparison_of("a", "inconclusive", 1.08, "screening"), "inconclusive when measured again"),
        (None, "not measured again: no time"),
    ],
)
def test_what_is_not_confirmed_says_what_each_measurement_found(second: Comparison | None, words: str) -> None:
    (after,) = apply_replication([comparison_of("a", "regressed")], {"a": second} if second else {}, "no time")
    assert after.verdict == "inconclusive"
    assert after.note.startswith("regressed +5.1% at first, not confirmed: ")
    assert after.note.endswith(words)


@pytest.mark.parametrize(
    ("second", "suspected"),
    [
        (None, "regressed"),
        (replace(comparison_of("a", "inconclusive"), p_value=None), "regressed"),  # no test yet
        (replace(comparison_of("a", "inconclusive"), p_value=0.2, suspected="regressed"), "regressed"),
        (replace(comparison_of("a", "inconclusive"), p_value=0.2, suspected=None), None),
        (replace(comparison_of("a", "inconclusive"), p_value=0.2, suspected="improved"), None),
        (replace(comparison_of("a", "not_better"), p_value=0.2, suspected="regressed"), "regressed"),
        (replace(comparison_of("a", "not_worse"), p_value=0.2, suspected=None), None),
        (replace(comparison_of("a", "unchanged"), p_value=1.0), None),
        (replace(comparison_of("a", "failed", None), failure=Failure("both", "crash", "died"), p_value=None), None),
    ],
)
def test_what_was_flagged_once_stays_suspected_until_a_second_test_denies_it(
    second: Comparison | None, suspected: Verdict | None
) -> None:
    (after,) = apply_replication([comparison_of("a", "regressed")], {"a": second} if second else {}, "no time")
    assert (after.verdict, after.suspected) == ("inconclusive", suspected)


def test_what_was_not_to_be_measured_again_stays_as_it_is() -> None:
    before = [comparison_of("a", "regressed"), comparison_of("b", "improved")]
    assert apply_replication(before, {}) == before


@pytest.mark.parametrize(
    ("side", "verdict"), [("treatment", "failed"), ("both", "inconclusive"), (None, "inconclusive")]
)
def test_what_the_treatment_broke_stays_failed_if_it_breaks_it_again(side: Side | None, verdict: Verdict) -> None:
    broken = replace(comparison_of("a", "failed", None), failure=Failure("treatment", "crash", "died"))
    second = (
        comparison_of("a", "unchanged") if side is None else replace(broken, failure=Failure(side, "crash", "died"))
    )
    (after,) = apply_replication([broken], {"a": second})
    assert (after.verdict, after.failure is not None) == (verdict, verdict == "failed")


def test_what_the_second_measurement_withheld_is_withheld() -> None:
    second = replace(comparison_of("a", "inconclusive"), held_back="regressed", note="can't be trusted")
    (after,) = apply_replication([comparison_of("a", "regressed")], {"a": second})
    assert (after.verdict, after.held_back) == ("inconclusive", "regressed")


def test_figures_of_the_screen_are_not_passed_off_as_the_seconds() -> None:
    (after,) = apply_replication(
        [comparison_of("a", "regressed")], {"a": comparison_of("a", "inconclusive", 1.08, "screening")}
    )
    assert after.verification is not None
    assert (after.verification.ratio, after.verification.ci, after.verification.mde) == (None, None, None)


def twice(seed: int, changes: list[float], alpha: float) -> list[Comparison]:
    """A run and its verification, measured as the harness does."""
    rng = np.random.default_rng(seed)
    machine = Machine(rng, changes, (0.014 * np.exp(rng.normal(0, 0.6, len(changes)))).tolist())
    cases = [a_case(name) for name in machine.shift]
    samples = measured(cases, machine, LOOKS, alpha)
    first = RunAnalysis(cases, samples, {}, LOOKS, alpha).comparisons()
    flagged = [case for case, comparison in zip(cases, first, strict=True) if comparison.verdict in FLAGGED]
    priors = fit_priors(cases, samples, LOOKS)
    fresh = {case.id: [sample for sample in samples[case.id] if sample.stage == "screening"] for case in flagged}
    while True:
        places = RunAnalysis(flagged, fresh, {}, LOOKS, alpha, priors=priors).interim()
        if not any(place.samples_needed for place in places.values()):
            break
        for case_id, place in places.items():
            assert place.stage == "confirmation", "a suspect stays one"
            fresh[case_id] += [machine(case_id, place.stage) for _ in range(place.samples_needed)]
    again = RunAnalysis(flagged, fresh, {}, LOOKS, alpha, priors=priors).comparisons()
    return apply_replication(first, {comparison.case: comparison for comparison in again})


def test_of_false_flags_at_most_alpha_are_confirmed() -> None:
    """At the threshold itself every flag is false; the second look at it is as good as a first one."""
    alpha, runs = 0.4, 400
    comparisons = [twice(seed, [0.02], alpha)[0] for seed in range(runs)]
    flagged = [comparison for comparison in comparisons if comparison.verification is not None]
    assert len(flagged) >= 20, "or this shows nothing"
    confirmed = sum(comparison.verdict in FLAGGED for comparison in flagged)
    assert confirmed <= stats.binom.isf(1e-6, len(flagged), alpha)


def test_a_true_change_holds_twice() -> None:
    runs = [twice(seed, [0.15] * 4 + [0.0] * 8, 0.05) for seed in range(12)]
    verdicts = [[comparison.verdict for comparison in run] for run in runs]
    detected = sum(verdict == "regressed" for run in verdicts for verdict in run[:4])
    assert detected >= stats.binom.ppf(1e-6, 48, 0.9)
    assert not any(verdict in FLAGGED for run in verdicts for verdict in run[4:])


def test_given_priors_stand_for_those_that_would_be_fitted() -> None:
    """On the same fresh samples a verification comes to what a run of fresh samples alone comes to."""
    rng = np.random.default_rng(2)
    cases = [a_case(f"c{i}") for i in range(6)]
    screening = {case.id: pairs(case.id, "screening", rng.normal(0.2, 0.003, 5)) for case in cases}
    fresh = {case.id: pairs(case.id, "confirmation", rng.normal(0.2, 0.01, 5)) for case in cases}
    both = {case.id: [*screening[case.id], *fresh[case.id]] for case in cases}
    priors = fit_priors(cases, fresh, LOOKS)
    among = RunAnalysis(cases, both, {}, LOOKS, priors=priors).comparisons()[0]
    run_of_fresh = RunAnalysis(cases, fresh, {}, LOOKS).comparisons()[0]
    assert (among.ci, among.p_value, among.verdict) == (run_of_fresh.ci, run_of_fresh.p_value, "regressed")
    alone = RunAnalysis(cases[:1], {"c0": both["c0"]}, {}, LOOKS, priors=priors).comparisons()[0]
    assert alone.ci == among.ci
    assert math.isclose(alone.p_value or 0, among.p_value or 1)
