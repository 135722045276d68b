"""One round: a fresh process pair measures a list of cases, and every way in which that can go wrong."""

import math
import random
import time
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field, replace
from pathlib import Path

from harness.blocks import CaseRequest, Pair, measure_blocks, plan_blocks, summarise, time_left
from harness.cpus import CpuPlan
from harness.process import CaseLostError, CaseRefusedError, Worker, WorkerLostError
from records import Build, Failure, PairSample, Stage
from records.measurement import SIDES, Side

PADDING_BYTES = 4096  # the environment's size shifts the stack (Mytkowicz et al., ASPLOS 2009): vary it


@dataclass(frozen=True)
class Bench:
    """What stays the same for every process pair of a run."""

    builds: Mapping[Side, Build]
    adaptor: Path
    environment: Mapping[str, str]
    cpus: CpuPlan


@dataclass
class RoundResult:
    """What one process pair brought home.

    ``refused``: the framework raised, cleanly; ``lost``: a process was lost during these cases; ``lost_worker``: the
    pair itself could not start or go on, and ``unmeasured`` are the cases that it then did not get to (or did not
    for want of time).
    """

    samples: list[PairSample] = field(default_factory=list)
    refused: dict[str, Failure] = field(default_factory=dict)
    lost: dict[str, Failure] = field(default_factory=dict)
    lost_worker: Failure | None = None
    unmeasured: list[CaseRequest] = field(default_factory=list)
    timed_s: float = 0.0
    start_s: float = 0.0  # until both sides were ready
    wall_s: float = 0.0


@dataclass(frozen=True)
class Round:
    """One process pair to run: its cases, the stage that they are in, its number in the run, and when to stop.

    With ``fork``, each case is measured in a child of either side's process, forked after the import: a process of
    its own for the price of a few milliseconds. Without, the round may hold one case only.
    """

    requests: Sequence[CaseRequest]
    stage: Stage
    number: int
    fork: bool = True
    deadline: float = math.inf  # of the monotonic clock: no further case is begun after it

    def __post_init__(self) -> None:
        if not self.fork and len(self.requests) > 1:
            raise ValueError("several cases would share one process")


def run_round(bench: Bench, plan: Round, coin: random.Random, result: RoundResult) -> None:
    """Measure the round's cases, in random order, in one fresh process pair, and fill ``result`` as it goes.

    Never raises for what a worker does; when it is interrupted, what was measured is in ``result``.
    """
    began = time.monotonic()
    result.unmeasured = coin.sample(list(plan.requests), len(plan.requests))
    with ExitStack() as stack:
        try:
            pair = _start_pair(bench, stack, coin)
            result.start_s = time.monotonic() - began
            while result.unmeasured and time.monotonic() < plan.deadline:
                _measure_case(pair, result.unmeasured.pop(0), plan, coin, result)
        except WorkerLostError as error:
            if not _out_of_time(error, plan):
                result.lost_worker = error.failure
    result.wall_s = time.monotonic() - began


def _start_pair(bench: Bench, stack: ExitStack, coin: random.Random) -> Pair:
    """Start both sides, in random order and each with a random environment size; wait until both are ready.

    Raises:
        WorkerLostError: a side didn't start.
    """
    pair: Pair = {}
    for side in coin.sample(SIDES, 2):
        environment = {**bench.environment, "OPDUEL_PADDING": "x" * coin.randrange(PADDING_BYTES)}
        worker = Worker(side, bench.builds[side], bench.adaptor, environment, bench.cpus.start)
        pair[side] = stack.enter_context(worker)
    for side in coin.sample(SIDES, 2):
        pair[side].wait_ready()
    for side in coin.sample(SIDES, 2):  # every timed call runs there, on either side
        pair[side].pin(bench.cpus.measure)
    return pair


def _measure_case(pair: Pair, request: CaseRequest, plan: Round, coin: random.Random, result: RoundResult) -> None:
    """Measure one case and note what came of it.

    Raises:
        WorkerLostError: a worker was lost, and with it the pair.
    """
    case = request.case
    try:
        call_ns = _prepare(pair, request, plan, coin)
        sizes = plan_blocks(call_ns, plan.stage)
        blocks = measure_blocks(pair, case, sizes, coin, plan.deadline)
    except CaseRefusedError as error:
        result.refused[case.id] = error.failure
    except (CaseLostError, WorkerLostError) as error:
        if _out_of_time(error, plan):
            result.unmeasured.append(request)
        else:
            result.lost[case.id] = error.failure
        if isinstance(error, WorkerLostError):
            raise
    else:
        result.samples.append(summarise(blocks, sizes, case, plan.stage, plan.number))
        result.timed_s += 1e-9 * sizes.inner * sum(sum(map(sum, blocks[side])) for side in SIDES)
    for side in coin.sample(SIDES, 2):
        pair[side].end()


def _out_of_time(error: CaseLostError | WorkerLostError, plan: Round) -> bool:
    """Whether it was the run's time that was up, and not the case's."""
    return error.failure.kind == "timeout" and time.monotonic() >= plan.deadline


def _prepare(pair: Pair, request: CaseRequest, plan: Round, coin: random.Random) -> dict[Side, float]:
    """Prepare both sides, in random order; returns ns a call of each.

    When one side fails, the other is still asked: "both" is worth knowing.

    Raises:
        CaseRefusedError, CaseLostError: with the side, or "both".
        WorkerLostError: a worker was lost.
    """
    call_ns: dict[Side, float] = {}
    errors: dict[Side, CaseRefusedError | CaseLostError] = {}
    for side in coin.sample(SIDES, 2):
        try:
            pair[side].begin(plan.fork)
            timeout_s = time_left(request.case, plan.deadline)
            call_ns[side] = pair[side].ask(request.message(side), timeout_s)["call_ns"]
        except (CaseRefusedError, CaseLostError) as error:
            errors[side] = error
    if not errors:
        return call_ns
    lost = (error for error in errors.values() if isinstance(error, CaseLostError))
    worst = next(lost, next(iter(errors.values())))
    if len(errors) == len(SIDES):
        reasons = {side: errors[side].failure.reason for side in SIDES}
        alike = len(set(reasons.values())) == 1
        reason = worst.failure.reason if alike else "; ".join(f"{side}: {text}" for side, text in reasons.items())
        raise type(worst)(replace(worst.failure, side="both", reason=reason))
    raise worst
