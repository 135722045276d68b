"""One A/B run: prepare, measure, judge, annotate, record. In comes a request, out goes a report."""

import dataclasses
import math
import time
from collections.abc import Callable, Sequence
from pathlib import Path

from opduel.comparator import withhold_verdicts
from opduel.harness.checkpoint import Checkpoint, identity_of
from opduel.harness.machine.cpus import measure_roofline, this_thread_on
from opduel.harness.machine.host import HostMonitor, host_fingerprint
from opduel.harness.machine.page_cache import lay_programs_afresh
from opduel.harness.measurement_plan import Measurement, MeasurementPlan, MeasurementResult, Progress
from opduel.harness.numerics.output_check import INPUT_CHECK_SHARE, OutputCheck, check_outputs, with_other_inputs
from opduel.harness.planning.budget import NO_TIME_LEFT, with_seconds
from opduel.harness.planning.schedule import Schedule
from opduel.harness.processes.forking import with_checked_forks
from opduel.harness.processes.pair_pool import Bench
from opduel.harness.profiles import Profiling, add_breakdowns, write_profiles
from opduel.harness.run_recording import PreparedRun, RunMeasurement, begin_run, make_report
from opduel.harness.run_request import RunRequest, make_bench, plan_measurement
from opduel.harness.validity import Frequency, judge_validity, standing_despite, validity_problems
from opduel.harness.verification import Verifier, build_comparisons, plan_first_measurement, without_first_measurement
from opduel.records import DEFAULT_METRIC, Comparison, Report, RunError
from opduel.records.host_record import NoiseRecord
from opduel.records.measurement import SIDES
from opduel.records.run_record import ValidityRecord

ReportProgress = Callable[[Progress], None]


class InterruptedRunError(RunError):
    """A signal ended the run before anything was measured."""


def run_ab(request: RunRequest, on_progress: ReportProgress = lambda _: None) -> Report:
    """Measure both builds against each other.

    The report's ``run.complete`` is false when the run ended before every case was settled, ``run.aborted`` is true
    when it ended for another reason than its own time budget, and ``run.interrupted`` when that was a signal. A run
    with a log goes on where its last start ended; ``run.resumable`` says whether a further start could measure more.
    Raises UsageError: the host has fewer processors than threads, or ``env`` sets a variable of opduel's own.
    InterruptedRunError: a signal ended it before anything was measured. RunError: nothing at all could be measured.
    """
    run = prepare(request)
    with this_thread_on(run.bench.cpus.control):
        measurement = measure(run, on_progress)
        validity, comparisons = judge(run, measurement)
        comparisons = annotate(run, measurement, comparisons)
    comparisons = [*comparisons, *measurement.output_comparisons, *run.other_inputs]
    return make_report(run, measurement, validity, comparisons)


def prepare(request: RunRequest) -> PreparedRun:
    """Read programs again, check what forks lose and which inputs differ, and begin to watch the host. Raises: as
    ``run_ab``."""
    began, bench, configuration = time.monotonic(), make_bench(request), request.configuration
    lay_programs_afresh(bench.builds, bench.environment)
    sides = SIDES[1:] if request.golden else SIDES
    framework = with_checked_forks(request.framework, bench, request.cases, configuration.threads, sides)
    request = dataclasses.replace(request, framework=framework)
    host, plan = host_fingerprint(), plan_measurement(request)
    # Of all cases: the check of inputs may run out of time, so that other cases are left in another start.
    checkpoint = Checkpoint(request.log, identity_of(framework.name, configuration, plan, bench, host))
    other_inputs = _compare_inputs(request, bench, checkpoint.elapsed_s)
    monitor = HostMonitor(allowed=bench.cpus.measure | bench.cpus.control)
    roofline = None
    if configuration.roofline:
        roofline = measure_roofline(bench.cpus, configuration.threads, bench.environment)
    # One processor is for the controller and for workers that start.
    spare = max(0, len(bench.cpus.measure | bench.cpus.control) - configuration.threads - 1)

    def is_disturbed(noise: NoiseRecord | None, mhz: Sequence[float]) -> bool:
        return configuration.holds and bool(validity_problems(noise, spare, Frequency.of(mhz)))

    sampled = {case.id for case in plan.cases}
    other_failures = {comparison.case: comparison.failure for comparison in other_inputs if comparison.failure}
    failures = {**request.failures, **other_failures}
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
    request, configuration = run.measured_request, run.request.configuration
    budget_s = math.inf if configuration.time_budget is None else configuration.time_budget

    def report_progress(progress: Progress) -> None:
        on_progress(dataclasses.replace(progress, budget_left_s=max(0.0, budget_s - progress.elapsed_s)))

    def watch_host(progress: Progress) -> None:
        run.monitor.sample()
        report_progress(progress)

    output_check, plan = check_outputs(
        request.cases, request.golden, run.bench, run.plan, watch_host, run.checkpoint.elapsed_s
    )
    first = _measure_rounds(run, plan, output_check, watch_host)
    result = first.result
    verifier = Verifier(run.bench, plan, time.monotonic() - result.wall_s, report_progress, run.checkpoint)
    comparisons = build_comparisons(plan, result)
    if plan.first_measurement is not None:
        comparisons = list(map(without_first_measurement, comparisons))
    if configuration.verifies_after is not None:
        comparisons = verifier.verify(result, comparisons, configuration.verifies_after)
    if output_check.out_of_time:  # some cases are left for the next start
        result.stopped = result.stopped or NO_TIME_LEFT
        result.closed = False
    comparisons = with_seconds(comparisons, {case.id: case for case in plan.cases}, result.durations)
    return RunMeasurement(first, verifier.second, comparisons, output_check.comparisons, verifier.began + budget_s)


def _measure_rounds(
    run: PreparedRun, plan: MeasurementPlan, output_check: OutputCheck, watch_host: ReportProgress
) -> Measurement:
    """Make the rounds of the first measurement, if the check of outputs wasn't stopped. Raises RunError: as
    ``run_ab``."""
    phase = run.checkpoint.phase("first", run.monitor)
    after_s = run.request.configuration.verifies_after
    if output_check.stopped is None and plan.cases:
        first_plan = plan if after_s is None else plan_first_measurement(plan, after_s)
        result = Schedule(run.bench, first_plan, watch_host, phase).run()
    else:
        result = MeasurementResult({case.id: [] for case in plan.cases}, wall_s=plan.spent_s)
        result.failures |= plan.failed
    if output_check.stopped is not None:
        result.stop(output_check.stopped)
    _require_measurement(plan, result, output_check.comparisons)
    return Measurement(plan, result, phase.noise())


def _require_measurement(
    plan: MeasurementPlan, result: MeasurementResult, output_comparisons: Sequence[Comparison]
) -> None:
    """Raise InterruptedRunError or RunError if the run was aborted before it measured anything of its own."""
    earlier = plan.first_measurement.samples if plan.first_measurement else {}
    has_samples = any(len(samples) > len(earlier.get(case_id, ())) for case_id, samples in result.samples.items())
    compared = any(comparison.rounds or comparison.failure for comparison in output_comparisons)
    if result.aborted and not has_samples and not compared:
        error = InterruptedRunError if result.interrupted else RunError
        raise error(f"nothing was measured: {result.stopped}")


def judge(run: PreparedRun, measurement: RunMeasurement) -> tuple[ValidityRecord, list[Comparison]]:
    """Return whether the run can be trusted, and its comparisons, without the verdicts that a disturbed host or a
    failed A/A check does not support."""
    holds = run.request.configuration.holds
    timed = any(case.measure.noisy for case in run.measured_request.cases)
    validity = judge_validity(measurement.first, measurement.second, run.spare, timed, holds)
    comparisons = list(measurement.comparisons)
    if holds and not validity.valid:
        stand = standing_despite(validity, measurement.first, measurement.second, run.spare)
        comparisons = withhold_verdicts(comparisons, *stand)
    return validity, comparisons


def annotate(run: PreparedRun, measurement: RunMeasurement, comparisons: Sequence[Comparison]) -> list[Comparison]:
    """Add breakdowns, causes, the effort and the work of a call to the comparisons, and write profiles; no verdict
    changes. What takes time ends with the budget."""
    request, result = run.measured_request, measurement.first.result
    configuration, framework = request.configuration, request.framework
    profiling = Profiling(run.bench, framework, configuration.threads, request.seed, measurement.budget_end)
    comparisons = add_breakdowns(comparisons, request.cases, result, profiling, configuration.breakdown)
    if configuration.profile_output is not None:
        failed = {comparison.case: comparison.failure.reason for comparison in comparisons if comparison.failure}
        folder = Path(configuration.profile_output)
        measurement.profiles = write_profiles(folder, request.cases, failed, profiling, result.aborted)
        if measurement.profiles.stopped is not None:
            result.stop(measurement.profiles.stopped)
    if request.find_causes is not None:
        comparisons = request.find_causes(comparisons, request, result, profiling)
    work = {case.id: framework.work(case) for case in request.cases if case.metric == DEFAULT_METRIC}
    return [
        dataclasses.replace(comparison, effort=result.effort.get(comparison.case), work=work.get(comparison.case))
        for comparison in comparisons
    ]
