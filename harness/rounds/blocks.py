"""One case on one ready process pair: balanced blocks of timed calls.

Blocks come in quads, ABBA or BAAB by a seeded random choice: within a quad, drift that is linear in time cancels, and
neither side is always first.  After a switch the first short calls are discarded.  Calls of a second and more that are
prepared in less time than a quad takes are timed once a side: time is better spent on further processes.
"""

import math
import os
import random
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
from itertools import groupby
from typing import Any

from opduel.harness.processes.case_request import time_left
from opduel.harness.processes.channel import Background, Waiting, wait_for_any
from opduel.harness.processes.process import CaseProcess
from opduel.harness.processes.worker_errors import AskError, merged_error
from opduel.harness.rounds.block_plan import CALLS_ALONE, IN_TURNS_NS, LATE, BlockPlan, Regions
from opduel.records import Case
from opduel.records.measurement import SIDES, Side

LOW = 0.1  # the quantile of a block's calls that stands for it: what a call costs when nothing disturbs it
SETTLE_NS = 1_000_000  # calls on the measuring processor, to know what one takes there
SETTLED_BELOW_NS = 100_000_000  # a longer region isn't tried again where it is measured
OTHER_BLOCKS = 4  # asked of the other side when one fails: its preparing may have made fewer calls
STOP = b"x"  # as in harness/worker/timing.py
# Of the time that the blocks may take, the share after which both sides are to stop: who only waits for its turn does
# so at once, and who doesn't hangs.
PATIENCE = 0.9

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


@dataclass(frozen=True)
class BlockTimer:
    """Times blocks of a case on both sides' processes, which were prepared for it. After ``deadline`` (of the monotonic
    clock) no further quad is begun. Methods raise AskError, with the side or "both"."""

    processes: Processes
    case: Case
    rng: random.Random
    deadline: float = math.inf

    def settle(self, call_ns: dict[Side, float], regions: Regions = CALLS_ALONE) -> dict[Side, float]:
        """Return what a call takes where it is measured, in ns, from what it took where it was prepared (``call_ns``),
        maybe beside others. A long one is not asked for again: its blocks are of one call, whatever that takes."""
        requests: dict[Side, dict[str, Any]] = {}
        for side in SIDES:
            inner = regions.calls(call_ns[side])
            region = inner * call_ns[side] + regions.around_ns
            if region >= SETTLED_BELOW_NS:
                return call_ns
            requests[side] = _request(1, max(1, round(SETTLE_NS / region)), inner, LATE * max(SETTLE_NS, region))
        return {side: self._block(side, requests[side]).low for side in self.rng.sample(SIDES, 2)}

    def measure_blocks(self, plan: BlockPlan, between: Callable[[], object] = lambda: None) -> dict[Side, list[Block]]:
        """Measure the plan's quads; return, per side, two blocks a quad in order, or one where there are no quads.

        ``between`` is called after each block, and now and then within a long one.
        """
        requests, switched_from = _requests(plan), None
        blocks: dict[Side, list[Block]] = {side: [] for side in SIDES}
        for number, quad in enumerate(plan.draw_quads(self.rng)):
            if number and time.monotonic() >= self.deadline:
                break
            for side in quad:
                request = requests[side] if side != switched_from else {**requests[side], "discard": 0}
                blocks[side].append(self._block(side, request, between))
                switched_from = side
                between()
        return blocks

    def measure_in_turns(
        self, plan: BlockPlan, advance: Callable[[], Iterable[Waiting]] = tuple
    ) -> dict[Side, list[Block]]:
        """Measure as ``measure_blocks`` does, with nothing between a block and the next: the processes hand over to
        each other, for as many quads at a time as take ``IN_TURNS_NS``, or for one. ``advance``: as in
        ``ask_in_turns``. Where not one quad comes of it, blocks are asked for one by one."""
        blocks: dict[Side, list[Block]] = {side: [] for side in SIDES}
        at_once, quad_blocks = plan.quads_within(IN_TURNS_NS), 1 if plan.once else 2
        for first in range(0, plan.quads, at_once):
            if first and time.monotonic() >= self.deadline:
                break
            chunk = replace(plan, quads=min(at_once, plan.quads - first))
            sides = [side for quad in chunk.draw_quads(self.rng) for side in quad]
            timeout_s = time_left(self.case, self.deadline)
            answers, errors = ask_in_turns(self.processes, _requests(plan), sides, timeout_s, advance)
            if len(errors) == 1:
                (failed,) = errors
                errors |= self._errors_of_other(failed, _requests(plan)[_other(failed)])
            if errors:
                raise merged_error(errors)
            complete = min(len(answers[side]) for side in SIDES) // quad_blocks * quad_blocks
            for side in SIDES:
                blocks[side] += [Block.of(answer) for answer in answers[side][:complete]]
            if complete < quad_blocks * chunk.quads:
                break
        return blocks if blocks["control"] else self.measure_blocks(plan, advance)

    def _block(
        self, side: Side, request: Mapping[str, Any], while_waiting: Callable[[], object] = lambda: None
    ) -> Block:
        """Measure one block of ``side``. When it fails, ask the other side for some, too: "both" is worth knowing."""
        try:
            return Block.of(self.processes[side].ask(request, time_left(self.case, self.deadline), while_waiting))
        except AskError as error:
            errors = {side: error}
        raise merged_error(errors | self._errors_of_other(side, request))

    def _errors_of_other(self, side: Side, request: Mapping[str, Any]) -> dict[Side, AskError]:
        other = _other(side)
        try:
            for _ in range(OTHER_BLOCKS):
                self.processes[other].ask(request, time_left(self.case, self.deadline))
        except AskError as error:
            return {other: error}
        return {}


def _other(side: Side) -> Side:
    (other,) = set(SIDES) - {side}
    return other


def _requests(plan: BlockPlan) -> dict[Side, dict[str, Any]]:
    return {side: _request(plan.discard[side], plan.calls[side], plan.inner, plan.late_ns) for side in SIDES}


def _request(discard: int, calls: int, inner: int, late_ns: float) -> dict[str, Any]:
    numbers = {"discard": discard, "calls": calls, "inner": inner}
    return {"op": "low_block", **numbers, "most_ns": late_ns, "share": LOW}


@dataclass(frozen=True)
class Pipes:
    """A pipe to each side, from the other one. Processes open them by their paths: nobody inherits them."""

    descriptors: Mapping[Side, tuple[int, int]]

    @classmethod
    @contextmanager
    def opened(cls) -> Iterator["Pipes"]:
        """Open pipes; leaving the context closes them."""
        with ExitStack() as stack:
            descriptors: dict[Side, tuple[int, int]] = {}
            for side in SIDES:
                descriptors[side] = os.pipe()
                for descriptor in descriptors[side]:
                    stack.callback(os.close, descriptor)
            yield cls(descriptors)

    def paths(self, side: Side) -> dict[str, str]:
        """Return where a side hears that it is its turn, and where it tells the other (man 5 proc)."""
        reading, writing = self.descriptors[side][0], self.descriptors[_other(side)][1]
        folder = f"/proc/{os.getpid()}/fd"
        return {"read_from": f"{folder}/{reading}", "write_to": f"{folder}/{writing}"}

    def stop(self) -> None:
        """Tell both sides to stop when it would be their turn."""
        for side in SIDES:
            os.write(self.descriptors[side][1], STOP)


def ask_in_turns(
    processes: Mapping[Side, CaseProcess],
    requests: Mapping[Side, Mapping[str, Any]],
    order: Sequence[Side],
    timeout_s: float,
    advance: Callable[[], Iterable[Waiting]] = tuple,
) -> tuple[dict[Side, list[Any]], dict[Side, AskError]]:
    """Ask for blocks of both sides in this order; return what each side says of its own, and the errors of those that
    failed.

    ``requests``: what a side is asked for a block. ``advance``: get on with what else is to be done, without waiting,
    and return what that waits for. There are fewer blocks than in ``order`` if the time was nearly up, or after an
    error.
    """
    lengths = [(side, len(list(turn))) for side, turn in groupby(order)]
    stop_at, stopped = time.monotonic() + PATIENCE * timeout_s, False
    with Pipes.opened() as pipes:
        running: dict[Side, Background[dict[str, Any]]] = {}
        for side in sorted(SIDES, key=lambda candidate: candidate == order[0]):  # who has to wait is asked first
            turns = {"turns": [length for of, length in lengths if of == side], "first": side == order[0]}
            message = {**requests[side], "op": "turns", **turns, **pipes.paths(side)}
            running[side] = Background(processes[side].asking(message, timeout_s), AskError)
            running[side].advance()
        while waiting := [step for step in (side.advance() for side in running.values()) if step]:
            ended_early = any(  # the other side would wait for it
                background.over and (background.failed or len(background.finish()["blocks"]) < order.count(side))
                for side, background in running.items()
            )
            if not stopped and (ended_early or time.monotonic() >= stop_at):
                pipes.stop()
                stopped = True
            wait_for_any([*waiting, *advance()], math.inf if stopped else stop_at)
    blocks: dict[Side, list[Any]] = {}
    errors: dict[Side, AskError] = {}
    for side in SIDES:
        try:
            blocks[side] = running[side].finish()["blocks"]
        except AskError as error:
            errors[side] = error
    return blocks, errors
