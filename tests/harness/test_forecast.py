"""What a run is likely to take: rounds, seconds, and in words what would settle the cases that this host can't."""

import math
import re
from dataclasses import replace

import pytest
from made_noise import made_samples
from toy_bench import toy_case

from opduel.comparator import plan_looks
from opduel.harness.planning.effort import ERRORS_IN_THRESHOLD, Costs, Noise
from opduel.harness.planning.effort_planner import EffortPlanner
from opduel.harness.planning.forecast import (
    FURTHER_LOOKS,
    RunForecast,
    forecast_run,
    outlook_words,
    settled_first,
)
from opduel.records import Case

LOOKS = plan_looks(50)
QUIET, NOISY, HOPELESS = (Noise(0.01**2, 0.003**2, pair**2) for pair in (0.001, 0.01, 0.05))
COSTS = Costs(quad_s=0.003, prepare_s=0.02, beside_s=0.01, pair_s=0.05)


def planner(noise: dict[str, Noise], start_s: float = 0.0) -> EffortPlanner:
    return EffortPlanner(dict.fromkeys(noise, COSTS), noise, start_s)


def forecast(effort_planner: EffortPlanner, cases: list[Case], pairs: int = 0) -> RunForecast:
    """What is to come after so many pairs of each case."""
    samples = {
        case.id: made_samples(case.id, effort_planner.noise[case.id], pairs)
        for case in cases
        if effort_planner.knows(case)
    }
    expected = forecast_run(effort_planner, cases, samples, LOOKS)
    assert expected is not None
    return expected


CASES = [toy_case(name) for name in ("quiet", "noisy", "hopeless")]
ALL = {"quiet": QUIET, "noisy": NOISY, "hopeless": HOPELESS}


def test_rounds_and_seconds_are_those_of_each_case() -> None:
    effort_planner = planner(ALL)
    expected = forecast(effort_planner, CASES)
    needed = effort_planner.rounds_to_goal(CASES[1], (), LOOKS.counts)
    assert needed is not None
    assert expected.rounds == {"quiet": 5, "noisy": needed.rounds, "hopeless": 5}
    assert needed.rounds > 5
    assert expected.settles == {"quiet", "noisy"}
    assert expected.seconds["noisy"] == needed.seconds > expected.seconds["quiet"] > 0
    assert expected.total_s == pytest.approx(FURTHER_LOOKS * sum(expected.seconds.values()))
    assert expected.known_cases == 3


def test_the_more_there_is_the_less_is_to_come() -> None:
    effort_planner = planner({"noisy": NOISY})
    totals = [forecast(effort_planner, CASES[1:2], pairs).total_s for pairs in (0, 2, 5)]
    assert totals == sorted(totals, reverse=True)


def test_a_case_that_is_precise_and_still_open_comes_to_its_next_look() -> None:
    effort_planner = planner(ALL)
    expected = forecast(effort_planner, CASES[:1], 5)
    assert (expected.rounds, expected.total_s > 0) == ({"quiet": 3}, True)
    assert forecast(effort_planner, CASES[:1], 50).total_s == 0, "no look is left"


def test_where_pairs_vary_by_nearly_all_that_the_threshold_allows_rounds_are_as_always() -> None:
    goal = math.log1p(CASES[0].threshold) / ERRORS_IN_THRESHOLD
    nearly = Noise(0.01**2, 0.003**2, 0.999 * LOOKS.counts[-1] * goal**2)
    effort_planner = planner({"quiet": nearly})
    needed = effort_planner.rounds_to_goal(CASES[0], (), LOOKS.counts)
    assert needed is not None
    assert needed.seconds > 5 * forecast(effort_planner, CASES[:1]).total_s


def test_a_precise_case_still_comes_to_its_first_look() -> None:
    wide = replace(CASES[0], threshold=5.0)
    expected = forecast(planner(ALL), [wide], 2)
    assert expected.rounds == {"quiet": 3}
    assert expected.seconds["quiet"] > 0


def test_a_round_takes_no_less_than_the_start_of_a_pair() -> None:
    assert forecast(planner({"quiet": QUIET}, start_s=2.0), CASES[:1]).total_s == pytest.approx(5 * 2.0)


def test_a_case_that_nothing_is_known_of_needs_what_others_do_or_its_first_look() -> None:
    counted = replace(toy_case("counted"), metric="memory")
    effort_planner = planner({"noisy": NOISY})
    expected = forecast(effort_planner, [CASES[1], toy_case("new"), counted])
    assert expected.rounds == {"noisy": expected.rounds["noisy"], "new": expected.rounds["noisy"], "counted": 3}
    assert expected.seconds["new"] == expected.seconds["noisy"]
    assert (expected.known_cases, expected.settles) == (1, {"noisy"})
    samples = {"noisy": made_samples("noisy", QUIET, 50)}
    late = forecast_run(effort_planner, [CASES[1], toy_case("new")], samples, LOOKS)
    assert late is not None
    assert late.rounds["new"] == 5, "though the others are done"
    assert forecast_run(effort_planner, [toy_case("new")], {}, LOOKS) is None


def test_cases_that_can_be_settled_come_first_the_cheapest_before_others() -> None:
    expected = forecast(planner(ALL), CASES)
    hopeless, noisy, quiet = CASES[::-1]
    assert settled_first([hopeless, noisy, quiet], expected) == [quiet, noisy, hopeless]
    assert settled_first([noisy, hopeless, quiet], expected) == [quiet, noisy, hopeless]


def words(cases: list[Case], left_s: float = math.inf, effort_planner: EffortPlanner | None = None) -> str:
    effort_planner = effort_planner or planner(ALL)
    return outlook_words(forecast(effort_planner, cases), cases, effort_planner, left_s)


def test_the_outlook_says_how_long_it_takes_and_what_to_change() -> None:
    plain = words(CASES[:2])
    assert re.fullmatch(r"less than a minute more to settle 2 of 2 cases if none has changed", plain)
    short = words(CASES[:2], left_s=0.6)
    assert short.startswith(plain)
    assert short.endswith("left: give a larger --time_budget, a larger --threshold or fewer cases")
    assert ", 0 s left: " in words(CASES[:2], left_s=-3)
    assert words(CASES[1:2], effort_planner=planner({"noisy": NOISY}, start_s=99.0)).endswith(
        ": --time_budget SECONDS ends it before, and answers first what is cheapest"
    )
    assert "SECONDS" not in words(CASES[1:2], 36_000.0, planner({"noisy": NOISY}, start_s=99.0)), "it has one"
    noisy = words(CASES)
    assert " to settle 2 of 3 cases" in noisy
    assert noisy.endswith("; too noisy for their --threshold: hopeless")
    both = words([*CASES, toy_case("worse")], effort_planner=planner({**ALL, "worse": replace(HOPELESS, pair=0.1**2)}))
    assert both.endswith(": hopeless and 1 more")


def test_a_threshold_of_0_is_no_matter_of_noise() -> None:
    exact = replace(CASES[0], threshold=0.0)
    outlook = outlook_words(forecast(planner(ALL), [exact]), [exact], planner(ALL), math.inf)
    assert "to settle 0 of 1 case if" in outlook
    assert "too noisy" not in outlook
