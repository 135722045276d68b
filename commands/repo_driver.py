"""repo_driver.py: commits in; builds, runs and culprits out; once, or for ever."""

import dataclasses
import os
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, closing, contextmanager
from pathlib import Path

from opduel.commands.config import StoredAnswers
from opduel.commands.driver_findings import Teller, code_of, code_of_pass, say
from opduel.commands.driver_log import logging_to
from opduel.commands.driver_options import GIB, DriverOptions, branch_names
from opduel.commands.driver_places import build_platform, build_settings, run_identity, work_directory
from opduel.commands.driver_text import compile_lines, plan_lines
from opduel.commands.entry import DONE, INCOMPLETE, REGRESSED, log
from opduel.commands.harness_adapter import HarnessAdapter
from opduel.commands.local import begin_local, plan_local, with_budget
from opduel.commands.notifying import Notifications
from opduel.commands.option_rules import check_run
from opduel.commands.package_bisection import PackageBisection
from opduel.commands.pass_notices import Line, PassNotices
from opduel.commands.programs import program_of
from opduel.commands.session import Session, plan_session, refuse_two_sided
from opduel.commands.suite_selection import SuiteSelection, suite_of_driver
from opduel.driver.builds import BuildCache, recipe_of, resolve_build
from opduel.driver.builds.builder import Builder
from opduel.driver.builds.builders import builder_of, platform_of
from opduel.driver.builds.cache import prune
from opduel.driver.builds.framework_data import load_repository_data
from opduel.driver.commit_file import kept_name
from opduel.driver.git.repository import Repository, open_repository
from opduel.driver.hg.repository import open_hg_repository
from opduel.driver.investigation import Investigation
from opduel.driver.journal import Journal
from opduel.driver.lock import sole_driver
from opduel.driver.outcome import write_culprits
from opduel.driver.revisions import Revision
from opduel.driver.runs import RunOrder, Runs
from opduel.driver.watch import Services, Tally, Watch, WatchSettings
from opduel.frameworks import FRAMEWORKS_DIR, Framework
from opduel.harness.machine.cpus import plan_cpus
from opduel.records import WORSE, Build, Case, Commit, OpduelError, Report, RunError, UsageError, Verdict
from opduel.reporters import Reporter
from opduel.reporters.base import FindingsReporter
from opduel.reporters.notifier import Notifier
from opduel.support.command_names import command_name
from opduel.support.digests import data_digest
from opduel.support.text import counted


def run_driver(options: DriverOptions, command: Sequence[str]) -> int:
    """Measure commits or releases as the options say; ``command`` is what was called, for the report. Return the exit
    code, or raise an OpduelError that has it."""
    with _driver(options, command) as driver:
        if driver is None:
            return DONE
        if options.own.packages:
            return driver.packages()
        return driver.releases() if options.own.bisect_releases else driver.commits()


def measure_work_tree(options: DriverOptions, command: Sequence[str], reporters: Sequence[Reporter]) -> Report:
    """Measure a work tree as the options say, and return the report, which ``reporters`` and the usual folder get, too.
    All cases are in it, also where nothing is changed, so that nothing is measured. Raise OpduelError without one."""
    with _driver(options, command, reporters) as driver:
        assert driver is not None, "it is always measured"
        return driver.work_tree()


@contextmanager
def _driver(
    options: DriverOptions, command: Sequence[str], reporters: Sequence[Reporter] | None = None
) -> "Iterator[_Driver | None]":
    """Yield the driver, alone in its work directory; None where a work tree has nothing to measure. With ``reporters``,
    for a Python function, a work tree is always measured, and neither the config nor another driver is in the way."""
    if options.own.local is not None:
        options = begin_local(options)
        check_run(options.harness)
    elif options.own.is_search:
        options = with_budget(options)
    frameworks_dir = options.own.frameworks_dir or FRAMEWORKS_DIR
    config: Mapping[str, str] = StoredAnswers() if reporters is None else {}
    suite = None
    if options.harness.suite is not None:
        suite, options = suite_of_driver(options)
    chosen = None if suite is None else suite.none_yet
    session = plan_session(options.harness, config, command, frameworks_dir, 0, options.own, reporters, chosen)
    mode = "--bisect_releases" if options.own.bisect_releases else "--ab_testing"
    mode = "--packages" if options.own.packages else mode
    refuse_two_sided(
        session.framework, mode, f"give a spec of one of them, or compare two builds with {command_name('compare')}"
    )
    work = work_directory(options.own, session)
    with ExitStack() as stack:
        stack.enter_context(sole_driver(work, waits=reporters is not None))
        stack.enter_context(logging_to(work / "logs" / "driver.log"))
        journal = stack.enter_context(closing(Journal(work / "journal.db")))
        if options.own.local is not None:
            planned = plan_local(options, session, work, always=reporters is not None)
            if planned is None:
                yield None
                return
            options, session = planned
        yield _Driver(options, session, work, journal, suite)


class _Driver:
    """One start of the command, in its work directory."""

    def __init__(
        self,
        options: DriverOptions,
        session: Session,
        work: Path,
        journal: Journal,
        suite: SuiteSelection | None = None,
    ) -> None:
        """``suite``: what is measured, if it is no spec."""
        self._own = own = options.own
        self._base_why = options.base_why
        # The driver reports its findings to these; all others get every run.
        ours = [reporter for reporter in session.reporters if isinstance(reporter, Notifier | FindingsReporter)]
        run_reporters = [reporter for reporter in session.reporters if reporter not in ours]
        self._measuring = session = dataclasses.replace(session, reporters=run_reporters)
        self._notifications = Notifications(journal, run_reporters, ours)
        budget_s = session.options.time_budget
        self._work = work
        self._journal = journal
        self._cache = BuildCache(own.exec_dir)
        self._suite = suite
        is_local = own.local is not None
        reached_only = is_local or own.is_search
        self._harness = HarnessAdapter(session, suite, reached_only=reached_only, all_cases=own.all_cases)
        show_again = self._harness.show_again if is_local else lambda _: None
        self._teller = Teller(self._notifications, run_reporters, ours, bool(self._sought()), budget_s, show_again)
        self._runs = Runs(
            *(journal, self._harness, own.retry_after),
            repeats=not is_local,
            is_awaited=own.is_awaited,
            budget_s=budget_s,
        )
        self._identity = run_identity(options, session, suite.suite.identity if suite else None)
        self._last_report: Report | None = None  # of a work tree

    def commits(self) -> int:
        """Measure commits, once or for ever; returns the exit code."""
        looked_on = self._own.dry_run or self._own.local is not None
        notices = None if looked_on else PassNotices(self._journal, self._notifications, self._line())
        code = INCOMPLETE
        try:
            code = self._commits(notices)
        except (OpduelError, KeyboardInterrupt) as error:
            if notices and isinstance(error, OpduelError):
                notices.broke(error)
            if not self._teller.regressed:
                raise
            log.error("%s", " ".join(str(error).split()) or "interrupted")
        # A regression in any pass, and be it one that did not end; of all else only the last pass counts.
        return REGRESSED if self._teller.regressed else code

    def work_tree(self) -> Report:
        """Measure a work tree, or say that both builds are one where nothing is changed; return the report."""
        own = self._own
        if own.commit != own.base_commit:
            self.commits()
            if self._last_report is None:
                raise RunError("nothing was measured: the log in the work directory says why")
            return self._last_report
        repository = open_repository(self._work, None, own.repo_dir)
        builder, commit = self._builder(repository), repository.commit(str(own.commit))
        build = builder.build(commit, builder.strategy([commit]))
        return self._harness.measure(
            RunOrder("unchanged", "benchmark", build, build, self._journal.rounds_of("unchanged"))
        )

    def _builder(self, repository: Repository) -> Builder:
        settings = build_settings(self._own, self._measuring, self._suite)
        return builder_of(self._measuring.framework, repository, self._cache, settings, self._work / "builds")

    def _line(self) -> Line:
        own, session = self._own, self._measuring
        key = data_digest([self._identity, own.branch, own.remote_repository, own.base_commit])[:12]
        return Line(key, session.framework.name, session.choice.name, branch_names(own.branch))

    def _commits(self, notices: PassNotices | None) -> int:
        """Measure commits; ``notices`` hears of each pass. Return the exit code."""
        own, framework = self._own, self._measuring.framework
        for settings in self._watch_settings().per_branch():
            if settings.commit_file is not None:
                kept_name(settings.commit_file)  # a file of somebody else's is refused before anything is fetched
        if own.build == "source":  # else it may not be needed
            platform_of(framework, build_platform(own, framework))
        remote = self._remote()
        if own.repo == "hg":
            repository: Repository = open_hg_repository(self._work, str(remote), retries=not own.dry_run)
        else:
            repository = open_repository(self._work, remote, own.repo_dir, retries=not own.dry_run)
        builder = self._builder(repository)
        services = Services(repository, builder, self._runs, self._journal, self._teller)
        watch = Watch(services, self._watch_settings())
        if own.dry_run:
            return self._dry_run(watch, builder)
        if own.local is not None:
            _, line, strategy = watch.branches[0].plan(repository.commit(str(own.commit)))
            for text in _compile_lines(builder, [line[0], line[-1]], strategy, framework):
                log.info("%s", text)
        codes = [DONE]

        def after_pass(tally: Tally) -> None:
            self._prune(tally)
            for _, outcome in tally.outcomes if own.local is not None else []:
                self._last_report = outcome.verification or outcome.benchmark
                self._harness.show_again(self._last_report)
            if notices:
                notices.pass_ended(tally)
            codes[-1] = code_of_pass(tally, bool(self._sought()))

        if own.interval is None:
            after_pass(watch.once())
        else:
            watch.for_ever(after_pass)
        return codes[-1]

    def _remote(self) -> str | None:
        """Return where commits come from; None: from the checkout alone."""
        own, framework = self._own, self._measuring.framework
        if own.local is not None:
            return None
        builds = framework.builds
        if not (builds.has_repository or own.repo_dir or own.remote_repository):
            raise UsageError(
                f"--ab_testing: {framework.name} has no repository of its own: name the {builds.project}'s with "
                "--remote_repository (a URL or folder) or --repo_dir (your clone)"
            )
        usual = "origin" if own.repo_dir else own.remote_repository or load_repository_data(framework).remote
        return str(own.remote_repository or usual)

    def releases(self) -> int:
        """Find the first bad one among releases; returns the exit code."""
        own, framework = self._own, self._measuring.framework
        sdists = self._measuring.options.allow_sdist

        def resolve(name: str) -> Build:
            return resolve_build(name, framework, self._cache, None, sdists)

        names = [program_of(self._measuring.options, name.strip()) for name in str(own.bisect_releases).split(",")]
        for name in names:  # what is written wrongly is said before anything is measured
            if recipe_of(name, framework) is None:
                resolve(name)
        revisions = [Revision(name, resolve) for name in names]
        investigation = Investigation(revisions, self._runs, self._journal, self._identity)
        if own.dry_run:
            line = counted(len(names) - 1, "revision")
            say([f"would measure {names[-1]} against {names[0]}, and search {line} if it is worse"])
            return DONE
        if own.again:
            self._runs.forget(investigation.name)
        self._runs.deliver_all()
        self._teller.begin_pass()
        outcome = investigation.investigate(self._sought())
        path = self._work / "culprits" / f"{data_digest(investigation.name)[:12]}.json"
        document = write_culprits(path, outcome, investigation.name)
        self._teller.report_outcome(outcome, document)
        if reason := outcome.why_open:
            log.error("error: %s", reason)
        return code_of(outcome, traced=True)

    def packages(self) -> int:
        """Find the packages that make two environments differ; returns the exit code."""
        return PackageBisection(
            *(self._own, self._measuring, self._work, self._cache, self._runs, self._journal, self._identity),
            *(self._sought(), self._teller),
        ).find()

    def _dry_run(self, watch: Watch, builder: Builder) -> int:
        """Say what would be done; of all that can be done only the fetching was."""
        tally = Tally()
        watch.fetch(tally)
        queue, cases = watch.due(tally), self._measuring.cases  # of a suite, none before there are builds
        for branch, treatment in queue:
            why, line, strategy = branch.plan(treatment)
            control = line[0]
            say(plan_lines(why, line, strategy, branch.holder(treatment)))
            say(_compile_lines(builder, line, strategy, self._measuring.framework))
            if self._suite and not cases:
                cases = self._suite_cases(builder, control, strategy)
        follow = ", then verify and bisect" if self._sought() else ""
        chosen = f" that match {' or '.join(self._suite.patterns)}" if self._suite and self._suite.patterns else ""
        words = counted(len(cases), "case") if cases else f"the suite's cases{chosen}"
        say([f"{len(queue)} to measure on {words}{follow}; nothing was built or measured"])
        return INCOMPLETE if tally.failures else DONE

    def _suite_cases(self, builder: Builder, control: Commit, strategy: str) -> Sequence[Case]:
        """List the cases that a suite has on the control, if that needs no compiler; else say so, and return none."""
        if self._suite is None or not builder.is_cached(control, strategy):
            say([f"  the suite's cases are listed here once {control.short} is built"])
            return ()
        cases = self._suite.collect(self._suite.on_sides({"control": builder.build(control, strategy)})).cases
        say([f"  {case.id}" for case in cases])
        return cases

    def _watch_settings(self) -> WatchSettings:
        own = self._own
        cpus = plan_cpus(self._measuring.options.threads)
        here = frozenset(os.sched_getaffinity(0))
        spare = here if self._measuring.options.fleet else here - cpus.measure - cpus.control - cpus.start
        ahead = frozenset() if own.same_host else spare
        return WatchSettings(
            work=self._work,
            branches=branch_names(own.branch),
            commit=own.commit,
            base=own.base_commit,
            base_why=self._base_why,
            exact_base=own.exact_base,
            step=own.step,
            interval_s=own.interval,
            commit_file=own.commit_file,
            status_file=own.status_file,
            sought=self._sought(),
            ahead=ahead,
            identity=self._identity,
            again=own.again,
            retries=own.local is None,
        )

    def _sought(self) -> tuple[Verdict, ...]:
        """Return what is verified and traced."""
        if not (self._own.regression or self._own.bisect_releases or self._own.packages):
            return ()
        return (*WORSE, "improved") if self._own.improved else WORSE

    def _prune(self, tally: Tally) -> None:
        """Keep the cache to its size; the builds just used stay."""
        reports = [report for _, outcome in tally.outcomes for report in (outcome.benchmark, outcome.verification)]
        keep = {str(build.directory) for report in reports if report for build in (report.control, report.treatment)}
        prune(self._cache, self._own.cache_size * GIB, keep)


def _compile_lines(builder: Builder, line: Sequence[Commit], strategy: str, framework: Framework) -> list[str]:
    commits = builder.to_compile(line, strategy)
    return compile_lines(commits, builder.compile_minutes if commits else None, framework.builds.has_repository)
