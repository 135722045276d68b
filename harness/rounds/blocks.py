"""One case on one ready process pair: balanced blocks of timed calls.

Blocks come in quads, ABBA or BAAB by a seeded random choice: within a quad, drift that is linear in time cancels, and
neither side is always first.  After a switch from one side to the other the first short calls are discarded.  Calls of
a second and more that are prepared in less time than a quad takes are timed once a side, in random order: time is
better spent on further processes.
"""

import math
import random
import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Any

from opduel.harness.processes.case_request import time_left
from opduel.harness.processes.channel import Waiting
from opduel.harness.processes.process import CaseProcess
from opduel.harness.processes.worker_errors import AskError, merged_error
from opduel.harness.rounds.block_plan import CALLS_ALONE, IN_TURNS_NS, LATE, BlockPlan, Regions
from opduel.harness.rounds.turns import ask_in_turns
from opduel.records import Case
from opduel.records.measurement import SIDES, Side

LOW = 0.1  # the quantile of a block's calls that stands for it: what a call costs when nothing disturbs it
SETTLE_NS = 1_000_000  # calls on the measuring processor, to know what one takes there
SETTLED_BELOW_NS = 100_000_000  # a longer region isn't tried again where it is measured
OTHER_BLOCKS = 4  # asked of the other side when one fails: its preparing may have made fewer calls

Processes = dict[Side, CaseProcess]


@dataclass(frozen=True)
class Block:
    """What a block of one side's calls says: ``low``, its lower decile in ns a call; all its timed calls together took
    ``timed_ns``, and there were so many."""

    low: float
    timed_ns: float
    calls: int

    @classmethod
    def of(cls, answer: Mapping[str, Any]) -> "Block":
        """Read the worker's answer."""
        return cls(float(answer["low"]), float(answer["timed_ns"]), int(answer["calls"]))


def settle(
    processes: Processes,
    case: Case,
    call_ns: dict[Side, float],
    rng: random.Random,
    deadline: float = math.inf,
    regions: Regions = CALLS_ALONE,
) -> dict[Side, float]:
    """Measure what a call takes where it is measured, in ns, from what it took where it was prepared: maybe beside
    others.

    A long one is not asked for again: its blocks are of one call, whatever that takes. Raises AskError: with the
    side, or "both"."""
    requests: dict[Side, dict[str, Any]] = {}
    for side in SIDES:
        inner = regions.calls(call_ns[side])
        region = inner * call_ns[side] + regions.around_ns
        if region >= SETTLED_BELOW_NS:
            return call_ns
        requests[side] = _request(1, max(1, round(SETTLE_NS / region)), inner, LATE * max(SETTLE_NS, region))
    order = rng.sample(SIDES, 2)
    return {side: _block(side, processes, requests[side], case, deadline).low for side in order}


def measure_blocks(
    processes: Processes,
    case: Case,
    plan: BlockPlan,
    rng: random.Random,
    deadline: float = math.inf,
    between: Callable[[], object] = lambda: None,
) -> dict[Side, list[Block]]:
    """Run the plan's quads; returns, per side, two blocks a quad in order, or one where there are no quads.

    After ``deadline`` (of the monotonic clock) no further quad is begun. ``between`` is called after each block, and
    now and then within a long one. Raises AskError: with the side, or "both"."""
    requests, switched_from = _requests(plan), None
    blocks: dict[Side, list[Block]] = {side: [] for side in SIDES}
    for number, quad in enumerate(plan.order(rng)):
        if number and time.monotonic() >= deadline:
            break
        for side in quad:
            request = requests[side] if side != switched_from else {**requests[side], "discard": 0}
            blocks[side].append(_block(side, processes, request, case, deadline, between))
            switched_from = side
            between()
    return blocks


def measure_in_turns(
    processes: Processes,
    case: Case,
    plan: BlockPlan,
    rng: random.Random,
    deadline: float = math.inf,
    advance: Callable[[], Iterable[Waiting]] = tuple,
) -> dict[Side, list[Block]]:
    """Measure as ``measure_blocks`` does, with nothing between a block and the next: the processes hand over to each
    other.

    The controller asks for as many quads at a time as take ``IN_TURNS_NS``, or for one. ``advance``: what goes on
    meanwhile, as in ``ask_in_turns``. Where not one quad comes of it, because there is too little time or the
    processes can't reach each other, blocks are asked for one by one. Raises AskError: with the side, or "both"."""
    blocks: dict[Side, list[Block]] = {side: [] for side in SIDES}
    at_once, quad_blocks = plan.quads_within(IN_TURNS_NS), 1 if plan.once else 2
    for first in range(0, plan.quads, at_once):
        if first and time.monotonic() >= deadline:
            break
        chunk = replace(plan, quads=min(at_once, plan.quads - first))
        order = [side for quad in chunk.order(rng) for side in quad]
        answers, errors = ask_in_turns(processes, _requests(plan), order, time_left(case, deadline), advance)
        if len(errors) == 1:
            (failed,) = errors
            errors |= _errors_of_other(failed, processes, _requests(plan)[_other(failed)], case, deadline)
        if errors:
            raise merged_error(errors)
        complete = min(len(answers[side]) for side in SIDES) // quad_blocks * quad_blocks
        for side in SIDES:
            blocks[side] += [Block.of(answer) for answer in answers[side][:complete]]
        if complete < quad_blocks * chunk.quads:
            break
    if not blocks["control"]:
        return measure_blocks(processes, case, plan, rng, deadline, advance)
    return blocks


def _other(side: Side) -> Side:
    (other,) = set(SIDES) - {side}
    return other


def _requests(plan: BlockPlan) -> dict[Side, dict[str, Any]]:
    return {side: _request(plan.discard[side], plan.calls[side], plan.inner, plan.late_ns) for side in SIDES}


def _request(discard: int, calls: int, inner: int, late_ns: float) -> dict[str, Any]:
    numbers = {"discard": discard, "calls": calls, "inner": inner}
    return {"op": "low_block", **numbers, "most_ns": late_ns, "share": LOW}


def _block(
    side: Side,
    processes: Processes,
    request: Mapping[str, Any],
    case: Case,
    deadline: float,
    while_waiting: Callable[[], object] = lambda: None,
) -> Block:
    """Measure one block of ``side``. When it fails, the other side is asked for some, too: "both" is worth knowing.
    Raises AskError: with the side, or "both"."""
    try:
        return Block.of(processes[side].ask(request, time_left(case, deadline), while_waiting))
    except AskError as error:
        errors = {side: error}
    raise merged_error(errors | _errors_of_other(side, processes, request, case, deadline))


def _errors_of_other(
    side: Side,
    processes: Processes,
    request: Mapping[str, Any],
    case: Case,
    deadline: float,
) -> dict[Side, AskError]:
    """Return the error of the other side, if that fails, too, in further blocks."""
    other = _other(side)
    try:
        for _ in range(OTHER_BLOCKS):
            processes[other].ask(request, time_left(case, deadline))
    except AskError as error:
        return {other: error}
    return {}
