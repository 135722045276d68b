"""Make the builds of several threads one after the other, since a compile takes all processors."""

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from itertools import count
from typing import TypeVar

NOW = 0  # the rank of what is needed now
LAST = 1_000_000  # the rank of what may turn out not to be needed
PATIENCE_S = 0.2

T = TypeVar("T")  # a build, or several


class BuildTurns:
    """A queue of builds: the one with the lowest rank is next, and of these the one that came first."""

    def __init__(self, stop: Callable[[], None] = lambda: None, resume: Callable[[], None] = lambda: None) -> None:
        """``stop`` ends a compile, and lets none begin until ``resume`` is called."""
        self._stop, self._resume = stop, resume
        self._changed = threading.Condition()
        self._numbers = count()
        self._waiting: list[tuple[int, int]] = []
        self._given_up: threading.Event | None = None  # that of the build that is being made

    def now(self, make: Callable[[], T]) -> T:
        """Make a build that is needed now."""
        with self._turn(NOW, threading.Event()):
            return make()

    def ahead(self, make: Callable[[], T], rank: int, given_up: threading.Event) -> T | None:
        """Make a build that will be needed later; return None if it was given up before its turn."""
        with self._turn(rank, given_up) as mine:
            return make() if mine else None

    def stop_given_up(self) -> None:
        """Stop the present build if it was given up, and wait until it has ended."""
        with self._changed:
            given_up = self._given_up
            if given_up is None or not given_up.is_set():
                return
            try:
                self._stop()
                while self._given_up is given_up:
                    self._changed.wait(PATIENCE_S)
            finally:
                self._resume()

    @contextmanager
    def _turn(self, rank: int, given_up: threading.Event) -> Iterator[bool]:
        """Wait for a turn, in which no other build is made; yield False if the build was given up before."""
        ticket = rank, next(self._numbers)
        with self._changed:
            self._waiting.append(ticket)
            try:
                while not given_up.is_set() and (self._given_up is not None or ticket != min(self._waiting)):
                    self._changed.wait(PATIENCE_S)
                if mine := not given_up.is_set():
                    self._given_up = given_up
            finally:
                self._waiting.remove(ticket)
                self._changed.notify_all()
        try:
            yield mine
        finally:
            if mine:
                with self._changed:
                    self._given_up = None
                    self._changed.notify_all()
