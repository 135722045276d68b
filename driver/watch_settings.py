"""The loop's settings, the tally of a pass, and what the loop works with."""

import logging
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Protocol
from urllib.parse import quote

from opduel.driver.builds.builder import Builder
from opduel.driver.commit_file import PLACEHOLDER
from opduel.driver.git.repository import Repository
from opduel.driver.journal import Journal
from opduel.driver.outcome import Outcome
from opduel.driver.runs import Runs
from opduel.records import Commit, RunError, Verdict
from opduel.support.digests import data_digest
from opduel.support.files import UnreadableError, read_text

log = logging.getLogger(__name__)


@dataclass(frozen=True)
class WatchSettings:
    """Which commits are measured, against what, and what follows.

    ``sought`` are the verdicts that are verified and bisected; none for a benchmark alone. ``interval_s`` is None for
    one pass. ``ahead`` are processors on which the next commits are built while one is measured; without any they
    aren't. ``identity`` stands for all else that a run depends on. "{branch}" in ``commit_file`` stands for the branch.
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
        """Return a digest of all settings that decide what comes of a commit."""
        values = [self.identity, self.base, self.exact_base, sorted(self.sought)]
        return data_digest(values)[:8]

    @property
    def branch(self) -> str | None:
        """Return the only branch; None stands for the remote's default branch."""
        return self.branches[0] if self.branches else None

    def stop_requested(self) -> bool:
        """Tell whether the status file says 0."""
        with suppress(UnreadableError):
            return self.status_file is not None and read_text(self.status_file, pipes=False).strip() == "0"
        return False

    def per_branch(self) -> "list[WatchSettings]":
        """Return the settings of each branch alone."""
        settings = [
            replace(self, branches=(branch,), commit_file=self.commit_file_of(branch)) for branch in self.branches
        ]
        return settings or [self]

    def commit_file_of(self, branch: str) -> Path | None:
        """Return the commit file of one branch; a slash in its name is quoted."""
        path = self.commit_file
        return None if path is None else Path(str(path).replace(PLACEHOLDER, quote(branch, safe="")))


@dataclass
class Tally:
    """The outcomes and failures of a pass.

    ``failures`` are lines, ``failed`` has them by subject: a commit's id, "remote", "pass" or "branch NAME".
    ``waiting`` is the number of commits that will be tried again later.
    """

    outcomes: list[tuple[Commit, Outcome]] = field(default_factory=list)
    failures: list[str] = field(default_factory=list)
    failed: dict[str, str] = field(default_factory=dict)
    waiting: int = field(default=0, compare=False)

    def fail(self, subject: str, text: str) -> None:
        """Add a failure."""
        self.failures.append(text)
        self.failed[subject] = text


@dataclass(frozen=True)
class Services:
    """What the loop works with, whatever its settings are."""

    repository: Repository
    builder: Builder
    runs: Runs
    journal: Journal
    listener: "Listener"


class Listener(Protocol):
    """Is told what the loop does and finds, besides the reporters."""

    def begin_pass(self) -> None:
        """Take note that a pass begins."""

    def begin_line(self, why: str, line: Sequence[Commit], strategy: str, branch: str | None) -> None:
        """Take note that a line is about to be measured, control first; ``why`` that control; ``branch`` contains the
        treatment."""

    def report_outcome(self, outcome: Outcome, document: Path | None) -> None:
        """Report what came of the line; ``document`` names the culprits."""


def record(journal: Journal, kind: str, text: str) -> None:
    """Log an event, and record it in the journal."""
    log.warning("%s: %s", kind, text)
    try:
        journal.note(kind, text)
    except RunError as error:
        log.error("%s", error)
