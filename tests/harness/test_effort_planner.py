"""What a run learns of its cases, and what it plans by that: from variances, costs and thresholds alone."""

import math
from dataclasses import replace

import pytest
from made_noise import made_samples
from toy_bench import toy_case

from opduel.comparator import plan_looks
from opduel.harness.planning.effort import CaseTime, Costs, Noise, Repetitions
from opduel.harness.planning.effort_planner import GROWTH, MOST_AT_ONCE, PLANNED_SHARE, EffortPlanner
from opduel.records import Case, PairSample

COUNTS = plan_looks(50).counts
QUIET = Noise(0.005**2, 0.002**2, 0.001**2)
NOISY = Noise(0.05**2, 0.004**2, 0.002**2)
COSTS = Costs(quad_s=0.003, prepare_s=0.02, beside_s=0.01, pair_s=0.05)


def samples_of(noise: Noise, change: float = 0.0, pairs: int = 4) -> dict[str, list[PairSample]]:
    return {name: made_samples(name, noise, pairs, change=change) for name in "abc"}


def planner(noise: Noise = QUIET, costs: Costs = COSTS, start_s: float = 0.0) -> EffortPlanner:
    """One to which earlier runs have told what cases cost, and how noisy they are."""
    return EffortPlanner(dict.fromkeys("abc", costs), dict.fromkeys("abc", noise), start_s)


def cases(threshold: float = 0.02) -> list[Case]:
    return [replace(toy_case(name), threshold=threshold) for name in "abc"]


@pytest.mark.parametrize("change", [-0.5, 0.019, 0.25])
def test_the_plan_does_not_depend_on_how_large_the_change_is(change: float) -> None:
    """The same samples, shifted: the same effort, so that the effort of a round says nothing about its samples."""
    plans = []
    for shift in (0.0, change):
        learning = planner()
        learning.learn(samples_of(NOISY, shift))
        plans.append(learning.plan(cases(), samples_of(NOISY, shift), COUNTS))
    assert plans[0] == plans[1]
    assert plans[0].keys() == {"a", "b", "c"}


@pytest.mark.parametrize("change", [0.0, 0.5])
def test_noisy_cases_get_more_than_quiet_ones(change: float) -> None:
    quads = []
    for noise in (QUIET, NOISY):
        learning = planner()
        learning.learn(samples_of(noise, change))
        plan = learning.plan(cases(), {}, COUNTS)
        quads.append(min(repetitions.forks * repetitions.quads for repetitions in plan.values()))
    assert quads[1] > 3 * quads[0]


def test_a_smaller_threshold_takes_more_and_samples_that_there_are_leave_less_to_do() -> None:
    def seconds(threshold: float, pairs: int) -> float:
        samples = samples_of(NOISY, pairs=pairs)["a"] if pairs else ()
        needed = planner(NOISY).rounds_to_goal(cases(threshold)[0], samples, COUNTS)
        return needed.seconds if needed else math.inf

    assert [seconds(0.2, 5), seconds(0.001, 0)] == [0, math.inf], "at 0.1 % pairs alone vary too much"
    ascending = [seconds(*of) for of in ((0.05, 0), (0.01, 5), (0.01, 0), (0.008, 0))]
    assert ascending == sorted(set(ascending))


def test_what_nothing_is_known_of_is_not_planned() -> None:
    learnt = planner()
    assert learnt.plan([*cases(), toy_case("new")], {}, COUNTS).keys() == {"a", "b", "c"}
    assert not EffortPlanner().plan(cases(), {}, COUNTS)


def test_no_round_takes_longer_than_all_before_it_but_where_earlier_runs_tell() -> None:
    """A few samples may be far off."""
    noise, costs = Noise(0.01**2, 0.05**2, 0.001**2), replace(COSTS, pair_s=10.0)
    case, told_planner = cases()[0], EffortPlanner({"a": costs}, {"a": noise})
    learning = EffortPlanner({"a": costs}, {"a": noise}, spent_s={"a": 0.05})
    forks, spent_s = [], 0.05
    for _ in range(6):
        repetitions = learning.plan([case], {}, COUNTS)["a"]
        forks.append(repetitions.forks)
        round_s = costs.of_round(repetitions) - costs.pair_s
        assert forks[-1] <= MOST_AT_ONCE or round_s <= spent_s
        spent_s += round_s
        learning.spent_s["a"] = spent_s
    assert forks[0] == MOST_AT_ONCE
    assert forks == sorted(forks)
    assert forks[-1] == told_planner.plan([case], {}, COUNTS)["a"].forks > 5 * MOST_AT_ONCE


def test_a_fork_is_not_much_longer_than_all_that_was_measured_before() -> None:
    """Two pilots that differed by 40 % asked for 326 quads of 0.13 s in each of four forks."""
    noise, costs = Noise(0.4**2, 0.0005**2, 0.001**2), replace(COSTS, quad_s=0.13, prepare_s=0.2)
    learning = EffortPlanner({"a": costs}, {"a": noise}, spent_s={"a": 2.0})
    limited = learning.plan(cases()[:1], {}, COUNTS)["a"]
    assert costs.of_round(limited) - costs.pair_s <= GROWTH * 2.0
    told = EffortPlanner({"a": costs}, {"a": noise}).plan(cases()[:1], {}, COUNTS)["a"]
    assert costs.of_round(told) > 5 * costs.of_round(limited)


def test_with_little_time_left_rounds_are_as_short_as_takes_each_case_to_its_second_look() -> None:
    """However precise an unchanged case would have to be, a large change is flagged."""
    learning = planner(NOISY)
    unlimited = learning.plan(cases(), {}, COUNTS)
    round_s = sum(COSTS.of_round(repetitions) for repetitions in unlimited.values())
    left_s = 0.7 * COUNTS[1] * round_s
    limited = learning.plan(cases(), {}, COUNTS, left_s)
    assert sum(COSTS.of_round(repetitions) for repetitions in limited.values()) * COUNTS[1] <= 1.2 * left_s
    assert learning.plan(cases(), {}, COUNTS, left_s=1.01 * COUNTS[1] * round_s / PLANNED_SHARE) == unlimited


def test_a_quiet_case_leaves_its_share_of_the_time_to_a_noisy_one() -> None:
    learning = planner()
    learning.noise["a"] = NOISY
    planned = learning.plan(cases(), {}, COUNTS)
    noisy_s, quiet_s = (COUNTS[1] * COSTS.of_round(planned[name]) for name in "ab")
    limited = learning.plan(cases(), {}, COUNTS, left_s=1.01 * (noisy_s + 2 * quiet_s) / PLANNED_SHARE)
    assert limited == planned


def test_a_case_is_never_measured_in_one_fork_where_two_cost_little() -> None:
    """A single fork tells nothing of what lies between forks."""
    for costs, forks in ((replace(COSTS, pair_s=1.0), 2), (replace(COSTS, prepare_s=5.0), 1)):
        assert planner(QUIET, costs).plan(cases(0.2), {}, COUNTS)["a"].forks == forks


def test_the_longer_a_pair_takes_to_start_the_more_often_it_measures_what_it_was_started_for() -> None:
    """And the fewer cases share it."""
    noise = Noise(0.01**2, 0.01**2, 0.003**2)
    forks = [
        planner(noise, start_s=start_s).plan(cases(0.005)[:count], {}, COUNTS)["a"].forks
        for start_s, count in ((0.0, 1), (0.3, 3), (0.3, 1))
    ]
    assert forks[0] < forks[1] < forks[2]


def test_a_noisy_case_holds_up_no_others() -> None:
    learnt = planner(QUIET)
    learnt.noise["a"] = Noise(0.05**2, 0.05**2, 0.001**2)
    learnt.plan(cases(), {}, COUNTS)
    shared_s = [learnt.round_s(name) for name in "abc"]
    assert shared_s[0] < 1.5 * (shared_s[1] + shared_s[2])
    learnt.plan(cases()[:1], {}, COUNTS)
    assert learnt.round_s("a") > 4 * shared_s[0], "alone it takes its time"


def test_the_time_for_which_a_round_waits_is_filled_with_quads() -> None:
    without, waiting = (planner(QUIET, start_s=start_s).plan(cases(), {}, COUNTS) for start_s in (0.0, 6.0))
    measured_s = sum(
        repetitions.forks * (COSTS.fork_s + repetitions.quads * COSTS.quad_s) for repetitions in waiting.values()
    )
    assert measured_s == pytest.approx(
        6.0 + sum(COSTS.prepare_s * repetitions.forks for repetitions in waiting.values()), rel=0.1
    )
    assert all(waiting[name].quads > 2 * without[name].quads for name in "abc")


def test_costs_are_learnt_from_rounds_and_a_busy_round_changes_them_half_way() -> None:
    learning = EffortPlanner()
    time = CaseTime(forks=2, quads=20, prepared_s=0.4, waited_s=0.1, beside_s=0.06, quads_s=0.2)
    learning.note_round({"a": time, "b": CaseTime()}, start_s=0.7, rest_s=0.5, overlaps=True)
    assert learning.costs == {"a": Costs(0.01, 0.2, 0.03, 0.25, overlaps=True)}, "of b nothing was measured"
    assert learning.spent_s == {"a": pytest.approx(0.1 + 0.06 + 0.2), "b": 0.0}
    assert learning.start_s == pytest.approx(0.7)
    learning.note_round({"a": replace(time, quads_s=1.8)}, start_s=0.0, rest_s=0.25, overlaps=True)
    assert learning.costs["a"].quad_s == pytest.approx(0.03)
    assert learning.costs["a"].pair_s == pytest.approx(0.25)
    assert learning.spent_s["a"] == pytest.approx(0.36 + 1.96)
    assert learning.start_s == pytest.approx(0.7), "a pair was lost while it started"
    learning.note_round({"b": time}, start_s=0.4, rest_s=0.25, overlaps=True)
    assert learning.costs["b"].quad_s == pytest.approx(0.01), "its first round was lost"
    assert learning.start_s == pytest.approx(0.4), "the first ones were slower"


def test_rounds_that_took_longer_than_their_costs_say_leave_time_for_that() -> None:
    """Others kept the processor busy on which a fork is prepared while the one before it is measured."""
    time = CaseTime(forks=5, quads=5, prepared_s=16.0, waited_s=12.0, beside_s=0.0, quads_s=14.0)
    hindered = planner(NOISY)
    hindered.note_round({"a": time}, start_s=0.0, rest_s=0.0, overlaps=True)
    assert hindered.stretch == pytest.approx(math.sqrt(26 / 16))
    hindered.note_round({"a": time}, start_s=0.0, rest_s=0.0, overlaps=True)
    assert hindered.stretch == pytest.approx((26 / 16) ** 0.75)
    free = replace(hindered, planned={}, stretch=1.0)
    planned = [one.plan([toy_case("a")], {}, COUNTS, 300.0)["a"] for one in (hindered, free)]
    assert planned[0].forks < planned[1].forks
    hindered.note_round({"a": replace(time, waited_s=0.0)}, start_s=0.0, rest_s=0.0, overlaps=True)
    assert hindered.stretch == pytest.approx((26 / 16) ** 0.375), "they may be gone again"


def test_the_report_says_how_a_case_was_measured_and_beside_what_noise() -> None:
    learnt, rows = planner(NOISY), made_samples("a", NOISY, 3, forks=4, quads=7)
    learnt.spent_s["a"] = 12.5
    effort = learnt.describe("a", rows)
    assert effort is not None
    assert (effort.forks, effort.quads, effort.seconds) == (4, 7, 12.5)
    assert (effort.quad_sd, effort.fork_sd, effort.pair_sd) == pytest.approx((0.05, 0.004, 0.002))
    assert (effort.quad_s, effort.prepare_s, effort.fork_s, effort.pair_s) == (0.003, 0.02, 0.01, 0.05)
    assert learnt.describe("a", [replace(row, fork_ratios=()) for row in rows]) is None, "measured without blocks"
    assert learnt.describe("a", []) is None
    untold = EffortPlanner({"a": COSTS}).describe("a", rows)
    assert untold is not None
    assert (untold.quad_sd, untold.fork_sd, untold.pair_sd) == (None, None, None)


def test_what_the_next_round_takes_is_what_is_planned() -> None:
    learnt = planner(NOISY)
    plan = learnt.plan(cases(), {}, COUNTS)
    assert learnt.round_s("a") == COSTS.of_round(plan["a"])
    assert learnt.planned == plan
    assert Repetitions(1, 1) not in plan.values()
