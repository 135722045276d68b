"""One case on one ready process pair: calibrated, balanced blocks, boiled down to a PairSample.

Blocks come in quads, ABBA or BAAB by a recorded coin: within a quad, drift that is linear in time cancels, and
neither side is always first.  Every block begins with discarded calls, whether the side switched or not.
"""

import math
import random
import statistics
import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from harness.process import Worker
from records import Case, PairSample, Stage
from records.measurement import SIDES, Side

BLOCK_NS = 2_500_000  # timed calls of one block
DISCARD_NS = 300_000  # calls that warm the caches after a switch
INNER_NS = 5_000  # shortest timed region: reading the clock costs some 50 ns
CASE_NS = 400_000_000  # slow calls get fewer quads, to stay near this much timed work a case
QUADS = {"screen": 6, "own": 12}  # few cases are left by then: measure longer
MAX_LOPSIDED = 2.0  # beyond this ratio the sides' blocks hold different numbers of calls

Pair = dict[Side, Worker]


@dataclass(frozen=True)
class BlockPlan:
    """How a case is measured in one process pair. ``calls`` and ``discard`` count timed regions of ``inner`` calls."""

    inner: int
    calls: dict[Side, int]
    discard: dict[Side, int]
    quads: int


def plan_blocks(call_ns: dict[Side, float], stage: Stage) -> BlockPlan:
    """Sizes from both sides' nanoseconds a call: from tens of nanoseconds to many seconds.

    Sides of similar speed get equal counts, so that their quartiles are the same statistic.
    """
    slow, fast = max(call_ns.values()), min(call_ns.values())
    if slow <= MAX_LOPSIDED * fast:
        call_ns = dict.fromkeys(SIDES, math.sqrt(slow * fast))
    inner = max(1, math.ceil(INNER_NS / max(call_ns.values())))
    calls: dict[Side, int] = {}
    discard: dict[Side, int] = {}
    for side in SIDES:
        region = inner * call_ns[side]
        calls[side] = max(1, round(BLOCK_NS / region))
        discard[side] = max(2 if region < BLOCK_NS else 1, round(DISCARD_NS / region))
    quad_ns = sum(2 * (calls[side] + discard[side]) * inner * call_ns[side] for side in SIDES)
    quads = max(1, min(QUADS[stage], math.floor(CASE_NS / quad_ns)))
    return BlockPlan(inner, calls, discard, quads)


@dataclass(frozen=True)
class CaseRequest:
    """What the worker needs to prepare a case: the same for both sides, but for which one an injection slows."""

    case: Case
    seed: int
    inject: float = 0.0  # share by which the treatment side is slowed

    def message(self, side: Side) -> dict[str, Any]:
        """The worker's "prepare" request."""
        case = self.case
        description = {
            "id": case.id,
            "operator": case.operator,
            "direction": case.direction,
            "inputs": case.inputs,
            "dtype": case.dtype,
            "context": case.context,
        }
        # Both sides calibrate the injected work, so that both have made the same calls; only one is slowed by it.
        slow = side == "treatment"
        return {"op": "prepare", "case": description, "seed": self.seed, "inject": self.inject, "slow": slow}


def measure_blocks(
    pair: Pair, case: Case, plan: BlockPlan, coin: random.Random, deadline: float = math.inf
) -> dict[Side, list[list[float]]]:
    """Run the plan's quads; returns, per side, two blocks a quad in order, each a list of ns a call.

    After ``deadline`` (of the monotonic clock) no further quad is begun.

    Raises:
        WorkerLostError, CaseRefusedError: as ``Worker.ask``.
    """
    blocks: dict[Side, list[list[float]]] = {side: [] for side in SIDES}
    for number in range(plan.quads):
        if number and time.monotonic() >= deadline:
            break
        first, second = coin.sample(SIDES, 2)
        for side in (first, second, second, first):
            request = {
                "op": "block",
                "discard": plan.discard[side],
                "calls": plan.calls[side],
                "inner": plan.inner,
            }
            blocks[side].append(pair[side].ask(request, time_left(case, deadline))["ns"])
    return blocks


def time_left(case: Case, deadline: float) -> float:
    """Seconds that one request of the case may take: its own timeout, or less when the run ends before."""
    return max(0.001, min(case.timeout_s, deadline - time.monotonic()))


def lower_quartile(values: Sequence[float]) -> float:
    """The order statistic a quarter of the way up: what a call costs when nothing disturbs it."""
    return sorted(values)[len(values) // 4]


def summarise(
    blocks: dict[Side, list[list[float]]], plan: BlockPlan, case: Case, stage: Stage, round_number: int
) -> PairSample:
    """Boil a pair's blocks down to process values and one log ratio, taken quad by quad."""
    log_values = {side: [math.log(lower_quartile(block)) for block in blocks[side]] for side in SIDES}
    quad_means = {
        side: [statistics.fmean(logs[i : i + 2]) for i in range(0, len(logs), 2)] for side, logs in log_values.items()
    }
    differences = [
        treatment - control for control, treatment in zip(quad_means["control"], quad_means["treatment"], strict=True)
    ]
    return PairSample(
        case_id=case.id,
        stage=stage,
        round=round_number,
        control=math.exp(statistics.median(log_values["control"])),
        treatment=math.exp(statistics.median(log_values["treatment"])),
        log_ratio=statistics.median(differences),
        blocks=len(log_values["control"]),
        calls=len(log_values["control"]) * plan.inner * min(plan.calls.values()),
    )
