"""One case on one ready process pair: calibrated, balanced blocks, boiled down to a PairSample.

Blocks come in quads, ABBA or BAAB by a seeded random choice: within a quad, drift that is linear in time cancels, and
neither side is always first.  Every block begins with discarded calls, whether the side switched or not.  Calls of a
second and more that are prepared in less time than a quad takes are timed once a side, in random order: time is better
spent on further processes.
"""

import math
import random
import statistics
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from opduel.harness.process import AskError, CaseProcess, merged_error
from opduel.records import DEFAULT_METRIC, Case, PairSample, Stage
from opduel.records.measurement import SIDES, Side

BLOCK_NS = 2_500_000  # timed calls of one block
SETTLE_NS = 1_000_000  # calls on the measuring processor, to know what one takes there
DISCARD_NS = 300_000  # calls that warm the caches after a switch
LONG_NS = 100_000_000  # regions from here on need no discarded calls: refilling the caches takes milliseconds
ONCE_NS = 1_000_000_000  # and from here on no quads, where preparing takes less than one
INNER_NS = 5_000  # shortest timed region: reading the clock costs some 50 ns
CASE_NS = 400_000_000  # slow calls get fewer quads, to stay near this much timed work a case
QUADS = 6
FASTEST = 1 / 3  # the share of a side's blocks in a fork that count: a disturbance only makes blocks slower
FEWEST_COUNTED = 2  # blocks: both of a lone quad, so that drift still cancels
LOW = 0.1  # the quantile of a block's calls that stands for it: what a call costs when nothing disturbs it
OTHER_BLOCKS = 4  # asked of the other side when one fails: its preparing may have made fewer calls
MAX_LOPSIDED = 2.0  # beyond this ratio the sides' blocks hold different numbers of calls

DESCRIBED = ("operator", "direction", "inputs", "dtype", "context", "mode")  # what an adaptor needs to know of a case

Processes = dict[Side, CaseProcess]


@dataclass(frozen=True)
class BlockPlan:
    """How a case is measured in one process pair. ``calls`` and ``discard`` count timed regions of ``inner`` calls.
    ``once``: in place of quads, one block a side."""

    inner: int
    calls: dict[Side, int]
    discard: dict[Side, int]
    quads: int
    once: bool = False


@dataclass(frozen=True)
class Block:
    """What a block of one side's calls says: ``low``, its lower decile in ns a call; all its timed calls together took
    ``timed_ns``."""

    low: float
    timed_ns: float


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


def plan_blocks(call_ns: dict[Side, float], regions: Regions = Regions(), prepared_ns: float = 0.0) -> BlockPlan:
    """Sizes from both sides' nanoseconds a call: from tens of nanoseconds to many seconds.

    Sides of similar speed get equal counts, so that their deciles are the same statistic. ``prepared_ns``: what it took
    to prepare both sides. A case is timed as long, up to all quads: then a round costs at most twice what it would with
    the number of quads that is best for the spread within and between processes, whatever these are.
    """
    slow, fast = max(call_ns.values()), min(call_ns.values())
    if slow <= MAX_LOPSIDED * fast:
        call_ns = dict.fromkeys(SIDES, math.sqrt(slow * fast))
    inner = regions.calls(max(call_ns.values()))
    calls: dict[Side, int] = {}
    discard: dict[Side, int] = {}
    for side in SIDES:
        region = inner * call_ns[side] + regions.around_ns
        calls[side] = max(1, round(BLOCK_NS / region))
        fewest = 2 if region < BLOCK_NS else 1 if region < LONG_NS else 0
        discard[side] = max(fewest, round(DISCARD_NS / region))
    quad_ns = sum(2 * (calls[side] + discard[side]) * (inner * call_ns[side] + regions.around_ns) for side in SIDES)
    budget_ns = max(CASE_NS, prepared_ns)
    quads = max(1, min(QUADS, math.floor(budget_ns / quad_ns)))
    shortest = min(inner * call_ns[side] + regions.around_ns for side in SIDES)
    once = shortest >= ONCE_NS and budget_ns < quad_ns
    return BlockPlan(inner, calls, discard, quads, once)


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
        requests[side] = _request(1, max(1, round(SETTLE_NS / region)), inner)
    order = rng.sample(SIDES, 2)
    return {side: _block(side, processes, requests, case, deadline).low for side in order}


def measure_blocks(
    processes: Processes,
    case: Case,
    plan: BlockPlan,
    rng: random.Random,
    deadline: float = math.inf,
    between: Callable[[], None] = lambda: None,
) -> dict[Side, list[Block]]:
    """Run the plan's quads; returns, per side, two blocks a quad in order, or one where there are no quads.

    After ``deadline`` (of the monotonic clock) no further quad is begun. ``between`` is called after each block, and
    now and then within a long one.

    Raises:
        CaseRefusedError, CaseLostError, WorkerLostError: with the side, or "both".
    """
    requests = {side: _request(plan.discard[side], plan.calls[side], plan.inner) for side in SIDES}
    blocks: dict[Side, list[Block]] = {side: [] for side in SIDES}
    for number in range(plan.quads):
        if number and time.monotonic() >= deadline:
            break
        first, second = rng.sample(SIDES, 2)
        for side in (first, second) if plan.once else (first, second, second, first):
            blocks[side].append(_block(side, processes, requests, case, deadline, between))
            between()
    return blocks


def _request(discard: int, calls: int, inner: int) -> dict[str, Any]:
    return {"op": "low_block", "discard": discard, "calls": calls, "inner": inner, "share": LOW}


def _block(
    side: Side,
    processes: Processes,
    requests: Mapping[Side, Mapping[str, Any]],
    case: Case,
    deadline: float,
    meanwhile: Callable[[], None] = lambda: None,
) -> Block:
    """One block of ``side``. When it fails, the other side is asked for some, too: "both" is worth knowing.
    Raises CaseRefusedError, CaseLostError, WorkerLostError: with the side, or "both"."""
    try:
        answer = processes[side].ask(requests[side], time_left(case, deadline), meanwhile)
        return Block(float(answer["low"]), float(answer["timed_ns"]))
    except AskError as error:
        errors = {side: error}
    (other,) = set(SIDES) - {side}
    try:
        for _ in range(OTHER_BLOCKS):
            processes[other].ask(requests[other], time_left(case, deadline))
    except AskError as error:
        errors[other] = error
    raise merged_error(errors)


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


def summarise(blocks: Mapping[Side, Sequence[Block]], plan: BlockPlan) -> ForkValue:
    """Boil the blocks of one fork down to process values, medians of its blocks, and one log ratio, that of the
    geometric means of each side's fastest third.

    Drift that is linear in time makes the first quads the fastest, or the last, and cancels within each of them.
    """
    control, treatment = ([math.log(block.low) for block in blocks[side]] for side in SIDES)
    return ForkValue(
        control=math.exp(statistics.median(control)),
        treatment=math.exp(statistics.median(treatment)),
        log_ratio=_fastest(treatment) - _fastest(control),
        blocks=len(control),
        calls=len(control) * plan.inner * min(plan.calls.values()),
    )


def _fastest(values: Sequence[float]) -> float:
    """The mean of the smaller ones."""
    return statistics.fmean(sorted(values)[: max(FEWEST_COUNTED, round(FASTEST * len(values)))])


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
    )


def middle_mean(values: Sequence[float]) -> float:
    """The mean of what is left when a quarter of the values is dropped at each end."""
    dropped = len(values) // 4
    return statistics.fmean(sorted(values)[dropped : len(values) - dropped])
