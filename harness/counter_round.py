"""One round in which nothing is timed: a fresh process pair, both sides at once, one value a side for each case."""

import random
import time
from collections.abc import Callable, Mapping
from contextlib import ExitStack
from typing import TypeVar

from opduel.harness.blocks import CaseRequest, Processes
from opduel.harness.channel import Steps, complete
from opduel.harness.pair import Round, RoundResult
from opduel.harness.pair_pool import Pair
from opduel.harness.worker_errors import AskError, CaseLostError, CaseRefusedError, WorkerLostError, merged_error
from opduel.records import PairSample
from opduel.records.measurement import SIDES, Side

T = TypeVar("T")


def run_counter_round(
    plan: Round,
    rng: random.Random,
    result: RoundResult,
    start: Callable[[ExitStack], Pair],
    measure: Callable[[Processes, CaseRequest, Round], PairSample],
) -> None:
    """Measure the round's cases, in random order, in one fresh process pair, and fill ``result`` as it goes.

    ``start`` starts the pair, which the stack ends; ``measure`` asks both sides' fresh processes of a case. Sentinels
    are not measured. Never raises for what a worker does; when it is interrupted, what was measured is in ``result``.
    """
    began = time.monotonic()
    result.unmeasured = rng.sample(list(plan.requests), len(plan.requests))
    with ExitStack() as stack:
        try:
            pair = start(stack)
            result.start_s = time.monotonic() - began
            while result.unmeasured and time.monotonic() < plan.deadline:
                _measure_case(pair, result.unmeasured.pop(0), plan, result, measure)
        except WorkerLostError as error:
            if not _out_of_time(error, plan):
                result.lost_worker = error.failure
    result.wall_s = time.monotonic() - began


def start_limit_s(plan: Round, usual_s: float) -> float:
    """Seconds to wait for the start of a pair: one that isn't ready when the round must end measures nothing."""
    return max(0.001, min(usual_s, plan.deadline - time.monotonic()))


def at_once(steps: Mapping[Side, Steps[T]]) -> dict[Side, T]:
    """What both sides' steps return; while one is waited for, the other's worker works.

    Raises:
        CaseRefusedError, CaseLostError, WorkerLostError: with the side, or "both".
    """
    found: dict[Side, T] = {}
    errors: dict[Side, AskError] = {}
    for side in SIDES:  # their first step sends the request
        try:
            next(steps[side])
        except StopIteration as end:
            found[side] = end.value
        except AskError as error:
            errors[side] = error
    for side in [side for side in SIDES if side not in found and side not in errors]:
        try:
            found[side] = complete(steps[side])
        except AskError as error:
            errors[side] = error
    if errors:
        raise merged_error(errors)
    return found


def _measure_case(
    pair: Pair,
    request: CaseRequest,
    plan: Round,
    result: RoundResult,
    measure: Callable[[Processes, CaseRequest, Round], PairSample],
) -> None:
    """Measure one case and note what came of it.

    Raises:
        WorkerLostError: a worker was lost, and with it the pair.
    """
    case = request.case
    processes: Processes = {}
    try:
        for side in SIDES:
            processes[side] = complete(pair[side].beginning(plan.fork))
        result.samples.append(measure(processes, request, plan))
    except CaseRefusedError as error:
        result.refused[case.id] = error.failure
    except (CaseLostError, WorkerLostError) as error:
        if _out_of_time(error, plan):
            result.unmeasured.append(request)
        else:
            result.lost[case.id] = error.failure
        if isinstance(error, WorkerLostError):
            raise
    for process in processes.values():
        process.end()


def _out_of_time(error: CaseLostError | WorkerLostError, plan: Round) -> bool:
    """Whether it was the run's time that was up, and not the case's."""
    return error.failure.kind == "timeout" and time.monotonic() >= plan.deadline
