"""One case on one ready process pair: calibrated, balanced blocks, boiled down to a PairSample.

Blocks come in quads, ABBA or BAAB by a seeded random choice: within a quad, drift that is linear in time cancels, and
neither side is always first.  Every block begins with discarded calls, whether the side switched or not.  Calls of a
second and more that are prepared in less time than a quad takes are timed once a side, in random order: time is better
spent on further processes.
"""

import bisect
import math
import random
import statistics
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from opduel.harness.channel import Waiting
from opduel.harness.process import AskError, CaseProcess, merged_error
from opduel.harness.turns import ask_in_turns
from opduel.records import DEFAULT_METRIC, Case, PairSample, Stage
from opduel.records.measurement import SIDES, Side

BLOCK_NS = 600_000  # timed calls of one block, but
FEW_CALLS = 8  # so many at least, as long as they take no more than
LONG_BLOCK_NS = 2_500_000
SETTLE_NS = 1_000_000  # calls on the measuring processor, to know what one takes there
DISCARD_NS = 50_000  # calls that warm the caches after a switch; two at least, up to calls as long as a long block
LONG_DISCARD_NS = 300_000  # before a long block of short calls
LONG_NS = 100_000_000  # regions from here on need no discarded calls: refilling the caches takes milliseconds
ONCE_NS = 1_000_000_000  # and from here on no quads, where preparing takes less than one
INNER_NS = 5_000  # shortest timed region: reading the clock costs some 50 ns
QUADS = 24
QUADS_NS = 90_000_000  # what quads take at most: of long calls there are fewer, but
LONG_QUADS = 6  # so many in any case, as long as they take no more than
CASE_NS = 400_000_000
IN_TURNS_NS = 600_000_000  # blocks that take no longer are measured in turns without the controller
# Of a fork's pairs of neighbouring blocks those count that are about as fast as its fastest ones: by NEAR at most, in
# shares of their times, but at least and at most these shares of all pairs.
NEAR, LEAST_COUNTED, MOST_COUNTED = 0.05, 1 / 6, 2 / 3
LATE = 4  # times what it should take, a block of short calls ends, and so do the calls before it that are discarded
DROPPED = 3  # of their differences one in so many doesn't count, at either end
LOW = 0.1  # the quantile of a block's calls that stands for it: what a call costs when nothing disturbs it
OTHER_BLOCKS = 4  # asked of the other side when one fails: its preparing may have made fewer calls
MAX_LOPSIDED = 2.0  # beyond this ratio the sides' blocks hold different numbers of calls

DESCRIBED = ("operator", "direction", "inputs", "dtype", "context", "mode")  # what an adaptor needs to know of a case

Processes = dict[Side, CaseProcess]


@dataclass(frozen=True)
class BlockPlan:
    """How a case is measured in one process pair. ``calls`` and ``discard`` count timed regions of ``inner`` calls.
    ``takes_ns``: all of it, in expectation. ``once``: in place of quads, one block a side."""

    inner: int
    calls: dict[Side, int]
    discard: dict[Side, int]
    quads: int
    takes_ns: float
    once: bool = False

    @property
    def late_ns(self) -> float:
        """When a block ends that is far from done, in nanoseconds: its calls differ from those that were tried."""
        return LATE * self.takes_ns / (self.quads * (2 if self.once else 4))

    def order(self, rng: random.Random) -> list[list[Side]]:
        """Whose block is next, quad by quad."""
        quads: list[list[Side]] = []
        for _ in range(self.quads):
            first, second = rng.sample(SIDES, 2)
            quads.append([first, second] if self.once else [first, second, second, first])
        return quads


@dataclass(frozen=True)
class Block:
    """What a block of one side's calls says: ``low``, its lower decile in ns a call; all its timed calls together took
    ``timed_ns``, and there were so many."""

    low: float
    timed_ns: float
    calls: int

    @classmethod
    def of(cls, answer: Mapping[str, Any]) -> "Block":
        """From the worker's answer."""
        return cls(float(answer["low"]), float(answer["timed_ns"]), int(answer["calls"]))


@dataclass(frozen=True)
class Regions:
    """What a timed region is beyond its calls. ``around_ns``: what comes before it, untimed (evicting the caches, a
    benchmark's ``setup``). ``inner``: how many calls it is where that can't be chosen; None: it can."""

    around_ns: float = 0.0
    inner: int | None = None

    def calls(self, call_ns: float) -> int:
        """The calls of one region, where a call takes ``call_ns``: several of short ones."""
        return self.inner or max(1, math.ceil(INNER_NS / call_ns))

    @classmethod
    def of(cls, answers: Iterable[Mapping[str, Any]], wipe_ns: float = 0.0) -> "Regions":
        """From both sides' answers to "prepare"; ``wipe_ns`` is what evicting the caches takes before a region, which
        is one call then; 0 where they are left alone."""
        told = [one for one in answers if "inner" in one]
        if not told:
            return cls(wipe_ns, 1 if wipe_ns else None)
        around_ns = max(float(one["around_ns"]) for one in told)
        return cls(around_ns + wipe_ns, max(int(one["inner"]) for one in told))


def plan_blocks(
    call_ns: dict[Side, float], regions: Regions = Regions(), prepared_ns: float = 0.0, in_turns: bool = True
) -> BlockPlan:
    """Sizes from both sides' nanoseconds a call: from tens of nanoseconds to many seconds.

    Blocks that aren't measured ``in_turns`` are long ones: from one to the next the controller is asked.

    Sides of similar speed get equal counts, so that their deciles are the same statistic. ``prepared_ns``: what it took
    to prepare both sides. A case is timed as long, up to all quads: then a round costs at most twice what it would with
    the number of quads that is best for the spread within and between processes, whatever these are.
    """
    slow, fast = max(call_ns.values()), min(call_ns.values())
    if slow <= MAX_LOPSIDED * fast:
        call_ns = dict.fromkeys(SIDES, math.sqrt(slow * fast))
    inner = regions.calls(max(call_ns.values()))
    short = BLOCK_NS, DISCARD_NS, QUADS
    block_ns, discard_ns, most = short if in_turns else (LONG_BLOCK_NS, LONG_DISCARD_NS, LONG_QUADS)
    calls: dict[Side, int] = {}
    discard: dict[Side, int] = {}
    for side in SIDES:
        region = inner * call_ns[side] + regions.around_ns
        calls[side] = max(1, round(block_ns / region), min(FEW_CALLS, round(LONG_BLOCK_NS / region)))
        fewest = 2 if region < LONG_BLOCK_NS else 1 if region < LONG_NS else 0
        discard[side] = max(fewest, round(discard_ns / region))
    quad_ns = sum(2 * (calls[side] + discard[side]) * (inner * call_ns[side] + regions.around_ns) for side in SIDES)
    budget_ns = max(CASE_NS, prepared_ns)
    quads = max(1, min(LONG_QUADS, math.floor(budget_ns / quad_ns)), min(most, math.floor(QUADS_NS / quad_ns)))
    shortest = min(inner * call_ns[side] + regions.around_ns for side in SIDES)
    once = shortest >= ONCE_NS and budget_ns < quad_ns
    return BlockPlan(inner, calls, discard, quads, quads * quad_ns / (2 if once else 1), once)


@dataclass(frozen=True)
class CaseRequest:
    """What the worker needs to prepare a case: the same for both sides, but for which one an injection slows."""

    case: Case
    seed: int
    inject: float = 0.0  # share by which the treatment side is slowed
    stage: Stage = "screening"

    def description(self) -> dict[str, Any]:
        """What the adaptor needs to know of the case."""
        files = {name: file.path for name, file in self.case.files.items()}
        told = {name: getattr(self.case, name) for name in DESCRIBED}
        return {"id": self.case.time_id, **told, "files": files}  # inputs are drawn from the id: alike for every metric

    def message(self, side: Side) -> dict[str, Any]:
        """The worker's "prepare" request."""
        # Both sides calibrate the injected work, so that both have made the same calls; only one is slowed by it.
        slow = side == "treatment"
        timed = self.case.metric == DEFAULT_METRIC
        sets = {"sets": self.case.input_sets} if timed and self.case.input_sets > 1 else {}
        return {
            "op": "prepare",
            "case": self.description(),
            "seed": self.seed,
            "inject": self.inject,
            "slow": slow,
            **sets,
        }


def settle(
    processes: Processes,
    case: Case,
    call_ns: dict[Side, float],
    rng: random.Random,
    deadline: float = math.inf,
    regions: Regions = Regions(),
) -> dict[Side, float]:
    """What a call takes where it is measured, in ns, from what it took where it was prepared: maybe beside others.

    A long one is not asked for again: its blocks are of one call, whatever that takes.

    Raises:
        CaseRefusedError, CaseLostError, WorkerLostError: with the side, or "both".
    """
    requests: dict[Side, dict[str, Any]] = {}
    for side in SIDES:
        inner = regions.calls(call_ns[side])
        region = inner * call_ns[side] + regions.around_ns
        if region >= LONG_NS:
            return call_ns
        requests[side] = _request(1, max(1, round(SETTLE_NS / region)), inner, LATE * max(SETTLE_NS, region))
    order = rng.sample(SIDES, 2)
    return {side: _block(side, processes, requests, case, deadline).low for side in order}


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
    now and then within a long one.

    Raises:
        CaseRefusedError, CaseLostError, WorkerLostError: with the side, or "both".
    """
    requests = _requests(plan)
    blocks: dict[Side, list[Block]] = {side: [] for side in SIDES}
    for number, quad in enumerate(plan.order(rng)):
        if number and time.monotonic() >= deadline:
            break
        for side in quad:
            blocks[side].append(_block(side, processes, requests, case, deadline, between))
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
    """``measure_blocks``, with nothing between a block and the next: the processes hand over to each other.

    ``advance``: what goes on meanwhile, as in ``ask_in_turns``. Where not one quad comes of it, because there is too
    little time or the processes can't reach each other, blocks are asked for one by one.

    Raises:
        CaseRefusedError, CaseLostError, WorkerLostError: with the side, or "both".
    """
    requests, order = _requests(plan), [side for quad in plan.order(rng) for side in quad]
    answers, errors = ask_in_turns(processes, requests, order, time_left(case, deadline), advance)
    if len(errors) == 1:
        errors |= _errors_of_other(next(iter(errors)), processes, requests, case, deadline)
    if errors:
        raise merged_error(errors)
    a_quad = 1 if plan.once else 2
    whole = min(len(answers[side]) for side in SIDES) // a_quad * a_quad
    if not whole:
        return measure_blocks(processes, case, plan, rng, deadline, advance)
    return {side: [Block.of(one) for one in answers[side][:whole]] for side in SIDES}


def _requests(plan: BlockPlan) -> dict[Side, dict[str, Any]]:
    return {side: _request(plan.discard[side], plan.calls[side], plan.inner, plan.late_ns) for side in SIDES}


def _request(discard: int, calls: int, inner: int, late_ns: float) -> dict[str, Any]:
    numbers = {"discard": discard, "calls": calls, "inner": inner}
    return {"op": "low_block", **numbers, "most_ns": late_ns, "share": LOW}


def _block(
    side: Side,
    processes: Processes,
    requests: Mapping[Side, Mapping[str, Any]],
    case: Case,
    deadline: float,
    meanwhile: Callable[[], object] = lambda: None,
) -> Block:
    """One block of ``side``. When it fails, the other side is asked for some, too: "both" is worth knowing.
    Raises CaseRefusedError, CaseLostError, WorkerLostError: with the side, or "both"."""
    try:
        answer = processes[side].ask(requests[side], time_left(case, deadline), meanwhile)
        return Block.of(answer)
    except AskError as error:
        errors = {side: error}
    raise merged_error(errors | _errors_of_other(side, processes, requests, case, deadline))


def _errors_of_other(
    side: Side,
    processes: Processes,
    requests: Mapping[Side, Mapping[str, Any]],
    case: Case,
    deadline: float,
) -> dict[Side, AskError]:
    """Whether the side that isn't ``side`` fails, too, in further blocks."""
    (other,) = set(SIDES) - {side}
    try:
        for _ in range(OTHER_BLOCKS):
            processes[other].ask(requests[other], time_left(case, deadline))
    except AskError as error:
        return {other: error}
    return {}


def time_left(case: Case, deadline: float, slowdown: float = 1) -> float:
    """Seconds that one request may take: ``slowdown`` times the case's timeout, or less when the run ends before."""
    return max(0.001, min(slowdown * case.timeout_s, deadline - time.monotonic()))


@dataclass(frozen=True)
class ForkValue:
    """What one case's processes say, one on either side: process values (ns a call) and a log ratio."""

    control: float
    treatment: float
    log_ratio: float
    blocks: int  # per side
    calls: int  # per side


def summarise(blocks: Mapping[Side, Sequence[Block]]) -> ForkValue:
    """Boil the blocks of one fork down to process values, medians of its blocks, and the log ratio of neighbours."""
    control, treatment = ([math.log(block.low) for block in blocks[side]] for side in SIDES)
    return ForkValue(
        control=math.exp(statistics.median(control)),
        treatment=math.exp(statistics.median(treatment)),
        log_ratio=compare_neighbours(control, treatment),
        blocks=len(control),
        calls=min(sum(block.calls for block in blocks[side]) for side in SIDES),
    )


def compare_neighbours(
    control: Sequence[float],
    treatment: Sequence[float],
    least: float = LEAST_COUNTED,
    most: float = MOST_COUNTED,
) -> float:
    """One log ratio of logarithms of both sides' blocks in order: the trimmed mean of the differences between
    neighbouring blocks, of the pairs that nothing has slowed.

    These are the fastest ones (sum of both), from a share of ``least`` to one of ``most``: as many as are within
    ``NEAR`` of the ``least``'s mean.  What disturbs both neighbours cancels, and drift that is linear in time cancels
    within a quad of which both pairs count.  What disturbs one of them makes the pair slower, and its difference larger
    than others.
    """
    pairs = sorted(zip(control, treatment, strict=True), key=sum)
    totals = [sum(pair) for pair in pairs]
    fewest = max(1, math.ceil(least * len(pairs)))
    limit = statistics.fmean(totals[:fewest]) + 2 * math.log1p(NEAR)
    counted = max(fewest, min(round(most * len(pairs)), bisect.bisect_right(totals, limit)))
    even = 2 * max(1, round(counted / 2))  # as many as whole quads have
    differences = sorted(of_treatment - of_control for of_control, of_treatment in pairs[:even])
    dropped = len(differences) // DROPPED
    return statistics.fmean(differences[dropped : len(differences) - dropped])


def pair_sample(request: CaseRequest, round_number: int, forks: Sequence[ForkValue]) -> PairSample:
    """One sample of a process pair from its forks: means over the middle half of them."""
    return PairSample(
        case_id=request.case.id,
        stage=request.stage,
        round=round_number,
        control=math.exp(middle_mean([math.log(one.control) for one in forks])),
        treatment=math.exp(middle_mean([math.log(one.treatment) for one in forks])),
        log_ratio=middle_mean([one.log_ratio for one in forks]),
        forks=len(forks),
        blocks=sum(one.blocks for one in forks),
        calls=sum(one.calls for one in forks),
        fork_values=tuple((one.control, one.treatment) for one in forks) if len(forks) > 1 else (),
    )


def middle_mean(values: Sequence[float]) -> float:
    """The mean of what is left when a quarter of the values is dropped at each end."""
    dropped = len(values) // 4
    return statistics.fmean(sorted(values)[dropped : len(values) - dropped])
