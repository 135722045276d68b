"""One round of the metrics of memory: the storage that a call needs, by the framework's counters, and what its process
holds.

Neither depends on what else the machine does, so that both sides are asked at once.
"""

import math
import random
from collections.abc import Mapping
from contextlib import ExitStack
from typing import Any

from opduel.harness.blocks import CaseRequest, Processes, time_left
from opduel.harness.counter_round import at_once, run_counter_round, start_limit_s
from opduel.harness.pair import Round, RoundResult
from opduel.harness.pair_pool import PADDING_BYTES, Bench, Pair, PairPool
from opduel.harness.process import START_TIMEOUT_S, Worker
from opduel.records import PairSample
from opduel.records.measurement import SIDES, Side

CALLS = 5
STORAGE = "memory"  # the metric of the framework's counters; the other is the operating system's
NOTHING = 1.0  # byte: what a side that holds none at all counts as in a ratio


def run_memory_round(pool: PairPool, plan: Round, rng: random.Random, result: RoundResult) -> None:
    """Measure, by the metric of each case, in one fresh process pair; the rest is as in ``run_counter_round``.

    The pair is none of ``pool``'s. All cases of a round have one metric.
    """
    storage = any(request.case.metric == STORAGE for request in plan.requests)
    run_counter_round(plan, rng, result, lambda stack: _start_pair(pool.bench, storage, plan, stack, rng), _measure)


def _start_pair(bench: Bench, storage: bool, plan: Round, stack: ExitStack, rng: random.Random) -> Pair:
    """Start both sides, each with a random environment size, on all processors; wait until both are ready.

    With ``storage``, they get what measuring it needs.

    Raises:
        WorkerLostError: a side didn't start.
    """
    pair: Pair = {}
    for side in rng.sample(SIDES, 2):
        environment = {**bench.environment, **(bench.memory_environment if storage else {})}
        environment["OPDUEL_PADDING"] = "x" * rng.randrange(PADDING_BYTES)
        worker = Worker(side, bench.builds[side], bench.adaptor, environment, bench.cpus.start)
        pair[side] = stack.enter_context(worker)
    limit_s = start_limit_s(plan, START_TIMEOUT_S)
    at_once({side: pair[side].readying(limit_s) for side in SIDES})
    return pair


def _measure(processes: Processes, request: CaseRequest, plan: Round) -> PairSample:
    """Both sides' values in bytes: what a call needs, or the peak over several.

    Raises:
        CaseRefusedError, CaseLostError, WorkerLostError: as ``CaseProcess.ask``.
    """
    case = request.case

    def ask(messages: Mapping[Side, Mapping[str, Any]]) -> dict[Side, dict[str, Any]]:
        timeout_s = time_left(case, plan.deadline)
        return at_once({side: processes[side].asking(messages[side], timeout_s) for side in SIDES})

    if case.metric == STORAGE:
        answers = ask(dict.fromkeys(SIDES, storage_question(request, CALLS)))
        control, treatment = (float(sum(answers[side]["bytes"].values())) for side in SIDES)
    else:
        ask({side: request.message(side) for side in SIDES})
        answers = ask({side: {"op": "resident", "calls": CALLS} for side in SIDES})
        control, treatment = (float(answers[side]["bytes"]) for side in SIDES)
    return PairSample(
        case_id=case.id,
        stage=request.stage,
        round=plan.number,
        control=control,
        treatment=treatment,
        log_ratio=math.log(max(treatment, NOTHING) / max(control, NOTHING)),
        blocks=1,
        calls=CALLS,
    )


def storage_question(request: CaseRequest, calls: int) -> dict[str, Any]:
    """The worker's "memory" request: what a call needs, by device."""
    return {"op": "memory", "case": request.description(), "seed": request.seed, "calls": calls}
