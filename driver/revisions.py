"""The revisions of a line from control to treatment: commits or releases that can be built."""

from collections.abc import Callable
from dataclasses import dataclass

from opduel.driver.builds.builder import Builder
from opduel.driver.code_difference import CodeDifference
from opduel.records import BrokenBuildError, Build, Commit, NoSpaceError, RunError


class UnbuildableError(RunError):
    """A revision, by its name, can't be built; if ``lasting``, it is at fault itself and would fail again."""

    def __init__(self, revision: str, reason: str, lasting: bool = False) -> None:
        super().__init__(f"{revision} can't be built: {reason}")
        self.revision = revision
        self.reason = reason
        self.lasting = lasting


@dataclass(frozen=True)
class Revision:
    """One revision of a line: a commit, a release, or a build of the user's own.

    ``name`` is unique and short; ``make`` makes the build of that name; ``is_cached`` tells whether that needs no
    compiler; ``commit`` is None for a release. ``difference`` returns how the revision differs from a build, without
    being built; None if that isn't known.
    """

    name: str
    make: Callable[[str], Build]
    commit: Commit | None = None
    is_cached: Callable[[], bool] = lambda: True
    difference: Callable[[Build], CodeDifference | None] = lambda _: None

    def build(self) -> Build:
        """Return the build, from the cache or made now.

        Raises:
            UnbuildableError: it can't be built.
            NoSpaceError: the disk is full.
            UsageError: the request is wrong.
        """
        try:
            return self.make(self.name)
        except NoSpaceError:
            raise
        except RunError as error:
            raise UnbuildableError(self.name, str(error), isinstance(error, BrokenBuildError)) from None


def commit_revision(
    commit: Commit, builder: Builder, strategy: str, processors: frozenset[int] | None = None
) -> Revision:
    """Return a commit as a revision, built by the line's strategy; a compile runs on ``processors`` (None: all)."""
    return Revision(
        commit.short,
        lambda _: builder.build(commit, strategy, processors),
        commit,
        lambda: builder.is_cached(commit, strategy),
        lambda build: builder.difference(build, commit),
    )
