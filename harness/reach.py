"""Record which functions of a build each case runs: in processes of their own, which aren't timed."""

import os
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

from opduel.harness.processes.case_request import CaseRequest, benchmark_of, one_of_each_first, time_left
from opduel.harness.run_request import RunRequest, make_bench
from opduel.records import VALUE, Case, Failure, RunError
from opduel.records.measurement import MISSING, SKIPPED, Side
from opduel.records.reach import Reach

RECORDING = {"OPDUEL_RECORD_REACH": "1"}  # read by harness/worker/main.py
SLOWDOWN = 10  # of a case by the recording, at most, before it counts as hung
CASE_SHARE = 1 / 3  # of the time for all, that one case may take: others have theirs, too
SEED = 0  # of inputs, whatever the run's, so that what was recorded serves other runs
SEEN = ("time", "memory", "process_memory", "instructions", VALUE)  # metrics that make just the calls that are recorded
REFUSALS = ("error", MISSING, SKIPPED)  # kinds of failure by which a build says that it can't run a case
NO_TIME = Reach(unknown="there was no time to see it")


def record_reach(
    request: RunRequest,
    side: Side,
    cases: Sequence[Case],
    root: Path,
    limit_s: float,
    is_reached: Callable[[Reach], bool] = lambda _: False,
) -> dict[str, Reach]:
    """Return what each of the cases reaches of a side's build, by the case's id, in at most ``limit_s`` seconds.

    A case of each benchmark comes first, in the order of the cases. When one ``is_reached``, the other cases of its
    benchmark aren't looked at. ``root`` is the build's site-packages. Raise UsageError as ``make_bench`` does.
    """
    bench = make_bench(request)
    environment, allowed = {**bench.environment, **RECORDING}, frozenset(os.sched_getaffinity(0))
    is_given_up, deadline = threading.Event(), time.monotonic() + limit_s

    def record(part: Sequence[Case]) -> dict[str, Reach]:
        reaches = dict.fromkeys((case.id for case in part), NO_TIME)
        with bench.worker(side, environment, allowed) as worker:
            reached_benchmarks = set[tuple[str, str]]()
            for case in one_of_each_first(part):
                if is_given_up.is_set() or time.monotonic() >= deadline:
                    break
                if benchmark_of(case) in reached_benchmarks:
                    continue
                timeout_s = min(CASE_SHARE * limit_s, time_left(case, deadline, SLOWDOWN))
                fork = request.can_fork(case)
                try:
                    reaches[case.id] = _reach_of(case, worker.ask([_question(case, root)], timeout_s, fork=fork))
                except RunError as error:
                    reaches[case.id] = Reach(unknown=str(error))
                if is_reached(reaches[case.id]):
                    reached_benchmarks.add(benchmark_of(case))
        return reaches

    with ThreadPoolExecutor(len(allowed)) as pool:
        try:
            recorded = pool.map(record, _shares(cases, len(allowed)))
            return {case_id: reach for reaches in recorded for case_id, reach in reaches.items()}
        finally:
            is_given_up.set()


def _shares(cases: Sequence[Case], count: int) -> list[list[Case]]:
    """Return the cases in so many parts, or fewer, each benchmark's in one."""
    by_benchmark: dict[tuple[str, str], list[Case]] = {}
    for case in cases:
        by_benchmark.setdefault(benchmark_of(case), []).append(case)
    groups = [*by_benchmark.values()]
    return [[case for group in groups[start::count] for case in group] for start in range(min(count, len(groups)))]


def _question(case: Case, root: Path) -> Mapping[str, Any]:
    description = CaseRequest(case, SEED).description()
    return {"op": "reach", "case": description, "seed": SEED, "reports": case.metric == VALUE, "root": str(root)}


def _reach_of(case: Case, answer: Sequence[Mapping[str, Any]] | Failure) -> Reach:
    if isinstance(answer, Failure):
        return Reach(unknown=answer.reason, failure=answer if answer.kind in REFUSALS else None)
    if case.metric not in SEEN:
        return Reach(unknown=f"its metric is {case.metric}")
    functions, imported, modules = (frozenset(answer[0][name]) for name in ("functions", "imported", "modules"))
    return Reach(functions, imported, modules, answer[0]["unknown"])
