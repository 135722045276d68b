"""harness.py --single: one build measured alone, its result written, and compared with an earlier one's."""

import dataclasses
import os
import sys
from collections.abc import Callable, Sequence
from pathlib import Path

from opduel.commands.builds import make_builds, usual_build
from opduel.commands.config import StoredAnswers
from opduel.commands.entry import DONE, INCOMPLETE, REGRESSED, log, patience
from opduel.commands.harness_options import HarnessOptions
from opduel.commands.named_operators import refuse_unknown_operators
from opduel.commands.overwrite_check import files_read, refuse_overwriting
from opduel.commands.progress import ProgressDisplay
from opduel.commands.session import Session, check_profile_output, log_profiles, plan_session, refuse_two_sided
from opduel.comparator.baseline import DEFAULT_BASELINE_THRESHOLD, compare_with_baseline, machine_differences
from opduel.frameworks import Framework
from opduel.harness.other_runs.single import SingleRequest, run_single
from opduel.records import DEFAULT_METRIC, Build, RunError, UsageError
from opduel.records.single import BaselineComparison, SingleReport
from opduel.reporters.single import baseline_text, csv_text, markdown_text, read_single, screen_text, single_text
from opduel.reporters.stream import print_result, write_text
from opduel.support.atomic import check_file, write_atomically
from opduel.support.text import counted, listed

FORMATS: dict[str, Callable[[SingleReport], str]] = {"json": single_text, "csv": csv_text, "md": markdown_text}
WARNING = (
    "compared with an earlier run: whatever changed on the machine since then is part of every change. "
    "Much weaker than an A/B, which measures both builds side by side"
)


def run_one_build(options: HarnessOptions, command: Sequence[str]) -> int:
    """Measure the treatment alone, and tell; returns the exit code. UsageError: wrong options, a bad spec or baseline;
    RunError: nothing could be measured, or written."""
    then = _baseline(options)
    _check_output(options)
    check_profile_output(options)
    request = _request(options, command)
    log.info("%s, %s alone", counted(len(request.cases), "case"), request.build.name)
    with ProgressDisplay(len(request.cases), sys.stderr) as display:
        report = run_single(request, display.show_single)
    if not report.run.complete:
        log.warning("not completed: %s; results so far are shown", report.run.stop_reason)
    log_profiles(report.run)
    compared = []
    if then is not None:
        threshold = options.threshold.get(DEFAULT_METRIC, DEFAULT_BASELINE_THRESHOLD)
        compared = compare_with_baseline(report, then, threshold)
        log.warning("%s", WARNING)
        for line in machine_differences(report, then):
            log.warning("differs from the baseline's run: %s", line)
    for line in open_lines(report, compared):
        log.warning("%s", line)
    with patience():
        _write_result(options, report, compared)
    return outcome_of(report, compared)


def _baseline(options: HarnessOptions) -> SingleReport | None:
    """The earlier result to compare with, if one was given; UsageError if it can't be read, or was timed by another
    clock."""
    if options.baseline is None:
        return None
    then = read_single(options.baseline)
    clock = then.run.configuration.profiler
    if clock != options.profiler:
        raise UsageError(f"--baseline {options.baseline}: was timed with --profiler {clock}: use that")
    if then.run.configuration.wipe_cache != bool(options.wipe_cache):
        fix = "leave --wipe_cache out" if options.wipe_cache else "add that"
        how = "without" if options.wipe_cache else "with"
        raise UsageError(f"--baseline {options.baseline}: was timed {how} --wipe_cache: {fix}")
    return then


def _request(options: HarnessOptions, command: Sequence[str]) -> SingleRequest:
    session, build = plan_one_build(options, command, DEFAULT_METRIC)
    if options.output_file is not None:
        refuse_overwriting(files_read(options, session.choice.path), "--output_file", [options.output_file])
    return SingleRequest(
        framework=session.framework,
        build=session.with_packages(build),
        cases=session.cases,
        seed=session.seed,
        configuration=session.configuration,
        labels=session.labels,
        env=options.variables,
    )


def plan_one_build(options: HarnessOptions, command: Sequence[str], metric: str) -> tuple[Session, Build]:
    """What is measured by this metric alone, and on which build; ``command`` is kept with the result. UsageError: wrong
    options, a bad spec, no such build; RunError: the build can't be made."""
    timed_options = dataclasses.replace(options, metric=(metric,))
    session = plan_session(timed_options, StoredAnswers(), command, reporters=())
    build = the_build(options, session.framework)
    refuse_unknown_operators(options, session.cases, session.framework, [build], session.choice.path)
    return session, build


def the_build(options: HarnessOptions, framework: Framework) -> Build:
    """The build that is measured: ``--treatment``, or else the one that is configured or the framework's default."""
    refuse_two_sided(framework, "--single" if options.golden is None else "--golden")
    request = options.treatment or usual_build("treatment", StoredAnswers(), framework)
    return make_builds(options, framework, [request])[0]


def _check_output(options: HarnessOptions) -> None:
    """Raise UsageError unless there can be a file to write: before minutes are spent on measuring."""
    if options.output_file is None:
        return
    path: Path = options.output_file
    check_file(path, "output_file")
    if not os.path.isdir(path.absolute().parent):
        raise UsageError(f"--output_file {path}: its folder does not exist")


def _write_result(options: HarnessOptions, report: SingleReport, compared: Sequence[BaselineComparison]) -> None:
    """The result to the file, or on standard output, with a baseline's verdicts beside it; RunError if the file
    couldn't be written, and the result was printed."""
    text = FORMATS[options.output_format or "json"](report)
    table = baseline_text(compared) if compared else screen_text(report)
    if options.output_file is None:
        print_result(table if options.output_format is None else text, "give --output_file")
        if compared and options.output_format is not None:
            write_text(sys.stderr, table)
        return
    try:
        write_atomically(options.output_file, text.encode("utf-8", "backslashreplace"))
    except OSError as error:
        print_result(text)
        raise RunError(f"--output_file {options.output_file}: {error.strerror}; the result was printed") from None
    log.info("result: %s", options.output_file)
    try:
        print_result(table)
    except RunError as error:  # the result is in the file
        log.error("%s", error)


def outcome_of(report: SingleReport, compared: Sequence[BaselineComparison]) -> int:
    """The exit code of a single-build run, and of its comparison with a baseline (empty without one)."""
    if report.run.aborted:
        return INCOMPLETE
    if any(comparison.is_worse for comparison in compared):
        return REGRESSED
    return INCOMPLETE if open_lines(report, compared) else DONE


def open_lines(report: SingleReport, compared: Sequence[BaselineComparison]) -> list[str]:
    """What keeps a run from being done: cases that it did not get to, nothing measured, nothing compared."""
    late = [case.case for case in report.cases if case.time is None and case.failure is None and not case.note]
    lines = []
    if all(case.time is None for case in report.cases):
        lines.append("nothing was measured")
    elif late:
        count = f"{len(late)} of {len(report.cases)} cases"
        lines.append(f"{count} were not measured before the time ran out: {listed(late)}")
    if compared and not any(comparison.ratio is not None or comparison.is_worse for comparison in compared):
        lines.append("nothing was compared with the baseline")
    if failing := [comparison.case for comparison in compared if comparison.failed_then]:
        fail = "case fails" if len(failing) == 1 else "cases fail"
        lines.append(f"{len(failing)} {fail}, now and in the baseline: {listed(failing)}")
    return lines
