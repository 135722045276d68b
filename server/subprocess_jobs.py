"""Work on large reports: in a process of its own that ends with it, one after the other, so that no memory stays taken.

Parsing a report takes many times its size, and Python seldom gives that back; a long call of the parser also keeps all
other threads of its process waiting. The child works on its own connection to the database, and is bounded in memory.
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
from opduel.server.error_handlers import DATABASE_AWAY, database_is_away, later
from opduel.server.logs import logger

T = TypeVar("T")

LARGE_BYTES = 2**20  # reports of more are worked on apart
MOST_AT_ONCE = 4  # large reports that are received, wait or are worked on, for each kind of work
_LONGEST_S = 300.0
_MEMORY_FOR_A_BYTE = 24  # of the largest report that is accepted; the worst that was tried takes 16
_MEMORY_BESIDE = 2**29
_CONTEXT = multiprocessing.get_context("forkserver")  # a fork of this process, which has threads, would be none
_CONTEXT.set_forkserver_preload(["opduel.server.large"])


class SubprocessJobs:
    """One kind of work on large reports, in one process at a time."""

    def __init__(self, database: Database, max_report_bytes: int) -> None:
        self._url = database.url.render_as_string(hide_password=False)
        self._memory = _MEMORY_BESIDE + _MEMORY_FOR_A_BYTE * max_report_bytes
        self._taken = 0
        self._turn = asyncio.Lock()

    @contextmanager
    def place(self) -> Iterator[None]:
        """A place among those who wait for this work: taken before a body is received, so that disks stay bounded, too.

        Raises:
            HTTPException: 503, all are taken; ``Retry-After`` differs, so that not all come back at once.
        """
        if self._taken >= MOST_AT_ONCE:
            later = {"Retry-After": str(random.randint(5, 15))}
            raise HTTPException(503, "the server is busy with other large reports: try again later", later)
        self._taken += 1
        try:
            yield
        finally:
            self._taken -= 1

    async def run(self, work: Callable[..., T], *arguments: Any) -> T:
        """``work(database, *arguments)`` in a process of its own, in its turn. ``work`` is a function of a module, its
        result small; a file among the arguments comes wrapped in a ``SharedFile``.

        Raises:
            HTTPException: ``work`` did; or 413 when it took too much memory; or 503 when the database is not
                available or the process was ended from outside.
            RuntimeError: it failed; the log says how.
        """
        async with self._turn:
            mine, its = _CONTEXT.Pipe(duplex=False)
            process = _CONTEXT.Process(target=_child, args=(its, self._url, self._memory, work, arguments), daemon=True)
            try:
                await run_in_threadpool(process.start)  # the first time it also starts what others are forked from
                its.close()
                outcome = await _received(mine)
            finally:
                if process.pid is not None:
                    process.kill()
                    process.join()
                mine.close()
        result: T = _understood(outcome)
        return result


class SharedFile:
    """An open file as an argument of work in another process, which works on the same one."""

    def __init__(self, file: IO[bytes]) -> None:
        """``file`` is a real one, with a descriptor."""
        self._descriptor = file.fileno()

    def __reduce__(self) -> tuple[Any, ...]:
        """How it gets there: as a duplicate of the descriptor."""
        return _opened, (multiprocessing.reduction.DupFd(self._descriptor),)


def _opened(duplicate: Any) -> IO[bytes]:
    return os.fdopen(duplicate.detach(), "r+b")


async def _received(connection: Connection) -> tuple[Any, ...]:
    """What the child sends at its end; empty when it ends without a word, or takes too long."""
    loop, ready = asyncio.get_running_loop(), asyncio.Event()
    loop.add_reader(connection.fileno(), ready.set)
    try:
        async with asyncio.timeout(_LONGEST_S):
            await ready.wait()
        outcome: tuple[Any, ...] = connection.recv()
    except (TimeoutError, EOFError):
        return ()
    finally:
        loop.remove_reader(connection.fileno())
    return outcome


def _understood(outcome: tuple[Any, ...]) -> Any:
    if not outcome:
        logger.error("the process that worked on a large report was ended, or took more than %.0f s", _LONGEST_S)
        raise later("the server could not finish this large report: try again later")
    kind, *rest = outcome
    if kind == "done":
        return rest[0]
    if kind == "away":
        raise database_is_away(rest[0])
    if kind == "failed":
        raise RuntimeError(f"work on a large report failed: {rest[0]}")
    raise HTTPException(*rest)


def _child(connection: Connection, url: str, memory: int, work: Callable[..., Any], arguments: Any) -> None:
    """The process: does the work and sends what came of it."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # a Ctrl-C is for the server, which lets the last requests end
    with suppress(OSError):
        os.nice(5)  # pages come first
    resource.setrlimit(resource.RLIMIT_DATA, (memory, memory))
    connection.send(_outcome(url, work, arguments))


def _outcome(url: str, work: Callable[..., Any], arguments: Any) -> tuple[Any, ...]:
    try:
        with closing(Database(url)) as database:
            return ("done", work(database, *arguments))
    except HTTPException as error:
        return ("refused", error.status_code, str(error.detail), dict(error.headers or {}))
    except MemoryError:
        return ("refused", 413, "the report would take too much memory here: see --max_report_bytes", None)
    except DATABASE_AWAY as error:
        return ("away", str(getattr(error, "orig", error)))
    except Exception:
        return ("failed", traceback.format_exc())
