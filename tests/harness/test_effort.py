"""How often a case is repeated at each level: no other choice costs much less, whatever its noise and its costs are."""

import math
import random
import statistics
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from opduel.harness.planning.effort import (
    LEAST_VARIANCE,
    SPLIT,
    CaseTime,
    Costs,
    Goal,
    Noise,
    Repetitions,
    cheapest_rounds,
    choose_repetitions,
    fewest_repetitions,
    fill,
    in_two_forks,
    most_informative,
    quads_of_fork,
    share_out,
)

LOOKS = (5, 8, 13, 20, 32, 50)
FORKS, QUADS = np.arange(1, 81)[:, None], np.arange(1, 601)[None, :]  # that the oracle tries

deviations = st.floats(math.log(5e-4), math.log(0.05)).map(math.exp)
noises = st.builds(lambda *levels: Noise(*(level**2 for level in levels)), deviations, deviations, deviations)
costs_of_cases = st.builds(
    Costs, st.floats(1e-3, 0.5), st.floats(0.005, 1.0), st.floats(0.002, 0.1), st.floats(0.0, 1.0), st.booleans()
)
goals = st.builds(Goal, st.floats(5e-4, 0.02), st.floats(0.0, 1e6), st.integers(0, 4), st.just(LOOKS))
planned = st.builds(Repetitions, st.integers(1, 60), st.integers(1, 200))


def naive_seconds(costs: Costs, forks: np.ndarray, quads: np.ndarray) -> np.ndarray:
    """Return what a round takes: with each fork, its quads and what else there is, and preparing the next one where
    that isn't done meanwhile."""
    of_quads = quads * costs.quad_s
    of_fork = np.maximum(of_quads, costs.prepare_s) if costs.overlaps else of_quads + costs.prepare_s
    return costs.pair_s + forks * (costs.beside_s + of_fork)


def naive_least_seconds(noise: Noise, costs: Costs, goal: Goal) -> float:
    """Return the seconds of the cheapest of all ways: any look, any number of forks and quads; infinity if none is
    precise enough."""
    variance = noise.pair + (noise.fork + noise.quad / QUADS) / FORKS
    least = math.inf
    for look in goal.looks:
        rounds = look - goal.samples
        enough = goal.information + rounds / variance >= 1 / goal.standard_error**2
        seconds = rounds * naive_seconds(costs, FORKS, QUADS)
        least = min(least, float(np.where(enough, seconds, math.inf).min()))
    return least


def drawn(rng: random.Random) -> tuple[Noise, Costs, Goal]:
    def log_uniform(low: float, high: float) -> float:
        return math.exp(rng.uniform(math.log(low), math.log(high)))

    noise = Noise(log_uniform(1e-3, 0.08) ** 2, log_uniform(1e-3, 0.02) ** 2, log_uniform(5e-4, 0.01) ** 2)
    costs = Costs(
        log_uniform(0.001, 0.3), log_uniform(0.01, 1), log_uniform(0.002, 0.1), rng.uniform(0, 1), rng.random() < 0.5
    )
    return noise, costs, Goal(log_uniform(0.001, 0.02), 0.0, 0, LOOKS)


def test_the_way_is_about_the_cheapest_of_all() -> None:
    rng, excesses = random.Random(1), []
    for _ in range(200):
        noise, costs, goal = drawn(rng)
        needed, least_s = cheapest_rounds(noise, costs, goal), naive_least_seconds(noise, costs, goal)
        if needed is None:
            assert least_s == math.inf
        elif needed.repetitions.forks < FORKS[-1, 0] and needed.repetitions.quads < QUADS[0, -1]:
            excesses.append(needed.seconds / least_s)
    assert len(excesses) > 150
    assert min(excesses) >= 1 - 1e-9
    assert statistics.quantiles(excesses, n=10)[-1] < 1.1
    assert max(excesses) < 1.25


@given(noises, costs_of_cases, goals)
def test_a_way_is_as_precise_as_its_goal_at_one_of_its_looks(noise: Noise, costs: Costs, goal: Goal) -> None:
    needed = cheapest_rounds(noise, costs, goal)
    if needed is None:
        assert goal.information + (LOOKS[-1] - goal.samples) / noise.pair < 1 / goal.standard_error**2
        return
    of_sample = noise.of_sample(needed.repetitions.forks, needed.repetitions.quads)
    assert goal.information + needed.rounds / of_sample >= (1 - 1e-9) / goal.standard_error**2
    assert needed.rounds == 0 or goal.samples + needed.rounds in LOOKS
    assert needed.seconds == pytest.approx(needed.rounds * costs.of_round(needed.repetitions))
    if needed.rounds:
        assert choose_repetitions(noise, costs, goal) == needed.repetitions


@given(noises, costs_of_cases, st.floats(5e-4, 0.02), st.sampled_from(["quad", "fork", "pair"]), st.floats(1.0, 100.0))
def test_more_noise_at_any_level_never_takes_less(
    noise: Noise, costs: Costs, error: float, level: str, factor: float
) -> None:
    """But for what whole numbers of forks and quads may be off the best."""
    goal = Goal(error, 0.0, 0, LOOKS)
    noisier = replace(noise, **{level: factor * getattr(noise, level)})
    before, after = cheapest_rounds(noise, costs, goal), cheapest_rounds(noisier, costs, goal)
    assert before is not None or after is None
    assert before is None or after is None or before.seconds <= 1.25 * after.seconds


@given(noises, costs_of_cases, goals, st.floats(1.0, 10.0))
def test_a_wider_threshold_never_takes_more(noise: Noise, costs: Costs, goal: Goal, factor: float) -> None:
    strict, wide = (
        cheapest_rounds(noise, costs, replace(goal, standard_error=error))
        for error in (goal.standard_error, factor * goal.standard_error)
    )
    assert strict is None or (wide is not None and wide.seconds <= (1 + 1e-9) * strict.seconds)


def test_a_quiet_case_takes_the_first_look_and_one_whose_pairs_vary_a_later_one() -> None:
    costs = Costs(0.01, 0.02, 0.01, 0.1)
    rounds = []
    for pair in (1e-4, 0.01, 0.02, 0.05):
        needed = cheapest_rounds(Noise(1e-6, 1e-6, pair**2), costs, Goal(0.0044, 0.0, 0, LOOKS))
        rounds.append(needed and needed.rounds)
    assert rounds == [5, 8, 32, None]


def test_a_case_that_is_precise_enough_and_still_open_goes_on_as_before() -> None:
    noise, costs = Noise(0.03**2, 0.005**2, 0.002**2), Costs(0.01, 0.02, 0.01, 0.1)
    goal = Goal(0.0044, 1 / 0.004**2, 5, LOOKS[1:])
    needed = cheapest_rounds(noise, costs, goal)
    assert needed is not None
    assert (needed.rounds, needed.seconds) == (0, 0.0)
    repetitions = choose_repetitions(noise, costs, goal)
    per_round = 1 / noise.of_sample(repetitions.forks, repetitions.quads)
    assert 0.99 * goal.information / 5 < per_round < 1.3 * goal.information / 5


def test_where_no_look_is_precise_enough_a_round_brings_the_most_information_a_second() -> None:
    noise, costs = Noise(0.03**2, 0.005**2, 0.002**2), Costs(0.01, 0.02, 0.01, 0.1)
    chosen = choose_repetitions(noise, costs, Goal(1e-5, 0.0, 0, LOOKS))
    for forks, quads in ((1, 1), (2, 12), (20, 3), (5, 100), (60, 60)):
        assert informs(noise, costs, chosen) > 0.95 * informs(noise, costs, Repetitions(forks, quads))


def informs(noise: Noise, costs: Costs, repetitions: Repetitions) -> float:
    return 1 / noise.of_sample(repetitions.forks, repetitions.quads) / costs.of_round(repetitions)


def test_a_threshold_of_nothing_is_no_goal_that_can_be_reached() -> None:
    noise, costs = Noise(1e-4, 1e-5, 1e-6), Costs(0.01, 0.02, 0.01, 0.1)
    assert cheapest_rounds(noise, costs, Goal(0.0, 0.0, 0, LOOKS)) is None
    assert choose_repetitions(noise, costs, Goal(0.0, 0.0, 0, LOOKS)) == most_informative(noise, costs)


@given(noises, costs_of_cases, st.floats(1e-8, 1e-2))
def test_quads_last_as_long_as_the_next_fork_is_prepared(noise: Noise, costs: Costs, variance: float) -> None:
    """Then they cost nothing."""
    costs = replace(costs, overlaps=True)
    chosen = [quads_of_fork(noise, costs), most_informative(noise, costs).quads]
    fewest = fewest_repetitions(noise, costs, variance)
    chosen += [fewest.quads] if fewest else []
    assert all((quads + 1) * costs.quad_s > costs.prepare_s for quads in chosen)
    assert costs.of_round(Repetitions(3, costs.free_quads)) == pytest.approx(
        costs.of_round(Repetitions(3, 1)), abs=3 * costs.quad_s
    )


@given(planned, costs_of_cases)
def test_two_forks_take_the_place_of_one_where_that_costs_little(repetitions: Repetitions, costs: Costs) -> None:
    chosen = in_two_forks(repetitions, costs)
    assert chosen.forks * chosen.quads >= repetitions.quads * repetitions.forks
    assert costs.of_round(chosen) <= SPLIT * costs.of_round(repetitions) + 1e-9
    assert chosen == repetitions or (repetitions.forks, chosen.forks) == (1, 2)


def test_two_forks_in_place_of_one_are_no_exception() -> None:
    assert in_two_forks(Repetitions(1, 40), Costs(0.01, 0.05, 0.01, 0.2)) == Repetitions(2, 20)
    assert in_two_forks(Repetitions(1, 40), Costs(0.01, 5.0, 0.01, 0.2)) == Repetitions(1, 40)


rounds_of_cases = st.dictionaries(st.text("abcdef", min_size=1, max_size=2), st.tuples(planned, costs_of_cases))


@given(rounds_of_cases, st.floats(0, 5) | st.floats(0, 5000))
def test_waiting_for_forks_and_for_the_next_pair_is_filled_with_quads_that_cost_nothing(
    cases: dict[str, tuple[Repetitions, Costs]], start_s: float
) -> None:
    plan = {case_id: repetitions for case_id, (repetitions, _) in cases.items()}
    costs = {case_id: cost for case_id, (_, cost) in cases.items()}
    filled = fill(plan, costs, start_s)
    preparing_s = start_s + sum(
        plan[case_id].forks * cost.prepare_s for case_id, cost in costs.items() if cost.overlaps
    )
    one_quad_s = sum(plan[case_id].forks * cost.quad_s for case_id, cost in costs.items())

    def measuring_s(repetitions: dict[str, Repetitions]) -> float:
        return sum(
            repetitions[case_id].forks * (cost.fork_s + repetitions[case_id].quads * cost.quad_s)
            for case_id, cost in costs.items()
        )

    for case_id, repetitions in plan.items():
        assert filled[case_id].forks == repetitions.forks
        assert filled[case_id].quads >= repetitions.quads
    assert measuring_s(filled) <= max(measuring_s(plan), preparing_s) * (1 + 1e-9)
    assert not cases or measuring_s(filled) + one_quad_s > preparing_s * (1 - 1e-9)


@given(rounds_of_cases, st.floats(0, 5))
def test_no_case_holds_up_all_others(cases: dict[str, tuple[Repetitions, Costs]], start_s: float) -> None:
    """Nor the start of a pair, unless a single fork with the quads that cost nothing takes longer."""
    plan = {case_id: repetitions for case_id, (repetitions, _) in cases.items()}
    costs = {case_id: cost for case_id, (_, cost) in cases.items()}
    shared = share_out(plan, costs, start_s)
    seconds = {case_id: costs[case_id].of_round(plan[case_id]) for case_id in plan}
    for case_id, repetitions in shared.items():
        cost, others_s = costs[case_id], sum(seconds.values()) - seconds[case_id]
        limit_s = max(start_s, others_s) * (1 + 1e-9)
        least = Repetitions(1, cost.free_quads)
        assert repetitions.forks <= plan[case_id].forks
        if len(plan) == 1 or seconds[case_id] <= limit_s:
            assert repetitions == plan[case_id]
        else:
            assert cost.of_round(repetitions) <= max(
                limit_s + cost.pair_s + cost.fork_s + cost.prepare_s, cost.of_round(least)
            )


def test_a_case_may_take_as_long_as_the_start_of_a_pair() -> None:
    costs = dict.fromkeys("ab", Costs(0.01, 0.02, 0.03))
    plan = {"a": Repetitions(10, 20), "b": Repetitions(1, 2)}  # 2.3 s and 0.05 s
    assert share_out(plan, costs, 3.0) == plan
    assert share_out(plan, costs, 1.0) == {"a": Repetitions(4, 20), "b": Repetitions(1, 2)}
    assert share_out(plan, costs, 0.0) == {"a": Repetitions(1, 4), "b": Repetitions(1, 2)}


@given(costs_of_cases, costs_of_cases)
def test_costs_of_several_rounds_lie_between_those_of_each(costs: Costs, later: Costs) -> None:
    between = costs.between(later)
    for name in ("quad_s", "prepare_s", "beside_s", "pair_s"):
        low, high = sorted((getattr(costs, name), getattr(later, name)))
        assert low * (1 - 1e-9) <= getattr(between, name) <= high * (1 + 1e-9)
    assert between.overlaps == costs.overlaps


def test_what_a_case_spends_is_time_of_the_measuring_processor() -> None:
    """Not what is prepared on another one meanwhile."""
    assert CaseTime(2, 10, prepared_s=9.0, waited_s=1.0, beside_s=0.5, quads_s=4.0).spent_s == 5.5


def test_no_quads_are_chosen_by_a_noise_that_is_none() -> None:
    still = Noise(LEAST_VARIANCE, LEAST_VARIANCE, LEAST_VARIANCE)
    needed = cheapest_rounds(still, Costs(0.01, 0.005, 0.01, 0.1), Goal(0.0044, 0.0, 0, LOOKS))
    assert needed is not None
    assert (needed.rounds, needed.repetitions) == (5, Repetitions(1, 1))


def test_a_case_that_needs_pairs_rather_than_precision_gets_them_cheaply() -> None:
    """Before its second look: the first one, and three fresh pairs after it, take pairs however precise it is."""
    noise, costs = Noise(0.05**2, 0.01**2, 0.001**2), Costs(0.003, 0.02, 0.01, pair_s=1.0)
    precise = Goal(0.004, 1e5, 5, (8, 13))
    waiting = replace(precise, needs_pairs=True)
    assert choose_repetitions(noise, costs, waiting) == Repetitions(1, costs.free_quads)
    informed = choose_repetitions(noise, costs, precise)
    assert costs.of_round(informed) > costs.of_round(choose_repetitions(noise, costs, waiting))
