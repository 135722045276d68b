"""Which operators a case's time goes into, on either side, by the framework's own profiler: told beside the verdict.

It is no second verdict: one process a side, the profiler's own cost in it, and the case in the form in which each
operator can be seen.  Whatever goes wrong here costs a case its breakdown and nothing else.
"""

import math
import statistics
import time
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from opduel.frameworks import Framework
from opduel.harness.blocks import CaseRequest, time_left
from opduel.harness.pair_pool import Bench
from opduel.harness.restarting_worker import RestartingWorker
from opduel.harness.schedule import MeasurementResult
from opduel.records import DEFAULT_METRIC, Breakdown, Case, Comparison, Failure, OperatorTime, RunError
from opduel.records.measurement import SIDES, Side

PROFILED_NS = 500_000_000  # about as much profiled work as a case gets on either side
MOST_CALLS = 10
_PLACES = {"regressed": 0, "improved": 1}


def add_breakdowns(
    comparisons: Sequence[Comparison],
    cases: Sequence[Case],
    findings: MeasurementResult,
    bench: Bench,
    framework: Framework,
    *,
    seed: int,
    threads: int,
    every_case: bool,
    deadline: float = math.inf,
) -> list[Comparison]:
    """The comparisons, those of ``to_break_down`` with a breakdown, if they were timed on both sides.

    After ``deadline`` (of the monotonic clock) no further one is made: those that regressed come first, then those that
    improved.  How many were left out is noted in ``findings``.  A run that was cut short gets none; a signal meanwhile
    is noted in ``findings``.
    """
    by_id = {case.id: case for case in to_break_down(cases, framework, every_case)}
    wanted = [number for number, one in enumerate(comparisons) if one.case in by_id and one.control is not None]
    if not wanted or findings.aborted:
        return list(comparisons)
    wanted.sort(key=lambda number: _PLACES.get(comparisons[number].verdict, len(_PLACES)))
    environment = {**bench.environment, **framework.profiling_environment()}
    workers = {
        side: RestartingWorker(side, bench.builds[side], framework.adaptor, environment, bench.cpus.start)
        for side in SIDES
    }
    result = list(comparisons)
    try:
        for done, number in enumerate(wanted):
            one, case = comparisons[number], framework.as_profiled(by_id[comparisons[number].case])
            fork = framework.can_fork(threads, case.context)
            made = _break_down(workers, case, one.control or 0.0, seed, fork, deadline)
            if made is None:
                findings.not_broken_down = len(wanted) - done
                break
            result[number] = replace(one, breakdown=made)
    except KeyboardInterrupt as error:
        findings.stop(error)
    finally:
        for worker in workers.values():
            worker.close()
    return result


def to_break_down(cases: Sequence[Case], framework: Framework, every_case: bool) -> list[Case]:
    """The cases that get a breakdown if they are measured: those of networks, or every one that is timed."""
    return [case for case in cases if case.metric == DEFAULT_METRIC and (every_case or framework.is_network(case))]


def _break_down(
    workers: Mapping[Side, RestartingWorker], case: Case, call_ns: float, seed: int, fork: bool, deadline: float
) -> Breakdown | None:
    """One case on both sides; what can't be profiled is said in the note. None: the time was up before it was over."""
    calls = max(1, min(MOST_CALLS, int(PROFILED_NS / call_ns)))
    tables: dict[Side, tuple[OperatorTime, ...]] = dict.fromkeys(SIDES, ())
    problems = []
    for side in SIDES:
        if time.monotonic() >= deadline:  # before a worker is started
            return None
        requests = [CaseRequest(case, seed).message(side), {"op": "profile", "calls": 1 + calls}]
        try:
            answers = workers[side].ask(requests, time_left(case, deadline), fork=fork)
        except RunError as error:
            problems.append(f"{side}: {error}")
            continue
        if isinstance(answers, Failure) and answers.kind == "timeout" and time.monotonic() >= deadline:
            return None
        if isinstance(answers, Failure):
            problems.append(f"{side}: {answers.kind}: {answers.reason}")
        else:
            tables[side] = operator_times(answers[1]["calls"][1:])  # the first one sets the profiler up, too
            if not tables[side]:
                problems.append(f"{side}: the framework's profiler saw no operator")
    return Breakdown(tables["control"], tables["treatment"], "; ".join(problems))


def operator_times(calls: Sequence[Mapping[str, Any]]) -> tuple[OperatorTime, ...]:
    """What one call spends in each operator: medians over ``calls``, as the worker's "profile" answers them.

    Those that take longest come first; shares are of all operators together.
    """
    names = sorted({name for call in calls for name in call["operators"]})
    runs = {name: [call["operators"].get(name, []) for call in calls] for name in names}
    spent = {name: statistics.median(map(sum, runs[name])) for name in names}
    whole = sum(spent.values())
    rows = [
        OperatorTime(name, statistics.median(map(len, runs[name])), spent[name], spent[name] / whole if whole else 0.0)
        for name in names
    ]
    return tuple(sorted(rows, key=lambda row: -row.ns))
