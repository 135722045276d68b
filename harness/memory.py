"""One round of the metrics of memory: what a call allocates, by the framework's profiler, and what its process holds.

Neither minds what else the machine does, so that both sides are asked at once.
"""

import math
import random
import statistics
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from typing import Any

from harness.blocks import CaseRequest, Processes, time_left
from harness.pair import Round, RoundResult
from harness.process import Worker
from harness.supply import PADDING_BYTES, Bench, Pair, PairSupply
from harness.untimed import at_once, run_untimed_round
from records import PairSample
from records.measurement import SIDES, Side

CALLS = 5
NOTHING = 1.0  # byte: what a side that holds none at all counts as in a ratio


def run_memory_round(supply: PairSupply, plan: Round, coin: random.Random, result: RoundResult) -> None:
    """Measure, by the metric of each case, in one fresh process pair; the rest is as in ``run_untimed_round``.

    The pair is none of ``supply``'s.
    """
    run_untimed_round(plan, coin, result, lambda stack: _start_pair(supply.bench, stack, coin), _measure)


def _start_pair(bench: Bench, stack: ExitStack, coin: random.Random) -> Pair:
    """Start both sides, each with a random environment size, on all processors; wait until both are ready.

    Raises:
        WorkerLostError: a side didn't start.
    """
    pair: Pair = {}
    for side in coin.sample(SIDES, 2):
        environment = {**bench.environment, "OPDUEL_PADDING": "x" * coin.randrange(PADDING_BYTES)}
        worker = Worker(side, bench.builds[side], bench.adaptor, environment, bench.cpus.start)
        pair[side] = stack.enter_context(worker)
    at_once({side: pair[side].readying() for side in SIDES})
    return pair


def _measure(processes: Processes, request: CaseRequest, plan: Round) -> PairSample:
    """Both sides' values in bytes: medians over the calls, or the peak over them.

    Raises:
        CaseRefusedError, CaseLostError, WorkerLostError: as ``CaseProcess.ask``.
    """
    case = request.case
    question = {"op": "profile" if case.metric == "memory" else "resident", "calls": CALLS}

    def ask(messages: Mapping[Side, Mapping[str, Any]]) -> dict[Side, dict[str, Any]]:
        timeout_s = time_left(case, plan.deadline)
        return at_once({side: processes[side].asking(messages[side], timeout_s) for side in SIDES})

    ask({side: request.message(side) for side in SIDES})
    answers = ask(dict.fromkeys(SIDES, question))
    control, treatment = (
        float(answers[side]["bytes"]) if "bytes" in answers[side] else held(answers[side]["calls"]) for side in SIDES
    )
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


def held(calls: Sequence[Mapping[str, Any]]) -> float:
    """The most bytes that a call held of what it allocated itself, all devices together: the median over the calls,
    each ``{"memory": {device: bytes}}``."""
    return float(statistics.median(sum(call["memory"].values()) for call in calls))
