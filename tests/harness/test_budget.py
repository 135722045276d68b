"""How long rounds take, which cases a time budget is spent on, and what would settle the open ones: pure."""

from collections.abc import Sequence
from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from toy_bench import toy_case

from opduel.harness.planning.budget import (
    MOST_EXPLAINED,
    PROFILES_PER_CAUSE,
    CaseNeed,
    RoundDurations,
    affordable,
    budget_for,
    count_cause_profiles,
    first_affordable,
    profiling_seconds,
    with_profiling,
    with_seconds,
)
from opduel.harness.planning.effort import CaseTime
from opduel.harness.planning.effort_planner import PLANNED_SHARE
from opduel.harness.processes.case_request import CaseRequest
from opduel.harness.rounds.pair import RoundResult
from opduel.records import Case, Comparison, Forecast, PairSample


def round_result(names: str, case_s: float, start_s: float, rest_s: float = 0.0) -> RoundResult:
    """A round in which so many seconds went into each case, and ``rest_s`` into none of them."""
    samples = [PairSample(name, "screening", 0, 1.0, 1.0, 0.0, 4, 10) for name in names]
    times = {name: CaseTime(1, 2, waited_s=case_s / 4, beside_s=case_s / 4, quads_s=case_s / 2) for name in names}
    wall_s = start_s + rest_s + case_s * len(names)
    return RoundResult(samples=samples, start_s=start_s, wall_s=wall_s, times=times)


def after_a_round(
    names: str, case_s: float = 0.02, start_s: float = 2.0, rest_s: float = 0.0, fork: bool = True
) -> RoundDurations:
    durations = RoundDurations(lambda case: fork)
    durations.note(round_result(names, case_s, start_s, rest_s), "time")
    return durations


def need(name: str, missing: int = 5, excess: float | None = None, closes: bool = True) -> CaseNeed:
    return CaseNeed(
        CaseRequest(toy_case(name), 1, stage="screening" if excess is None else "confirmation"), missing, excess, closes
    )


def naive_seconds(durations: RoundDurations, needs: Sequence[tuple[Case, int]]) -> float:
    """Round after round, summed up: one pair for those that share it, which takes no longer than the first one."""
    total, first_s = 0.0, durations.full_start_s["time"]
    for number in range(max((rounds for _, rounds in needs), default=0)):
        seconds = sum(durations.of_case(case) for case, rounds in needs if rounds > number)
        total += seconds + max(min(first_s, durations.last_start_s["time"]), first_s - seconds)
    return total


@settings(max_examples=60)
@given(
    st.lists(st.tuples(st.floats(1e-4, 3), st.integers(0, 9)), min_size=1, max_size=8),
    st.floats(0, 3),
    st.floats(0, 3),
)
def test_rounds_to_come_take_what_a_plain_sum_says(cases: list[tuple[float, int]], first: float, last: float) -> None:
    durations = RoundDurations(lambda case: True, {"time": first}, {"time": last}, usual_s={"time": 1.0})
    needs = []
    for number, (seconds, rounds) in enumerate(cases):
        case = toy_case(f"{number}")
        durations.case_s[case.id] = seconds
        needs.append((case, rounds))
    assert durations.of_rounds(needs) == pytest.approx(naive_seconds(durations, needs))
    until = durations.until_settled(needs)
    assert max(until.values()) == pytest.approx(durations.of_rounds(needs))
    assert all(until[case.id] == 0 for case, rounds in needs if rounds == 0)


def test_a_round_is_shared_out_by_what_went_into_each_case_and_the_rest_evenly() -> None:
    durations = after_a_round("ab", rest_s=0.5)
    assert durations.of_case(toy_case("a")) == pytest.approx(0.02 + 0.25)
    assert durations.of_case(toy_case("never measured")) == pytest.approx(0.27)
    durations.note(round_result("b", 20.0, 0.5), "time")
    assert durations.of_case(toy_case("b")) == pytest.approx(20)
    assert durations.of_case(toy_case("a")) == pytest.approx(0.27), "the slow one costs the others nothing"
    assert durations.of_shortest_round(toy_case("a")) == pytest.approx(0.5 + 0.27)
    durations.case_s["a"] = 3.0
    assert durations.of_case(toy_case("a")) == 3.0, "what is planned for its next round is what that will take"


def test_a_start_overlaps_with_measuring_but_not_for_cases_with_pairs_of_their_own() -> None:
    durations = after_a_round("a", case_s=1.9, start_s=2.0)  # measured for 1.9 s
    durations.note(round_result("a", 0.4, 0.1), "time")
    assert durations.of_start("time", measured_s=5.0) == pytest.approx(0.1)
    assert durations.of_start("time", measured_s=0.5) == pytest.approx(1.5)
    durations.note(round_result("a", 0.02, 0.1), "time")  # 0.4 s later, so that the whole start takes half a second
    assert durations.of_start("time", measured_s=0.2) == pytest.approx(0.3)
    alone = after_a_round("a", start_s=2.0, fork=False)
    assert alone.of_rounds([(toy_case("a"), 3)]) == pytest.approx(3 * 2.02)


def test_time_for_all_is_time_for_all() -> None:
    needs = [need("a"), need("b", excess=0.1), need("c")]
    assert affordable(needs, 1e6, after_a_round("abc"), resumable=False) == needs


def test_where_time_is_only_just_enough_for_all_suspects_come_alone() -> None:
    """Two that had changed lacked a fresh pair in the end, as one that had not took a third of each round."""
    durations = after_a_round("abc", case_s=2.0, start_s=0.0)
    needs = [need("a", excess=0.3), need("b"), need("c", excess=-0.01)]
    chosen = affordable(needs, 1.1 * durations.of_rounds(each.rounds for each in needs), durations, resumable=False)
    assert [each.request.case.id for each in chosen] == ["a", "c"]
    plain = [need("a"), need("b")]
    left_s = 1.1 * durations.of_rounds(each.rounds for each in plain)
    assert affordable(plain, left_s, durations, resumable=False) == plain


def test_the_largest_suspects_come_first_then_the_others_as_long_as_there_is_time() -> None:
    durations = after_a_round("abcde", case_s=2.0, start_s=0.0)
    needs = [need("a"), need("b", excess=0.05), need("c", excess=0.6), need("d", excess=-0.01), need("e")]

    def names(left_s: float) -> str:
        return "".join(chosen.request.case.id for chosen in affordable(needs, left_s, durations, resumable=False))

    assert names(5 * 2.0 + 1) == "c"
    assert names(5 * 4.0 + 1) == "cb"
    assert names(5 * 6.0 + 1) == "cbd"
    assert names(5 * 8.0 + 1) == "cbda"
    assert names(1e6) == "abcde"


def test_one_that_does_not_fit_keeps_no_smaller_one_from_its_look() -> None:
    durations = after_a_round("ab", case_s=0.2, start_s=0.0)
    durations.case_s["a"] = 30.0
    needs = [need("a", excess=2.0), need("b", excess=0.1)]
    assert [chosen.request.case.id for chosen in affordable(needs, 30.0, durations, resumable=False)] == ["b"]


def test_of_first_looks_each_comes_that_fits() -> None:
    durations = after_a_round("abc", case_s=1.0, start_s=0.0)
    needs = [need("b", missing=3), need("a", missing=5), need("c", missing=5)]
    assert [chosen.request.case.id for chosen in first_affordable(needs, 3.5, durations)] == ["b"]
    assert [chosen.request.case.id for chosen in first_affordable(needs, 8.5, durations)] == ["b", "a"]
    costly = [need("slow", missing=2), need("a", missing=5)]
    durations.case_s["slow"] = 9.0
    assert [chosen.request.case.id for chosen in first_affordable(costly, 6.0, durations)] == ["a"]


def test_where_no_look_can_be_reached_the_rounds_go_to_cases_for_which_they_count() -> None:
    durations = after_a_round("abc", case_s=2.0, start_s=0.0)
    needs = [need("a", excess=0.9, closes=False), need("b", excess=0.5), need("c")]
    assert [chosen.request.case.id for chosen in affordable(needs, 3.0, durations, resumable=False)] == ["b"]
    assert [chosen.request.case.id for chosen in affordable(needs, 3.0, durations, resumable=True)] == ["a"]
    assert affordable(needs, 1.0, durations, resumable=True) == []


@given(st.floats(0.1, 1e6), st.integers(0, 5000))
def test_a_budget_keeps_a_share_for_profiling_and_no_more_than_that_takes(budget: float, cases: int) -> None:
    profiling_s = profiling_seconds(budget, cases)
    assert 0 <= profiling_s <= 0.25 * budget
    assert (profiling_s > 0) == (cases > 0)
    assert profiling_s <= 10 + 3 * cases
    assert with_profiling(budget - profiling_s, cases) == pytest.approx(budget)


def test_without_a_budget_nothing_is_kept_for_profiling() -> None:
    assert profiling_seconds(None, 3) == 0


def an_open_case(name: str, rounds: int | None) -> Comparison:
    bare = Comparison.without_figures(toy_case(name), "inconclusive", note="too noisy")
    return Comparison(**{**vars(bare), "forecast": Forecast(0.9 if rounds else 0.3, rounds)})


def test_forecasts_get_their_time() -> None:
    durations = after_a_round("abc", case_s=0.2, start_s=1.0)
    cases = {name: toy_case(name) for name in "abcd"}
    settled = Comparison.without_figures(toy_case("d"), "unchanged")
    comparisons = [an_open_case("a", 3), an_open_case("b", 10), an_open_case("c", None), settled]
    soon, late, never, settled_case = with_seconds(comparisons, cases, durations)
    assert soon.forecast is not None
    assert late.forecast is not None
    first_start_s = 1.0
    in_three, in_ten = ([(cases["a"], 3), (cases["b"], rounds)] for rounds in (3, 10))
    assert soon.forecast.seconds == pytest.approx(first_start_s + durations.of_rounds(in_three))
    assert late.forecast.seconds == pytest.approx(first_start_s + durations.of_rounds(in_ten))
    assert settled_case == settled

    budget = budget_for([soon, late, never, settled_case], 40.0, 1.0)
    assert budget is not None
    assert (budget.settles, budget.open) == (2, 3)
    more_s = late.forecast.seconds / PLANNED_SHARE
    assert 40 + more_s <= budget.time_budget < 50 + more_s
    assert budget.further is None
    further = budget_for([soon, late, never, settled_case], 40.0, 1.0, own_s=20.0)
    assert further is not None
    assert further.further is not None
    assert (further.time_budget, more_s <= further.further < more_s + 10) == (budget.time_budget, True)
    verifying = budget_for([soon, late, never, settled_case], 40.0, 0.7)
    assert verifying is not None
    assert verifying.time_budget > budget.time_budget
    assert budget_for([never, settled_case], 40.0, 1.0) is None
    unknown = with_seconds(comparisons, cases, None)
    assert budget_for(unknown, 40.0, 1.0) is None
    again = budget_for(unknown, 40.0, 1.0, own_s=20.0)
    assert again is not None
    assert (again.time_budget, again.further) == (None, 20.0)


def test_what_a_case_takes_of_which_nothing_is_known_is_not_foretold() -> None:
    """Of 171 cases that no round had reached a run said that they need 1 h 40 min more, and the next one 7 h."""
    durations = after_a_round("a", case_s=0.2, start_s=1.0)
    cases = {name: toy_case(name) for name in "ab"}
    measured, unmeasured = with_seconds([an_open_case("a", 3), an_open_case("b", 8)], cases, durations)
    assert measured.forecast is not None
    assert unmeasured.forecast is not None
    assert measured.forecast.seconds == pytest.approx(1.0 + durations.of_rounds([(cases["a"], 3)]))
    assert unmeasured.forecast.seconds is None
    budget = budget_for([measured, unmeasured], 40.0, 1.0)
    assert budget is not None
    assert (budget.settles, budget.open) == (1, 2)


def test_a_time_budget_keeps_time_for_some_causes() -> None:
    case = toy_case("a")
    counted = replace(case, metric="memory")
    assert count_cause_profiles([case, counted], "none", True) == 0
    assert count_cause_profiles([case, counted], "all", False) == PROFILES_PER_CAUSE
    assert count_cause_profiles([case] * 100, "confirmed", True) == MOST_EXPLAINED * PROFILES_PER_CAUSE
    assert count_cause_profiles([case] * 100, "confirmed", False) == 0  # there will be nothing to explain
    assert profiling_seconds(1e6, MOST_EXPLAINED * PROFILES_PER_CAUSE) == 100
