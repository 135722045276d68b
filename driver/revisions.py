"""The points of a line from control to treatment: commits or releases, each of which can be built."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Protocol

from opduel.driver.builds.commit_builder import CommitBuilder
from opduel.records import BrokenBuildError, Build, Commit, NoSpaceError, RunError


class UnbuildableError(RunError):
    """This point can't be built; ``revision`` is its name. ``lasting``: it is at fault itself, and would fail again."""

    def __init__(self, revision: str, reason: str, lasting: bool = False) -> None:
        super().__init__(f"{revision} can't be built: {reason}")
        self.revision = revision
        self.reason = reason
        self.lasting = lasting


class Revision(Protocol):
    """One point of a line, the older ones first."""

    @property
    def name(self) -> str:
        """Unique and short."""

    @property
    def commit(self) -> Commit | None:
        """None for a release."""

    def build(self) -> Build:
        """From the cache, or made now.

        Raises:
            UnbuildableError: it can't be.
            NoSpaceError: the disk is full.
            UsageError: it was asked for wrongly.
        """

    def is_cached(self) -> bool:
        """Whether building it takes no compiler."""


@dataclass(frozen=True)
class CommitRevision:
    """A commit, built by the line's strategy; a compile runs on ``processors`` (None: all)."""

    commit: Commit
    builder: CommitBuilder
    strategy: str
    processors: frozenset[int] | None = None

    @property
    def name(self) -> str:
        return self.commit.short

    def build(self) -> Build:
        with _named(self.name):
            return self.builder.build(self.commit, self.strategy, self.processors)

    def is_cached(self) -> bool:
        return self.builder.is_cached(self.commit, self.strategy)


@dataclass(frozen=True)
class BuildRevision:
    """A release, or a build that the user brought, by what was asked for."""

    name: str
    resolve: Callable[[str], Build]
    commit: Commit | None = None

    def build(self) -> Build:
        with _named(self.name):
            return self.resolve(self.name)

    def is_cached(self) -> bool:
        return True


@contextmanager
def _named(revision: str) -> Iterator[None]:
    """Within it what can't be built is the point of that name."""
    try:
        yield
    except NoSpaceError:
        raise
    except RunError as error:
        raise UnbuildableError(revision, str(error), isinstance(error, BrokenBuildError)) from None
