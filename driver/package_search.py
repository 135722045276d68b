"""Which of the packages in which two environments differ changed the cases, and in which release.

The packages are exchanged one after the other, in an order that requirements allow; of the mixtures that this makes a
line, a bisection finds those that change. A package may make a difference only beside others that came before it: a
bisection of these, with that package exchanged first, finds out which.
"""

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from pathlib import Path

from packaging.version import InvalidVersion, Version

from opduel.driver.bisection import Step
from opduel.driver.builds.uv import releases_between
from opduel.driver.investigation import Investigation
from opduel.driver.journal import Journal
from opduel.driver.outcome import Culprit, Outcome
from opduel.driver.packages import PYTHON, Environment, EnvironmentPair
from opduel.driver.revisions import Revision
from opduel.driver.runs import Runs
from opduel.records import BrokenBuildError, Build, Verdict

Mixture = frozenset[str]  # the packages that are exchanged
MakeMixture = Callable[[Environment, str], Build]  # with a release, or "", in place of a package
ListReleases = Callable[[str, str, str, Path], list[str]]  # of a package between two versions, for an interpreter


@dataclass(frozen=True)
class PackageCulprit:
    """A step of the line that changed cases. ``packages`` were exchanged in it, and make no difference without
    ``partners``, if there are any. ``releases`` has what came of the search among a package's releases."""

    on_line: Culprit
    packages: Mixture
    partners: Mixture = frozenset()
    releases: tuple[Culprit, ...] = ()

    @property
    def cases(self) -> Mapping[str, Step]:
        """The steps that show the change, by case."""
        return self.on_line.range.cases


class PackageSearch:
    """The search between two environments; steps that were made before are answered from the journal."""

    def __init__(
        self,
        pair: EnvironmentPair,
        build: MakeMixture,
        runs: Runs,
        journal: Journal,
        settings: str,
        again: bool = False,
        list_releases: ListReleases = releases_between,
    ) -> None:
        """``settings`` identifies all else that a run depends on; ``again``: what was measured is measured again."""
        self.pair, self._make, self._list_releases = pair, build, list_releases
        self._runs, self._journal, self._again = runs, journal, again
        packages = [package for side in (pair.control, pair.treatment) for package in side.packages.values()]
        contents = [(str(package.folder), package.content, package.changed_ns) for package in packages]
        self._settings = json.dumps([settings, sorted(contents)])
        self._names: list[str] = []  # of the investigations
        self.line: list[Mixture] = pair.line()
        self._main = self._investigation(self._revisions(self.line), self.line)
        self.name = self._main.name

    def investigate(self, sought: Sequence[Verdict]) -> Outcome:
        """Benchmark the whole difference, and bisect the verdicts ``sought``. OpduelError: as an Investigation."""
        return self._main.investigate(sought)

    def culprits(self, outcome: Outcome) -> list[PackageCulprit]:
        """Return the culprits of an outcome, with the packages that were exchanged there; nothing is measured."""
        ranges = ((on_line, on_line.range) for on_line in outcome.culprits or ())
        return [PackageCulprit(on_line, self.line[part.end] - self.line[part.start]) for on_line, part in ranges]

    def with_partners(
        self, culprit: PackageCulprit, earlier: Sequence[PackageCulprit], outcome: Outcome
    ) -> PackageCulprit:
        """Return a culprit with the packages, exchanged before it, without which its change is not there, other than
        the ``earlier`` culprits of its cases. RunError: a step can't be measured yet."""
        before = [other.packages for other in earlier if other.cases.keys() & culprit.cases.keys()]
        partners = self._partners(culprit.on_line, culprit.packages.union(*before), _thresholds(outcome))
        return replace(culprit, partners=partners)

    def with_releases(self, culprit: PackageCulprit, outcome: Outcome) -> PackageCulprit:
        """Return a culprit with the release of its package that made the change, where that can be found. RunError:
        the index can't be reached, or a step can't be measured yet."""
        if len(culprit.packages) != 1 or PYTHON in culprit.packages:
            return culprit
        (name,) = culprit.packages
        versions = [version.partition("+")[0] for version in self.pair.versions(name)]
        try:
            is_upgrade = Version(versions[0]) < Version(versions[1])
        except InvalidVersion:  # it is missing on one side
            return culprit
        mixture = self.pair.mixture(self.line[culprit.on_line.range.end])
        older, newer = versions if is_upgrade else versions[::-1]
        between = self._list_releases(name, older, newer, mixture.interpreter)
        if not between:
            return culprit
        part = culprit.on_line.range
        ends = zip(self.pair.versions(name), (part.start, part.end), strict=True)
        start, end = (self._revision(f"{name}=={version}", self.line[point]) for version, point in ends)
        middle = [
            Revision(f"{name}=={version}", lambda release: self._make(mixture, release))
            for version in (between if is_upgrade else between[::-1])
        ]
        investigation = self._investigation([start, *middle, end], [self.line[culprit.on_line.range.end]])
        return replace(culprit, releases=investigation.trace(culprit.cases, _thresholds(outcome)))

    @property
    def comparisons(self) -> int:
        """How many runs were made for this search, by this start and earlier ones."""
        return sum(len(self._runs.reports(f"{name}/")) for name in set(self._names))

    def _partners(self, culprit: Culprit, exchanged: Mixture, thresholds: Mapping[str, float]) -> Mixture:
        """Return the packages, exchanged before a culprit, without which its change isn't there; ``exchanged`` are its
        own, and those of other culprits of its cases."""
        points = self.line[: culprit.range.end + 1]
        sought = {case: step.verdict for case, step in culprit.range.cases.items()}
        partners: Mixture = frozenset()
        while True:
            together = self.pair.completed(exchanged | partners)
            mixtures = list(dict.fromkeys(together | point for point in points))
            if len(mixtures) == 1:
                return partners
            investigation = self._investigation(self._revisions(mixtures), mixtures)
            steps = investigation.compare_ends(sought)
            changed = {case: step for case, step in steps.items() if step.finding == sought[case] and not step.unsure}
            new = {
                name
                for partner in (investigation.trace(changed, thresholds) if changed else ())
                for name in mixtures[partner.range.end] - mixtures[partner.range.start]
            }
            if not new:
                return partners
            partners |= new

    def _revisions(self, mixtures: Sequence[Mixture]) -> list[Revision]:
        names = [self.pair.title(mixtures[0])]
        for before, after in pairwise(mixtures):
            names.append(", ".join(map(self.pair.change, sorted(after - before))))
        return [self._revision(name, mixture) for name, mixture in zip(names, mixtures, strict=True)]

    def _revision(self, name: str, mixture: Mixture) -> Revision:
        return Revision(name, lambda _: self._build(mixture))

    def _build(self, mixture: Mixture) -> Build:
        if missing := self.pair.completed(mixture) - mixture:
            raise BrokenBuildError(f"{self.pair.title(mixture)} needs {', '.join(map(self.pair.change, missing))}")
        return self._make(self.pair.mixture(mixture), "")

    def _investigation(self, revisions: Sequence[Revision], mixtures: Sequence[Mixture]) -> Investigation:
        """Return the investigation of a line, which ``mixtures`` identify beside its names."""
        settings = json.dumps([self._settings, *map(sorted, mixtures)])
        investigation = Investigation(revisions, self._runs, self._journal, settings)
        if self._again and investigation.name not in self._names:
            self._runs.forget(f"{investigation.name}/")
        self._names.append(investigation.name)
        return investigation


def _thresholds(outcome: Outcome) -> dict[str, float]:
    return {comparison.case: comparison.threshold for comparison in outcome.benchmark.comparisons}
