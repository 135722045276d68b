"""Bisection against histories whose culprits are known."""

import math
from collections.abc import Sequence
from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from made_history import BOUND, History, judged, ranges
from scipy import stats

from opduel.driver.attribution import Change, Range
from opduel.driver.bisection import CulpritRange, Measure, Step, bisect
from opduel.records import Verdict

SIZES = st.floats(2 * BOUND, 5 * BOUND)


@st.composite
def histories(draw: st.DrawFn, falling: bool = False, error: float = 0.0, most: int = 3) -> History:
    """Some cases with 1 to ``most`` culprits each, some points that can't be built, some that are cached."""
    revisions = draw(st.integers(1, 60))
    some = st.frozensets(st.integers(1, revisions), max_size=revisions // 3)
    sign = -1 if falling else 1
    culprits = st.dictionaries(
        st.integers(1, revisions), SIZES.map(lambda size: sign * size), min_size=1, max_size=most
    )
    changes = {f"case{i}": draw(culprits) for i in range(draw(st.integers(1, 3)))}
    return History(
        revisions, changes, draw(some) - {revisions}, draw(some), error=error, seed=draw(st.integers(0, 999))
    )


@given(histories())
def test_exact_measurements_find_exactly_the_culprits_or_the_smallest_ranges(history: History) -> None:
    culprits = history.bisect()
    for case, changes in history.changes.items():
        assert ranges(culprits, case) == sorted({history.smallest(revision) for revision in changes})
    for found_culprit in culprits:
        assert found_culprit.skipped == tuple(range(found_culprit.start + 1, found_culprit.end))
        assert not found_culprit.undecided
        assert found_culprit.cases == {
            case: history.step(found_culprit.start, found_culprit.end, case) for case in found_culprit.cases
        }
        assert all(step.verdict == "regressed" for step in found_culprit.cases.values())


@given(histories(), st.integers(0, 3))
def test_what_can_not_have_changed_a_case_is_not_split_at_and_no_culprit_is_lost(
    history: History, innocent: int
) -> None:
    """Known is the range from the first culprit, but for some ``innocent`` commits before it, to the last one."""

    def narrow(between: Range, cases: Sequence[str]) -> dict[str, Range]:
        assert {*between} <= {0, history.revisions, *history.prepared}, "its ends are built"
        inner_ranges = {}
        for case in cases:
            if inside := [point for point in history.changes[case] if between[0] < point <= between[1]]:
                inner_ranges[case] = max(between[0], min(inside) - 1 - innocent), max(inside)
        return inner_ranges

    plain = replace(history, measured=[], prepared=[])
    assert history.bisect(narrow=narrow) == plain.bisect()
    lone = next(iter(history.changes))
    if len(history.changes) == len(history.changes[lone]) == 1 and not history.unbuildable and history.revisions > 2:
        (culprit,) = history.changes[lone]
        assert {*history.prepared[:1]} <= {*range(culprit - 1 - innocent, culprit + 1)}


@given(histories(falling=True))
def test_improvements_are_found_in_the_same_way(history: History) -> None:
    culprits = history.bisect()
    for case, changes in history.changes.items():
        assert ranges(culprits, case) == sorted({history.smallest(revision) for revision in changes})


@given(histories(most=1).filter(lambda history: not history.unbuildable))
def test_one_culprit_costs_at_most_two_measurements_a_halving_and_one_more(history: History) -> None:
    lone = next(iter(history.changes))
    plain = History(history.revisions, {lone: history.changes[lone]})
    plain.bisect()
    assert len(plain.measured) <= 2 * math.ceil(math.log2(plain.revisions)) + 1


@given(histories(), st.data())
def test_changes_that_go_up_and_down_never_accuse_the_innocent(history: History, data: st.DataObject) -> None:
    downs = st.dictionaries(st.integers(1, history.revisions), SIZES.map(lambda size: -size), max_size=3)
    mixed = {case: {**data.draw(downs), **ups} for case, ups in history.changes.items()}
    history.changes = mixed
    total = {case: step for case, step in history.total_steps().items() if step.verdict == "regressed"}
    culprits = history.bisect(total)
    for case in total:
        assert ranges(culprits, case)
    for found_culprit in culprits:
        for case, step in found_culprit.cases.items():
            assert step.verdict == "regressed"
            assert any(
                size > 0
                for revision, size in mixed[case].items()
                if found_culprit.start < revision <= found_culprit.end
            )


@settings(deadline=None)
@given(histories(error=BOUND / 3))
def test_whatever_the_noise_an_answer_is_a_direct_measurement(history: History) -> None:
    total = {case: step for case, step in history.total_steps().items() if step.verdict == "regressed"}
    culprits = history.bisect(total)
    for case in total:
        assert ranges(culprits, case)
    for found_culprit in culprits:
        between = range(found_culprit.start + 1, found_culprit.end)
        assert sorted([*found_culprit.skipped, *found_culprit.undecided]) == list(between)
        assert set(found_culprit.skipped) <= history.unbuildable
        assert all(
            history.step(found_culprit.start, found_culprit.end, case) == step
            for case, step in found_culprit.cases.items()
        )
        assert all(step.verdict == "regressed" for step in found_culprit.cases.values())


@given(histories(error=BOUND / 3), st.integers(0, 30))
def test_a_second_search_with_the_answers_of_the_first_asks_the_same(history: History, kept_answers: int) -> None:
    total = {case: step for case, step in history.total_steps().items() if step.verdict == "regressed"}
    first = history.bisect(total)
    measured, prepared = history.measured, history.prepared
    again = History(history.revisions, history.changes, history.unbuildable, history.cached, error=history.error)
    again.seed = history.seed
    journal = measured[:kept_answers]

    def measure(begin: int, right: int, cases: Sequence[str]) -> dict[str, Step]:
        if journal:
            assert journal.pop(0) == (begin, right, tuple(cases))
        return again.measure(begin, right, cases)

    thresholds = dict.fromkeys(total, math.expm1(BOUND))
    backwards = dict(reversed(total.items()))
    assert bisect(history.revisions, backwards, measure, again.prepare, history.cached, thresholds) == first
    assert (again.measured, again.prepared) == (measured, prepared)


def test_noise_names_the_culprit_and_rarely_a_neighbour_of_almost_the_threshold() -> None:
    runs, right, wrong = 400, 0, 0
    for seed in range(runs):
        culprit = 2 + seed * 7 % 48
        near = {culprit - 1: 0.95 * BOUND, culprit: 4 * BOUND, culprit + 1: 0.95 * BOUND}
        culprits = History(50, {"a": near}, error=BOUND / 4, seed=seed).bisect()
        right += any(found_culprit.is_named and found_culprit.end == culprit for found_culprit in culprits)
        wrong += sum(found_culprit.is_named and found_culprit.end != culprit for found_culprit in culprits)
    # Each neighbour is flagged falsely by its own A/B in less than 2.5 % of runs, half of alpha: it would have to rise
    # beyond 1 + threshold. At 2 x 2.5 % either bound is broken once in a million by chance.
    assert stats.binomtest(wrong, 2 * runs, 0.025, alternative="greater").pvalue > 1e-6
    assert stats.binomtest(right, runs, 0.95, alternative="less").pvalue > 1e-6


def test_a_range_that_was_flagged_falsely_names_nobody() -> None:
    history = History(40, {"a": {}})
    [found_culprit] = history.bisect({"a": judged(1.5 * BOUND, BOUND / 4)})
    assert (found_culprit.start, found_culprit.end, found_culprit.skipped) == (0, 40, ())
    assert found_culprit.undecided == tuple(range(1, 40))
    assert found_culprit.note == "no smaller range shows the change by itself"


def test_a_change_that_is_spread_ends_openly_at_the_smallest_range_that_shows_it() -> None:
    history = History(64, {"a": dict.fromkeys((9, 10, 11, 12), 0.4 * BOUND)})
    [found_culprit] = history.bisect()
    assert (found_culprit.start, found_culprit.end) == (8, 12)
    assert found_culprit.undecided == (9, 10, 11)
    assert not found_culprit.is_named


def test_spread_over_two_halves_is_seen_to_be_spread() -> None:
    history = History(64, {"a": {20: 0.8 * BOUND, 50: 0.8 * BOUND}})
    [found_culprit] = history.bisect()
    assert (found_culprit.start, found_culprit.end) == (0, 64)
    assert history.measured == [(0, 32, ("a",))]


def test_the_right_half_is_not_asked_when_the_left_one_explains_the_whole() -> None:
    history = History(4, {"a": {1: 4 * BOUND}})
    assert ranges(history.bisect(), "a") == [(0, 1)]
    assert history.measured == [(0, 2, ("a",)), (0, 1, ("a",))]


def test_the_right_half_is_asked_when_the_left_one_explains_the_whole_but_for_the_interval() -> None:
    steps = {
        (0, 1): judged(2 * BOUND, 0.6 * BOUND),
        (1, 2): judged(1.5 * BOUND, 0.1 * BOUND),
    }
    assert _bisected(2, judged(2.5 * BOUND, 0.3 * BOUND), steps) == [(0, 1), (1, 2)]  # 0.5 + hypot(0.3, 0.6) > 1
    assert _bisected(2, judged(2.5 * BOUND, 0.3 * BOUND), {(0, 1): judged(2 * BOUND, 0.3 * BOUND)}) == [(0, 1)]


def test_the_right_half_is_not_asked_when_the_left_one_is_clear_until_it_is_named() -> None:
    history = History(4, {"a": {4: 4 * BOUND}})
    assert ranges(history.bisect(), "a") == [(3, 4)]
    assert history.measured == [(0, 2, ("a",)), (2, 3, ("a",)), (3, 4, ("a",))]


def test_cases_are_measured_together_and_part_where_their_halves_differ() -> None:
    history = History(8, {"a": {1: 3 * BOUND}, "b": {1: 3 * BOUND}, "c": {7: 3 * BOUND}})
    culprits = history.bisect()
    assert [(found_culprit.end, sorted(found_culprit.cases)) for found_culprit in culprits] == [
        (1, ["a", "b"]),
        (7, ["c"]),
    ]
    assert history.measured[:3] == [(0, 4, ("a", "b", "c")), (0, 2, ("a", "b")), (4, 6, ("c",))]


def test_an_open_left_half_is_found_by_a_clear_right_one() -> None:
    steps = {
        (0, 2): judged(1.2 * BOUND, 0.5 * BOUND),
        (2, 4): judged(0, 0.1 * BOUND),
        (0, 1): judged(0, 0.1 * BOUND),
        (1, 2): judged(2 * BOUND, 0.1 * BOUND),
    }
    assert steps[0, 2].verdict == "not_better"
    assert _bisected(4, judged(2 * BOUND, 0.1 * BOUND), steps) == [(1, 2)]


@pytest.mark.parametrize(
    ("sought", "verdict", "is_answered"),
    [
        ("regressed", "not_worse", True),
        ("improved", "not_better", True),
        ("regressed", "not_better", False),
        ("improved", "not_worse", False),
    ],
)
def test_one_of_the_one_sided_verdicts_answers_the_question(
    sought: Verdict, verdict: Verdict, is_answered: bool
) -> None:
    """After a clear left half the right one is only split; after an open one it is measured as a whole first."""
    change = judged(2 * BOUND if sought == "regressed" else -2 * BOUND, 0.1 * BOUND)
    begin = judged(-0.5 * BOUND if verdict == "not_worse" else 0.5 * BOUND, BOUND)
    assert (change.verdict, begin.verdict) == (sought, verdict)
    measured = []

    def measure(start: int, end: int, cases: Sequence[str]) -> dict[str, Step]:
        measured.append((start, end))
        step = {(0, 2): begin, (3, 4): judged(0, 0.1 * BOUND)}.get((start, end), change)
        return dict.fromkeys(cases, step)

    assert ranges(bisect(4, {"a": change}, measure, lambda revision: True, (), {"a": 0.02}), "a") == [(2, 3)]
    assert ((2, 4) in measured) != is_answered


def test_two_open_halves_end_openly() -> None:
    doubt = judged(0.9 * BOUND, 0.5 * BOUND)
    assert _bisected(4, judged(2 * BOUND, 0.1 * BOUND), {(0, 2): doubt, (2, 4): doubt}) == [(0, 4)]


def test_of_two_open_halves_one_with_an_estimate_beyond_the_threshold_is_looked_into() -> None:
    steps = {
        (0, 2): judged(0.2 * BOUND, BOUND),
        (2, 4): judged(1.8 * BOUND, BOUND),
        (2, 3): judged(0, 0.1 * BOUND),
        (3, 4): judged(1.8 * BOUND, 0.1 * BOUND),
    }
    assert _bisected(4, judged(2 * BOUND, 0.1 * BOUND), steps) == [(3, 4)]


def test_an_open_half_beside_a_culprit_is_looked_into_when_its_estimate_is_beyond_the_threshold() -> None:
    steps = {
        (0, 2): judged(3 * BOUND, 0.1 * BOUND),
        (2, 4): judged(1.2 * BOUND, 0.5 * BOUND),
        (0, 1): judged(3 * BOUND, 0.1 * BOUND),
        (2, 3): judged(1.5 * BOUND, 0.1 * BOUND),
    }
    assert _bisected(4, judged(4.5 * BOUND, 0.1 * BOUND), steps) == [(0, 1), (2, 3)]


@pytest.mark.parametrize(("change", "note"), [(3.0, "more of the change may lie elsewhere: a"), (4.6, "")])
def test_what_stays_open_beside_a_culprit_is_said(change: float, note: str) -> None:
    """Unless the culprit has all of the change."""
    total = judged(4.5 * BOUND, 0.1 * BOUND)
    steps = {(0, 1): judged(change * BOUND, 1.2 * BOUND), (1, 2): judged(1.2 * BOUND, 0.5 * BOUND)}
    culprits = bisect(2, {"a": total}, _measure_from(steps), lambda revision: True, (), {"a": 0.02})
    assert [(culprit.start, culprit.end, culprit.note) for culprit in culprits] == [(0, 1, note)]


def _measure_from(steps: dict[tuple[int, int], Step]) -> Measure:
    return lambda begin, right, cases: dict.fromkeys(cases, steps[begin, right])


def _bisected(revisions: int, total: Step, steps: dict[tuple[int, int], Step]) -> list[tuple[int, int]]:
    return ranges(bisect(revisions, {"a": total}, _measure_from(steps), lambda revision: True, (), {"a": 0.02}), "a")


def test_the_only_point_is_named_without_another_measurement() -> None:
    history = History(1, {"a": {1: 3 * BOUND}})
    assert history.bisect() == [CulpritRange(0, 1, history.total_steps())]
    assert not history.measured


def test_without_a_point_that_can_be_built_the_range_is_the_answer() -> None:
    history = History(5, {"a": {3: 3 * BOUND}}, unbuildable=frozenset({1, 2, 3, 4}))
    [found_culprit] = history.bisect()
    assert (found_culprit.start, found_culprit.end, found_culprit.skipped, found_culprit.undecided) == (
        0,
        5,
        (1, 2, 3, 4),
        (),
    )
    assert found_culprit.note == "the revisions in between could not be built"
    assert sorted(history.prepared) == [1, 2, 3, 4]


def test_the_nearest_point_to_the_middle_that_can_be_built() -> None:
    history = History(20, {"a": {1: 3 * BOUND}}, unbuildable=frozenset({9, 10, 11}))
    history.bisect()
    assert history.prepared[:4] == [10, 9, 11, 8]
    assert history.measured[0] == (0, 8, ("a",))


@pytest.mark.parametrize(("cached", "first"), [({1, 6, 19}, 6), ({4, 16}, 10), ({5}, 5), ({7, 12}, 12)])
def test_a_cached_point_of_the_middle_half_is_preferred(cached: set[int], first: int) -> None:
    history = History(20, {"a": {1: 3 * BOUND}}, cached=frozenset(cached))
    history.bisect()
    assert history.measured[0] == (0, first, ("a",))


@given(st.integers(1, 200), st.data())
def test_the_first_point_at_which_a_case_fails(revisions: int, data: st.DataObject) -> None:
    first = data.draw(st.integers(1, revisions))
    unbuildable = data.draw(st.frozensets(st.integers(1, revisions), max_size=revisions // 3)) - {revisions}
    history = History(revisions, {}, unbuildable, failing={"a": frozenset(range(first, revisions + 1))})
    [found_culprit] = history.bisect(history.total_steps(["a"]))
    assert (found_culprit.start, found_culprit.end) == history.smallest(first)
    assert found_culprit.cases["a"].side == "treatment"


def test_a_point_at_which_the_case_fails_is_passed_over() -> None:
    history = History(16, {"a": {3: 3 * BOUND}}, failing={"a": frozenset({8})})
    assert ranges(history.bisect(), "a") == [(2, 3)]
    assert history.measured[:2] == [(0, 8, ("a",)), (0, 4, ("a",))]


def test_a_culprit_among_points_at_which_the_case_fails() -> None:
    history = History(100, {"a": {50: 3 * BOUND}}, failing={"a": frozenset(range(40, 61))})
    [found_culprit] = history.bisect()
    assert 30 <= found_culprit.start < 40
    assert 60 < found_culprit.end <= 70
    assert found_culprit.undecided == tuple(range(found_culprit.start + 1, found_culprit.end))
    assert found_culprit.note.endswith("could not be measured at revisions in between: a")


def test_a_step_that_cannot_be_trusted_names_nothing_whatever_its_verdict() -> None:
    """The left half's run was aborted after it had found the change; the right one is clear."""
    regressed, clear = Step("regressed", Change(0.3, 0.29, 0.31)), Step("unchanged", Change(0.0, -0.01, 0.01))
    steps = {(0, 1): replace(regressed, unsure=True), (1, 2): clear}
    (found_culprit,) = bisect(
        2, {"a": regressed}, lambda begin, right, _: {"a": steps[begin, right]}, lambda _: True, [], {"a": 0.02}
    )
    assert (found_culprit.start, found_culprit.end, found_culprit.undecided, found_culprit.unsure) == (
        0,
        2,
        (1,),
        ("a",),
    )


def test_a_case_that_fails_nearly_everywhere_is_given_up() -> None:
    history = History(1000, {"a": {50: 3 * BOUND}}, failing={"a": frozenset(range(1, 1000))})
    [found_culprit] = history.bisect()
    assert (found_culprit.start, found_culprit.end) == (0, 1000)
    assert len(history.measured) <= math.log2(1000) + 2
