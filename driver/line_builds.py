"""The builds of a line's revisions: made when they are needed, or ahead; what can't be built is remembered."""

import logging
import threading
from collections.abc import Sequence

from opduel.driver.attribution import Range
from opduel.driver.build_turns import BuildTurns
from opduel.driver.journal import Journal
from opduel.driver.revisions import Revision, UnbuildableError
from opduel.records import Build

log = logging.getLogger(__name__)


class LineBuilds:
    """The builds of one line; those of this process are kept at hand."""

    def __init__(self, revisions: Sequence[Revision], journal: Journal, turns: BuildTurns, name: str) -> None:
        """``turns``: in which several threads build; ``name``: of the line, for its facts in the journal."""
        self._revisions, self._journal, self._turns, self._name = revisions, journal, turns, name
        self._builds: dict[int, Build] = {}

    def sides(self, between: Range) -> tuple[Build, Build]:
        """Return the builds of both ends of a range. Raise UnbuildableError if one can't be built."""
        return self._build(between[0]), self._build(between[1])

    def sides_ahead(self, between: Range, rank: int, given_up: threading.Event) -> tuple[Build, Build] | None:
        """Build both ends in one turn, so that no later commit's build comes between; None if it was given up."""

        def build(index: int) -> Build:
            return self._builds.get(index) or self._revisions[index].build()

        return self._turns.ahead(lambda: (build(between[0]), build(between[1])), rank, given_up)

    def is_buildable(self, index: int) -> bool:
        """Tell whether a revision can be built, as far as is known."""
        return self._journal.get_fact(self._unbuildable(index)) is None

    def prepare(self, index: int) -> bool:
        """Build a revision; return False, and record it for later starts, if it can't be built. RunError: the build
        failed for a reason other than the revision itself."""
        if not self.is_buildable(index):
            return False
        try:
            self._build(index)
        except UnbuildableError as error:
            if not error.lasting:
                raise
            log.warning("passed over: %s", error)
            self._journal.set_fact(self._unbuildable(index), error.reason)
            self._journal.note("unbuildable", str(error))
            return False
        return True

    def cached(self) -> list[int]:
        """Return the revisions that needed no compiler when the search began; a later start gets the same ones."""
        fact = f"{self._name}/cached"
        indices = self._journal.get_fact(fact)
        if indices is None or not all(word.isdecimal() for word in indices.split()):
            indices = " ".join(str(index) for index, revision in enumerate(self._revisions) if revision.is_cached())
            self._journal.set_fact(fact, indices)
        return [int(word) for word in indices.split()]

    def _unbuildable(self, index: int) -> str:
        return f"{self._name}/unbuildable/{self._revisions[index].name}"

    def _build(self, index: int) -> Build:
        if index not in self._builds:
            self._builds[index] = self._turns.now(self._revisions[index].build)
        return self._builds[index]
