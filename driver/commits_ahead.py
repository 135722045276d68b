"""Build the next commits of a pass, and on a fleet measure them, while another one is measured or bisected.

A pass decides, reports and records in the order of its commits, on any number of hosts. What was measured ahead is in
the journal, for the commit's turn, or for the next start of a driver that was killed.
"""

import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import cached_property

from opduel.driver.speculation import MOST_HOSTS, Ahead
from opduel.records import Commit

# Takes a commit, its rank, whether to measure it, too, and the event that gives it up.
Begin = Callable[[Commit, int, bool, threading.Event], object]


class CommitsAhead:
    """The commits of one pass, branch after branch.

    On one host the next commit is built while one is measured. On a fleet one commit for each host is begun beside the
    one whose turn it is, so that one is built when all hosts are busy.
    """

    def __init__(self, count_hosts: Callable[[], int], stop_builds: Callable[[], None], measures: bool = True) -> None:
        """``stop_builds`` ends a build that was given up; ``measures``: commits are measured ahead, too."""
        self._count_hosts, self._stop_builds = count_hosts, stop_builds
        self._measures = measures
        self._begin: dict[Commit, Begin] = {}  # in the order of their turns
        self._position = 0  # of the one whose turn it is

    def expect(self, commits: Sequence[Commit], begin: Begin) -> None:
        """Expect these commits to be measured, after those that are expected already."""
        for commit in commits:
            self._begin.setdefault(commit, begin)

    @contextmanager
    def turn_of(self, commit: Commit) -> Iterator[None]:
        """Measure the commit, whose builds are there, in this context; wait first for what was begun of it."""
        order = list(self._begin)
        if commit not in order or len(order) == 1:
            yield
            return
        self._position = order.index(commit)
        self._ahead.ask(commit)
        try:
            yield
        finally:
            self._ahead.answered(commit, True)

    def close(self) -> None:
        """Give up everything, and wait until it has ended; finished rounds are kept."""
        if "_ahead" in vars(self):
            self._ahead.close()

    @cached_property
    def _hosts(self) -> int:
        return min(self._count_hosts(), MOST_HOSTS) if self._measures else 1

    @cached_property
    def _ahead(self) -> Ahead[Commit, bool]:
        def likely(_: object) -> list[Commit]:
            last = None if self._hosts > 1 else self._position + 2
            return list(self._begin)[self._position : last]

        def measure(commit: Commit, given_up: threading.Event) -> bool:
            rank = 1 + list(self._begin).index(commit)
            self._begin[commit](commit, rank, self._hosts > 1, given_up)
            return True

        return Ahead(likely, self._hosts + 1, measure, self._stop_builds)
