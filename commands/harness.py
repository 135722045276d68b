"""harness.py: options in; builds, cases and bounds to the harness; its report to the reporters; an exit code out."""

import argparse
import contextlib
import dataclasses
import secrets
import sys
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import TextIO

from commands.config import config_path, default_reports, read_config
from commands.entry import DONE, INCOMPLETE, REGRESSED, log, patience, run_command
from commands.options import asked_metrics, by_metric, harness_parser
from commands.progress import ProgressDisplay
from driver.builds import BuildCache, load_releases, resolve_build
from frameworks import Framework, get_framework
from harness.cpus import plan_cpus
from harness.instructions import require_counting
from harness.run import RunRequest, run_ab
from harness.specs import Spec, expand_cases, find_spec, load_spec, select_cases
from records import DEFAULT_METRIC, Build, Case, Comparison, Report, RunError, UsageError
from reporters import Reporter, Told, chosen_reporters, report_all
from reporters.folder import FolderReporter
from reporters.local import LocalReporter
from reporters.screen import ScreenReporter
from reporters.stream import write_text
from reporters.summary import distrust_line

FROM_OUTSIDE = ("killed", "out-of-memory")  # failures that the machine may have to answer for


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command; returns its exit code."""
    return run_command("harness.py", lambda: run_harness(arguments))


def run_harness(arguments: Sequence[str] | None) -> int:
    """Measure and report as the options say; returns the exit code.

    Raises:
        OpduelError: with the exit code that it stands for.
    """
    options = harness_parser().parse_args(arguments)
    verify_after = _verify_after(options)
    config = read_config(config_path())
    reporters = _reporters(options, config)
    spec_path = find_spec(options.benchmark_file)
    spec = load_spec(spec_path)
    framework = _framework(options, spec)
    cases = _cases(options, spec)
    plan_cpus(options.threads)  # these two are said before builds are made, not after
    require_counting(framework, cases)
    control, treatment = _builds(options, config, framework)
    labels = {
        "platform": options.platform,
        "spec": spec_path.stem,
        "spec_path": str(spec_path),
        "threshold": by_metric(options).get(DEFAULT_METRIC),
        "user_identifier": options.user_identifier,
        "run_type": options.run_type or ("verify" if options.verify else "benchmark"),
        "command": ["harness.py", *(sys.argv[1:] if arguments is None else arguments)],
    }
    request = RunRequest(
        framework=framework,
        control=control,
        treatment=treatment,
        cases=cases,
        seed=secrets.randbits(32) if options.seed is None else options.seed,
        alpha=options.alpha,
        threads=options.threads,
        max_rounds=options.max_rounds,
        time_budget=options.time_budget,
        inject=options.inject,
        labels=labels,
        sentinels=options.sentinels,
        hold=options.busy_host == "hold",
        verify_after=verify_after,
    )
    log.info("%d cases of %s, %s against %s", len(cases), spec_path.name, control.requested, treatment.requested)
    with ProgressDisplay(len(cases), sys.stderr) as display:
        report = run_ab(request, display.show)
    if report.run["broken"]:
        log.warning("not completed: %s; what was measured is in the report", report.run["stopped"])
    if line := distrust_line(report):
        log.warning("%s", line)
    with patience():
        _tell(reporters, report)
    return exit_code(report)


def _verify_after(options: argparse.Namespace) -> float | None:
    """Seconds between measuring and verifying; None without ``--verify``."""
    if not options.verify:
        if options.verify_after is not None:
            raise UsageError("--verify_after: says when to verify; add --verify, or leave it out")
        return None
    after: float = options.verify_after or 0.0
    if options.time_budget is not None and after >= options.time_budget:
        raise UsageError(
            f"--verify_after {after:g}: the time budget of {options.time_budget:g} s covers the wait: make it larger"
        )
    return after


def _framework(options: argparse.Namespace, spec: Spec) -> Framework:
    if options.framework is not None and options.framework != spec.framework:
        raise UsageError(f"--framework {options.framework}: the spec is for {spec.framework}; leave the option out")
    return get_framework(spec.framework)


def _cases(options: argparse.Namespace, spec: Spec) -> list[Case]:
    cases = expand_cases(spec, thresholds=by_metric(options), metrics=asked_metrics(options))
    if options.operators:
        cases = select_cases(cases, options.operators)
    if options.timeout is not None:
        cases = [dataclasses.replace(case, timeout_s=options.timeout) for case in cases]
    if options.inject and max(Counter(case.metric for case in cases).values()) < 2:
        raise UsageError("--inject slows one case of two: give it two cases or more")
    return cases


def _builds(options: argparse.Namespace, config: dict[str, str], framework: Framework) -> tuple[Build, Build]:
    """Both sides' builds; says where each came from when it was not on the command line."""
    releases = load_releases(framework)
    defaults = {"control": releases.default_control, "treatment": releases.default_treatment}
    cache = BuildCache(Path(options.exec_dir)) if options.exec_dir else BuildCache()
    builds = []
    for side in ("control", "treatment"):
        asked = getattr(options, side)
        if asked is None:
            asked = config.get(side, defaults[side])
            log.info("%s: %s, from %s", side, asked, config_path() if side in config else releases.path)
        builds.append(resolve_build(asked, framework, cache))
    control, treatment = builds
    if control.python != treatment.python:
        log.warning("Python differs (%s, %s), and may be what a difference is due to", control.python, treatment.python)
    return control, treatment


def _reporters(options: argparse.Namespace, config: dict[str, str]) -> list[Reporter]:
    """Those asked for; and a local one in any case: no result is only on a screen."""
    reporters = chosen_reporters(options, sys.stdout.isatty())
    if not any(isinstance(one, FolderReporter) for one in reporters):
        reporters.append(LocalReporter.from_option(config.get("local_reporter", str(default_reports()))))
    for one in reporters:
        one.check()
    return reporters


def _tell(reporters: list[Reporter], report: Report) -> None:
    """Tell every reporter, those on disk first: whatever becomes of the others, the measurements are safe.

    Raises:
        RunError: one of them failed, when all have been told.
    """
    on_disk = report_all([one for one in reporters if isinstance(one, FolderReporter)], report)
    if not on_disk.lines:
        spare = report_all([LocalReporter(default_reports())], report)
        on_disk = Told(spare.lines, (*on_disk.failures, *spare.failures))
    # A person reads the path above the table, which then ends with what was found; a pipe gets the table alone.
    stream = sys.stdout if any(isinstance(one, ScreenReporter) for one in reporters) else sys.stderr
    _say(stream, on_disk)
    others = report_all([one for one in reporters if not isinstance(one, FolderReporter)], report)
    _say(stream, others)
    failures = (*on_disk.failures, *others.failures)
    if failures:
        raise RunError("; ".join(dict.fromkeys(failures)))


def _say(stream: TextIO, told: Told) -> None:
    with contextlib.suppress(OSError):  # the terminal may have been closed; the reports are written
        write_text(stream, "".join(f"{line}\n" for line in told.lines))


def _broken_by_treatment(one: Comparison) -> bool:
    """Whether the treatment alone fails, by its own doing: that is worse than running slower."""
    return one.failure is not None and one.failure.side == "treatment" and one.failure.kind not in FROM_OUTSIDE


def exit_code(report: Report) -> int:
    """What the run came to."""
    if report.run["broken"]:
        return INCOMPLETE
    if report.count("regressed") or any(map(_broken_by_treatment, report.comparisons)):
        return REGRESSED
    held = any(one.held_back for one in report.comparisons)
    return INCOMPLETE if held or all(one.failure for one in report.comparisons) else DONE
