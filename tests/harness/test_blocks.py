"""Block sizes, the order of blocks, and what they boil down to."""

import itertools
import math
import random
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from toy_bench import toy_case

from opduel.harness.planning.effort import PILOT
from opduel.harness.processes.case_request import CaseRequest
from opduel.harness.rounds.block_plan import (
    BLOCK_NS,
    FEW_CALLS,
    LONG_BLOCK_NS,
    LONG_NS,
    SWITCHES,
    BlockPlan,
    plan_blocks,
)
from opduel.harness.rounds.blocks import SETTLED_BELOW_NS, Block, BlockTimer
from opduel.harness.rounds.fork_values import ForkValue, compare_neighbours, middle_mean, pair_sample, summarise
from opduel.records.measurement import SIDES, Side

call_times = st.floats(min_value=10, max_value=2e10)  # 10 ns to 20 s


@pytest.mark.parametrize(
    ("call_ns", "inner", "calls", "discard", "quads", "once"),
    [
        (20, 250, 120, 10, 12, False),  # tens of nanoseconds: timed 250 at a time
        (20_000, 1, 30, 2, 12, False),
        (100_000, 1, 8, 1, 12, False),
        (400_000, 1, 8, 1, 4, False),
        (1_000_000, 1, 5, 0, 3, False),
        (3_000_000, 1, 2, 0, 3, False),
        (30_000_000, 1, 1, 0, 1, False),
        (900_000_000, 1, 1, 0, 1, False),
        (5_000_000_000, 1, 1, 0, 1, True),
    ],
)
def test_sizes_from_nanoseconds_to_seconds(
    call_ns: float, inner: int, calls: int, discard: int, quads: int, once: bool
) -> None:
    plan = plan_blocks({"control": call_ns, "treatment": call_ns})
    takes_ns = quads * (2 if once else 4) * (calls + SWITCHES * discard / 2) * inner * call_ns
    sizes = plan.inner, plan.calls, plan.discard, plan.quads, plan.once
    assert sizes == (inner, dict.fromkeys(SIDES, calls), dict.fromkeys(SIDES, discard), quads, once)
    assert plan.takes_ns == pytest.approx(takes_ns)


@given(call_times)
@example(950_000.0)  # the longest calls of which one is discarded come in blocks of five
def test_at_most_an_eighth_of_a_blocks_time_is_discarded(call_ns: float) -> None:
    plan = plan_blocks(dict.fromkeys(SIDES, call_ns))
    assert SWITCHES * plan.discard["control"] <= 2 * plan.calls["control"] / 8


@pytest.mark.parametrize("quads", [1, 7, 300])
def test_quads_are_as_many_as_the_noise_asks_for(quads: int) -> None:
    pilot = plan_blocks(dict.fromkeys(SIDES, 20_000))
    plan = plan_blocks(dict.fromkeys(SIDES, 20_000), quads=quads)
    assert plan.quads == quads
    assert plan.takes_ns == pytest.approx(pilot.takes_ns / pilot.quads * quads)


@pytest.mark.parametrize(
    ("call_ns", "inner", "calls", "discard"),
    [(20, 250, 500, 60), (20_000, 1, 125, 15), (1_000_000, 1, 2, 0), (30_000_000, 1, 1, 0)],
)
def test_blocks_that_are_asked_for_one_by_one_are_long(call_ns: float, inner: int, calls: int, discard: int) -> None:
    plan = plan_blocks({"control": call_ns, "treatment": call_ns}, in_turns=False)
    assert plan.inner == inner
    assert (plan.calls, plan.discard) == (dict.fromkeys(SIDES, calls), dict.fromkeys(SIDES, discard))


@pytest.mark.parametrize(
    ("call_ns", "prepared_s", "quads", "once"),
    [
        (20_000, 60, 12, False),  # all quads in any case
        (600_000_000, 0.5, 1, False),
        (600_000_000, 5, 2, False),
        (600_000_000, 60, 3, False),
        (3_000_000_000, 11, 1, True),
        (3_000_000_000, 12, 1, False),
        (3_000_000_000, 25, 2, False),
    ],
)
def test_a_pilot_is_timed_for_as_long_as_it_was_prepared(
    call_ns: float, prepared_s: float, quads: int, once: bool
) -> None:
    plan = plan_blocks({"control": call_ns, "treatment": call_ns}, prepared_ns=1e9 * prepared_s)
    assert (plan.quads, plan.once) == (quads, once)


@given(call_times, call_times)
def test_nothing_in_the_plan_favours_a_side(control: float, treatment: float) -> None:
    plan = plan_blocks({"control": control, "treatment": treatment})
    mirrored = plan_blocks({"control": treatment, "treatment": control})
    assert (plan.inner, plan.quads) == (mirrored.inner, mirrored.quads)
    assert plan.calls["control"] == mirrored.calls["treatment"]
    assert plan.discard["control"] == mirrored.discard["treatment"]
    if max(control, treatment) <= 2 * min(control, treatment):
        assert plan.calls["control"] == plan.calls["treatment"]


@given(call_times, call_times)
def test_blocks_are_neither_empty_nor_endless(control: float, treatment: float) -> None:
    call_ns: dict[Side, float] = {"control": control, "treatment": treatment}
    plan = plan_blocks(call_ns)
    assert 1 <= plan.quads <= PILOT.quads
    for side in SIDES:
        assert plan.calls[side] >= (2 if plan.inner * call_ns[side] < LONG_NS / 2 else 1)
        region_ns, slower_ns = plan.inner * call_ns[side], plan.inner * max(call_ns.values())
        longest_ns = max(BLOCK_NS, min(FEW_CALLS * region_ns, LONG_BLOCK_NS), slower_ns)
        assert plan.calls[side] * region_ns <= 2 * longest_ns


class RecordingWorker:
    """Answers blocks with a constant, and notes who was asked."""

    def __init__(self, side: Side, log: list[Side]) -> None:
        self.side, self.log = side, log

    def ask(self, request: dict[str, Any], timeout_s: float, while_waiting: object = None) -> dict[str, Any]:
        self.log.append(self.side)
        return {"low": 100.0, "timed_ns": 100.0 * request["calls"], "calls": request["calls"]}


def order_of_blocks(seed: int, quads: int) -> str:
    log: list[Side] = []
    pair: Any = {side: RecordingWorker(side, log) for side in SIDES}
    plan = BlockPlan(1, dict.fromkeys(SIDES, 2), dict.fromkeys(SIDES, 1), quads, 1e9)
    BlockTimer(pair, toy_case("a"), random.Random(seed)).measure_blocks(plan)
    return "".join("A" if side == "control" else "B" for side in log)


def test_quads_are_abba_or_baab_by_the_seed() -> None:
    order = order_of_blocks(seed=1, quads=400)
    quads = [order[i : i + 4] for i in range(0, len(order), 4)]
    assert set(quads) == {"ABBA", "BAAB"}
    # A binomial of one half: outside 140..260 of 400 once in a billion seeds.
    assert 140 < quads.count("ABBA") < 260
    assert order == order_of_blocks(seed=1, quads=400)
    assert order != order_of_blocks(seed=2, quads=400)


block = st.builds(Block, st.floats(min_value=1, max_value=1e9), st.just(1e6), st.integers(1, 60))
quads_of_blocks = st.lists(st.tuples(block, block, block, block), min_size=1, max_size=6)


@given(quads_of_blocks)
def test_summary_against_a_naive_oracle(quads: list[tuple[Block, ...]]) -> None:
    """Of fewer than 16 pairs of neighbours there is one group: the mean of the middle half of their differences."""
    blocks: dict[Side, list[Block]] = {"control": [], "treatment": []}
    for a1, a2, b1, b2 in quads:
        blocks["control"] += [a1, a2]
        blocks["treatment"] += [b1, b2]
    ratios = sorted(math.log(b.low / a.low) for a1, a2, b1, b2 in quads for a, b in ((a1, b1), (a2, b2)))
    quarter = len(ratios) // 4
    middle = ratios[quarter : len(ratios) - quarter]
    value = summarise(blocks)
    assert value.log_ratio == pytest.approx(sum(middle) / len(middle), abs=1e-9)
    assert min(block.low for block in blocks["control"]) <= value.control * (1 + 1e-9)
    assert value.blocks == 2 * len(quads)
    assert value.calls == min(sum(block.calls for block in blocks[side]) for side in SIDES)


@pytest.mark.parametrize("slow_noise", [0.01, 0.1], ids=["the speed wanders", "bursts"])
def test_the_standard_error_is_what_the_estimate_varies_by(slow_noise: float) -> None:
    """Half of the pairs of neighbours are 40 % slower, and vary by 1 % as the others, or ten times as much."""
    rng = random.Random(1)
    values = []
    for _ in range(400):
        control, treatment = [], []
        for number in range(48):
            speed, noise = (math.log(1.4), slow_noise) if number % 2 else (0.0, 0.01)
            control.append(speed + rng.gauss(0, noise) / math.sqrt(2))
            treatment.append(speed + rng.gauss(0, noise) / math.sqrt(2))
        values.append(compare_neighbours(control, treatment))
    spread = math.sqrt(sum(estimate**2 for estimate, _ in values) / len(values))
    stated = math.sqrt(sum(error**2 for _, error in values) / len(values))
    assert 0.75 < stated / spread < 1.25
    best = 0.01 / math.sqrt(48 if slow_noise == 0.01 else 24)  # of the mean of all that are alike
    assert spread < 1.3 * best


fork_values = st.builds(
    ForkValue,
    control=st.floats(1, 1e9),
    treatment=st.floats(1, 1e9),
    log_ratio=st.floats(-1, 1),
    standard_error=st.floats(0, 1),
    blocks=st.integers(1, 16),
    calls=st.integers(1, 1000),
)


@given(st.lists(fork_values, min_size=1, max_size=9))
def test_a_pair_is_the_middle_of_its_forks(forks: list[ForkValue]) -> None:
    sample = pair_sample(CaseRequest(toy_case("a"), 1, stage="confirmation"), 7, forks)
    assert (sample.case_id, sample.stage, sample.round, sample.forks) == ("a", "confirmation", 7, len(forks))
    middle = sorted(fork.log_ratio for fork in forks)[len(forks) // 4 : len(forks) - len(forks) // 4]
    assert sample.log_ratio == pytest.approx(sum(middle) / len(middle), abs=1e-12)
    assert sample.fork_ratios == tuple((fork.log_ratio, fork.standard_error) for fork in forks)
    assert sample.blocks == sum(fork.blocks for fork in forks)
    assert sample.calls == sum(fork.calls for fork in forks)
    assert min(fork.control for fork in forks) <= sample.control * (1 + 1e-9)


def test_one_fork_in_four_may_be_far_off() -> None:
    assert middle_mean([0.01, 0.02, 0.03, 9.0]) == pytest.approx(0.025)
    assert middle_mean([0.01, 0.03]) == pytest.approx(0.02)


def of_pace(quads: int, pace: Callable[[Side, int], float]) -> ForkValue:
    """What ``quads`` say, ABBA and BAAB in turn, whose blocks take ``pace`` by side and number."""
    number = itertools.count()
    blocks: dict[Side, list[Block]] = {"control": [], "treatment": []}
    orders: list[tuple[Side, Side]] = [("control", "treatment"), ("treatment", "control")]
    for first, second in (orders * quads)[:quads]:
        for side in (first, second, second, first):
            blocks[side].append(Block(pace(side, next(number)), 100.0, 1))
    return summarise(blocks)


@pytest.mark.parametrize("quads", [1, 2, 3, 4, 5, 24])
@pytest.mark.parametrize("drift", [1.01, 1 / 1.01])
def test_drift_that_is_linear_in_time_cancels(quads: int, drift: float) -> None:
    """Both sides alike, and every block 1 % slower than the one before, or faster: no difference is found."""
    value = of_pace(quads, lambda side, number: 100 * drift**number)
    assert value.log_ratio == pytest.approx(0, abs=1e-12)


def test_what_disturbs_neighbouring_blocks_alike_cancels() -> None:
    value = of_pace(6, lambda side, number: {"control": 100.0, "treatment": 103.0}[side] * (1 + number // 2 % 5))
    assert value.log_ratio == pytest.approx(math.log(1.03), abs=1e-12)


@pytest.mark.parametrize("disturbed", [0, 16, 30])
def test_what_disturbs_most_of_one_sides_blocks_does_not_count(disturbed: int) -> None:
    """As long as a group of them is as fast as it can be; the truth is 1 %."""
    slower = {"control": 100.0, "treatment": 101.0}
    value = of_pace(24, lambda side, number: slower[side] * (3 if side == "control" and number < 2 * disturbed else 1))
    assert value.log_ratio == pytest.approx(math.log(1.01), abs=1e-4)


@pytest.mark.parametrize("slowed", [12, 24])
def test_a_side_that_is_slower_in_half_of_its_blocks_or_in_all(slowed: int) -> None:
    value = of_pace(6, lambda side, number: 103.0 if side == "treatment" and number < slowed else 100.0)
    assert value.log_ratio == pytest.approx(math.log(1.03) * slowed / 24, abs=1e-12)


class SteadyProcess:
    """Every call takes the same, whatever was said of it."""

    def ask(self, request: dict[str, Any], timeout_s: float, while_waiting: object = None) -> dict[str, Any]:
        assert request["calls"] >= 1
        assert request["inner"] >= 1
        calls = request["calls"] * request["inner"]
        return {"low": 250.0, "timed_ns": 250.0 * calls, "calls": calls}


@given(call_times, call_times)
def test_settling_tells_what_a_call_takes_here(control: float, treatment: float) -> None:
    processes: Any = {side: SteadyProcess() for side in SIDES}
    call_ns: dict[Side, float] = {"control": control, "treatment": treatment}
    settled_ns = BlockTimer(processes, toy_case("a"), random.Random(1)).settle(call_ns)
    assert settled_ns == (call_ns if max(control, treatment) >= SETTLED_BELOW_NS else dict.fromkeys(SIDES, 250.0))


def test_a_call_of_seconds_is_timed_once_a_side_in_random_order() -> None:
    orders = set()
    for seed in range(20):
        log: list[Side] = []
        pair: Any = {side: RecordingWorker(side, log) for side in SIDES}
        plan = plan_blocks(dict.fromkeys(SIDES, 3e9))
        blocks = BlockTimer(pair, toy_case("a"), random.Random(seed)).measure_blocks(plan)
        assert summarise(blocks).blocks == 1
        orders.add(tuple(log))
    assert orders == {SIDES, SIDES[::-1]}


def test_injection_reaches_the_treatment_alone() -> None:
    request = CaseRequest(toy_case("a"), seed=3, inject=0.05)
    control, treatment = request.message("control"), request.message("treatment")
    assert (control.pop("slow"), treatment.pop("slow")) == (False, True)
    assert control["inject"] == 0.05, "both sides calibrate the injected work"
    assert control == treatment
