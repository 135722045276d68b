"""Work on large reports, each in a process of its own, one after the other.

Parsing a report takes many times its size in memory, which Python seldom returns to the system; and a long call of the
parser blocks all other threads. The process has its own connection to the database, and a memory limit.
"""

import asyncio
import multiprocessing
import multiprocessing.reduction
import os
import random
import resource
import signal
import traceback
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager, suppress
from multiprocessing.connection import Connection
from typing import IO, Any, TypeVar

from fastapi import HTTPException
from fastapi.concurrency import run_in_threadpool

from opduel.server.database import Database
from opduel.server.error_handlers import later
from opduel.server.logs import logger

T = TypeVar("T")

LARGE_BYTES = 2**20  # larger reports are worked on in a process
MOST_AT_ONCE = 4  # large reports that are being received, wait or are worked on, for each kind of work
_LONGEST_S = 300.0
_MEMORY_PER_BYTE = 24  # of the largest report that is accepted; the worst one in tests takes 16
_MEMORY_BESIDE = 2**29
_CONTEXT = multiprocessing.get_context("forkserver")  # a process with threads can't be forked safely
_CONTEXT.set_forkserver_preload(["opduel.server.large"])


class SubprocessJobs:
    """One kind of work on large reports, in one process at a time."""

    def __init__(self, database: Database, max_report_bytes: int) -> None:
        self._url = database.url.render_as_string(hide_password=False)
        self._memory = _MEMORY_BESIDE + _MEMORY_PER_BYTE * max_report_bytes
        self._places_in_use = 0
        self._turn = asyncio.Lock()

    @contextmanager
    def place(self) -> Iterator[None]:
        """Take one of the places for this work, before the body is received, so that the use of the disk is bounded.
        Raises HTTPException: 503, no place is free; ``Retry-After`` is random, so that clients don't all return at
        once."""
        if self._places_in_use >= MOST_AT_ONCE:
            later = {"Retry-After": str(random.randint(5, 15))}
            raise HTTPException(503, "the server is busy with other large reports: try again later", later)
        self._places_in_use += 1
        try:
            yield
        finally:
            self._places_in_use -= 1

    async def run(self, work: Callable[..., T], *arguments: Any) -> T:
        """Return ``work(database, *arguments)``, run in a process. ``work`` is a module's function with a small result;
        a file among the arguments is wrapped in a ``SharedFile``. Raises HTTPException: 413, it took too much memory;
        503, the process was killed; and what ``work`` raises, with its traceback as a note."""
        async with self._turn:
            receiver, sender = _CONTEXT.Pipe(duplex=False)
            process = _CONTEXT.Process(
                target=_child, args=(sender, self._url, self._memory, work, arguments), daemon=True
            )
            try:
                await run_in_threadpool(process.start)  # the first start also starts the fork server
                sender.close()
                outcome = await _receive_outcome(receiver)
            finally:
                if process.pid is not None:
                    process.kill()
                    process.join()
                receiver.close()
        if isinstance(outcome, Exception):
            raise outcome
        result: T = outcome
        return result


class SharedFile:
    """An open file as an argument of work in another process, which shares it."""

    def __init__(self, file: IO[bytes]) -> None:
        """Keep the descriptor of ``file``."""
        self._descriptor = file.fileno()

    def __reduce__(self) -> tuple[Any, ...]:
        """Pickle it as a duplicate of the descriptor."""
        return _opened, (multiprocessing.reduction.DupFd(self._descriptor),)


def _opened(duplicate: Any) -> IO[bytes]:
    return os.fdopen(duplicate.detach(), "r+b")


async def _receive_outcome(connection: Connection) -> Any:
    """Return what the process sends at its end: the result of its work, or the error that ended it. Raises
    HTTPException: 503, it ended without sending, or took too long."""
    loop, ready = asyncio.get_running_loop(), asyncio.Event()
    loop.add_reader(connection.fileno(), ready.set)
    try:
        async with asyncio.timeout(_LONGEST_S):
            await ready.wait()
        return connection.recv()
    except (TimeoutError, EOFError):
        logger.error("the process that worked on a large report was ended, or took more than %.0f s", _LONGEST_S)
        raise later("the server could not finish this large report: try again later") from None
    finally:
        loop.remove_reader(connection.fileno())


def _child(connection: Connection, url: str, memory: int, work: Callable[..., Any], arguments: Any) -> None:
    """Run in the process: do the work and send its outcome."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C ends the server, which lets the last requests end
    with suppress(OSError):
        os.nice(5)  # pages have priority
    resource.setrlimit(resource.RLIMIT_DATA, (memory, memory))
    connection.send(_outcome(url, work, arguments))


def _outcome(url: str, work: Callable[..., Any], arguments: Any) -> Any:
    try:
        with closing(Database(url)) as database:
            return work(database, *arguments)
    except MemoryError:
        return HTTPException(413, "the report would take too much memory here: see --max_report_bytes")
    except Exception as error:
        error.add_note(traceback.format_exc())
        return error
