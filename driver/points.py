"""The points of a line from control to treatment: commits or releases, each of which can be built."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

from driver.builds.commit_builder import CommitBuilder
from records import Build, Commit, NoSpaceError, OpduelError, RunError


class UnbuildableError(RunError):
    """This point can't be built; ``point`` is its name."""

    def __init__(self, point: str, reason: str) -> None:
        super().__init__(f"{point} can't be built: {reason}")
        self.point = point
        self.reason = reason


class Point(Protocol):
    """One point of a line, the older ones first."""

    @property
    def name(self) -> str:
        """Unique and short."""

    @property
    def commit(self) -> Commit | None:
        """None for a release."""

    def build(self) -> Build:
        """From the cache, or made now; raises UnbuildableError."""

    def is_cached(self) -> bool:
        """Whether building it takes no compiler."""


@dataclass(frozen=True)
class CommitPoint:
    """A commit, built by the line's strategy; a compile runs on ``processors`` (None: all)."""

    commit: Commit
    builder: CommitBuilder
    strategy: str
    processors: frozenset[int] | None = None

    @property
    def name(self) -> str:
        return self.commit.short

    def build(self) -> Build:
        try:
            return self.builder.build(self.commit, self.strategy, self.processors)
        except NoSpaceError:
            raise
        except OpduelError as error:
            raise UnbuildableError(self.name, str(error)) from None

    def is_cached(self) -> bool:
        return self.builder.is_cached(self.commit, self.strategy)


@dataclass(frozen=True)
class BuildPoint:
    """A release, or a build that the user brought, by what was asked for."""

    name: str
    resolve: Callable[[str], Build]
    commit: Commit | None = None

    def build(self) -> Build:
        try:
            return self.resolve(self.name)
        except NoSpaceError:
            raise
        except OpduelError as error:
            raise UnbuildableError(self.name, str(error)) from None

    def is_cached(self) -> bool:
        return True
