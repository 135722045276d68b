"""One A/B run: prepare, measure, judge, annotate, record. In comes a request, out goes a report."""

import dataclasses
import math
import time
from collections.abc import Callable, Sequence

from opduel.comparator import withhold_verdicts
from opduel.harness.annotators import ANNOTATORS
from opduel.harness.checkpoint import Checkpoint, identity_of
from opduel.harness.machine.cpus import measure_roofline, this_thread_on
from opduel.harness.machine.host import HostMonitor, host_fingerprint
from opduel.harness.measurement_plan import MeasurementPlan, MeasurementResult, Progress
from opduel.harness.numerics.output_check import OutputCheck, check_outputs
from opduel.harness.numerics.same_inputs import INPUT_CHECK_SHARE, with_other_inputs
from opduel.harness.planning.budget import with_seconds
from opduel.harness.planning.schedule import Schedule
from opduel.harness.prepared_run import PreparedRun, RunMeasurement
from opduel.harness.processes.forking import with_checked_forks
from opduel.harness.processes.pair_pool import Bench
from opduel.harness.run_recording import begin_run, make_report
from opduel.harness.run_request import RunRequest, make_bench, plan_measurement
from opduel.harness.validity import Frequency, judge_validity, standing_despite, validity_problems
from opduel.harness.verification import Verifier, build_comparisons, plan_first_measurement, without_first_measurement
from opduel.records import Comparison, Report, RunError
from opduel.records.host_record import NoiseRecord
from opduel.records.measurement import SIDES
from opduel.records.run_record import ValidityRecord

ReportProgress = Callable[[Progress], None]


class InterruptedRunError(RunError):
    """A signal ended the run before anything was measured."""


def run_ab(request: RunRequest, on_progress: ReportProgress = lambda _: None) -> Report:
    """Measure both builds against each other.

    The report's ``run.complete`` is false when the run ended before every case was settled, ``run.aborted`` is
    true when it ended for another reason than its own time budget, and ``run.interrupted`` when that was a signal.

    A run with a log goes on where its last start ended, however it ended: every stored round counts as if it had been
    run now. ``run.resumable`` says whether a further start could measure more.

    Raises:
        UsageError: the host has fewer processors than threads, or ``env`` sets a variable of opduel's own.
        InterruptedRunError: a signal ended it before anything was measured.
        RunError: nothing at all could be measured.
    """
    run = prepare(request)
    with this_thread_on(run.bench.cpus.control):
        measurement = measure(run, on_progress)
        validity, comparisons = judge(run, measurement)
        for annotate in ANNOTATORS:
            comparisons = annotate(comparisons, run, measurement)
    comparisons = [*comparisons, *measurement.output_comparisons, *run.other_inputs]
    return make_report(run, measurement, validity, comparisons)


def prepare(request: RunRequest) -> PreparedRun:
    """Check what forks keep and which inputs differ, and begin to watch the host. Raises: as ``run_ab``."""
    began, bench, configuration = time.monotonic(), make_bench(request), request.configuration
    sides = SIDES[1:] if request.golden else SIDES
    framework = with_checked_forks(request.framework, bench, request.cases, configuration.threads, sides)
    request = dataclasses.replace(request, framework=framework)
    host, plan = host_fingerprint(), plan_measurement(request)
    # Of all cases: the check of inputs may run out of time, so that other cases are left in another start.
    checkpoint = Checkpoint(request.log, identity_of(framework.name, configuration, plan, bench, host))
    other_inputs = _compare_inputs(request, bench, checkpoint.elapsed_s)
    monitor = HostMonitor(allowed=bench.cpus.measure | bench.cpus.control)
    monitor.begin()
    roofline = None
    if configuration.roofline:
        roofline = measure_roofline(bench.cpus, configuration.threads, bench.environment)
    # One processor is for the controller and for workers that start.
    spare = max(0, len(bench.cpus.measure | bench.cpus.control) - configuration.threads - 1)

    def is_disturbed(noise: NoiseRecord | None, mhz: Sequence[float]) -> bool:
        return configuration.holds and bool(validity_problems(noise, spare, Frequency.of(mhz)))

    sampled = {case.id for case in plan.cases}
    failures = {comparison.case: comparison.failure for comparison in other_inputs if comparison.failure}
    spends_budget = configuration.roofline or framework.has_own_sides or configuration.threads > 1
    plan = dataclasses.replace(
        plan,
        failed={case_id: failure for case_id, failure in failures.items() if case_id in sampled},
        spent_s=time.monotonic() - began if spends_budget else 0.0,
        is_disturbed=is_disturbed,
    )
    start = begin_run(checkpoint)
    host = dataclasses.replace(host, roofline=roofline)
    return PreparedRun(request, bench, plan, checkpoint, start, monitor, other_inputs, spare, host)


def _compare_inputs(request: RunRequest, bench: Bench, earlier_s: float) -> list[Comparison]:
    """Return a failed comparison of each case that gets other inputs on either side, where a run has two frameworks;
    one framework makes its inputs alike. ``earlier_s``: what earlier starts took of the time budget."""
    if not request.framework.has_own_sides:
        return []
    budget = request.configuration.time_budget
    share_s = None if budget is None else INPUT_CHECK_SHARE * max(0.0, budget - earlier_s)
    with this_thread_on(bench.cpus.control):
        return with_other_inputs(request.cases, bench, request.seed, request.can_fork, share_s)


def measure(run: PreparedRun, on_progress: ReportProgress) -> RunMeasurement:
    """Compare outputs, make rounds, and verify what they flag. Raises RunError: as ``run_ab``."""
    request, bench, configuration = run.measured_request, run.bench, run.request.configuration

    def watch_host(progress: Progress) -> None:
        run.monitor.sample()
        on_progress(progress)

    phase = run.checkpoint.phase("first", run.monitor)
    output_check, plan = check_outputs(
        request.cases, request.golden, bench, run.plan, watch_host, run.checkpoint.elapsed_s
    )
    findings = MeasurementResult({case.id: [] for case in plan.cases}, wall_s=plan.spent_s)
    findings.failures |= plan.failed
    if output_check.stopped is None and plan.cases:
        after_s = configuration.verifies_after
        first_plan = plan if after_s is None else plan_first_measurement(plan, after_s)
        findings = Schedule(bench, first_plan, watch_host, phase).run()
    if output_check.stopped is not None:
        findings.stop(output_check.stopped)
    _require_measurement(plan, findings, output_check)
    during = phase.noise()
    began, after_s = time.monotonic() - findings.wall_s, configuration.verifies_after
    verifier = Verifier(bench, plan, began, after_s or 0.0, on_progress, checkpoint=run.checkpoint)
    comparisons = build_comparisons(plan, findings)
    if plan.first_measurement is not None:
        comparisons = list(map(without_first_measurement, comparisons))
    if after_s is not None:
        comparisons = verifier.verify(findings, comparisons)
    if output_check.out_of_time:  # some cases are left for the next start
        findings.stopped = findings.stopped or f"{plan.budget} was spent"
        findings.closed = False
    comparisons = with_seconds(comparisons, {case.id: case for case in plan.cases}, findings.pace, plan.looks)
    budget_end = math.inf if configuration.time_budget is None else verifier.began + configuration.time_budget
    return RunMeasurement(
        plan, findings, comparisons, output_check.comparisons, during, verifier.noise, verifier.second, budget_end
    )


def _require_measurement(plan: MeasurementPlan, findings: MeasurementResult, output_check: OutputCheck) -> None:
    """Raise InterruptedRunError or RunError if the run was aborted before it measured anything of its own."""
    earlier = plan.first_measurement.samples if plan.first_measurement else {}
    has_samples = any(len(samples) > len(earlier.get(case_id, ())) for case_id, samples in findings.samples.items())
    compared = any(comparison.rounds or comparison.failure for comparison in output_check.comparisons)
    if findings.aborted and not has_samples and not compared:
        error = InterruptedRunError if findings.interrupted else RunError
        raise error(f"nothing was measured: {findings.stopped}")


def judge(run: PreparedRun, measurement: RunMeasurement) -> tuple[ValidityRecord, list[Comparison]]:
    """Return whether the run can be trusted, and its comparisons, without the verdicts that a disturbed host or a
    failed A/A check does not support."""
    holds = run.request.configuration.holds
    noise = (measurement.noise_during, measurement.noise_verifying)
    timed = any(case.measure.noisy for case in run.measured_request.cases)
    plan, findings = measurement.plan, measurement.findings
    validity = judge_validity(plan, findings, *noise, run.spare, timed, holds)
    comparisons = list(measurement.comparisons)
    if holds and not validity.valid:
        stand = standing_despite(validity, (plan, findings), measurement.second, *noise, run.spare)
        comparisons = withhold_verdicts(comparisons, *stand)
    return validity, comparisons
