"""One A/B run: two builds, the cases of a spec, a budget; in comes a request, out goes a report."""

import dataclasses
import secrets
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from comparator import judge, plan_looks
from frameworks import Framework, worker_environment
from harness.cpus import plan_cpus, this_thread_on
from harness.host import HostMonitor, host_fingerprint
from harness.schedule import Findings, Order, Progress, Schedule
from harness.supply import Bench
from records import Build, Case, Comparison, Report, RunError
from records.measurement import Side


@dataclass(frozen=True)
class RunRequest:
    """What to measure, on what, and within which bounds.

    ``alpha``: the false discovery rate of the run. ``inject``: a share, 0 for none. ``time_budget``: seconds.
    ``labels``: further keys of the report's ``run`` (spec, platform, command...).
    """

    framework: Framework
    control: Build
    treatment: Build
    cases: Sequence[Case]
    seed: int
    alpha: float
    threads: int
    max_rounds: int
    time_budget: float | None
    inject: float
    labels: Mapping[str, Any]


def run_ab(request: RunRequest, on_progress: Callable[[Progress], None] = lambda _: None) -> Report:
    """Measure both builds against each other.

    The report's ``run["complete"]`` is false when the run ended before every case was settled, and
    ``run["broken"]`` is true when that was for another reason than its own time budget.

    Raises:
        UsageError: the host has fewer processors than threads are asked for.
        RunError: nothing at all could be measured.
    """
    cpus = plan_cpus(request.threads)
    environment = {**worker_environment(), **request.framework.environment(request.threads)}
    builds: dict[Side, Build] = {"control": request.control, "treatment": request.treatment}
    bench = Bench(builds, request.framework.adaptor, environment, cpus)
    looks = plan_looks(request.max_rounds)
    order = Order(
        request.cases,
        looks,
        request.alpha,
        request.seed,
        request.time_budget,
        request.inject,
        can_fork=lambda case: request.framework.can_fork(request.threads, case.context),
    )
    monitor = HostMonitor()
    monitor.begin()

    def tell(progress: Progress) -> None:
        monitor.sample()
        on_progress(progress)

    fingerprint = host_fingerprint()
    started = datetime.now(UTC)
    with this_thread_on(cpus.control):
        findings = Schedule(bench, order, tell).run()
    monitor.sample()
    if findings.broken and not any(findings.samples.values()):
        raise RunError(f"nothing was measured: {findings.stopped}")
    comparisons = _judge(request, findings, order)
    run = {
        "id": f"{started:%Y%m%dT%H%M%SZ}-{secrets.token_hex(3)}",
        "started": started.isoformat(timespec="seconds"),
        "finished": datetime.now(UTC).isoformat(timespec="seconds"),
        **request.labels,
        "framework": request.framework.name,
        "seed": request.seed,
        "alpha": request.alpha,
        "threads": request.threads,
        "max_rounds": request.max_rounds,
        "time_budget": request.time_budget,
        "inject": request.inject or None,
        "looks": dataclasses.asdict(looks),
        "environment": environment,
        "cpus": {"measure": sorted(cpus.measure), "start": sorted(cpus.start)},
        **_summary(findings),
    }
    host = {**fingerprint, **monitor.summary()}
    return Report(run, request.control, request.treatment, host, comparisons)


def _judge(request: RunRequest, findings: Findings, order: Order) -> list[Comparison]:
    """The verdicts, also for who presses Ctrl-C meanwhile: judging takes a moment, measuring took minutes."""
    try:
        return judge(request.cases, findings.samples, findings.failures, order.looks, request.alpha, order.injected)
    except KeyboardInterrupt as error:
        findings.stopped, findings.broken = str(error) or "interrupted", True
        return _judge(request, findings, order)


def _summary(findings: Findings) -> dict[str, Any]:
    """The keys of the report's ``run`` that tell how it went."""
    return {
        "complete": findings.stopped is None,
        "broken": findings.broken,
        "stopped": findings.stopped,
        "rounds": findings.rounds,
        "wall_s": findings.wall_s,
        "timed_s": findings.timed_s,
        "spent_s": findings.spent_s,
        "incidents": [dataclasses.asdict(incident) for incident in findings.incidents],
    }
