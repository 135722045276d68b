"""The loop over commits with everything around it made up: repository, builder, harness, clock."""

import threading
import time
from collections.abc import Callable, Collection, Sequence
from pathlib import Path
from typing import Any

from made_runs import MadeHarness, a_build, a_commit

from opduel.driver.git.patch import ChangedFile, Hunk
from opduel.driver.journal import Journal
from opduel.driver.outcome import Outcome
from opduel.driver.runs import Runs
from opduel.driver.version_control import RemoteGone
from opduel.driver.watch import Services, Tally, Watch, WatchSettings
from opduel.records import Build, Commit, UsageError

HOUR_S = 3600.0


class MadeRepository:
    """One branch, main, of the commits 0, 1, 2..., all of one week."""

    def __init__(self, count: int) -> None:
        self.line = [a_commit(number) for number in range(count)]
        self.is_gone = False
        self.on_fetch: Callable[[], None] = lambda: None

    def fetch(self) -> None:
        if self.is_gone:
            raise RemoteGone("fetching: failed 3 times")
        self.on_fetch()

    def changes(self, older: Commit, newer: Commit) -> list[ChangedFile]:
        hunk = Hunk(range(1, 2), range(1, 2), "", [older.id], [newer.id])
        return [ChangedFile("setup.py", "setup.py", False, [hunk])]

    def has_branches(self) -> bool:
        return bool(self.line)

    def default_branch(self) -> str:
        return "main"

    def resolve(self, name: str) -> Commit:
        return self.line[-1] if name == "main" else self.commit(name)

    def branch(self, name: str) -> Commit:
        return self.resolve(name)

    def commit(self, name: str) -> Commit:
        for commit in self.line:
            if commit.id == name:
                return commit
        raise UsageError(f"{name!r}: no such commit")

    def parent(self, commit: Commit) -> Commit | None:
        index = self.line.index(commit)
        return self.line[index - 1] if index else None

    def is_ancestor(self, a: Commit, b: Commit) -> bool:
        return self.line.index(a) <= self.line.index(b)

    def merge_base(self, a: Commit, b: Commit) -> Commit | None:
        return min(a, b, key=self.line.index)

    def chain(self, control: Commit, treatment: Commit) -> list[Commit]:
        return self.line[self.line.index(control) + 1 : self.line.index(treatment) + 1]

    def since(self, tip: Commit, moment: int) -> Sequence[Commit]:
        return [commit for commit in self.line[: self.line.index(tip) + 1] if commit.time >= moment]


class MadeBuilder:
    """Builds every commit but those that fail, in the way that they do; a build can be made to take its time."""

    def __init__(self) -> None:
        self.failing: dict[int, Exception] = {}
        self.built: list[tuple[int, frozenset[int] | None]] = []
        self.wait: threading.Event | None = None
        self.stopped = threading.Event()
        self.stops = 0

    def strategy(self, commits: Collection[Commit]) -> str:
        return "source"

    def is_cached(self, commit: Commit, strategy: str) -> bool:
        return False

    def build(self, commit: Commit, strategy: str, processors: frozenset[int] | None = None) -> Build:
        number = int(commit.short, 16)
        self.built.append((number, processors))
        if self.wait and processors is not None:
            self.wait.set()
            self.stopped.wait(60)
        if number in self.failing:
            raise self.failing[number]
        return a_build(commit.short, commit)

    def difference(self, build: Build, commit: Commit) -> None:
        pass

    def stop(self) -> None:
        self.stops += 1
        self.stopped.set()

    def resume(self) -> None:
        self.stopped.clear()


class Ear:
    """Hears what the loop says."""

    def __init__(self) -> None:
        self.treatments: list[str] = []
        self.of_branches: list[str | None] = []
        self.outcomes: list[Outcome] = []
        self.looked = 0

    def begin_pass(self) -> None:
        self.looked += 1

    def begin_line(self, why: str, line: Sequence[Commit], strategy: str, branch: str | None) -> None:
        self.treatments.append(line[-1].subject)
        self.of_branches.append(branch)

    def report_outcome(self, outcome: Outcome, document: Path | None) -> None:
        self.outcomes.append(outcome)


class Loop:
    """A watch with everything around it made up."""

    def __init__(self, folder: Path, commits: int) -> None:
        self.now = 1_800_000_000.0
        self.folder = folder
        self.repository = MadeRepository(commits)
        self.builder = MadeBuilder()
        self.harness = MadeHarness({"case": {commit.short: 1.0 for commit in [a_commit(n) for n in range(50)]}})
        self.journal = Journal(folder / "journal.db", lambda: self.now)
        self.ear = Ear()
        self.last, self.status = folder / "last", folder / "status"

    def watch(self, sleep: Callable[[float], None] = time.sleep, **settings: Any) -> Watch:
        chosen = WatchSettings(self.folder, status_file=self.status, **{"commit_file": self.last, **settings})
        runs = Runs(self.journal, self.harness, 0.0, lambda _: None)
        services: tuple[Any, ...] = (self.repository, self.builder, runs, self.journal, self.ear)
        return Watch(Services(*services), chosen, sleep=sleep)

    def passes(self, count: int, between: Callable[[int], None] = lambda _: None, **settings: Any) -> list[Tally]:
        """So many passes of one process, with something happening after the first, the second..."""
        tallies: list[Tally] = []

        def after(tally: Tally) -> None:
            tallies.append(tally)
            between(len(tallies))
            if len(tallies) == count:
                self.status.write_text("0")

        self.watch(interval_s=0.0, sleep=lambda _: None, **settings).for_ever(after)
        return tallies

    def events(self, kind: str) -> list[str]:
        return [text for _, event_kind, text in self.journal.events() if event_kind == kind]

    def dealt_with(self) -> str:
        """What the commit file says, by its subject."""
        return a_commit(int(self.last.read_text()[:12], 16)).subject
