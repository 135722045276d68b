"""What the loop is asked to do, what a pass came to, and who hears of it."""

import hashlib
import json
import logging
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Protocol
from urllib.parse import quote

from opduel.driver.builds.builder import Builder
from opduel.driver.commit_file import PLACEHOLDER
from opduel.driver.git.repository import Repository
from opduel.driver.journal import Journal
from opduel.driver.lock import ANOTHER_FOLDER
from opduel.driver.outcome import Outcome
from opduel.driver.runs import Runs
from opduel.records import Commit, RunError, Verdict, disk_error

log = logging.getLogger(__name__)


@dataclass(frozen=True)
class WatchSettings:
    """Which commits are measured, against what, and what follows.

    ``sought``: the verdicts that are verified and bisected; none for a benchmark alone. ``interval_s``: None for one
    pass. ``ahead``: processors on which the next commits are built while one is measured; none for not at all.
    ``identity`` stands for all else that a run depends on. In ``commit_file``, "{branch}" stands for the branch.
    """

    work: Path
    branches: tuple[str, ...] = ()  # of the remote; none: its default branch
    commit: str | None = None
    base: str | None = None
    base_why: str = ""  # why it is that one, in words
    exact_base: bool = False
    step: int = 1
    interval_s: float | None = None
    commit_file: Path | None = None
    status_file: Path | None = None
    sought: Sequence[Verdict] = ()
    ahead: frozenset[int] = frozenset()
    identity: str = ""
    again: bool = False
    retries: bool = True  # whether commits that failed in an earlier pass are tried again

    @property
    def digest(self) -> str:
        """Stands for all that decides what comes of a commit: with another one it is another matter."""
        told = [self.identity, self.base, self.exact_base, sorted(self.sought)]
        return hashlib.sha256(json.dumps(told).encode()).hexdigest()[:8]

    @property
    def branch(self) -> str | None:
        """The one branch; None: the remote's default branch."""
        return self.branches[0] if self.branches else None

    def each(self) -> "list[WatchSettings]":
        """The settings of each branch alone."""
        found = [replace(self, branches=(one,), commit_file=self.commit_file_of(one)) for one in self.branches]
        return found or [self]

    def commit_file_of(self, branch: str) -> Path | None:
        """The commit file of one branch: a name with a slash in it stays one name."""
        path = self.commit_file
        return None if path is None else Path(str(path).replace(PLACEHOLDER, quote(branch, safe="")))


@dataclass
class Tally:
    """What a pass came to.

    ``failures``: lines; ``failed``: the same by what failed: the id of a commit, "remote", "pass" or "branch NAME".
    ``waiting``: how many commits are to be tried again later.
    """

    outcomes: list[tuple[Commit, Outcome]] = field(default_factory=list)
    failures: list[str] = field(default_factory=list)
    failed: dict[str, str] = field(default_factory=dict)
    waiting: int = field(default=0, compare=False)

    def fail(self, what: str, text: str) -> None:
        """Note a failure."""
        self.failures.append(text)
        self.failed[what] = text


@dataclass(frozen=True)
class Services:
    """What the loop works with, whatever it is asked to do."""

    repository: Repository
    builder: Builder
    runs: Runs
    journal: Journal
    listener: "Listener"


class Listener(Protocol):
    """Who hears of what the loop finds, besides the reporters."""

    def looks(self) -> None:
        """A pass begins."""

    def begins(
        self, control: Commit, treatment: Commit, why: str, line: Sequence[Commit], strategy: str, branch: str | None
    ) -> None:
        """A line is about to be measured; ``branch`` holds the treatment."""

    def found(self, outcome: Outcome, document: Path | None) -> None:
        """It was; ``document`` names the culprits."""


def record(journal: Journal, kind: str, text: str) -> None:
    """Log that something happened, and write it down."""
    log.warning("%s: %s", kind, text)
    try:
        journal.note(kind, text)
    except RunError as error:
        log.error("%s", error)


def explained(settings: WatchSettings, error: OSError) -> RunError:
    """An error of the file system that nobody nearer to it has explained."""
    return disk_error(settings.work, error, ANOTHER_FOLDER)
