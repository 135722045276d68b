"""harness.py --golden: a build's outputs kept in a folder, or compared with those that were kept."""

import dataclasses
import sys
import time
from collections.abc import Mapping, Sequence
from pathlib import Path

from opduel.commands.config import config_path, read_config
from opduel.commands.entry import DONE, INCOMPLETE, log
from opduel.commands.fleet import fleet_choice, measurer
from opduel.commands.harness_options import HarnessOptions
from opduel.commands.progress import ProgressDisplay
from opduel.commands.session import deliver_report, exit_code, plan_session
from opduel.commands.single import plan_one_build, the_build
from opduel.frameworks import recorded_environment
from opduel.harness.numerics.golden import GoldenCase, check_new, read_golden, write_golden
from opduel.harness.numerics.output_check import OTHER_INPUTS
from opduel.harness.other_runs.single import SingleProgress, SingleRequest
from opduel.records import UsageError
from opduel.support.text import counted, listed

METRIC = "error"


def run_golden(options: HarnessOptions, command: Sequence[str]) -> int:
    """Keep outputs, or with ``--metric error`` compare with those that were kept; returns the exit code. UsageError:
    wrong options, a folder that can't be used, other inputs; RunError: nothing could be computed."""
    assert options.golden is not None
    fleet_choice(options)
    return (_compare if options.metric else _write)(options, Path(options.golden), command)


def _write(options: HarnessOptions, folder: Path, command: Sequence[str]) -> int:
    check_new(folder)
    session, build = plan_one_build(options, command, METRIC)
    cases, choice = session.cases, session.choice
    request = SingleRequest(session.framework, build, cases, session.seed, session.configuration, env=options.variables)
    log.info("%s of %s, outputs of %s", counted(len(cases), "case"), choice.file_name, build.requested)
    began = time.monotonic()
    with ProgressDisplay(len(cases), sys.stderr) as display:

        def show(count: int) -> None:
            display.show_single(SingleProgress(1, 1, count, len(cases), time.monotonic() - began))

        results = write_golden(request, folder, show)
    return _print_outcome(options, results, len(cases))


def _print_outcome(options: HarnessOptions, results: Mapping[str, GoldenCase], planned: int) -> int:
    """Log what was kept and what was not, and return the exit code."""
    failed = [f"{id} ({result.failure.reason})" for id, result in results.items() if result.failure is not None]
    if failed:
        log.warning("no outputs of %s: %s", counted(len(failed), "case"), listed(failed))
    log.info("golden outputs of %s: %s", counted(len(results) - len(failed), "case"), options.golden)
    if len(results) < planned:
        log.error("not completed: the time budget was spent")
    return DONE if len(results) == planned else INCOMPLETE


def _compare(options: HarnessOptions, folder: Path, command: Sequence[str]) -> int:
    golden = read_golden(folder)
    manifest = golden.manifest
    if options.seed not in (None, manifest.seed):
        raise UsageError(
            f"--seed {options.seed}: {options.golden} was written with seed {manifest.seed}: leave the option out"
        )
    options = dataclasses.replace(options, seed=manifest.seed)
    session = plan_session(options, read_config(config_path()), command)
    if session.framework.name != manifest.framework:
        raise UsageError(
            f"--golden {options.golden}: holds outputs of {manifest.framework}, and the spec is for "
            f"{session.framework.name}: name another folder"
        )
    golden.check(session.cases)
    treatment = the_build(options, session.framework)
    request = dataclasses.replace(session.request(manifest.build, treatment), golden=golden)
    env = recorded_environment(request.env, request.env, session.framework.name)
    if env != manifest.env:
        words = [" ".join(f"{name}={value}" for name, value in each.items()) or "none" for each in (manifest.env, env)]
        log.warning("--env: the golden outputs were computed with %s, and are compared with %s", *words)
    count = counted(len(request.cases), "case")
    names = session.choice.file_name, treatment.requested, manifest.build.requested, options.golden
    log.info("%s of %s, %s compared with the golden outputs of %s in %s", count, *names)
    with ProgressDisplay(len(request.cases), sys.stderr) as display:
        report = measurer(options)(request, display.show)
    if report.run.aborted:
        log.warning("not completed: %s; what was compared is in the report", report.run.stop_reason)
    deliver_report(session.reporters, report)
    unlike = [comparison.case for comparison in report.comparisons if comparison.note == OTHER_INPUTS]
    if unlike:
        count = counted(len(unlike), "case")
        log.error("error: %s with other inputs than the golden outputs: %s", count, listed(unlike))
    code = exit_code(report)
    compared = any(comparison.rounds or comparison.failure for comparison in report.comparisons)
    return INCOMPLETE if code == DONE and (unlike or not compared) else code
