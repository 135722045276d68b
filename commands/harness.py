"""harness.py: options in; builds, cases and bounds to the harness; its report to the reporters; an exit code out."""

import argparse
import contextlib
import secrets
import sys
from collections.abc import Mapping, Sequence
from dataclasses import replace

from commands.config import config_path, read_config
from commands.entry import log, run_command
from commands.measuring import exit_code, log_profiles, plan_measuring, tell, warn_of_python
from commands.options import harness_parser
from commands.progress import ProgressDisplay
from commands.round_log import FileRoundLog
from commands.single import is_single, refuse_single_options, run_one_build
from driver.builds import BuildCache, load_releases, resolve_build
from driver.descriptor import Described, read_info
from frameworks import Framework
from harness.run import run_ab
from records import Build, Report, UsageError
from reporters import Reporter, without_secrets
from reporters.summary import distrust_line


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command; returns its exit code."""
    return run_command("harness.py", lambda: run_harness(arguments))


def run_harness(arguments: Sequence[str] | None) -> int:
    """Measure and report as the options say; returns the exit code.

    Raises:
        OpduelError: with the exit code that it stands for.
    """
    options = harness_parser().parse_args(arguments)
    command = without_secrets(["harness.py", *(sys.argv[1:] if arguments is None else arguments)])
    if is_single(options):
        return run_one_build(options, command)
    refuse_single_options(options)
    with contextlib.ExitStack() as stack:
        return _run_ab(options, command, _round_log(options, stack))


def _round_log(options: argparse.Namespace, stack: contextlib.ExitStack) -> FileRoundLog | None:
    """The log that was asked for; the options then have its seed.

    Raises:
        UsageError: it can't be used, or has another seed than the options.
    """
    if options.round_log is None:
        return None
    seed = options.seed
    rounds = stack.enter_context(
        FileRoundLog(options.round_log, lambda: secrets.randbits(32) if seed is None else seed)
    )
    if seed not in (None, rounds.seed):
        raise UsageError(f"--seed {seed}: {options.round_log} was begun with seed {rounds.seed}: leave the option out")
    options.seed = rounds.seed
    return rounds


def _run_ab(options: argparse.Namespace, command: Sequence[str], rounds: FileRoundLog | None) -> int:
    """Both builds against each other; returns the exit code."""
    config = read_config(config_path())
    described = _described(options)
    measuring = plan_measuring(options, config, command)
    control, treatment = _builds(options, config, measuring.framework, described)
    request = replace(measuring.request(control, treatment), log=rounds)
    count, name = len(request.cases), measuring.choice.file_name
    log.info("%d cases of %s, %s against %s", count, name, control.requested, treatment.requested)
    with ProgressDisplay(count, sys.stderr) as display:
        report = run_ab(request, display.show)
    if report.run["broken"]:
        log.warning("not completed: %s; what was measured is in the report", report.run["stopped"])
    if line := distrust_line(report):
        log.warning("%s", line)
    log_profiles(report.run)
    tell(_heard(measuring.reporters, report, rounds), report)
    if rounds is not None and not report.run["resumable"]:
        rounds.forget()
    return exit_code(report)


def _heard(reporters: Sequence[Reporter], report: Report, rounds: FileRoundLog | None) -> list[Reporter]:
    """Who is told of a report: of one that the same command will make more complete, not all."""
    to_be_resumed = rounds is not None and report.run["resumable"]
    waiting = [one for one in reporters if to_be_resumed and one.whole_runs_only]
    for option in dict.fromkeys(one.option for one in waiting):
        log.info("--%s: is told when the run is complete; --round_log says how to go on", option)
    return [one for one in reporters if one not in waiting]


def _described(options: argparse.Namespace) -> Mapping[str, Described]:
    """The sides as ``--info`` describes them; empty without."""
    if options.info is None:
        return {}
    for side in ("control", "treatment"):
        if getattr(options, side) is not None:
            raise UsageError(f"--{side}: --info names both builds: leave one of the two options out")
    return read_info(options.info)


def _builds(
    options: argparse.Namespace, config: Mapping[str, str], framework: Framework, described: Mapping[str, Described]
) -> tuple[Build, Build]:
    """Both sides' builds; says where each came from when it was not on the command line."""
    releases = load_releases(framework)
    defaults = {"control": releases.default_control, "treatment": releases.default_treatment}
    cache = BuildCache(options.exec_dir)
    builds = []
    for side in ("control", "treatment"):
        if side in described:
            builds.append(_as_described(described[side], framework, cache))
            continue
        asked = getattr(options, side)
        if asked is None:
            asked = config.get(side, defaults[side])
            log.info("%s: %s, from %s", side, asked, config_path() if side in config else releases.path)
        builds.append(resolve_build(asked, framework, cache))
    control, treatment = builds
    warn_of_python(control, treatment)
    return control, treatment


def _as_described(side: Described, framework: Framework, cache: BuildCache) -> Build:
    """The build at a described place, as that of the commit that it is said to be."""
    build = resolve_build(side.location, framework, cache)
    if side.commit is None:
        return build
    return replace(build, requested=side.commit.short, commit=side.commit)
