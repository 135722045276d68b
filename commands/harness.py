"""harness.py: options in; builds, cases and bounds to the harness; its report to the reporters; an exit code out."""

import argparse
import dataclasses
import secrets
import shlex
import sys
from collections.abc import Sequence
from pathlib import Path

from commands.config import config_path, default_reports, read_config
from commands.entry import DONE, INCOMPLETE, REGRESSED, run_command
from commands.options import harness_parser
from commands.progress import ProgressDisplay
from driver.builds import BuildCache, load_releases, resolve_build
from frameworks import Framework, get_framework
from harness.run import RunRequest, run_ab
from harness.specs import Spec, expand_cases, find_spec, load_spec, select_cases
from records import Build, Case, Report, UsageError
from reporters import Reporter, chosen_reporters, report_all
from reporters.local import LocalReporter
from reporters.screen import ScreenReporter
from reporters.simple_local import SimpleLocalReporter


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command; returns its exit code."""
    return run_command("harness.py", lambda: _harness(arguments))


def _harness(arguments: Sequence[str] | None) -> int:
    options = harness_parser().parse_args(arguments)
    config = read_config(config_path())
    reporters = _reporters(options, config)
    spec_path = find_spec(options.benchmark_file)
    spec = load_spec(spec_path)
    framework = _framework(options, spec)
    cases = _cases(options, spec)
    control, treatment = _builds(options, config, framework)
    labels = {
        "platform": options.platform,
        "spec": spec_path.stem,
        "spec_path": str(spec_path),
        "threshold": options.threshold,
        "user_identifier": options.user_identifier,
        "run_type": options.run_type,
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
    )
    _say(f"{len(cases)} cases of {spec_path.name}, {control.requested} against {treatment.requested}")
    with ProgressDisplay(len(cases), sys.stderr) as display:
        report = run_ab(request, display.show)
    return _tell(reporters, report)


def _framework(options: argparse.Namespace, spec: Spec) -> Framework:
    if options.framework is not None and options.framework != spec.framework:
        raise UsageError(f"--framework {options.framework}: the spec is for {spec.framework}; leave the option out")
    return get_framework(spec.framework)


def _cases(options: argparse.Namespace, spec: Spec) -> list[Case]:
    cases = expand_cases(spec, threshold=options.threshold)
    if options.operators:
        cases = select_cases(cases, options.operators)
    if options.timeout is not None:
        cases = [dataclasses.replace(case, timeout_s=options.timeout) for case in cases]
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
            _say(f"{side}: {asked}, from {config_path() if side in config else releases.path}")
        builds.append(resolve_build(asked, framework, cache))
    return builds[0], builds[1]


def _reporters(options: argparse.Namespace, config: dict[str, str]) -> list[Reporter]:
    """Those asked for; and a local one in any case: no result is only on a screen."""
    reporters = chosen_reporters(options, sys.stdout.isatty())
    if not any(isinstance(one, LocalReporter | SimpleLocalReporter) for one in reporters):
        reporters.append(LocalReporter.from_option(config.get("local_reporter", str(default_reports()))))
    return reporters


def _tell(reporters: list[Reporter], report: Report) -> int:
    told = report_all(reporters, report)
    # Where a person reads the table, the path stands under it; a pipe gets the table alone.
    stream = sys.stdout if any(isinstance(one, ScreenReporter) for one in reporters) else sys.stderr
    for line in told.lines:
        print(line, file=stream)
    for line in told.failures:
        _say(line)
    if report.run["broken"]:
        _say(f"not completed: {report.run['stopped']}; what was measured is in the report")
        return INCOMPLETE
    if not told.lines and told.failures:
        return INCOMPLETE
    return REGRESSED if report.count("regressed") else DONE


def _say(text: str) -> None:
    print(f"harness.py: {text}", file=sys.stderr)


def quoted(command: Sequence[str]) -> str:
    """A command as a shell would take it."""
    return " ".join(map(shlex.quote, command))
