"""One A/B run: two builds, the cases of a spec, a budget; in comes a request, out goes a report."""

import dataclasses
import math
import secrets
import time
from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from opduel.comparator import (
    attribute_changes,
    withhold_verdicts,
)
from opduel.frameworks import run_environment
from opduel.harness.breakdown import add_breakdowns
from opduel.harness.budget_forecast import budget_for, with_seconds
from opduel.harness.caches import plan_wiping
from opduel.harness.checkpoint import Checkpoint, Start
from opduel.harness.comparisons import build_comparisons, without_first_measurement
from opduel.harness.cpus import plan_cpus, this_thread_on
from opduel.harness.host import HostMonitor, host_fingerprint
from opduel.harness.instructions import plan_counting
from opduel.harness.output_check import check_outputs
from opduel.harness.pair_pool import Bench
from opduel.harness.profiles import Subject, write_profiles
from opduel.harness.roofline import measure_roofline
from opduel.harness.run_request import RunRequest, count_profiled, identity_of, plan_of
from opduel.harness.run_summary import judge_validity, run_record
from opduel.harness.schedule import MeasurementPlan, MeasurementResult, Progress, Schedule
from opduel.harness.verification import FIRST_SHARE, Verifier, first_order
from opduel.records import (
    DEFAULT_METRIC,
    Build,
    Case,
    Comparison,
    HostRecord,
    Report,
    RunError,
    RunRecord,
)
from opduel.records.measurement import Side

__all__ = ["InterruptedRunError", "RunRequest", "run_ab", "without_measuring"]


class InterruptedRunError(RunError):
    """A signal ended the run before anything was measured."""


def run_ab(request: RunRequest, on_progress: Callable[[Progress], None] = lambda _: None) -> Report:
    """Measure both builds against each other.

    The report's ``run["complete"]`` is false when the run ended before every case was settled, and
    ``run["aborted"]`` is true when that was for another reason than its own time budget; ``run["interrupted"]`` when
    that was a signal.

    A run that has a log goes on where the last start with it ended, however that was: with every round that was kept,
    counted and timed as if it had been run now. ``run["resumable"]`` says whether a further start could measure more.

    Raises:
        UsageError: the host has fewer processors than threads are asked for, or ``env`` has a variable that is ours.
        InterruptedRunError: a signal ended it before anything was measured.
        RunError: nothing at all could be measured.
    """
    asked = request.configuration
    cpus = plan_cpus(asked.threads)
    builds: dict[Side, Build] = {"control": request.control, "treatment": request.treatment}
    environment = run_environment(request.framework, asked.threads, request.env, list(builds.values()))
    counts = any(case.metric == "instructions" for case in request.cases)
    counting = plan_counting(request.framework, request.env) if counts else None
    wiping = plan_wiping() if asked.wipe_cache else None
    storage = request.framework.memory_environment()
    bench = Bench(builds, request.framework.adaptor, environment, cpus, counting, wiping, storage)
    order = plan_of(request)
    monitor = HostMonitor(allowed=cpus.measure | cpus.control)
    monitor.begin()

    def tell(progress: Progress) -> None:
        monitor.sample()
        on_progress(progress)

    began = time.monotonic()
    roofline = measure_roofline(cpus, asked.threads, environment) if asked.roofline else None
    order = dataclasses.replace(order, spent_s=time.monotonic() - began if asked.roofline else 0.0)
    host = {**host_fingerprint(), "roofline": roofline}
    checkpoint = Checkpoint(request.log, identity_of(request, order, bench, host))
    start = _begin(checkpoint)
    kept = checkpoint.phase("first", monitor)
    with this_thread_on(cpus.control):
        output_check, order = check_outputs(request, bench, order, tell, checkpoint.elapsed_s)
        findings = MeasurementResult(samples={case.id: [] for case in order.cases}, wall_s=order.spent_s)
        if output_check.stopped is None and order.cases:
            after_s = asked.verifies_after
            findings = Schedule(bench, order if after_s is None else first_order(order, after_s), tell, kept).run()
        if output_check.stopped is not None:
            findings.stop(output_check.stopped)
        during = kept.noise()
        compared = any(one.rounds or one.failure for one in output_check.comparisons)
        if findings.aborted and not _measured(order, findings) and not compared:
            error = InterruptedRunError if findings.interrupted else RunError
            raise error(f"nothing was measured: {findings.stopped}")
        began = time.monotonic() - findings.wall_s
        verifier = Verifier(bench, order, began, asked.verifies_after or 0.0, on_progress, checkpoint=checkpoint)
        comparisons = build_comparisons(order, findings)
        if order.first_measurement is not None:
            comparisons = list(map(without_first_measurement, comparisons))
        if asked.verifies_after is not None:
            comparisons = verifier.verify(findings, comparisons)
        if output_check.out_of_time:  # some cases were not come to: the next start may
            findings.stopped = findings.stopped or f"{order.budget} was spent"
            findings.closed = False
        comparisons = with_seconds(comparisons, {case.id: case for case in order.cases}, findings.pace, order.looks)
        ends = math.inf if asked.time_budget is None else verifier.began + asked.time_budget
        comparisons = add_breakdowns(
            comparisons,
            request.cases,
            findings,
            bench,
            request.framework,
            seed=request.seed,
            threads=asked.threads,
            every_case=asked.breakdown,
            deadline=ends,
        )
        profiles = _profiles(request, comparisons, findings, bench, ends)
    noise = {**monitor.summary(), "during": during, "verifying": verifier.host}
    validity = judge_validity(request, order, findings, noise, cpus)
    if asked.holds and not validity["valid"]:
        comparisons = withhold_verdicts(comparisons)
    comparisons = _with_work(request, [*attribute_changes(comparisons), *output_check.comparisons])
    run = run_record(request, order, findings, start, checkpoint.resumed, bench, validity)
    if findings.stopped is not None:
        share = 1.0 if asked.verifies_after is None else FIRST_SHARE
        run["forecast"] = budget_for(comparisons, findings.wall_s, share, count_profiled(request))
    run["profile_output"] = profiles
    sides = request.control, request.treatment
    return Report(RunRecord(run), *sides, HostRecord({**host, **noise}), comparisons, cases=tuple(request.cases))


def _profiles(
    request: RunRequest, comparisons: Sequence[Comparison], findings: MeasurementResult, bench: Bench, deadline: float
) -> dict[str, Any] | None:
    """Write the profiles that were asked for, unless the run was cut short; returns what the report keeps of them.

    None is made after ``deadline``, of the monotonic clock.
    """
    asked = request.configuration
    if asked.profile_output is None:
        return None
    failed = {one.case: one.failure.reason for one in comparisons if one.failure is not None}
    subject = Subject(bench.builds, request.framework, bench.environment, bench.cpus, asked.threads, request.seed)
    profiles = write_profiles(Path(asked.profile_output), request.cases, failed, subject, findings.aborted, deadline)
    if profiles.stopped is not None:
        findings.stop(profiles.stopped)
    return profiles.record()


def without_measuring(request: RunRequest, why: str) -> Report:
    """The report of two builds that are the same: every case ``unchanged`` and not measured; ``why`` is its note.

    Raises:
        UsageError: the host has fewer processors than threads are asked for.
    """
    asked = request.configuration
    cpus = plan_cpus(asked.threads)
    environment = run_environment(request.framework, asked.threads, request.env)
    bench = Bench({}, request.framework.adaptor, environment, cpus)
    order, findings = plan_of(request), MeasurementResult()
    monitor = HostMonitor(allowed=cpus.measure | cpus.control)
    monitor.begin()
    noise = {**monitor.summary(), "verifying": None}
    validity = {"valid": True, "hold": asked.holds, "reasons": [], "frequency_mhz": None, "aa_checks": []}
    run = run_record(request, order, findings, _begin(Checkpoint(None, "")), [], bench, validity)
    comparisons = [_unmeasured(case, why) for case in request.cases]
    host = {**host_fingerprint(), "roofline": None, **noise}
    return Report(
        RunRecord(run), request.control, request.treatment, HostRecord(host), comparisons, cases=request.cases
    )


def _with_work(request: RunRequest, comparisons: Sequence[Comparison]) -> list[Comparison]:
    """The comparisons, in the order of the run's cases; those of time with the work of a call, where it is known."""
    known = {case.id: request.framework.work(case) for case in request.cases if case.metric == DEFAULT_METRIC}
    found = {one.case: dataclasses.replace(one, work=known.get(one.case)) for one in comparisons}
    return [found[case.id] for case in request.cases]


def _unmeasured(case: Case, why: str) -> Comparison:
    return Comparison.without_figures(case, "unchanged", note=why)


def _begin(checkpoint: Checkpoint) -> Start:
    """The run's first start: this one, if there was none before."""
    now = datetime.now(UTC)
    return checkpoint.begin(f"{now:%Y%m%dT%H%M%SZ}-{secrets.token_hex(3)}", now.isoformat(timespec="seconds"))


def _measured(order: MeasurementPlan, findings: MeasurementResult) -> bool:
    """Whether the run has samples of its own."""
    first = order.first_measurement.samples if order.first_measurement else {}
    return any(len(samples) > len(first.get(case_id, ())) for case_id, samples in findings.samples.items())
