"""``--packages``: which of the packages in which two environments differ made cases slower, and in which release."""

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path

from opduel.commands.driver_findings import Teller, code_of
from opduel.commands.entry import DONE, INCOMPLETE, log
from opduel.commands.harness_options import CommitOptions
from opduel.commands.package_text import commit_command, difference_lines, package_lines
from opduel.commands.session import Session
from opduel.driver.builds import BuildCache, resolve_build
from opduel.driver.builds.mixture import mixture_build, read_environment
from opduel.driver.documents import write_document
from opduel.driver.journal import Journal
from opduel.driver.outcome import Outcome, culprits_document
from opduel.driver.package_search import PackageCulprit, PackageSearch
from opduel.driver.packages import Environment, EnvironmentPair
from opduel.driver.runs import Runs
from opduel.frameworks.roles import ProgramBuilds
from opduel.records import Build, RunError, UsageError, Verdict
from opduel.support.text import counted


@dataclass(frozen=True)
class PackageBisection:
    """One start of the command, with what the driver has made ready for it."""

    own: CommitOptions
    session: Session
    work: Path
    cache: BuildCache
    runs: Runs
    journal: Journal
    identity: str
    sought: Sequence[Verdict]
    teller: Teller

    def find(self) -> int:
        """Measure, say which packages are to blame, and return the exit code. OpduelError: nothing can be measured."""
        pair = self._pair()
        self.teller.say(difference_lines(pair))
        build = partial(mixture_build, framework=self.session.framework, cache=self.cache)
        search = PackageSearch(pair, build, self.runs, self.journal, self.identity, self.own.again)
        if self.own.dry_run:
            steps = (search.line[index + 1] - mixture for index, mixture in enumerate(search.line[:-1]))
            order = "; ".join(", ".join(map(pair.change, sorted(step))) for step in steps)
            self.teller.say([f"they would be exchanged in this order: {order}; nothing was measured"])
            return DONE
        self.runs.deliver_all()
        self.teller.begin_pass()
        outcome = search.investigate(self.sought)
        explained, problem = self._explain(search, outcome)
        commands = [commit_command(self.session.options, search, culprit) for culprit in explained]
        document = self._write(search, outcome, explained, commands)
        lines = [
            *package_lines(search, explained, outcome),
            *(f"to find the commit: {command}" for command in commands if command),
            f"{counted(search.comparisons, 'run')} made",
        ]
        self.teller.report_outcome(outcome, document, lines)
        if problem:
            log.error("error: %s; started again, the same command goes on from here", problem)
        return self._code(search, outcome, explained)

    def _pair(self) -> EnvironmentPair:
        """Return the two environments. UsageError: one is none, or they don't differ."""
        old, new = self.own.packages or ()
        if isinstance(self.session.framework.builds, ProgramBuilds):
            raise UsageError("--packages: programs have no packages: give a spec of functions, or a line of Python")
        builds = [self._build(request) for request in (old, new)]
        control, treatment = map(read_environment, builds)
        other_python = None
        if _minor(control) != _minor(treatment):
            versions = control.python, treatment.python
            log.info("Python %s and %s: the packages of %s are installed for both", *versions, new)
            pins = " ".join(f"{package.name}=={package.version}" for package in treatment.packages.values())
            try:
                here = read_environment(self._build(f"python=={_minor(control)} {pins}"))
            except UsageError as error:
                why = f"{new} can't be had on the Python of {old}, {control.python}: {error}"
                raise UsageError(f"--packages: {why}") from None
            other_python, treatment = treatment, replace(here, request=new)
        pair = EnvironmentPair(control, treatment, other_python)
        if not pair.differing:
            raise UsageError(f"--packages: {old} and {new} have the same packages and Python: give two that differ")
        return pair

    def _build(self, request: str) -> Build:
        return resolve_build(request, self.session.framework, self.cache, None, self.session.options.allow_sdist)

    def _explain(self, search: PackageSearch, outcome: Outcome) -> tuple[list[PackageCulprit], str]:
        """Return the culprits, as far as they could be examined, and why the rest couldn't."""
        explained, problem = search.culprits(outcome), outcome.why_open
        try:
            for index, culprit in enumerate(explained):
                explained[index] = search.with_partners(culprit, explained[:index], outcome)
                explained[index] = search.with_releases(explained[index], outcome)
        except RunError as error:
            problem = str(error)
        return explained, problem

    def _write(
        self, search: PackageSearch, outcome: Outcome, explained: Sequence[PackageCulprit], commands: Sequence[str]
    ) -> Path:
        """Write what was found as a document, and return its path."""
        pair, name = search.pair, search.name
        path = self.work / "culprits" / f"{hashlib.sha256(name.encode()).hexdigest()[:12]}.json"
        found = [
            {
                "packages": sorted(culprit.packages),
                "partners": sorted(culprit.partners),
                "releases": [revision.name for release in culprit.releases for revision in release.revisions],
                "command": command,
            }
            for culprit, command in zip(explained, commands, strict=True)
        ]
        versions = {name: pair.versions(name) for name in pair.differing}
        document = {"differing": versions, "found": found, **culprits_document(outcome, name)}
        write_document(path, document)
        return path

    def _code(self, search: PackageSearch, outcome: Outcome, explained: Sequence[PackageCulprit]) -> int:
        """Return 1 if a package was found, 0 if there is no difference, 3 if it isn't known."""
        all_of_it = (0, len(search.line) - 1)
        located = [culprit for culprit in explained if all_of_it == (0, 1) or _range(culprit) != all_of_it]
        is_undecided = any(comparison.verdict == "inconclusive" for comparison in outcome.benchmark.comparisons)
        if outcome.confirmed and not located:
            return INCOMPLETE
        if not outcome.confirmed and is_undecided:
            return INCOMPLETE
        return code_of(outcome, traced=True)


def _range(culprit: PackageCulprit) -> tuple[int, int]:
    return culprit.on_line.range.start, culprit.on_line.range.end


def _minor(environment: Environment) -> str:
    return ".".join(environment.python.split(".")[:2])
