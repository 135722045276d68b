"""Whether the cases of a run with several threads are measured in forks: found out on the run's own builds.

With several threads, a fork must lose none of those that the import has begun, and must compute with as many as were
asked for.  Both are seen in a fork of a worker of each build, before anything is measured; where one build fails, no
case of several threads is forked on either side.
"""

from collections.abc import Iterable, Sequence
from contextlib import ExitStack
from typing import Any

from opduel.frameworks import Framework
from opduel.harness.processes.pair_pool import Bench
from opduel.harness.processes.process import STEP_TIMEOUT_S
from opduel.harness.rounds.instructions import threads_of
from opduel.records import Case, Failure
from opduel.records.measurement import Side
from opduel.records.run_record import ForksRecord

WATCHING = {"OPDUEL_WATCH_FORKS": "1"}  # read by harness/worker/main.py


def with_checked_forks(
    framework: Framework, bench: Bench, cases: Iterable[Case], threads: int, sides: Sequence[Side] | None = None
) -> Framework:
    """Return the framework; where a fork of one of the bench's builds doesn't compute with ``threads``, one that forks
    for no such case, and says why (``Framework.unforked``). ``sides``: those that are looked at, or all."""
    forking = any(threads_of(case, threads) > 1 and framework.can_fork(threads, case.context) for case in cases)
    if not forking:
        return framework
    with ExitStack() as stack:
        for side in bench.builds if sides is None else sides:
            worker = stack.enter_context(bench.worker(side, {**bench.environment, **WATCHING}, bench.cpus.start))
            if why := why_not(worker.ask([{"op": "threads"}], STEP_TIMEOUT_S), threads):
                return framework.without_forks(f"{side}: {why}")
    return framework


def forks_record(framework: Framework, cases: Sequence[Case], threads: int) -> ForksRecord:
    """Return how many cases were to be measured in forks, and how many each alone in a process; of the latter, why."""
    forked = sum(framework.can_fork(threads_of(case, threads), case.context) for case in cases)
    return ForksRecord(forked=forked, alone=len(cases) - forked, reason=framework.unforked or None)


def why_not(answer: list[dict[str, Any]] | Failure, threads: int) -> str:
    """Return why a fork that gave this answer, or failed, is of no use for ``threads``; empty if it is of use."""
    if isinstance(answer, Failure):
        return answer.reason
    lost, compute = answer[0]["lost"], answer[0]["compute"]
    if lost is None:
        return "whether a fork loses threads can't be seen on this system"
    if lost:
        return f"a fork loses {len(lost)} thread{'s' * (len(lost) > 1)} of the import ({', '.join(sorted(set(lost)))})"
    if compute is not None and compute < threads:
        return f"in a fork an operator computes with {compute} of {threads} threads"
    return ""
