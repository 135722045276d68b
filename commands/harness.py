"""A run: options in; builds, cases and bounds to the harness; its report to the reporters; an exit code out."""

import contextlib
import secrets
import sys
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from opduel.commands.builds import make_builds, usual_build, warn_of_python
from opduel.commands.case_selection import Choice
from opduel.commands.config import StoredAnswers
from opduel.commands.entry import log
from opduel.commands.fleet import measurer
from opduel.commands.fuzz import Fuzz
from opduel.commands.golden import run_golden
from opduel.commands.harness_options import HarnessOptions
from opduel.commands.named_operators import refuse_failing_lines, refuse_unknown_operators
from opduel.commands.option_rules import is_single
from opduel.commands.progress import ProgressDisplay
from opduel.commands.round_log import FileRoundLog
from opduel.commands.session import (
    Session,
    callgrind_folder,
    deliver_report,
    discover_cases,
    exit_code,
    log_forecast,
    log_profiles,
    plan_session,
    refuse_two_sided,
    warn_of_report,
)
from opduel.commands.single import run_one_build
from opduel.commands.suite_selection import SuiteSelection
from opduel.driver.descriptor import DescribedBuild, read_info
from opduel.frameworks import Framework
from opduel.harness.run_request import RunRequest
from opduel.records import Build, Report, UsageError
from opduel.records.measurement import SIDES, Side
from opduel.reporters import Reporter
from opduel.support.text import counted


def run_harness(options: HarnessOptions, command: Sequence[str]) -> int:
    """Measure and report as the options say, which have been checked; ``command`` is what was called, for the report.
    Return the exit code, or raise an OpduelError that has it."""
    if options.golden is not None:
        return run_golden(options, command)
    if is_single(options):
        return run_one_build(options, command)
    with contextlib.ExitStack() as stack:
        rounds = _open_round_log(options, stack)
        if rounds is not None:
            options = replace(options, seed=rounds.seed)
        callgrind = stack.enter_context(callgrind_folder())
        return _run_ab(options, command, rounds, callgrind)


def _open_round_log(options: HarnessOptions, stack: contextlib.ExitStack) -> FileRoundLog | None:
    """Open the log of ``--round_log``, which has the run's seed. UsageError: it can't be used, or has another seed."""
    if options.round_log is None:
        return None
    seed = options.seed
    rounds = stack.enter_context(
        FileRoundLog(options.round_log, lambda: secrets.randbits(32) if seed is None else seed)
    )
    if seed not in (None, rounds.seed):
        raise UsageError(
            f"--seed {seed}: {options.round_log} was started with seed {rounds.seed}: leave the option out"
        )
    return rounds


def _run_ab(
    options: HarnessOptions, command: Sequence[str], rounds: FileRoundLog | None, callgrind: Path | None
) -> int:
    """Both builds against each other; returns the exit code. ``callgrind``: the folder for its files."""
    measurer(options)  # what is wrong with its options is said before anything is built
    fuzz = Fuzz(options) if options.fuzz is not None else None
    session, request = plan_run(options, StoredAnswers(), command)
    request = replace(request, log=rounds, callgrind=callgrind)
    if fuzz:
        refuse_two_sided(request.framework, "--fuzz")
        request = fuzz.drawn(request, session.choice.path)
    if request.control.digest == request.treatment.digest and not (options.inject or request.framework.has_own_sides):
        log.warning("both sides are the same build (A/A), so that what differs is noise")
    count, name = len(request.cases), session.choice.file_name
    names = request.control.requested, request.treatment.requested
    log.info("%s of %s, %s against %s", counted(count, "case"), name, *names)
    log_forecast(request)
    with ProgressDisplay(count, sys.stderr) as display:
        report = measurer(options, suite=session.choice.suite)(request, display.show)
    warn_of_report(report, session.reporters)
    log_profiles(report.run)
    deliver_report(_reporters_to_tell(session.reporters, report, rounds), report, callgrind=callgrind)
    if report.run.aborted:
        again = "; repeat the command to measure on" if report.run.resumable else ""
        log.warning("what was measured is in the report%s", again)
    if fuzz:
        fuzz.keep_findings(request, report)
    if rounds is not None and not report.run.resumable:
        rounds.forget()
    return exit_code(report)


def plan_run(
    options: HarnessOptions,
    config: Mapping[str, str],
    command: Sequence[str],
    reporters: Sequence[Reporter] | None = None,
) -> tuple[Session, RunRequest]:
    """What to measure, on which builds; ``command`` is stored in the report, ``reporters`` as in ``plan_session``.
    UsageError: wrong options, a bad spec, no such build; RunError: a build can't be made."""
    described = _read_sides(options)
    if options.suite is not None:
        return _plan_suite(options, config, command, described, reporters)
    session = plan_session(options, config, command, reporters=reporters)
    cases, framework = session.cases, session.framework
    control, treatment = _make_both_builds(options, config, framework, described)
    refuse_failing_lines(options, cases, framework, [control, treatment])
    refuse_unknown_operators(options, cases, framework, [control, treatment], session.choice.path)
    session = replace(session, cases=discover_cases(session, control, treatment))
    return session, session.request(control, treatment)


def _plan_suite(
    options: HarnessOptions,
    config: Mapping[str, str],
    command: Sequence[str],
    described: Mapping[str, DescribedBuild],
    reporters: Sequence[Reporter] | None,
) -> tuple[Session, RunRequest]:
    """As ``plan_run``, of a suite: what it has is known when both builds are there."""
    suite = SuiteSelection(options)
    builds: dict[Side, Build] = {}

    def chosen(seed: int) -> Choice:
        made_builds = _make_both_builds(options, config, suite.framework, described)
        builds.update(suite.on_sides(dict(zip(SIDES, made_builds, strict=True))))
        return suite.choose(builds, seed)

    session = plan_session(suite.options, config, command, reporters=reporters, chosen=chosen)
    return session, session.request(builds["control"], builds["treatment"])


def _reporters_to_tell(reporters: Sequence[Reporter], report: Report, rounds: FileRoundLog | None) -> list[Reporter]:
    """Who is reported a report: of one that the same command will make more complete, not all."""
    to_be_resumed = rounds is not None and report.run.resumable
    waiting = [reporter for reporter in reporters if to_be_resumed and reporter.whole_runs_only]
    for option in dict.fromkeys(reporter.option for reporter in waiting):
        log.info(
            "--%s: not sent yet, as the run is not complete; repeat the command, with the same --round_log, to finish",
            option,
        )
    return [reporter for reporter in reporters if reporter not in waiting]


def _read_sides(options: HarnessOptions) -> Mapping[str, DescribedBuild]:
    """The sides as ``--info`` describes them; empty without."""
    if options.info is None:
        return {}
    for side in ("control", "treatment"):
        if getattr(options, side) is not None:
            raise UsageError(f"--{side}: --info names both builds: leave one of the two options out")
    return read_info(options.info)


def _make_both_builds(
    options: HarnessOptions,
    config: Mapping[str, str],
    framework: Framework,
    described: Mapping[str, DescribedBuild],
) -> tuple[Build, Build]:
    """Both sides' builds; says where each came from when it was not on the command line."""
    requests: dict[Side, str] = {}
    for side in SIDES:
        request = described[side].location if side in described else getattr(options, side)
        requests[side] = usual_build(side, config, framework.of_side(side)) if request is None else request
    if framework.has_own_sides:
        made = {side: make_builds(options, framework.of_side(side), [request])[0] for side, request in requests.items()}
        builds = [framework.equipped(side, build, options.threads) for side, build in made.items()]
    else:
        builds = make_builds(options, framework, [*requests.values()])
    control, treatment = (_as_described(described.get(side), build) for side, build in zip(SIDES, builds, strict=True))
    warn_of_python(control, treatment)
    return control, treatment


def _as_described(side: DescribedBuild | None, build: Build) -> Build:
    """The build at a described place, as that of the commit that it is said to be."""
    if side is None or side.commit is None:
        return build
    return replace(build, requested=side.commit.short, commit=side.commit)
