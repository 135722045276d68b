"""``RunAnalysis.interim``: what the scheduler gets, and that it is never withdrawn."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from made_samples import Machine, a_case, in_stages, noisy, pairs

from opduel.comparator import InterimAnalysis, Looks, RunAnalysis
from opduel.comparator.empirical_bayes import NO_PRIOR
from opduel.records import Case, Failure, PairSample, Stage, Verdict

LOOKS = Looks((5, 8))
OPEN = ("inconclusive", "not_worse", "not_better")
FAILURE = Failure("control", "crash", "SIGSEGV")


def alone(screening: list[float], confirmation: list[float], case: Case | None = None) -> InterimAnalysis:
    samples = [*pairs("a", "screening", screening), *pairs("a", "confirmation", confirmation)]
    return RunAnalysis([case or a_case()], {"a": samples}, {}, LOOKS).interim()["a"]


def state(
    verdict: Verdict, suspect: bool = False, missing: int = 0, is_open: bool = False, may_be_worse: bool = True
) -> InterimAnalysis:
    stage: Stage = "confirmation" if suspect else "screening"
    return InterimAnalysis(verdict, stage, not is_open, missing, may_be_worse)


STILL = [0.001, -0.001, 0.0005, -0.0005, 0.0, 0.001, -0.001, 0.0]
FAST = [x + 0.2 for x in STILL]
HINT = [0.03 + 3 * x for x in STILL]  # changed, but whether by more than the threshold is open
NOISY = [0.2, -0.2, 0.1, -0.1, 0.0, 0.2, -0.15, 0.0]


@pytest.mark.parametrize(
    ("screening", "confirmation", "expected"),
    [
        ([], [], state("inconclusive", missing=5, is_open=True)),
        (STILL[:3], [], state("inconclusive", missing=2, is_open=True)),
        (STILL[:5], [], state("unchanged", may_be_worse=False)),
        (STILL, [], state("unchanged", may_be_worse=False)),
        ([x / 12 for x in NOISY[:5]], [], state("inconclusive", missing=3, is_open=True)),
        (NOISY[:5], [], state("inconclusive")),  # given up
        (NOISY, [], state("inconclusive")),
        # a change needs three fresh samples that agree
        (FAST[:5], [], state("not_better", True, 3, True)),
        (FAST[:5], FAST[:2], state("not_better", True, 1, True)),
        (FAST[:5], FAST[5:], state("regressed", True)),
        (FAST, [], state("not_better", True)),
        ([-x for x in FAST[:5]], [], state("not_worse", True, 3, True, may_be_worse=False)),
        ([-x for x in FAST[:5]], [-x for x in FAST[5:]], state("improved", True, may_be_worse=False)),
        (FAST[:5], [-x for x in FAST[5:]], state("not_better", True)),
        (HINT[:5], [], state("not_better", True, 3, True)),
        (HINT[:5], FAST[:3], state("regressed", True)),
        (HINT[:5], HINT[5:], state("regressed", True)),
        (STILL[:5], FAST[:3], state("unchanged", may_be_worse=False)),
    ],
)
def test_table(screening: list[float], confirmation: list[float], expected: InterimAnalysis) -> None:
    assert alone(screening, confirmation) == expected


def test_where_more_is_better_the_sides_are_exchanged() -> None:
    case = replace(a_case(metric="value"), unit="1/s", lower_is_better=False)
    assert alone(FAST[:5], [], case) == state("not_worse", True, 3, True, may_be_worse=False)
    assert alone([-x for x in FAST[:5]], [], case) == state("not_better", True, 3, True)
    assert alone([-x for x in FAST[:5]], [-x for x in FAST[5:]], case) == state("regressed", True)


def test_a_suspect_never_goes_back() -> None:
    assert alone([*HINT[:5], *[-x for x in HINT[:3]]], []).stage == "confirmation"


def test_a_suspects_size_is_that_of_the_look_that_found_it() -> None:
    small, large = alone(HINT[:5], []), alone([x + 0.01 for x in HINT[:5]], FAST[:2])
    assert small.excess is not None
    assert large.excess is not None
    assert small.excess < large.excess
    assert alone(HINT[:5], FAST[:2]).excess == alone(HINT[:5], NOISY[:2]).excess == small.excess
    assert alone([-x for x in HINT[:5]], []).excess == pytest.approx(small.excess)
    assert alone(NOISY[:5], []).excess is None


def test_what_was_flagged_without_the_closing_looks_stays_so() -> None:
    """Samples that a case got after another's flag had carried it over the bar take nothing back."""
    case, looks = a_case(threshold=0.03), Looks((5, 8, 20))
    samples = in_stages("a", [*[x + 0.08 for x in STILL], *[-0.5] * 6])
    assert RunAnalysis([case], {"a": samples}, {}, looks).interim()["a"].verdict == "regressed"
    (comparison,) = RunAnalysis([case], {"a": samples}, {}, looks).comparisons()
    assert comparison.verdict == "regressed"


def test_a_verification_goes_by_fresh_samples_alone() -> None:
    """Whatever the screening flagged says nothing a second time; of a case that no look suspected there, too."""
    for screening in (FAST, FAST[:5], STILL, FAST[:7]):
        samples = {"a": pairs("a", "screening", screening)}
        place = RunAnalysis([a_case()], samples, {}, LOOKS, priors={"time": NO_PRIOR}).interim()["a"]
        assert place == state("inconclusive", True, 5, 5)
        (comparison,) = RunAnalysis([a_case()], samples, {}, LOOKS, priors={"time": NO_PRIOR}).comparisons()
        assert (comparison.verdict, comparison.p_value, comparison.ratio) == ("inconclusive", None, None)
        samples["a"] += pairs("a", "confirmation", FAST[:5])
        assert RunAnalysis([a_case()], samples, {}, LOOKS, priors={"time": NO_PRIOR}).interim()["a"] == state(
            "regressed", True
        )


def test_a_case_that_failed_at_first_keeps_no_other_from_being_replicated() -> None:
    """It may have no screening sample; and it is not of the family of the flagged cases."""
    cases = [a_case("a"), a_case("f")]
    samples = {"a": pairs("a", "screening", FAST), "f": pairs("f", "screening", [])}
    priors, apart = {"time": NO_PRIOR}, frozenset({"f"})
    places = RunAnalysis(cases, samples, {}, LOOKS, priors=priors, failed_before=apart).interim()
    assert {case_id: (place.stage, place.samples_needed) for case_id, place in places.items()} == {
        "a": ("confirmation", 5),
        "f": ("confirmation", 5),
    }
    for case_id, of_case in samples.items():
        of_case += pairs(case_id, "confirmation", FAST[:5])
    alone = RunAnalysis(cases[:1], {"a": samples["a"]}, {}, LOOKS, priors=priors).comparisons()
    assert RunAnalysis(cases, samples, {}, LOOKS, priors=priors, failed_before=apart).comparisons()[0] == alone[0]
    assert (
        RunAnalysis(cases, samples, {"f": FAILURE}, LOOKS, priors=priors, failed_before=apart).comparisons()[0]
        == alone[0]
    )
    assert RunAnalysis(cases, samples, {"f": FAILURE}, LOOKS, priors=priors).comparisons()[0] != alone[0]


def test_nothing_is_settled_before_all_have_come_to_the_first_look() -> None:
    cases = [a_case("a"), a_case("b"), a_case("f")]
    samples = {"a": pairs("a", "screening", STILL), "b": pairs("b", "screening", FAST[:4])}
    waiting = RunAnalysis(cases, samples, {"f": FAILURE}, LOOKS).interim()
    assert waiting["a"] == state("inconclusive", is_open=True)
    assert waiting["b"] == state("inconclusive", missing=1, is_open=True)
    assert waiting["f"] == state("failed")
    samples["b"] = pairs("b", "screening", FAST[:5])
    there = RunAnalysis(cases, samples, {"f": FAILURE}, LOOKS).interim()
    assert there["a"].verdict == "unchanged"
    assert there["b"].stage == "confirmation"
    failed = RunAnalysis(cases, {"a": samples["a"]}, {"f": FAILURE, "b": FAILURE}, LOOKS).interim()
    assert failed["a"].verdict == "unchanged"


@settings(max_examples=25)
@given(st.integers(0, 10_000), st.sampled_from([1, 2, 6, 15]))
def test_what_is_settled_stays_to_the_end(seed: int, count: int) -> None:
    """Rounds come one by one, cases fail in between, and a settled case gets no more."""
    rng = np.random.default_rng(seed)
    changes = rng.choice([0, 0.01, 0.03, 0.05, -0.1], count).tolist()
    machine = Machine(rng, changes, rng.choice([0.003, 0.01, 0.03], count).tolist())
    looks = Looks((5, 8, 12))
    cases = [a_case(name) for name in machine.shift]
    samples: dict[str, list[PairSample]] = {case.id: [] for case in cases}
    failures: dict[str, Failure] = {}
    settled: dict[str, str] = {}
    suspects: set[str] = set()
    for _ in range(40):
        now = RunAnalysis(cases, samples, failures, looks).interim()
        for case_id, place in now.items():
            earlier = settled.get(case_id)
            if earlier in OPEN:  # its looks are spent: another case's flag may carry it over the bar
                assert place.verdict in (earlier, "regressed", "improved")
            elif earlier:
                assert place.verdict == earlier
            assert place.settled or not earlier
            assert place.stage == "confirmation" or case_id not in suspects or place.verdict == "failed"
            assert place.may_be_worse or place.verdict not in ("regressed", "not_better", "inconclusive")
            assert not place.may_be_worse or place.verdict not in ("unchanged", "not_worse")
            if place.stage == "confirmation":
                suspects.add(case_id)
            if place.settled:
                settled[case_id] = place.verdict
            elif rng.random() < 0.005:
                failures[case_id] = FAILURE
            elif rng.random() < 0.9:  # a round may be lost
                samples[case_id].append(machine(case_id, place.stage))
    final = {
        comparison.case: comparison.verdict for comparison in RunAnalysis(cases, samples, failures, looks).comparisons()
    }
    for case_id, verdict in settled.items():
        assert final[case_id] == verdict or (
            verdict in OPEN and final[case_id] in ("regressed", "improved", "inconclusive")
        )


def test_asking_in_between_changes_nothing() -> None:
    rng = np.random.default_rng(5)
    samples = {f"c{i}": pairs(f"c{i}", "screening", noisy(rng, 7, 0.0, 0.05)) for i in range(6)}
    cases = [a_case(name) for name in samples]
    at_look = {name: case_samples[:5] for name, case_samples in samples.items()}
    before = RunAnalysis(cases, at_look, {}, LOOKS).interim()
    after = RunAnalysis(cases, samples, {}, LOOKS).interim()
    assert {name: place.verdict for name, place in before.items()} == {
        name: place.verdict for name, place in after.items()
    }


def test_cases_without_samples_are_analysed_as_each_by_itself() -> None:
    """They share one test of their metric."""
    cases = [a_case(), *(replace(a_case(), id=name, threshold=share) for name, share in (("b", 0.02), ("c", 0.5)))]
    samples = {"a": pairs("a", "screening", [0.1, 0.11, 0.1, 0.12, 0.1])}
    together = RunAnalysis(cases, samples, {}, LOOKS, priors={"time": NO_PRIOR})
    for case in cases[1:]:
        by_itself = RunAnalysis([case], {}, {}, LOOKS, priors={"time": NO_PRIOR})
        assert together.interim()[case.id] == by_itself.interim()[case.id]
        comparison = next(part for part in together.comparisons() if part.case == case.id)
        assert comparison == by_itself.comparisons()[0]
