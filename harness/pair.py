"""One round: a fresh process pair measures a list of cases, and every way in which that can go wrong."""

import math
import random
import time
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Literal

from harness.blocks import CaseRequest, Pair, measure_blocks, plan_blocks, summarise, time_left
from harness.cpus import CpuPlan
from harness.frequency import current_mhz
from harness.process import CaseLostError, CaseRefusedError, Worker, WorkerLostError
from records import Build, Failure, PairSample, Stage
from records.measurement import SIDES, Side

# Who may take part in a round; the twin is a second process of the control's build, for the sentinels.
Role = Literal["control", "treatment", "twin"]
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
    sentinels: "RoundResult | None" = None  # what control and twin brought home, in a round that has sentinels
    mhz: list[float] = field(default_factory=list)  # of the measuring processors after each case, where the host tells
    timed_s: float = 0.0
    start_s: float = 0.0  # until both sides were ready
    wall_s: float = 0.0


@dataclass(frozen=True)
class Round:
    """One process pair to run: its cases, the stage that they are in, its number in the run, and when to stop.

    With ``fork``, each case is measured in a child of either side's process, forked after the import: a process of
    its own for the price of a few milliseconds. Without, the round may hold one case only.

    ``sentinels`` are measured on control and twin exactly as the others are on control and treatment, at random
    places among them. A round of sentinels alone starts no treatment.
    """

    requests: Sequence[CaseRequest]
    stage: Stage
    number: int
    fork: bool = True
    deadline: float = math.inf  # of the monotonic clock: no further case is begun after it
    sentinels: Sequence[CaseRequest] = ()

    def __post_init__(self) -> None:
        if not self.fork and len(self.requests) + len(self.sentinels) > 1:
            raise ValueError("several cases would share one process")


def run_round(bench: Bench, plan: Round, coin: random.Random, result: RoundResult) -> None:
    """Measure the round's cases, in random order, in one fresh process pair, and fill ``result`` as it goes.

    Never raises for what a worker does; when it is interrupted, what was measured is in ``result``.
    """
    began = time.monotonic()
    result.unmeasured = coin.sample(list(plan.requests), len(plan.requests))
    with ExitStack() as stack:
        try:
            workers = _start_workers(bench, stack, coin, _roles(plan))
            result.start_s = time.monotonic() - began
            _measure_all(bench, workers, plan, coin, result)
        except WorkerLostError as error:
            if not _out_of_time(error, plan):
                result.lost_worker = error.failure
    result.wall_s = time.monotonic() - began


def _roles(plan: Round) -> tuple[Role, ...]:
    if not plan.sentinels:
        return SIDES
    return ("control", "treatment", "twin") if plan.requests else ("control", "twin")


def _start_workers(
    bench: Bench, stack: ExitStack, coin: random.Random, roles: Sequence[Role] = SIDES
) -> dict[Role, Worker]:
    """Start a worker for each role, in random order and each with a random environment size; wait until all are ready.

    Raises:
        WorkerLostError: one didn't start.
    """
    workers: dict[Role, Worker] = {}
    for role in coin.sample(roles, len(roles)):
        side: Side = "control" if role == "twin" else role
        environment = {**bench.environment, "OPDUEL_PADDING": "x" * coin.randrange(PADDING_BYTES)}
        worker = Worker(side, bench.builds[side], bench.adaptor, environment, bench.cpus.start)
        workers[role] = stack.enter_context(worker)
    for role in coin.sample(roles, len(roles)):
        workers[role].wait_ready()
    for role in coin.sample(roles, len(roles)):  # every timed call runs there, whoever makes it
        workers[role].pin(bench.cpus.measure)
    return workers


def _measure_all(
    bench: Bench, workers: Mapping[Role, Worker], plan: Round, coin: random.Random, result: RoundResult
) -> None:
    """Measure ``result.unmeasured`` in order, and each sentinel after a random number of them.

    Raises:
        WorkerLostError: a worker was lost, and with it the round.
    """
    pair: Pair = {side: workers[side] for side in SIDES if side in workers}
    sentinels = [(coin.randint(0, len(plan.requests)), request) for request in plan.sentinels]
    result.sentinels = RoundResult() if sentinels else None
    done = 0
    while time.monotonic() < plan.deadline:
        due = next((one for one in sentinels if one[0] <= done), None)
        if result.sentinels and due:
            sentinels.remove(due)
            twins: Pair = {"control": workers["control"], "treatment": workers["twin"]}
            _measure_case(twins, due[1], plan, coin, result.sentinels)
        elif result.unmeasured:
            done += 1
            _measure_case(pair, result.unmeasured.pop(0), plan, coin, result)
        else:
            break
        result.mhz += current_mhz(bench.cpus.measure)


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
