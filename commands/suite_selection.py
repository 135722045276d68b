"""--suite: what is measured is a suite that somebody else wrote, as both builds say what it has."""

import copy
import dataclasses
import logging
import os
import re
import shlex
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

import platformdirs

from opduel.commands.case_selection import Choice, pick_cases, require_two_to_inject, sample_cases
from opduel.commands.driver_options import DriverOptions
from opduel.commands.harness_options import HarnessOptions
from opduel.commands.option_rules import refuse_options
from opduel.commands.suite_patterns import check_patterns, named_by, unmatched
from opduel.driver.builds.requirements import lock, requirements_of
from opduel.driver.git.access import TOKEN_VARIABLE, token_site
from opduel.driver.suites.configuration import CONFIGURATION, SuiteConfiguration
from opduel.driver.suites.configured import read_suite_settings
from opduel.driver.suites.dependency_groups import group_for_tests
from opduel.driver.suites.discovery import (
    Discovered,
    SuiteCase,
    all_cases,
    discover,
    missing_module,
    preloaded_by_all,
    problems_of,
    skipped_by_parameters,
)
from opduel.driver.suites.elsewhere import ChosenSuite
from opduel.driver.suites.source import Suite, open_suite
from opduel.driver.suites.work import SuiteWork, cache_orders, new_work_folder
from opduel.frameworks import Framework, framework_names, get_framework, run_environment, worker_environment
from opduel.records import METRICS, Build, Case, RunError, UsageError, case_id_for
from opduel.records.measurement import Side
from opduel.records.run_record import SuiteRecord
from opduel.support.redaction import redact
from opduel.support.text import counted

log = logging.getLogger(__name__)

NO_PACKAGES = "none"  # of --suite_packages
SHOWN = 5  # problems in the log; the report has them all
# What a benchmark of a kind measures by itself, and what else it can be measured by.
OWN = {
    **dict.fromkeys(("time", "timeraw", "test"), "time"),
    **dict.fromkeys(("track", "mem"), "value"),
    "peakmem": "process_memory",
}
FURTHER = dict.fromkeys(("time", "test"), ("memory", "process_memory"))


@dataclass(frozen=True)
class Collection:
    """The cases that are chosen, the benchmarks that they are of, all that there are on each side, and problems."""

    cases: Sequence[Case]
    chosen: Sequence[SuiteCase]
    benchmarks_by_side: Mapping[Side, Discovered]
    problems: list[str]


class SuiteSelection:
    """A suite that the options name: its files, then its cases on two builds."""

    def __init__(self, options: HarnessOptions, discover: Callable[..., Discovered] = discover) -> None:
        """Take the suite's files, and a copy of them for either side. UsageError: options that don't go with a suite,
        or there is no such suite; RunError: it can't be had."""
        assert options.suite is not None
        self._discover = discover
        suite_framework(options.framework)
        refuse_options(options, "a suite")
        spec = [options.benchmark_file] if options.benchmark_file else []
        self.patterns = [*options.bench, *spec]
        labels = dict.fromkeys(options.bench, options.label("bench")) | dict.fromkeys(spec, "-b")
        self._words = " ".join(f"{labels[pattern]} {pattern}" for pattern in self.patterns)  # as they were given
        for pattern in self.patterns:
            check_patterns(labels[pattern], [pattern])
        check_patterns("--higher_is_better", options.higher_is_better)
        self._first = folder = new_work_folder()  # the suite's own files may be in it
        cache = platformdirs.user_cache_path("opduel") / "repositories"
        suite = open_suite(options.suite, cache, Path(folder.name))
        configuration, notes = _with_packages(suite, options, cache.with_name("suites"))
        self.suite = dataclasses.replace(suite, configuration=configuration)
        self.framework = _framework_of(suite, options.framework).of_suite(
            suite.variables, configuration.requirements, configuration.subfolder, configuration.build_variables
        )
        self.options, more_notes = _with_variables(options, configuration.variables, self.framework)
        for line in (*configuration.notes, *notes, *more_notes):
            log.warning("%s", line)
        self.work = SuiteWork.of(self.suite, folder)
        self._is_new = True
        self._discovered_by_digest: dict[str, Discovered] = {}

    def renew(self) -> None:
        """Begin another run: its copies of the suite have nothing of what an earlier run's builds wrote into theirs.
        RunError: they can't be made."""
        if not self._is_new:
            self.work = SuiteWork.of(self.suite, new_work_folder())
        self._is_new = False

    def another(self) -> "SuiteSelection":
        """The same, with copies of its own, for a run that is made at the same time. RunError: they can't be made."""
        selection = copy.copy(self)
        selection.work, selection._is_new = SuiteWork.of(self.suite, new_work_folder()), True
        return selection

    def none_yet(self, _seed: int = 0) -> Choice:
        """No cases, whatever the seed, as long as there are no builds."""
        return Choice(self.framework.name, None, [], self.suite.name, framework=self.framework, resources=self.work)

    def on_sides(self, builds: Mapping[Side, Build]) -> dict[Side, Build]:
        """The builds, as the suite's workers need them. RunError: what lies beside the suite can't be linked."""
        for side, build in builds.items():
            self.work.link_neighbours(side, build)
        return {side: self.work.on_side(side, build) for side, build in builds.items()}

    def collect(self, sides: Mapping[Side, Build], seed: int = 0) -> "Collection":
        """The cases of the suite that the options choose, on what ``on_sides`` returned, of which nothing is run.
        ``seed`` draws those of ``--sample``. UsageError: the suite can't be imported, has no benchmarks, or none is
        chosen; RunError: a build doesn't answer."""
        options, benchmarks_by_side = self.options, self._discovered(sides)
        every = all_cases(benchmarks_by_side)
        problems = [self._with_fix(line) for line in problems_of(benchmarks_by_side)]
        if not every:
            own = "no test uses the fixture benchmark, or its mark: " if self.suite.tests else ""
            why = f"{own}name the folder that has them"
            if problems:
                why = problems[0] if problems[0].endswith(")") else f"{problems[0]}: correct that"
            raise UsageError(f"--suite {options.suite}: has no benchmarks: {why}")
        names = {name for pattern in self.patterns or [""] for name in named_by(pattern, every)}
        chosen = [suite_case for suite_case in every if suite_case.name in names]
        if not chosen:
            raise unmatched(self._words, self.patterns, every)
        higher = {name for pattern in options.higher_is_better for name in named_by(pattern, every)}
        usual_s = self.suite.configuration.timeout_s
        cases = [
            case for suite_case in chosen for case in cases_of(suite_case, options, usual_s, suite_case.name in higher)
        ]
        if not cases:
            metrics = ",".join(options.metric)
            able = ", ".join(dict.fromkeys(metric for case in chosen for metric in _metrics_of(case.benchmark.kind)))
            raise UsageError(f"--metric {metrics}: no selected benchmark is measured by it: choose among {able}")
        cases = sample_cases(pick_cases(cases, options), options, seed)
        require_two_to_inject(options, cases)
        case_keys = {(case.operator, tuple(case.inputs.values())) for case in cases}
        chosen = [
            suite_case
            for suite_case in chosen
            if (suite_case.benchmark.name, tuple(suite_case.parameters.values())) in case_keys
        ]
        return Collection(cases, chosen, benchmarks_by_side, problems)

    def choose(self, sides: Mapping[Side, Build], seed: int = 0) -> Choice:
        """As ``collect``, and their ``setup_cache`` is run, unless a fleet measures them: then each of its hosts does
        that."""
        options, collection = self.options, self.collect(sides, seed)
        benchmarks = [suite_case.benchmark for suite_case in collection.chosen]
        orders = cache_orders(collection.chosen, options.timeout, self.suite.configuration.timeout_s)
        if options.fleet is None:
            collection.problems.extend(self.work.make_caches(sides, self.framework, orders, options.variables))
        _log_problems(collection.problems)
        keys = {benchmark.name: benchmark.setup_cache for benchmark in benchmarks if benchmark.setup_cache}
        return dataclasses.replace(
            self.none_yet(),
            cases=collection.cases,
            framework=self.work.framework(self.framework, preloaded_by_all(collection.benchmarks_by_side)),
            suite=ChosenSuite(self.suite, orders, keys),
            suite_record=self._record(collection),
        )

    def _with_fix(self, problem: str) -> str:
        """Return the line, with the option that installs the module that it misses."""
        missing = re.search(r"No module named '(\w+)", problem)
        if missing and missing[1] in self.suite.configuration.conda_packages:
            return f"{problem} ({CONFIGURATION} lists it: add it with --suite_packages)"
        if self.suite.tests and (module := missing_module(problem)):
            return f"{problem} (add it with --suite_packages {module})"
        return problem

    def _discovered(self, sides: Mapping[Side, Build]) -> dict[Side, Discovered]:
        """What each side finds; a build is asked once, and again by a later run if there were problems."""
        earlier = list(self._discovered_by_digest.items())
        self._discovered_by_digest = discovered = {digest: suite for digest, suite in earlier if not suite.problems}
        benchmarks_by_side: dict[Side, Discovered] = {}
        for side, build in sides.items():
            if build.digest not in discovered:
                folder, place = self.work.copies[side], self.work.place(side)
                where = folder, place, self.options.variables, self.suite.tests
                discovered[build.digest] = self._discover(build, self.framework, *where)
            benchmarks_by_side[side] = discovered[build.digest]
        cases = len(all_cases(benchmarks_by_side))
        names = {benchmark.name for side in benchmarks_by_side.values() for benchmark in side.benchmarks}
        log.info("%s: %s, %s", self.suite.name, counted(len(names), "benchmark"), counted(cases, "case"))
        return benchmarks_by_side

    def _record(self, collection: "Collection") -> SuiteRecord:
        """What the report says of the suite."""
        benchmarks = {suite_case.benchmark.name: suite_case.benchmark for suite_case in collection.chosen}
        one_sided = {
            suite_case.name: suite_case.sides[0]
            for suite_case in collection.chosen
            if len(suite_case.sides) < len(collection.benchmarks_by_side)
        }
        suite = self.suite
        return SuiteRecord(
            requested=redact(suite.requested),  # it goes to the hosts of a fleet, too
            pinned=redact(suite.pinned),
            folder=str(suite.folder),
            name=suite.name,
            digest=suite.digest,
            commit=suite.commit,
            dirty=suite.dirty,
            requirements=suite.configuration.requirements,
            benchmarks={
                name: {"version": benchmark.version, "kind": benchmark.kind, "pretty_name": benchmark.pretty_name}
                for name, benchmark in benchmarks.items()
            },
            one_sided=one_sided,
            skipped_by_parameters=skipped_by_parameters(collection.benchmarks_by_side, benchmarks),
            problems=tuple(collection.problems),
        )


def suite_of_driver(options: DriverOptions) -> tuple[SuiteSelection, DriverOptions]:
    """Return the suite that is measured on all commits, and the options, with its variables, and its repository and
    branch where they name none. UsageError, RunError: as `SuiteSelection`."""
    suite, own = SuiteSelection(options.harness), options.own
    suite_settings = read_suite_settings(suite.suite)
    log.info("the suite of all commits: %s", suite.suite.description)
    if not (own.local or own.bisect_releases or own.packages or own.repo_dir or own.remote_repository is not None):
        if suite_settings.repository is not None:
            site = token_site(suite_settings.repository)
            if site is not None and site != token_site(suite.suite.requested):
                raise UsageError(
                    f"{TOKEN_VARIABLE} would go to {site}, which {CONFIGURATION} names: if it is meant for that, add "
                    f"--remote_repository {suite_settings.repository}, or else unset it"
                )
            own = dataclasses.replace(own, remote_repository=suite_settings.repository)
            log.info("commits of %s, the suite's repository", redact(suite_settings.repository))
        if own.branch is None and suite_settings.branch is not None:
            own = dataclasses.replace(own, branch=suite_settings.branch)
    return suite, dataclasses.replace(options, own=own, harness=suite.options)


def _with_packages(suite: Suite, options: HarnessOptions, cache: Path) -> tuple[SuiteConfiguration, Sequence[str]]:
    """Return the suite's configuration with the packages of ``--suite_packages``, or for tests with those that their
    project lists for them, and a line on those that aren't installed. ``cache``: where it is kept which can be."""
    configuration = suite.configuration
    if options.suite_packages is not None:
        text = options.suite_packages
        requirements = () if text == NO_PACKAGES else requirements_of(text)
        if requirements is None:
            raise UsageError(f"--suite_packages {text}: is a path: give requirements, such as numpy==2.2.6")
        return dataclasses.replace(configuration, requirements=requirements, conda_packages=()), ()
    if suite.tests and (group := group_for_tests(suite.folder, suite.tests)):
        try:
            with suppress(RunError):  # builds say that the index can't be reached, if they need it
                lock(group.requirements, cache, sdists=options.allow_sdist, python=group.python)
        except UsageError as error:
            why = f"{group.label} can't be resolved, and is left out: {getattr(error, 'reason', error)}"
            return configuration, (f"{why}: give what the tests need with --suite_packages 'PACKAGE ...'",)
        others = f"others: --suite_packages 'PACKAGE ...', or {NO_PACKAGES}"
        log.info("builds get %s, %s (%s)", group.label, counted(len(group.requirements), "package"), others)
        return dataclasses.replace(configuration, requirements=group.requirements), ()
    if not configuration.conda_packages:
        return configuration, ()
    names = " ".join((*configuration.requirements, *configuration.conda_packages))
    return configuration, (
        f"{CONFIGURATION}: {', '.join(configuration.conda_packages)}: not installed, as PyPI may have others of these "
        f"names: give those that the benchmarks need, as --suite_packages {shlex.quote(names)}",
    )


def _with_variables(
    options: HarnessOptions, variables: Mapping[str, str], framework: Framework
) -> tuple[HarnessOptions, Sequence[str]]:
    """Return the options with the configuration's variables and the modules' folders that asv takes from its
    ``ASV_PYTHONPATH``, and a line for each variable that opduel sets to another value; those of ``--env`` count more.
    """
    ours = {**worker_environment(), **framework.environment(options.threads)}
    set_variables, notes = dict(options.variables), []
    if folders := os.environ.get("ASV_PYTHONPATH"):
        set_variables.setdefault("PYTHONPATH", os.pathsep.join(map(os.path.abspath, folders.split(os.pathsep))))
    for name, value in variables.items():
        if name in options.variables or ours.get(name) == value:
            continue
        try:
            run_environment(framework, options.threads, {name: value})
            set_variables[name] = value
        except UsageError as error:
            notes.append(f"{CONFIGURATION}: matrix: {name}={value}: not followed: {error}")
    return dataclasses.replace(options, variables=set_variables, env=tuple(sorted(set_variables))), notes


def suite_framework(name: str | None) -> Framework:
    """The framework of that name, or the first that measures suites; UsageError if it measures none."""
    for framework_name in framework_names() if name is None else [name]:
        framework = get_framework(framework_name)
        if framework.scripts.suite is not None:
            return framework
    raise UsageError(f"--framework {name}: measures no suites: leave it out")


def _framework_of(suite: Suite, name: str | None) -> Framework:
    """Return the framework of that name, or else the suite's. UsageError: the name is the other one's of opduel's own
    two."""
    if name is not None and name != suite.framework and name in ("asv", "pytest"):
        raise UsageError(f"--framework {name}: the suite is for {suite.framework}: leave it out")
    return suite_framework(name or suite.framework)


def cases_of(suite_case: SuiteCase, options: HarnessOptions, usual_s: float, higher_is_better: bool) -> list[Case]:
    """One benchmark with one set of parameters, by its own metric, or by those asked for that it can be measured by.
    ``usual_s``: its limit where none is stated."""
    benchmark, thresholds = suite_case.benchmark, options.threshold
    able = _metrics_of(benchmark.kind)
    cases = []
    for metric in [name for name in options.metric if name in able] if options.metric else able[:1]:
        tracks = metric == "value"
        cases.append(
            Case(
                id=case_id_for(metric, suite_case.name),
                operator=benchmark.name,
                direction="",
                inputs=dict(suite_case.parameters),
                dtype="",
                context="",
                threshold=thresholds.get(metric, METRICS[metric].threshold),
                timeout_s=options.timeout or benchmark.timeout or usual_s,
                metric=metric,
                mode="",
                unit=benchmark.unit if tracks else None,
                lower_is_better=(benchmark.lower_is_better and not higher_is_better) if tracks else None,
            )
        )
    return cases


def _metrics_of(kind: str) -> Sequence[str]:
    """Return what a kind of benchmarks can be measured by, its own metric first."""
    return (OWN[kind], *FURTHER.get(kind, ()))


def _log_problems(problems: Sequence[str]) -> None:
    for line in problems[:SHOWN]:
        log.warning("suite: %s", line)
    if len(problems) > SHOWN:
        log.warning("suite: %d more problems (report.json has them)", len(problems) - SHOWN)
