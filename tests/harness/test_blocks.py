"""Block sizes, the order of blocks, and what they boil down to."""

import math
import random
import statistics
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from toy_bench import toy_case

from harness.blocks import BLOCK_NS, QUADS, BlockPlan, CaseRequest, measure_blocks, plan_blocks, summarise
from records.measurement import SIDES, Side

call_times = st.floats(min_value=10, max_value=2e10)  # 10 ns to 20 s


@pytest.mark.parametrize(
    ("call_ns", "inner", "calls", "discard", "quads"),
    [
        (20, 250, 500, 60, 6),  # tens of nanoseconds: timed 250 at a time
        (20_000, 1, 125, 15, 6),
        (1_000_000, 1, 2, 2, 6),
        (30_000_000, 1, 1, 1, 1),
        (5_000_000_000, 1, 1, 1, 1),
    ],
)
def test_sizes_from_nanoseconds_to_seconds(call_ns: float, inner: int, calls: int, discard: int, quads: int) -> None:
    plan = plan_blocks({"control": call_ns, "treatment": call_ns}, "screen")
    assert plan == BlockPlan(inner, dict.fromkeys(SIDES, calls), dict.fromkeys(SIDES, discard), quads)


@given(call_times, call_times)
def test_nothing_in_the_plan_favours_a_side(control: float, treatment: float) -> None:
    plan = plan_blocks({"control": control, "treatment": treatment}, "screen")
    mirrored = plan_blocks({"control": treatment, "treatment": control}, "screen")
    assert (plan.inner, plan.quads) == (mirrored.inner, mirrored.quads)
    assert plan.calls["control"] == mirrored.calls["treatment"]
    assert plan.discard["control"] == mirrored.discard["treatment"]
    if max(control, treatment) <= 2 * min(control, treatment):
        assert plan.calls["control"] == plan.calls["treatment"]


@given(call_times, call_times, st.sampled_from(["screen", "own"]))
def test_blocks_are_neither_empty_nor_endless(control: float, treatment: float, stage: Any) -> None:
    call_ns: dict[Side, float] = {"control": control, "treatment": treatment}
    plan = plan_blocks(call_ns, stage)
    assert 1 <= plan.quads <= QUADS[stage]
    for side in SIDES:
        assert plan.calls[side] >= 1
        assert plan.discard[side] >= 1
        assert plan.calls[side] * plan.inner * call_ns[side] <= 2 * max(BLOCK_NS, plan.inner * max(call_ns.values()))


class RecordingWorker:
    """Answers blocks with a constant, and notes who was asked."""

    def __init__(self, side: Side, log: list[Side]) -> None:
        self.side, self.log = side, log

    def ask(self, request: dict[str, Any], timeout_s: float) -> dict[str, Any]:
        self.log.append(self.side)
        return {"ns": [100.0] * request["calls"]}


def asked(seed: int, quads: int) -> str:
    log: list[Side] = []
    pair: Any = {side: RecordingWorker(side, log) for side in SIDES}
    plan = BlockPlan(1, dict.fromkeys(SIDES, 2), dict.fromkeys(SIDES, 1), quads)
    measure_blocks(pair, toy_case("a"), plan, random.Random(seed))
    return "".join("A" if side == "control" else "B" for side in log)


def test_quads_are_abba_or_baab_by_the_seed() -> None:
    order = asked(seed=1, quads=400)
    quads = [order[i : i + 4] for i in range(0, len(order), 4)]
    assert set(quads) == {"ABBA", "BAAB"}
    # A fair coin: outside 140..260 of 400 once in a billion seeds.
    assert 140 < quads.count("ABBA") < 260
    assert order == asked(seed=1, quads=400)
    assert order != asked(seed=2, quads=400)


block = st.lists(st.floats(min_value=1, max_value=1e9), min_size=1, max_size=9)
quads_of_blocks = st.lists(st.tuples(block, block, block, block), min_size=1, max_size=6)


@given(quads_of_blocks)
def test_summary_against_a_naive_oracle(quads: list[tuple[list[float], ...]]) -> None:
    blocks: dict[Side, list[list[float]]] = {"control": [], "treatment": []}
    log_ratios = []
    for a1, a2, b1, b2 in quads:
        blocks["control"] += [a1, a2]
        blocks["treatment"] += [b1, b2]
        quartiles = [sorted(one)[len(one) // 4] for one in (a1, a2, b1, b2)]
        log_ratios.append(math.log(math.sqrt(quartiles[2] * quartiles[3]) / math.sqrt(quartiles[0] * quartiles[1])))
    plan = BlockPlan(3, {"control": 5, "treatment": 4}, dict.fromkeys(SIDES, 1), len(quads))
    sample = summarise(blocks, plan, toy_case("a"), "own", 7)
    assert sample.log_ratio == pytest.approx(statistics.median(log_ratios), abs=1e-9)
    assert min(map(min, blocks["control"])) <= sample.control * (1 + 1e-9)
    assert (sample.case_id, sample.stage, sample.round) == ("a", "own", 7)
    assert (sample.blocks, sample.calls) == (2 * len(quads), 2 * len(quads) * 3 * 4)


def test_drift_that_is_linear_in_time_cancels() -> None:
    """Both sides alike, and every block 1 % slower than the one before: no difference is found."""
    time = iter(range(1000))
    blocks: dict[Side, list[list[float]]] = {"control": [], "treatment": []}
    for first, second in [("control", "treatment"), ("treatment", "control")] * 3:
        for side in (first, second, second, first):
            blocks[side].append([100 * 1.01 ** next(time)])  # type: ignore[index]
    plan = BlockPlan(1, dict.fromkeys(SIDES, 1), dict.fromkeys(SIDES, 1), 6)
    assert summarise(blocks, plan, toy_case("a"), "screen", 0).log_ratio == pytest.approx(0, abs=1e-12)


def test_injection_reaches_the_treatment_alone() -> None:
    request = CaseRequest(toy_case("a"), seed=3, inject=0.05)
    control, treatment = request.message("control"), request.message("treatment")
    assert (control.pop("slow"), treatment.pop("slow")) == (False, True)
    assert control["inject"] == 0.05, "both sides calibrate the injected work"
    assert control == treatment
