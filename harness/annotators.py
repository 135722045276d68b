"""What is added to the comparisons of a run after their verdicts, in the order of ``ANNOTATORS``. None of it changes a
verdict."""

import dataclasses
from collections.abc import Callable, Sequence
from pathlib import Path

from opduel.comparator import attribute_changes
from opduel.harness.explain.causes import Explaining, add_causes
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


def annotate_instructions(
    comparisons: Sequence[Comparison], run: PreparedRun, measurement: RunMeasurement
) -> list[Comparison]:
    """Say of cases whose instructions were counted, too, whether they do more or the same work in another time."""
    return attribute_changes(comparisons)


def annotate_causes(
    comparisons: Sequence[Comparison], run: PreparedRun, measurement: RunMeasurement
) -> list[Comparison]:
    """Add the causes of changes that are to be explained, in what is left of the time budget."""
    request, configuration = run.measured_request, run.request.configuration
    folder = request.callgrind if configuration.profile_output is None else Path(configuration.profile_output)
    replicates = request.first_measurement is not None
    profiling = _profiling(run, measurement)
    explaining = Explaining(profiling, configuration.explain, replicates, request.env, folder, request.cases)
    return add_causes(comparisons, request.cases, measurement.findings, explaining)


def annotate_work(comparisons: Sequence[Comparison], run: PreparedRun, measurement: RunMeasurement) -> list[Comparison]:
    """Add the floating-point operations and bytes of a call to comparisons of time, where they are known."""
    framework = run.request.framework
    work = {case.id: framework.work(case) for case in run.request.cases if case.metric == DEFAULT_METRIC}
    return [dataclasses.replace(comparison, work=work.get(comparison.case)) for comparison in comparisons]


def _profiling(run: PreparedRun, measurement: RunMeasurement) -> Profiling:
    request = run.request
    return Profiling(run.bench, request.framework, request.configuration.threads, request.seed, measurement.ends)


ANNOTATORS: Sequence[Annotator] = (
    annotate_effort,
    annotate_breakdowns,
    annotate_profiles,
    annotate_instructions,
    annotate_causes,
    annotate_work,
)
