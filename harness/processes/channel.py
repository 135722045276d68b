"""JSON lines to and from a worker, over descriptors of their own, and what it prints beside them."""

import contextlib
import errno
import fcntl
import json
import math
import os
import re
import select
import tempfile
import time
import weakref
from collections.abc import Callable, Generator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

from opduel.support.output import MOST_KEPT, keep_ends
from opduel.support.text import without_controls

OUTPUT_TAIL_BYTES = 2000
LOOK_S = 0.2  # how often the length of outputs is looked at while an answer is awaited

T = TypeVar("T")
_OPEN: "weakref.WeakSet[Channel]" = weakref.WeakSet()


@dataclass(frozen=True)
class Waiting:
    """What a step waits for: something to read on ``descriptor``, until ``deadline`` (of the monotonic clock)."""

    descriptor: int
    deadline: float

    def wait(self, while_waiting: Callable[[], object] = lambda: None) -> None:
        """Block until there is, or the deadline is over. No worker's output fills the disk then, and ``while_waiting``
        is called every ``LOOK_S`` seconds."""
        while time.monotonic() < self.deadline:
            if wait_for_any([self]):
                return
            while_waiting()


def wait_for_any(several: Sequence[Waiting], until: float = math.inf) -> bool:
    """Block until one of them has something to read or is closed, its deadline or ``until`` is over, or ``LOOK_S``
    seconds: whether there is something. No worker's output fills the disk then."""
    deadline = min([until, *(waiting.deadline for waiting in several)])
    left_s = min(max(0.0, deadline - time.monotonic()), LOOK_S)
    try:
        if select.select([waiting.descriptor for waiting in several], [], [], left_s)[0]:
            return True
    except OSError as error:  # its worker was lost meanwhile, which its next step says
        if error.errno != errno.EBADF:
            raise
        return True
    for channel in list(_OPEN):
        channel.bound_output()
    return False


# A piece of work that pauses whenever it would have to wait, so that others can go on meanwhile.
Steps = Generator[Waiting, None, T]


class Background(Generic[T]):
    """Steps that go on a little at a time while something else is measured."""

    def __init__(self, steps: Steps[T], errors: type[Exception] | tuple[()] = ()) -> None:
        """Take the steps; ``errors`` are those of them that wait for ``finish`` to raise them."""
        self._steps, self._errors = steps, errors
        self._result: list[T] = []  # one, when the steps are over
        self._error: Exception | None = None

    @property
    def over(self) -> bool:
        """Whether no step is left."""
        return bool(self._result) or self.failed

    @property
    def failed(self) -> bool:
        """Whether they ended with an error."""
        return self._error is not None

    def advance(self) -> Waiting | None:
        """Go on as far as it goes without waiting; return what it waits for. An error is raised by ``finish``."""
        try:
            return None if self.over else next(self._steps)
        except StopIteration as end:
            self._result.append(end.value)
        except self._errors as error:
            self._error = error
        return None

    def finish(self, while_waiting: Callable[[], object] = lambda: None) -> T:
        """Wait for the rest, and return what the steps return; ``while_waiting`` is called now and then where that
        takes long. Raises Exception: what they raised, now or before."""
        while not self.over:
            if waiting := self.advance():
                waiting.wait(while_waiting)
        if self._error is not None:
            raise self._error
        return self._result[0]


def complete(steps: Steps[T], while_waiting: Callable[[], object] = lambda: None) -> T:
    """Run steps to their end, waiting as they need; return and raise what they do. ``while_waiting``: as in
    ``finish``."""
    return Background(steps).finish(while_waiting)


class ClosedError(Exception):
    """Nobody is at the other end."""


class Channel:
    """Our ends of a pair of pipes, and a file that the other end prints to."""

    def __init__(self, closing_of_theirs: contextlib.ExitStack) -> None:
        """Open all; ``closing_of_theirs`` gets the closing of the other side's descriptors, for when it has them.
        Raises OSError: no descriptors are left, or no room for a temporary file."""
        with contextlib.ExitStack() as closing_of_ours:  # closed unless all goes well: our own ends
            self._printed = closing_of_ours.enter_context(tempfile.TemporaryFile())
            fcntl.fcntl(self._printed, fcntl.F_SETFL, os.O_APPEND)  # so that it can be emptied in between
            read_end, self._requests = os.pipe()
            closing_of_theirs.callback(os.close, read_end)
            closing_of_ours.callback(os.close, self._requests)
            self._answers, write_end = os.pipe()
            closing_of_theirs.callback(os.close, write_end)
            closing_of_ours.callback(os.close, self._answers)
            self.passed = (read_end, write_end, self._printed.fileno())  # what the other side gets
            self._ours = closing_of_ours.pop_all()
        self._buffer = b""
        self._closed = False
        _OPEN.add(self)

    def close(self) -> None:
        """Close our ends. Idempotent."""
        self._closed = True
        _OPEN.discard(self)
        self._ours.close()

    def send(self, message: Mapping[str, Any]) -> None:
        """Send a message. Raises ClosedError: the other end is closed, or ours."""
        if self._closed:
            raise ClosedError
        try:
            os.write(self._requests, json.dumps(message).encode() + b"\n")
        except BrokenPipeError:
            raise ClosedError from None

    def receiving(self, timeout_s: float) -> Steps[dict[str, Any] | None]:
        """Receive the next message; None when none came in time. Raises ClosedError: the other end is closed, or
        ours; ValueError: a line that is no JSON: its writer died in the middle."""
        deadline = time.monotonic() + timeout_s
        while b"\n" not in self._buffer:
            if self._closed:
                raise ClosedError
            if select.select([self._answers], [], [], 0)[0]:
                chunk = os.read(self._answers, 1 << 16)
                if not chunk:
                    raise ClosedError
                self._buffer += chunk
            elif time.monotonic() >= deadline:
                return None
            else:
                yield Waiting(self._answers, deadline)
        line, _, self._buffer = self._buffer.partition(b"\n")
        return dict(json.loads(line))

    def clear_output_tail(self) -> None:
        """Forget what was printed so far."""
        if not self._closed:
            self._printed.truncate(0)

    def bound_output(self) -> None:
        """Keep only the ends of what was printed, if that is too much."""
        if not self._closed:
            with contextlib.suppress(OSError):  # the disk is full: there is room for less now
                keep_ends(self._printed.fileno(), MOST_KEPT)

    def output_tail(self) -> str:
        """Return the tail of what was printed, made printable; it begins with a whole word."""
        descriptor = self._printed.fileno()
        size = os.fstat(descriptor).st_size
        tail = os.pread(descriptor, OUTPUT_TAIL_BYTES, max(0, size - OUTPUT_TAIL_BYTES))
        if size > OUTPUT_TAIL_BYTES:  # half a word may be half a secret, or the rest of an escape sequence
            space = re.search(rb"\s", tail)
            tail = tail[space.start() :] if space else b""
        return without_controls(tail.decode("utf-8", "replace")).strip()
