"""Which host is slow enough that others measure its open cases, and which cases are open."""

from dataclasses import replace
from typing import get_args

import pytest
from hypothesis import given
from hypothesis import strategies as st
from made_samples import a_case, pairs
from report_samples import report

from opduel.comparator import RunAnalysis, plan_looks
from opduel.fleet.stragglers import (
    MARGIN,
    START_S,
    Pace,
    UnderWay,
    anew_s,
    is_open,
    left_s,
    open_cases,
    pace_of,
    slowness,
    straggler,
)
from opduel.records import Comparison, Verdict, Verification

PACE = Pace(sample_s=0.3, rounds=5.0)


def under_way(slow: float, elapsed_s: float, cases: int = 200, open_cases: int = 200) -> UnderWay:
    """Return a shard on a host that takes so many times as long as a usual one."""
    return UnderWay(cases, open_cases, int(elapsed_s / (PACE.sample_s * slow)), elapsed_s)


def test_the_pace_is_the_median_of_the_shards_and_the_mean_of_the_cases() -> None:
    case = a_case()
    five = RunAnalysis([case], {case.id: pairs(case.id, "screening", [0.0] * 5)}, {}, plan_looks(30)).comparisons()
    reports = [report(five, wall_s=seconds) for seconds in (1.0, 2.0, 50.0)]
    assert pace_of([*reports, report([], wall_s=3.0)]) == Pace(0.4, 5.0)
    assert pace_of([]) is None


def test_a_long_round_is_no_slow_host() -> None:
    """Nothing has come back from its first round, which takes a minute."""
    assert slowness(UnderWay(200, 200, 0, 59.0), PACE) < 1
    assert straggler({"a": UnderWay(200, 200, 0, 59.0)}, PACE, 7) is None


def test_ten_times_as_slow_moves_and_hangs_do_and_the_usual_does_not() -> None:
    assert straggler({"a": under_way(10, 700), "b": under_way(1, 200)}, PACE, 7) == "a"
    assert straggler({"hangs": UnderWay(8, 8, 16, 400.0)}, PACE, 1) == "hangs"
    assert straggler({"b": under_way(1, 100), "c": under_way(1, 200)}, PACE, 7) is None


def test_what_is_nearly_done_stays() -> None:
    """Twice as slow, and eight cases: others would not be there before."""
    assert straggler({"a": under_way(2, 15, 8, 8)}, PACE, 1) is None
    assert straggler({"a": under_way(10, 700, 200, 0)}, PACE, 7) is None


@pytest.mark.parametrize(("pace", "idle"), [(None, 3), (PACE, 0)])
def test_without_figures_or_idle_hosts_nothing_moves(pace: Pace | None, idle: int) -> None:
    assert straggler({"a": under_way(10, 700)}, pace, idle) is None


@given(
    st.integers(1, 300).flatmap(lambda cases: st.tuples(st.just(cases), st.integers(1, cases))),
    st.integers(0, 3000),
    st.floats(0, 1e5),
    st.integers(1, 64),
)
def test_a_move_is_expected_to_be_sooner(sizes: tuple[int, int], samples: int, elapsed_s: float, idle: int) -> None:
    shard = UnderWay(*sizes, samples, elapsed_s)
    if straggler({"a": shard}, PACE, idle):
        assert left_s(shard, PACE) > MARGIN * anew_s(shard, PACE, idle) > MARGIN * START_S
    assert anew_s(shard, PACE, idle) >= anew_s(shard, PACE, 64)


def comparison_with(verdict: str = "inconclusive", **changes: object) -> Comparison:
    case = a_case()
    few = pairs(case.id, "screening", [0.0, 0.2, -0.2, 0.1, -0.1])
    comparison = RunAnalysis([case], {case.id: few}, {}, plan_looks(30)).comparisons()[0]
    return replace(comparison, verdict=verdict, **changes)  # type: ignore[arg-type]


def test_which_cases_are_open() -> None:
    assert comparison_with().forecast is not None
    assert is_open(comparison_with())
    spent = comparison_with(forecast=None)
    assert spent.p_value is not None
    assert not is_open(spent)
    assert is_open(replace(spent, held_back="unchanged"))
    assert is_open(replace(spent, p_value=None))
    assert is_open(replace(spent, verification=Verification("regressed")))
    assert not is_open(replace(spent, verification=Verification("regressed", "inconclusive", p_value=0.2)))
    assert not any(is_open(comparison_with(verdict)) for verdict in get_args(Verdict) if verdict != "inconclusive")


def test_what_measures_the_same_stays_together() -> None:
    timed, counted, other = a_case("a"), a_case("a/instructions", metric="instructions"), a_case("b")
    assert timed.time_id == counted.time_id
    rows = [
        replace(comparison_with("unchanged"), case=timed.id),
        replace(comparison_with(), case=counted.id),
        replace(comparison_with("unchanged"), case="b"),
    ]
    assert open_cases([timed, counted, other], rows) == {timed.id, counted.id}
