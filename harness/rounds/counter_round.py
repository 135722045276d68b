"""Rounds in which nothing is timed: a fresh process pair, both sides at once, one value a side for each case.

Here are those of memory: the storage that a call needs, by the framework's counters, and what its process holds.
Neither depends on what else the machine does.  ``instructions`` has those that count instructions.
"""

import math
import random
import time
from collections.abc import Callable, Mapping
from contextlib import ExitStack
from typing import Any, TypeVar

from opduel.harness.processes.case_request import CaseRequest, shuffled, time_left
from opduel.harness.processes.channel import Background, Steps, complete
from opduel.harness.processes.pair_pool import Bench, Pair, PairPool, draw_variables
from opduel.harness.processes.process import START_TIMEOUT_S, Worker
from opduel.harness.processes.worker_errors import (
    AskError,
    CaseLostError,
    CaseRefusedError,
    WorkerLostError,
    on_both_sides,
)
from opduel.harness.rounds.blocks import Processes
from opduel.harness.rounds.pair import Round, RoundResult, is_out_of_time
from opduel.records import Failure, PairSample
from opduel.records.measurement import SIDES, Side

CALLS = 5  # whose memory is measured
STORAGE = "memory"  # the metric of the framework's counters; the other is the operating system's

T = TypeVar("T")
Start = Callable[[Side, Mapping[str, str]], Worker]
Measure = Callable[[Processes, CaseRequest, Round], PairSample]


def run_memory_round(pool: PairPool, this_round: Round, rng: random.Random, result: RoundResult) -> None:
    """Measure, by the metric of each case, in one fresh process pair; the rest is as in ``run_counter_round``.

    The pair is none of ``pool``'s. All cases of a round have one metric; for ``STORAGE``, workers get what that needs.
    """
    further = pool.bench.memory_environment if this_round.metric == STORAGE else {}
    run_counter_round(this_round, rng, result, _starting(pool.bench, further), START_TIMEOUT_S, _measure_memory)


def run_value_round(pool: PairPool, this_round: Round, rng: random.Random, result: RoundResult) -> None:
    """Measure what the round's cases report of themselves, in one fresh process pair: first one side, then the other,
    in random order, since such a value may be a time. The rest is as in ``run_counter_round``."""

    def measure(processes: Processes, request: CaseRequest, this_round: Round) -> PairSample:
        message = {"op": request.case.metric, "case": request.description(), "seed": request.seed}

        def ask(side: Side) -> float:
            processes[side].pin(pool.bench.cpus.measure)
            value = float(processes[side].ask(message, time_left(request.case, this_round.deadline))["value"])
            if not math.isfinite(value):
                raise CaseRefusedError(Failure(side, "error", f"reports {value}, which is not a finite number"))
            return value

        values = on_both_sides(ask, rng.sample(SIDES, 2))
        return sample_of(request, this_round, values["control"], values["treatment"], 1)

    run_counter_round(this_round, rng, result, _starting(pool.bench), START_TIMEOUT_S, measure)


def _starting(bench: Bench, further: Mapping[str, str] | None = None) -> Start:
    environment = {**bench.environment, **(further or {})}
    return lambda side, drawn: Worker(
        side, bench.builds[side], bench.adaptor, {**drawn, **environment}, bench.cpus.start
    )


def run_counter_round(
    this_round: Round,
    rng: random.Random,
    result: RoundResult,
    start: Start,
    start_timeout_s: float,
    measure: Measure,
) -> None:
    """Measure the round's cases, in random order, in one fresh process pair, and fill ``result`` as it goes.

    ``start`` starts the worker of a side, with variables of ``draw_variables``. ``measure`` asks both sides' fresh
    processes of a case. There are no A/A checks. Never raises for what a worker does.
    """
    began = time.monotonic()
    result.unmeasured = shuffled(this_round.requests, lambda request: request.case, rng)
    pair: Pair = {}
    with ExitStack() as stack:
        try:
            for side, drawn in draw_variables(rng).items():
                pair[side] = stack.enter_context(start(side, drawn))
            # one that isn't ready when the round must end measures nothing
            limit_s = max(0.001, min(start_timeout_s, this_round.deadline - time.monotonic()))
            at_once({side: pair[side].readying(limit_s) for side in SIDES})
            result.start_s = time.monotonic() - began
            last_begin = min(this_round.deadline, time.monotonic() + this_round.most_s)
            while result.unmeasured and time.monotonic() < last_begin:
                _measure_case(pair, result.unmeasured.pop(0), this_round, result, measure)
        except WorkerLostError as error:
            if not is_out_of_time(error, this_round):
                result.lost_worker = error.failure
    result.wall_s = time.monotonic() - began


def at_once(steps: Mapping[Side, Steps[T]]) -> dict[Side, T]:
    """Return what both sides' steps return; while one is waited for, the other's worker works. Raises AskError: with
    the side, or "both"."""
    running = {side: Background(steps[side], AskError) for side in SIDES}
    for background in running.values():
        background.advance()  # the first step sends the request
    return on_both_sides(lambda side: running[side].finish())


def ask_both(
    processes: Processes, messages: Mapping[Side, Mapping[str, Any]], timeout_s: float
) -> dict[Side, dict[str, Any]]:
    """Return both sides' answers, each to its message within so many seconds. Raises AskError: with the side, or
    "both"."""
    return at_once({side: processes[side].asking(messages[side], timeout_s) for side in SIDES})


def sample_of(request: CaseRequest, this_round: Round, control: float, treatment: float, calls: int) -> PairSample:
    """Return one value a side as a sample."""
    log_ratio = math.log(treatment / control) if control > 0 < treatment else 0.0
    return PairSample(request.case.id, request.stage, this_round.number, control, treatment, log_ratio, 1, calls)


def _measure_case(pair: Pair, request: CaseRequest, this_round: Round, result: RoundResult, measure: Measure) -> None:
    """Measure one case and note what came of it. Raises WorkerLostError: a worker was lost, and with it the pair."""
    case = request.case
    processes: Processes = {}
    try:
        for side in SIDES:
            processes[side] = complete(pair[side].beginning(this_round.fork, request.description()))
        result.samples.append(measure(processes, request, this_round))
    except CaseRefusedError as error:  # one that only took too long gets another round, as if it had been killed
        (result.lost if error.failure.kind == "timeout" else result.refused)[case.id] = error.failure
    except (CaseLostError, WorkerLostError) as error:
        if is_out_of_time(error, this_round):
            result.unmeasured.append(request)
        else:
            result.lost[case.id] = error.failure
        if isinstance(error, WorkerLostError):
            raise
    for process in processes.values():
        process.end()


def _measure_memory(processes: Processes, request: CaseRequest, this_round: Round) -> PairSample:
    """Return both sides' values in bytes: what a call needs, or the peak over several; raises as ``ask_both``."""
    timeout_s = time_left(request.case, this_round.deadline)
    if request.case.metric == STORAGE:
        answers = ask_both(processes, dict.fromkeys(SIDES, storage_question(request, CALLS)), timeout_s)
        control, treatment = (float(sum(answers[side]["bytes"].values())) for side in SIDES)
    else:
        ask_both(processes, {side: request.message(side) for side in SIDES}, timeout_s)
        timeout_s = time_left(request.case, this_round.deadline)
        answers = ask_both(processes, {side: {"op": "resident", "calls": CALLS} for side in SIDES}, timeout_s)
        control, treatment = (float(answers[side]["bytes"]) for side in SIDES)
    return sample_of(request, this_round, control, treatment, CALLS)


def storage_question(request: CaseRequest, calls: int) -> dict[str, Any]:
    """Return the worker's "memory" request: what a call needs, by device."""
    return {"op": "memory", "case": request.description(), "seed": request.seed, "calls": calls}
