"""What harness.py and repo_driver.py share: from options to a run's request, and from its report to everyone told."""

import contextlib
import dataclasses
import logging
import math
import os
import secrets
import shutil
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from tempfile import gettempdir
from typing import TextIO

from opduel.causes import find_causes
from opduel.commands.case_selection import (
    Choice,
    are_discovered,
    choose_cases,
    fetch_case_files,
    framework_of,
    pick_cases,
    sample_cases,
)
from opduel.commands.config import default_reports, with_stored_token
from opduel.commands.entry import DONE, INCOMPLETE, PRINTED, REGRESSED, log, patience
from opduel.commands.harness_options import CommitOptions, HarnessOptions
from opduel.commands.overwrite_check import files_read, refuse_overwriting
from opduel.commands.prior_runs import read_prior_runs
from opduel.frameworks import FRAMEWORKS_DIR, Framework, adaptor_names, require_functions, run_environment
from opduel.harness.machine.cpus import plan_cpus
from opduel.harness.other_runs.discovery import with_values
from opduel.harness.prior_runs import PriorRuns
from opduel.harness.profiles import is_profiles_folder
from opduel.harness.rounds.instructions import require_counting
from opduel.harness.run_request import RunRequest, forecast
from opduel.records import Build, Case, Report, RunConfiguration, RunError, UsageError, usual_rounds
from opduel.records.measurement import Side
from opduel.records.run_record import CommonRunRecord, RunLabels
from opduel.reporters import Reporter, ReportOutcome, chosen_reporters, report_all
from opduel.reporters.local import FolderReporter, LocalReporter, report_on_disk
from opduel.reporters.screen import ScreenReporter
from opduel.reporters.stream import write_text
from opduel.reporters.summary import conclusion, not_broken_down_line, open_lines, validity_line
from opduel.support.atomic import check_folder
from opduel.support.text import counted, duration, printable_lines


@dataclass(frozen=True)
class Session:
    """What all runs of one command have in common: the cases of a spec, the options, and the reporters."""

    options: HarnessOptions
    framework: Framework
    choice: Choice
    cases: Sequence[Case]
    seed: int
    reporters: Sequence[Reporter]
    labels: RunLabels
    configuration: RunConfiguration
    prior_runs: PriorRuns | None = None

    def request(self, control: Build, treatment: Build) -> RunRequest:
        """A run of all cases; ``dataclasses.replace`` makes others of it."""
        return RunRequest(
            framework=self.framework,
            control=self.with_packages(control),
            treatment=self.with_packages(treatment),
            cases=self.cases,
            seed=self.seed,
            configuration=self.configuration,
            labels=self.labels,
            env=self.options.variables,
            prior_runs=self.prior_runs,
            usual_rounds=usual_rounds(self.cases),
            find_causes=find_causes,
        )

    def with_packages(self, build: Build) -> Build:
        """An environment under the versions of the packages that the cases call; any other build as it is."""
        suite = self.choice.suite_record
        return build.with_packages([*([suite.name] if suite else ()), *self.framework.packages_of(self.cases)])


def plan_session(
    options: HarnessOptions,
    config: Mapping[str, str],
    command: Sequence[str],
    frameworks_dir: Path = FRAMEWORKS_DIR,
    usual_seed: int | None = None,
    driver: CommitOptions | None = None,
    reporters: Sequence[Reporter] | None = None,
    chosen: Callable[[int], Choice] | None = None,
) -> Session:
    """Read the spec and check all that can be checked before a build is made; ``command`` is kept with the reports.
    ``driver``: repo_driver.py's own options, if it is that which measures.

    The seed is the one that is asked for, else ``usual_seed``, else drawn. ``reporters``: who gets the reports, checked
    already; None for those that the options ask for, and the usual ones. ``chosen`` says what is measured where that is
    no spec, with that seed; it is called when the reporters have been checked. UsageError: wrong options, a bad spec,
    reporters that can't work, too few processors, no valgrind.
    """
    run_type = _run_type(options)
    check_profile_output(options)
    reporters = _reporters(options, config) if reporters is None else reporters
    seed = next((candidate for candidate in (options.seed, usual_seed) if candidate is not None), secrets.randbits(32))
    choice = choose_cases(options, seed) if chosen is None else chosen(seed)
    read = files_read(options, choice.path)
    for reporter in reporters:
        refuse_overwriting(read, f"--{reporter.option}", reporter.files())
    choice = dataclasses.replace(choice, cases=fetch_case_files(choice, options))
    framework = framework_of(options, choice, frameworks_dir).for_cases(choice.cases)
    plan_cpus(options.threads)  # these are reported before builds are made, not after
    run_environment(framework, options.threads, options.variables)
    needed = _needed_functions(options, choice)
    if framework.has_own_sides:
        _refuse_what_two_lack(framework, options, choice, needed)
    require_counting(framework, choice.cases)
    require_functions(framework.adaptor, needed)
    spec_path = str(choice.path) if choice.path else None
    labels = RunLabels(spec=choice.name, spec_path=spec_path, command=tuple(command), suite=choice.suite_record)
    configuration = options.configuration(driver)
    program = command[0] if command else configuration.program
    configuration = dataclasses.replace(configuration, run_type=run_type, program=program)
    prior = read_prior_runs(options, framework, config)
    return Session(options, framework, choice, choice.cases, seed, reporters, labels, configuration, prior)


def discover_cases(session: Session, control: Build, treatment: Build) -> list[Case]:
    """The session's cases, those of values that programs print among them; RunError: a worker can't be started."""
    builds: dict[Side, Build] = {"control": control, "treatment": treatment}
    if not are_discovered(session.cases, session.framework):
        return list(session.cases)
    threads, env = session.options.threads, session.options.variables
    cases = with_values(session.cases, session.framework, builds, threads, env, log.info)
    return sample_cases(pick_cases(cases, session.options), session.options, session.seed)


def _needed_functions(options: HarnessOptions, choice: Choice) -> dict[str, str]:
    """The adaptor's functions that the options, or the spec, need beside those of every run -> what asks for them."""
    metrics = {case.metric for case in choice.cases}
    needed = {"profile": "--breakdown"} if options.breakdown else {}
    needed |= {"profile": "--profiler native"} if options.profiler == "native" else {}
    needed |= {"write_profile": "--profile_output"} if options.profile_output else {}
    functions = {"memory": "memory", "cpu_time": "cpu_time", "value": "value", "error": "results"}
    return needed | {functions[name]: _asks_for(name, options, choice) for name in functions if name in metrics}


def _asks_for(metric: str, options: HarnessOptions, choice: Choice) -> str:
    """What asks for a metric: the option, or else the spec."""
    return f"--metric {metric}" if options.metric or choice.path is None else f"{choice.path}: metric {metric}"


def _refuse_what_two_lack(
    framework: Framework, options: HarnessOptions, choice: Choice, needed: Mapping[str, str]
) -> None:
    """Raise UsageError for what the adaptor of a spec for two frameworks can't do: what either would measure in a way
    of its own."""
    metrics = {"memory", "cpu_time", "value", "instructions"} & {case.metric for case in choice.cases}
    for metric in sorted(metrics):
        fix = "use time, process_memory or error, or give a spec of one of them"
        refuse_two_sided(framework, _asks_for(metric, options, choice), fix)
    for function in needed.keys() - adaptor_names(framework.adaptor):
        refuse_two_sided(framework, needed[function])


def _run_type(options: HarnessOptions) -> str:
    """Return why the run is made, as the options say."""
    if options.is_given("run_type"):
        return options.run_type
    return "regress" if options.regressed_types else "verify" if options.verify else "benchmark"


def _reporters(options: HarnessOptions, config: Mapping[str, str]) -> list[Reporter]:
    """Those asked for; and a local one in any case: no result is only on a screen."""
    reporting = options.reporting
    if reporting.remote_reporter:
        reporting = with_stored_token(reporting, config)
    reporters = chosen_reporters(reporting, sys.stdout.isatty())
    if not any(isinstance(reporter, FolderReporter) for reporter in reporters):
        reporters.append(LocalReporter.from_option(config.get("local_reporter", str(default_reports()))))
    return _check_reporters(reporters)


def requested_reporters(options: HarnessOptions) -> list[Reporter]:
    """Those that the options ask for, and no others, checked; UsageError if one can't work."""
    reporters = chosen_reporters(options.reporting, terminal=False)
    return _check_reporters([reporter for reporter in reporters if options.is_given(reporter.option)])


def _check_reporters(reporters: list[Reporter]) -> list[Reporter]:
    for reporter in reporters:
        reporter.check()
        reporter.meet(reporters)
    return reporters


def refuse_two_sided(
    framework: Framework, option: str, fix: str = "leave it out, or give a spec of one of them"
) -> None:
    """Raise UsageError, which names the ``fix``, if the spec is for two frameworks, and ``option`` for one."""
    if framework.has_own_sides:
        raise UsageError(f"{option}: the spec compares two frameworks, one on each side: {fix}")


def check_profile_output(options: HarnessOptions) -> None:
    """Raise UsageError if profiles are asked for and can't be written, or would mix with something else."""
    if options.profile_output is None:
        return
    folder = Path(options.profile_output)
    check_folder(folder, "profile_output")
    if not is_profiles_folder(folder):
        raise UsageError(f"--profile_output {folder}: contains other files than profiles: give a new or empty folder")


def log_forecast(request: RunRequest) -> None:
    """Log how long the run is likely to take, if earlier runs say it."""
    expected, budget = forecast(request), request.configuration.time_budget
    if expected is None:
        if request.prior_runs is not None:
            log.info("--prior_runs: no case of this run is known")
        return
    rounds = max(expected.rounds.values())
    within = "" if budget is None or budget > expected.total_s else f"; the time budget is {duration(budget)}"
    took = f"about {duration(math.ceil(expected.total_s))}, {counted(rounds, 'round')}{within}"
    words = "%d of %d cases known; if none has changed, measuring all takes %s"
    log.info(words, expected.known_cases, len(expected.rounds), took)


def log_profiles(run: CommonRunRecord) -> None:
    """Log where a run's profiles are, and which cases have none."""
    profiles = run.profile_output
    if profiles is None:
        return
    log.info("%d profiles in %s", profiles.written, profiles.folder)
    for problem in profiles.problems:
        log.warning("--profile_output: %s", problem)


@contextlib.contextmanager
def callgrind_folder() -> Iterator[Path | None]:
    """A folder for callgrind's files of a run (``RunRequest.callgrind``), until its report is delivered; None where
    there can be none. It is made with the first file, so that a run that is killed rarely leaves one."""
    folder = None
    with contextlib.suppress(OSError):
        folder = Path(gettempdir()) / f"opduel-callgrind-{secrets.token_hex(8)}"
    try:
        yield folder
    finally:
        if folder is not None:
            shutil.rmtree(folder, ignore_errors=True)


def deliver_report(
    reporters: Sequence[Reporter],
    report: Report,
    stored_path: Callable[[FolderReporter], Path | None] = lambda _: None,
    more_follows: bool = False,
    callgrind: Path | None = None,
) -> None:
    """Tell every reporter, those on disk first: whatever becomes of the others, the measurements are safe.

    Reporters on disk that have the report already, at ``stored_path(reporter)``, are skipped. Failed ones are named
    last, in one line that names the file with the report: they don't make the run one that failed. A signal that comes
    meanwhile takes effect afterwards if ``more_follows``; else the command is at its end anyway. ``callgrind``: the
    run's folder of callgrind's files, of which reporters on disk keep a copy. RunError: the report is nowhere on disk;
    the other reporters have it.
    """
    with patience(stops_after=more_follows):
        path_by_reporter = {
            reporter: stored_path(reporter) for reporter in reporters if isinstance(reporter, FolderReporter)
        }
        stored_paths = [str(path) for path in path_by_reporter.values() if path is not None]
        on_disk = report_on_disk(
            [reporter for reporter, path in path_by_reporter.items() if path is None], report, callgrind
        )
        if not on_disk.lines and not stored_paths:
            spare = report_on_disk([LocalReporter(default_reports())], report, callgrind)
            on_disk = ReportOutcome(spare.lines, (*on_disk.failures, *spare.failures))
        # A person reads the path above the table, which then ends with what was found; a pipe gets the table alone.
        stream = sys.stdout if any(isinstance(reporter, ScreenReporter) for reporter in reporters) else sys.stderr
        _print_outcome(stream, on_disk)
        failures = dict.fromkeys(on_disk.failures)
        for other in (reporter for reporter in reporters if not isinstance(reporter, FolderReporter)):
            outcome = report_all([other], report)
            _print_outcome(stream, outcome)  # at once: the next one may have to wait for a server
            failures |= dict.fromkeys(outcome.failures)
    places = [line.removeprefix("report: ") for line in on_disk.lines] + stored_paths
    if not places:
        raise RunError("; ".join(failures))
    if failures:
        log.error("%s; the data is in %s", " ".join("; ".join(failures).split()), places[0])


def _print_outcome(stream: TextIO, outcome: ReportOutcome) -> None:
    with contextlib.suppress(OSError):  # the terminal may have been closed; the reports are written
        write_text(stream, "".join(f"{printable_lines(line)}\n" for line in outcome.lines))


def warn_of_report(report: Report, reporters: Sequence[Reporter] = ()) -> None:
    """Log what a reader must know of a run before believing it: that it ended early, isn't to be trusted, left open;
    for files alone if one of the reporters says the same in the same place, a terminal or a file."""
    is_said = any(isinstance(reporter, ScreenReporter) for reporter in reporters)
    place = logging.getLogger(PRINTED) if is_said and _share_a_place(sys.stdout, sys.stderr) else log
    if report.run.aborted:
        place.warning("not completed: %s", report.run.stop_reason)
    for line in (validity_line(report), *open_lines(report), not_broken_down_line(report)):
        if line:
            place.warning("%s", line)


def _share_a_place(stream: TextIO, other_stream: TextIO) -> bool:
    with contextlib.suppress(OSError, ValueError):  # no file, or a closed one
        return os.path.sameopenfile(stream.fileno(), other_stream.fileno())
    return False


def exit_code(report: Report) -> int:
    """What the run came to."""
    return {"regressed": REGRESSED, "incomplete": INCOMPLETE, "done": DONE}[conclusion(report)]
