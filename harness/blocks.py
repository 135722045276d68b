"""One case on one ready process pair: calibrated, balanced blocks, boiled down to a PairSample.

Blocks come in quads, ABBA or BAAB by a seeded random choice: within a quad, drift that is linear in time cancels, and
neither side is always first.  After a switch from one side to the other the first short calls are discarded.  Calls of
a second and more that are prepared in less time than a quad takes are timed once a side, in random order: time is
better spent on further processes.
"""

import itertools
import math
import random
import statistics
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from opduel.harness.channel import Waiting
from opduel.harness.effort import PILOT
from opduel.harness.process import AskError, CaseProcess, merged_error
from opduel.harness.turns import ask_in_turns
from opduel.records import DEFAULT_METRIC, Case, PairSample, Stage
from opduel.records.measurement import SIDES, Side

BLOCK_NS = 600_000  # timed calls of one block, but
FEW_CALLS = 8  # so many at least, as long as they take no more than
LONG_BLOCK_NS = 5_000_000
LONGEST_BLOCK_NS = 2_500_000  # timed calls of a block that the controller asks for by itself
SETTLE_NS = 1_000_000  # calls on the measuring processor, to know what one takes there
DISCARD_NS = 50_000  # calls that warm the caches after a switch: a call at least, of those
DISCARDED_BELOW_NS = (
    1_000_000  # that are shorter; of longer ones blocks of two and more have a lower decile without them
)
LONG_DISCARD_NS = 300_000  # before a block that the controller asks for
LONG_NS = 10_000_000  # regions from here on are blocks by themselves: refilling the caches takes less than a hundredth
SETTLED_BELOW_NS = 100_000_000  # a longer region isn't tried again where it is measured
ONCE_NS = 1_000_000_000  # and from here on no quads, where preparing takes less than one
INNER_NS = 5_000  # shortest timed region: reading the clock costs some 50 ns
# Of a case whose noise is not known yet, a fork has so many quads, fewer if they take longer than this together, but
# the least number in any case, as long as they take no longer than the last.
PILOT_NS = 60_000_000
LEAST_PILOT_QUADS, LONG_PILOT_NS = 3, 200_000_000
IN_TURNS_NS = 600_000_000  # quads that are measured in turns at a time, without the controller
# Pairs of neighbouring blocks are weighted by how far they differ, in groups by how fast they were: as many groups, of
# so many pairs at least.
GROUPS, GROUP_PAIRS = 4, 8
CONTRADICTS = 2.0  # standard errors between two groups
TRUST = 0.7  # exponent with which a group's own variance counts, beside that of all
LATE = 4  # times what it should take, a block of short calls ends, and so do the calls before it that are discarded
DROPPED = 4  # of a group's differences one in so many doesn't count, at either end
LOW = 0.1  # the quantile of a block's calls that stands for it: what a call costs when nothing disturbs it
OTHER_BLOCKS = 4  # asked of the other side when one fails: its preparing may have made fewer calls
MAX_LOPSIDED = 2.0  # beyond this ratio the sides' blocks hold different numbers of calls
LEAST_STEP = 1e-6  # a share: blocks that differ by less are alike
SWITCHES = 1.25  # of a quad, after which one side discards calls: five in two quads for both

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

    @property
    def is_quick(self) -> bool:
        """Whether a quad is over so soon that the controller need not ask for each of its blocks."""
        return self.takes_ns <= self.quads * IN_TURNS_NS

    def quads_within(self, limit_ns: float) -> int:
        """How many quads take no longer; one at least."""
        return max(1, min(self.quads, math.floor(limit_ns * self.quads / self.takes_ns)))

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
    call_ns: dict[Side, float],
    regions: Regions = Regions(),
    prepared_ns: float = 0.0,
    in_turns: bool = True,
    quads: int | None = None,
) -> BlockPlan:
    """Sizes from both sides' nanoseconds a call: from tens of nanoseconds to many seconds.

    Blocks that aren't measured ``in_turns`` are long ones: from one to the next the controller is asked.

    Sides of similar speed get equal counts, so that their deciles are the same statistic. ``quads``: how many, by the
    noise that the case has shown; None: that isn't known yet, and they take as long as preparing both sides took
    (``prepared_ns``), within bounds.
    """
    slow, fast = max(call_ns.values()), min(call_ns.values())
    if slow <= MAX_LOPSIDED * fast:
        call_ns = dict.fromkeys(SIDES, math.sqrt(slow * fast))
    inner = regions.calls(max(call_ns.values()))
    calls: dict[Side, int] = {}
    discard: dict[Side, int] = {}
    for side in SIDES:
        region = inner * call_ns[side] + regions.around_ns
        calls[side] = _calls_of_block(region, in_turns)
        short, discard_ns = region < DISCARDED_BELOW_NS, DISCARD_NS if in_turns else LONG_DISCARD_NS
        discard[side] = max(1, round(discard_ns / region)) if short else 0
    regions_ns = {side: inner * call_ns[side] + regions.around_ns for side in SIDES}
    quad_ns = sum((2 * calls[side] + SWITCHES * discard[side]) * regions_ns[side] for side in SIDES)
    once = min(regions_ns.values()) >= ONCE_NS and max(LONG_PILOT_NS, prepared_ns) < quad_ns
    if quads is None:
        fewest = min(LEAST_PILOT_QUADS, math.floor(max(LONG_PILOT_NS, prepared_ns) / quad_ns))
        quads = max(1, fewest, min(PILOT.quads, math.floor(PILOT_NS / quad_ns)))
    return BlockPlan(inner, calls, discard, quads, quads * quad_ns / (2 if once else 1), once)


def _calls_of_block(region_ns: float, in_turns: bool) -> int:
    """Timed regions of a block: enough for a lower decile of short ones, two of those that refill the caches."""
    if not in_turns:
        return max(1, round(LONGEST_BLOCK_NS / region_ns))
    if region_ns >= LONG_NS:
        return 1
    few = max(2, min(FEW_CALLS, round(LONG_BLOCK_NS / region_ns)))
    return max(round(BLOCK_NS / region_ns), few)


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
    now and then within a long one.

    Raises:
        CaseRefusedError, CaseLostError, WorkerLostError: with the side, or "both".
    """
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
    """``measure_blocks``, with nothing between a block and the next: the processes hand over to each other.

    The controller asks for as many quads at a time as take ``IN_TURNS_NS``, or for one. ``advance``: what goes on
    meanwhile, as in ``ask_in_turns``. Where not one quad comes of it, because there is too little time or the processes
    can't reach each other, blocks are asked for one by one.

    Raises:
        CaseRefusedError, CaseLostError, WorkerLostError: with the side, or "both".
    """
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
    meanwhile: Callable[[], object] = lambda: None,
) -> Block:
    """One block of ``side``. When it fails, the other side is asked for some, too: "both" is worth knowing.
    Raises CaseRefusedError, CaseLostError, WorkerLostError: with the side, or "both"."""
    try:
        return Block.of(processes[side].ask(request, time_left(case, deadline), meanwhile))
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
    """Whether the side that isn't ``side`` fails, too, in further blocks."""
    other = _other(side)
    try:
        for _ in range(OTHER_BLOCKS):
            processes[other].ask(request, time_left(case, deadline))
    except AskError as error:
        return {other: error}
    return {}


def time_left(case: Case, deadline: float, slowdown: float = 1) -> float:
    """Seconds that one request may take: ``slowdown`` times the case's timeout, or less when the run ends before."""
    return max(0.001, min(slowdown * case.timeout_s, deadline - time.monotonic()))


@dataclass(frozen=True)
class ForkValue:
    """What one case's processes say, one on either side: process values (ns a call), and a log ratio with the standard
    error that their blocks show."""

    control: float
    treatment: float
    log_ratio: float
    standard_error: float
    blocks: int  # per side
    calls: int  # per side


def summarise(blocks: Mapping[Side, Sequence[Block]]) -> ForkValue:
    """Boil the blocks of one fork down to process values, medians of its blocks, and the log ratio of neighbours."""
    control, treatment = ([math.log(block.low) for block in blocks[side]] for side in SIDES)
    log_ratio, standard_error = compare_neighbours(control, treatment)
    return ForkValue(
        control=math.exp(statistics.median(control)),
        treatment=math.exp(statistics.median(treatment)),
        log_ratio=log_ratio,
        standard_error=standard_error,
        blocks=len(control),
        calls=min(sum(block.calls for block in blocks[side]) for side in SIDES),
    )


def compare_neighbours(control: Sequence[float], treatment: Sequence[float]) -> tuple[float, float]:
    """Return a log ratio and its standard error from logarithms of both sides' blocks, in the order of measuring.

    The differences between neighbouring blocks are sorted into groups by how slow both were together, and each group's
    trimmed mean counts by the inverse of its variance, which is drawn towards that of all groups.  Where a burst of
    other work makes some blocks slow, these differ most, and the fast ones decide; where the processor's speed wanders,
    neighbours share it, and all count alike.  A group that contradicts the fastest one counts less by how much.  What
    disturbs both neighbours cancels, and drift that is linear in time cancels within a quad.
    """
    pairs = sorted(zip(control, treatment, strict=True), key=sum)
    differences = [of_treatment - of_control for of_control, of_treatment in pairs]
    groups = max(1, min(GROUPS, len(pairs) // GROUP_PAIRS))
    bounds = [2 * round(number * len(pairs) / groups / 2) for number in range(groups)] + [len(pairs)]  # whole quads
    located = [_trimmed_mean(differences[low:high]) for low, high in itertools.pairwise(bounds)]
    fastest, fastest_variance = located[0]
    located = [
        (mean, variance + max(0.0, (mean - fastest) ** 2 - CONTRADICTS**2 * (variance + fastest_variance)))
        for mean, variance in located
    ]
    log_mean = statistics.fmean(math.log(variance) for _, variance in located)
    weights = [math.exp(-TRUST * math.log(variance) - (1 - TRUST) * log_mean) for _, variance in located]
    total = sum(weights)
    estimate = sum(weight * mean for weight, (mean, _) in zip(weights, located, strict=True)) / total
    squares = sum(weight**2 * variance for weight, (_, variance) in zip(weights, located, strict=True))
    # weights that are estimated, too (Meier 1953, Biometrics 9, 59-73): each from the middle half of its group
    freedom = max(1.0, len(pairs) / groups / 2 - 1)
    estimated = 1 + 4 * sum(weight / total * (1 - weight / total) for weight in weights) / freedom
    return estimate, math.sqrt(squares * estimated) / total


def _trimmed_mean(differences: Sequence[float]) -> tuple[float, float]:
    """The mean of the middle half, and its variance from the winsorised sum of squares (Tukey and McLaughlin 1963); a
    single difference tells of none."""
    ordered, dropped = sorted(differences), len(differences) // DROPPED
    middle = ordered[dropped : len(ordered) - dropped]
    winsorised = [min(max(value, middle[0]), middle[-1]) for value in ordered]
    mean, freedom = statistics.fmean(middle), len(middle) - 1
    if not freedom:
        return mean, LEAST_STEP**2
    centre = statistics.fmean(winsorised)
    squares = sum((value - centre) ** 2 for value in winsorised)
    return mean, max(squares / (len(middle) * freedom), LEAST_STEP**2)


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
        fork_values=tuple((fork.control, fork.treatment) for fork in forks) if len(forks) > 1 else (),
        fork_ratios=tuple((fork.log_ratio, fork.standard_error) for fork in forks),
    )


def middle_mean(values: Sequence[float]) -> float:
    """The mean of what is left when a quarter of the values is dropped at each end."""
    dropped = len(values) // 4
    return statistics.fmean(sorted(values)[dropped : len(values) - dropped])
