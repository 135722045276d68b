"""The search for the packages that changed a case, on environments whose times the test knows."""

from collections.abc import Callable, Mapping
from pathlib import Path

import pytest
from made_environments import a_pair
from made_runs import MadeHarness, a_build

from opduel.driver.journal import Journal
from opduel.driver.outcome import Outcome
from opduel.driver.package_search import PackageCulprit, PackageSearch
from opduel.driver.packages import Environment, EnvironmentPair
from opduel.driver.runs import Runs
from opduel.records import WORSE, BrokenBuildError, Build

Versions = Mapping[str, str]
OLD = {"a": "1.0", "b": "1.0", "c": "1.0", "d": "1.0"}
NEW = {"a": "2.0", "b": "2.0", "c": "2.0", "d": "2.0"}


class Times(dict[str, float]):
    """What a case takes in an environment, by the environment's packages."""

    def __init__(self, of_versions: Callable[[Versions], float]) -> None:
        super().__init__()
        self._of_versions = of_versions

    def __missing__(self, packages: str) -> float:
        return self._of_versions(dict(word.split("=") for word in packages.split()))


class Search:
    """Starts of a search for what makes a case slower."""

    def __init__(self, folder: Path, pair: EnvironmentPair, time: Callable[[Versions], float]) -> None:
        self.folder, self.pair = folder, pair
        self.harness = MadeHarness({"case": Times(time)})
        self.releases: list[str] = []  # of each package, between the two versions
        self.broken: set[str] = set()

    def start(self) -> tuple[Outcome, list[PackageCulprit]]:
        """One start of the command, to its end."""
        journal = Journal(self.folder / "journal.db")
        runs = Runs(journal, self.harness, 0.0, lambda _: None)
        releases = lambda *_: self.releases  # noqa: E731
        try:
            search = PackageSearch(self.pair, self.make, runs, journal, "settings", list_releases=releases)
            outcome = search.investigate(WORSE)
            explained = search.culprits(outcome)
            for index, culprit in enumerate(explained):
                culprit = search.with_partners(culprit, explained[:index], outcome)
                explained[index] = search.with_releases(culprit, outcome)
            return outcome, explained
        finally:
            journal.close()

    def make(self, environment: Environment, release: str) -> Build:
        if release in self.broken:
            raise BrokenBuildError("does not go with the others")
        versions = {name: package.version for name, package in environment.packages.items()}
        versions |= dict([release.split("==")]) if release else {}
        return a_build(" ".join(f"{name}={version}" for name, version in sorted(versions.items())))


@pytest.fixture
def search(tmp_path: Path) -> Callable[..., Search]:
    def make(time: Callable[[Versions], float], old: Versions = OLD, new: Versions = NEW, **needs: object) -> Search:
        return Search(tmp_path, a_pair(tmp_path, old, new, **needs), time)  # type: ignore[arg-type]

    return make


def slow(versions: Versions, *names: str) -> bool:
    return all(versions[name] != "1.0" for name in names)


def test_one_package_is_found(search: Callable[..., Search]) -> None:
    outcome, (culprit,) = search(lambda versions: 1.12 if slow(versions, "c") else 1.0).start()
    assert outcome.confirmed == ("case",)
    assert (culprit.packages, culprit.partners) == ({"c"}, frozenset())
    assert culprit.on_line.revisions[-1].name == "c 1.0 -> 2.0"


def test_two_packages_that_each_add_to_it_are_both_found(search: Callable[..., Search]) -> None:
    times = search(lambda versions: (1.06 if slow(versions, "a") else 1) * (1.06 if slow(versions, "d") else 1))
    _, culprits = times.start()
    assert [(culprit.packages, culprit.partners) for culprit in culprits] == [({"a"}, set()), ({"d"}, set())]


def test_packages_that_are_slow_only_together_are_found_together(search: Callable[..., Search]) -> None:
    _, (culprit,) = search(lambda versions: 1.12 if slow(versions, "a", "b", "d") else 1.0).start()
    assert (culprit.packages, culprit.partners) == ({"d"}, {"a", "b"})


def test_what_needs_others_is_not_their_fault(search: Callable[..., Search]) -> None:
    """The culprit goes only with the others' new versions, which make no difference by themselves."""
    needs = {"a": ["d<2"], "b": ["d<2"]}
    _, (culprit,) = search(lambda versions: 1.12 if slow(versions, "d") else 1.0, old_needs=needs).start()
    assert (culprit.packages, culprit.partners) == ({"d"}, frozenset())


def test_packages_that_require_each_other_are_found_as_one(search: Callable[..., Search]) -> None:
    needs = {"old_needs": {"b": ["c<2"]}, "new_needs": {"b": ["c>=2"]}}
    _, (culprit,) = search(lambda versions: 1.12 if slow(versions, "b") else 1.0, **needs).start()
    assert (culprit.packages, culprit.releases) == ({"b", "c"}, ())


def test_no_difference_is_no_culprit(search: Callable[..., Search]) -> None:
    outcome, culprits = search(lambda _: 1.0).start()
    assert (outcome.confirmed, culprits) == ((), [])


def test_the_release_is_found_past_one_that_can_not_be_installed(search: Callable[..., Search]) -> None:
    times = search(lambda versions: 1.12 if versions["b"] in ("1.4", "1.5", "2.0") else 1.0)
    times.releases, times.broken = ["1.1", "1.2", "1.3", "1.4", "1.5"], {"b==1.3"}
    _, (culprit,) = times.start()
    (release,) = culprit.releases
    assert [revision.name for revision in release.revisions] == ["b==1.2", "b==1.3", "b==1.4"]


def test_an_older_release_is_looked_for_downwards(search: Callable[..., Search]) -> None:
    times = search(lambda versions: 1.12 if versions["b"] in ("1.0", "1.1") else 1.0, old=NEW, new=OLD)
    times.releases = ["1.1", "1.2", "1.3"]
    _, (culprit,) = times.start()
    assert [revision.name for revision in culprit.releases[0].revisions] == ["b==1.2", "b==1.1"]


def test_the_next_start_goes_on_from_the_journal(search: Callable[..., Search]) -> None:
    times = search(lambda versions: 1.12 if slow(versions, "a", "d") else 1.0)
    times.releases = ["1.1"]
    for steps in range(1, 30):
        times.harness.endings = [""] * steps + ["interrupted"]
        try:
            _, (culprit,) = times.start()
            break
        except KeyboardInterrupt:
            continue
    assert (culprit.packages, culprit.partners) == ({"d"}, {"a"})
    assert [revision.name for revision in culprit.releases[0].revisions] == ["d==1.0", "d==1.1"]
    finished = times.harness.started_runs
    times.harness.endings = []
    times.start()
    assert times.harness.started_runs == finished
