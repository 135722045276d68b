"""What is added to the comparisons of a run after their verdicts, in the order of ``ANNOTATORS``. None of it changes a
verdict."""

import dataclasses
from collections.abc import Callable, Sequence
from pathlib import Path

from opduel.harness.prepared_run import PreparedRun, RunMeasurement
from opduel.harness.profiles import Profiling, add_breakdowns, write_profiles
from opduel.records import DEFAULT_METRIC, Comparison

Annotator = Callable[[Sequence[Comparison], PreparedRun, RunMeasurement], list[Comparison]]


def annotate_effort(
    comparisons: Sequence[Comparison], run: PreparedRun, measurement: RunMeasurement
) -> list[Comparison]:
    """Add how each case was measured."""
    effort = measurement.findings.effort
    return [dataclasses.replace(comparison, effort=effort.get(comparison.case)) for comparison in comparisons]


def annotate_breakdowns(
    comparisons: Sequence[Comparison], run: PreparedRun, measurement: RunMeasurement
) -> list[Comparison]:
    """Add which operators the time of a case goes into, by the framework's own profiler."""
    every_case, profiling = run.request.configuration.breakdown, _profiling(run, measurement)
    return add_breakdowns(comparisons, run.measured_request.cases, measurement.findings, profiling, every_case)


def annotate_profiles(
    comparisons: Sequence[Comparison], run: PreparedRun, measurement: RunMeasurement
) -> list[Comparison]:
    """Write the profiler's own files of all cases, if they are wanted; the comparisons stay as they are."""
    output, findings = run.request.configuration.profile_output, measurement.findings
    if output is not None:
        failed = {comparison.case: comparison.failure.reason for comparison in comparisons if comparison.failure}
        cases, profiling = run.measured_request.cases, _profiling(run, measurement)
        measurement.profiles = write_profiles(Path(output), cases, failed, profiling, findings.aborted)
        if measurement.profiles.stopped is not None:
            findings.stop(measurement.profiles.stopped)
    return list(comparisons)


def annotate_causes(
    comparisons: Sequence[Comparison], run: PreparedRun, measurement: RunMeasurement
) -> list[Comparison]:
    """Add the causes of changes, in the time that is left of the budget, if the request says what finds them."""
    if run.request.find_causes is None:
        return list(comparisons)
    return run.request.find_causes(
        comparisons, run.measured_request, measurement.findings, _profiling(run, measurement)
    )


def annotate_work(comparisons: Sequence[Comparison], run: PreparedRun, measurement: RunMeasurement) -> list[Comparison]:
    """Add the floating-point operations and bytes of a call to comparisons of time, where they are known."""
    framework = run.request.framework
    work = {case.id: framework.work(case) for case in run.request.cases if case.metric == DEFAULT_METRIC}
    return [dataclasses.replace(comparison, work=work.get(comparison.case)) for comparison in comparisons]


def _profiling(run: PreparedRun, measurement: RunMeasurement) -> Profiling:
    request = run.request
    return Profiling(run.bench, request.framework, request.configuration.threads, request.seed, measurement.budget_end)


ANNOTATORS: Sequence[Annotator] = (
    annotate_effort,
    annotate_breakdowns,
    annotate_profiles,
    annotate_causes,
    annotate_work,
)
