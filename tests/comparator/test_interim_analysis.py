"""``analyse_interim``: what the scheduler gets, and that it is never withdrawn."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from made_samples import Machine, a_case, noisy, pairs

from opduel.comparator import InterimAnalysis, Looks, analyse_interim, compare_cases
from opduel.comparator.empirical_bayes import NO_PRIOR
from opduel.records import Failure, PairSample

LOOKS = Looks((5, 8), (5, 8))
FAILURE = Failure("control", "crash", "SIGSEGV")


def alone(screening: list[float], confirmation: list[float]) -> InterimAnalysis:
    samples = [*pairs("a", "screening", screening), *pairs("a", "confirmation", confirmation)]
    return analyse_interim([a_case()], {"a": samples}, {}, LOOKS)["a"]


STILL = [0.001, -0.001, 0.0005, -0.0005, 0.0, 0.001, -0.001, 0.0]
FAST = [x + 0.2 for x in STILL]
HINT = [0.03 + 3 * x for x in STILL]  # changed, but whether by more than the threshold is open
NOISY = [0.2, -0.2, 0.1, -0.1, 0.0, 0.2, -0.15, 0.0]


@pytest.mark.parametrize(
    ("screening", "confirmation", "expected"),
    [
        ([], [], InterimAnalysis("inconclusive", "screening", False, False, 5, 5)),
        (STILL[:3], [], InterimAnalysis("inconclusive", "screening", False, False, 5, 2)),
        (STILL[:5], [], InterimAnalysis("unchanged", "screening", False, True, None, 0)),
        (STILL, [], InterimAnalysis("unchanged", "screening", False, True, None, 0)),
        (NOISY[:5], [], InterimAnalysis("inconclusive", "screening", False, False, 8, 3)),
        (NOISY, [], InterimAnalysis("inconclusive", "screening", False, True, None, 0)),
        (FAST[:5], [], InterimAnalysis("regressed", "confirmation", True, True, None, 0)),  # needs no confirmation
        ([-x for x in FAST[:5]], [], InterimAnalysis("improved", "confirmation", True, True, None, 0)),
        (HINT[:5], [], InterimAnalysis("inconclusive", "confirmation", True, False, 5, 5)),
        (HINT[:5], FAST[:2], InterimAnalysis("inconclusive", "confirmation", True, False, 5, 3)),
        (HINT[:5], FAST[:5], InterimAnalysis("regressed", "confirmation", True, True, None, 0)),
        (HINT[:5], STILL[:5], InterimAnalysis("unchanged", "confirmation", True, True, None, 0)),
        (HINT[:5], [x + 0.1 for x in NOISY[:6]], InterimAnalysis("inconclusive", "confirmation", True, False, 8, 2)),
        # given up at the first look
        (HINT[:5], NOISY[:6], InterimAnalysis("inconclusive", "confirmation", True, True, None, 0)),
        (HINT[:5], NOISY, InterimAnalysis("inconclusive", "confirmation", True, True, None, 0)),
        (NOISY[:5], FAST[:5], InterimAnalysis("regressed", "confirmation", False, True, None, 0)),
    ],
)
def test_table(screening: list[float], confirmation: list[float], expected: InterimAnalysis) -> None:
    assert alone(screening, confirmation) == expected


def test_a_suspect_never_goes_back() -> None:
    assert alone([*HINT[:5], *[-x for x in HINT[:3]]], []).stage == "confirmation"


def test_a_suspects_size_is_that_of_its_screening() -> None:
    """What a time budget is spent on first must not hang on the samples that are still to be tested."""
    small, large = alone(HINT[:5], []), alone([x + 0.01 for x in HINT[:5]], FAST[:3])
    assert small.excess is not None
    assert large.excess is not None
    assert small.excess < large.excess
    assert alone(HINT[:5], FAST[:4]).excess == alone(HINT[:5], NOISY[:2]).excess == small.excess
    assert alone([-x for x in HINT[:5]], []).excess == pytest.approx(small.excess)
    assert alone(NOISY[:5], []).excess is None


def test_what_was_flagged_without_the_closing_looks_stays_so() -> None:
    """Samples that a case got after another's flag had carried it over the bar take nothing back."""
    case = a_case(threshold=0.03)
    screening = pairs("a", "screening", [x + 0.08 for x in STILL[:5]])
    confirmation = pairs("a", "confirmation", STILL[:6])
    looks = Looks((5, 8), (7, 9))
    assert analyse_interim([case], {"a": [*screening, *confirmation]}, {}, looks)["a"].verdict == "regressed"
    (judged,) = compare_cases([case], {"a": [*screening, *confirmation]}, {}, looks)
    assert (judged.verdict, judged.decided_on) == ("regressed", "screening")


def test_a_verification_goes_by_fresh_samples_alone() -> None:
    """Whatever the screening flagged says nothing a second time; of a case that no look suspected there, too."""
    for screening in (FAST, FAST[:5], STILL, FAST[:7]):
        samples = {"a": pairs("a", "screening", screening)}
        place = analyse_interim([a_case()], samples, {}, LOOKS, priors={"time": NO_PRIOR})["a"]
        assert place == InterimAnalysis("inconclusive", "confirmation", True, False, 5, 5)
        (judged,) = compare_cases([a_case()], samples, {}, LOOKS, priors={"time": NO_PRIOR})
        assert (judged.verdict, judged.p_value, judged.decided_on) == ("inconclusive", None, "screening")


def test_a_case_that_failed_at_first_keeps_no_other_from_being_replicated() -> None:
    """It may have no screening sample; and it is not of the family of the flagged cases."""
    cases = [a_case("a"), a_case("f")]
    samples = {"a": pairs("a", "screening", FAST), "f": pairs("f", "screening", [])}
    priors, apart = {"time": NO_PRIOR}, frozenset({"f"})
    places = analyse_interim(cases, samples, {}, LOOKS, priors=priors, apart=apart)
    assert {case_id: (one.stage, one.missing) for case_id, one in places.items()} == {
        "a": ("confirmation", 5),
        "f": ("confirmation", 5),
    }
    for case_id, of_case in samples.items():
        of_case += pairs(case_id, "confirmation", FAST[:5])
    alone = compare_cases(cases[:1], {"a": samples["a"]}, {}, LOOKS, priors=priors)
    assert compare_cases(cases, samples, {}, LOOKS, priors=priors, apart=apart)[0] == alone[0]
    assert compare_cases(cases, samples, {"f": FAILURE}, LOOKS, priors=priors, apart=apart)[0] == alone[0]
    assert compare_cases(cases, samples, {"f": FAILURE}, LOOKS, priors=priors)[0] != alone[0]


def test_nothing_is_settled_before_all_have_come_to_the_first_look() -> None:
    cases = [a_case("a"), a_case("b"), a_case("f")]
    samples = {"a": pairs("a", "screening", STILL), "b": pairs("b", "screening", FAST[:4])}
    waiting = analyse_interim(cases, samples, {"f": FAILURE}, LOOKS)
    assert waiting["a"] == InterimAnalysis("inconclusive", "screening", False, False, 5, 0)
    assert waiting["b"] == InterimAnalysis("inconclusive", "screening", False, False, 5, 1)
    assert waiting["f"] == InterimAnalysis("failed", "screening", False, True, None, 0)
    samples["b"] = pairs("b", "screening", FAST[:5])
    there = analyse_interim(cases, samples, {"f": FAILURE}, LOOKS)
    assert there["a"].verdict == "unchanged"
    assert there["b"].suspect
    failed = analyse_interim(cases, {"a": samples["a"]}, {"f": FAILURE, "b": FAILURE}, LOOKS)
    assert failed["a"].verdict == "unchanged"


@settings(max_examples=40, deadline=None)
@given(st.integers(0, 10_000), st.sampled_from([1, 2, 6, 15]))
def test_what_is_settled_stays_to_the_end(seed: int, count: int) -> None:
    """Rounds come one by one, cases fail in between, and a settled case gets no more."""
    rng = np.random.default_rng(seed)
    changes = rng.choice([0, 0.01, 0.03, 0.05, -0.1], count).tolist()
    machine = Machine(rng, changes, rng.choice([0.003, 0.01, 0.03], count).tolist())
    looks = Looks((5, 8, 12), (5, 8, 12))
    cases = [a_case(name) for name in machine.shift]
    samples: dict[str, list[PairSample]] = {case.id: [] for case in cases}
    failures: dict[str, Failure] = {}
    settled: dict[str, str] = {}
    suspects: set[str] = set()
    for _ in range(40):
        now = analyse_interim(cases, samples, failures, looks)
        for case_id, place in now.items():
            earlier = settled.get(case_id)
            if earlier == "inconclusive":
                assert place.verdict in ("inconclusive", "regressed", "improved")
            elif earlier:
                assert place.verdict == earlier
            assert place.settled or not earlier
            assert place.suspect or case_id not in suspects or place.verdict == "failed"
            if place.suspect:
                suspects.add(case_id)
            if place.settled:
                settled[case_id] = place.verdict
            elif rng.random() < 0.005:
                failures[case_id] = FAILURE
            elif rng.random() < 0.9:  # a round may be lost
                samples[case_id].append(machine(case_id, place.stage))
    final = {comparison.case: comparison.verdict for comparison in compare_cases(cases, samples, failures, looks)}
    for case_id, verdict in settled.items():
        assert final[case_id] == verdict or verdict == "inconclusive"


def test_asking_in_between_changes_nothing() -> None:
    rng = np.random.default_rng(5)
    samples = {f"c{i}": pairs(f"c{i}", "screening", noisy(rng, 7, 0.0, 0.05)) for i in range(6)}
    cases = [a_case(name) for name in samples]
    at_look = {name: taken[:5] for name, taken in samples.items()}
    before = analyse_interim(cases, at_look, {}, LOOKS)
    after = analyse_interim(cases, samples, {}, LOOKS)
    assert {name: place.verdict for name, place in before.items()} == {
        name: place.verdict for name, place in after.items()
    }
