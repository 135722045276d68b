"""A SQLite file: opened, or renamed and replaced if it is damaged, and written in durable transactions."""

import logging
import os
import re
import sqlite3
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path

from opduel.support.errors import NoSpaceError, RunError, UsageError

log = logging.getLogger(__name__)


class SqliteFile:
    """One connection to one file, which threads may share. Raises RunError: the file can't be read or written: no
    space, no permission. Any method may."""

    def __init__(self, path: Path, tables: str, option: str, clock: Callable[[], float] = time.time) -> None:
        """Open the file, which only its user can read, or rename a damaged one (with SQLite's journal beside it) and
        open an empty one; ``damage`` then says so.

        ``tables``: statements that create the tables where they are missing. ``option``: the option for another folder.
        Several processes may use the file, in a home folder on NFS, too: it has a rollback journal, as SQLite's
        write-ahead log needs memory that all processes share (https://www.sqlite.org/wal.html). Raises UsageError: it
        is another program's database, which stays unchanged.
        """
        self._path = path
        self._clock = clock
        self._option = option
        self._lock = threading.RLock()
        self.damage = ""
        try:
            self._connection = self._open(tables)
        except OSError as error:
            raise RunError(f"{path}: can't be opened ({error.strerror}): {self._fix}") from None
        except sqlite3.DatabaseError as error:
            if isinstance(error, sqlite3.OperationalError):
                raise self._error(error) from None
            aside = path.with_name(f"{path.stem}-damaged-{int(clock())}{path.suffix}")
            with suppress(FileNotFoundError):  # what was written last; under this name SQLite finds it again
                path.with_name(f"{path.name}-journal").rename(aside.with_name(f"{aside.name}-journal"))
            path.rename(aside)
            log.error("%s is damaged (%s): kept as %s; starting with an empty one", path, error, aside)
            self._connection = self._open(tables)
            self.damage = f"{error}; it is kept as {aside.name}"

    def close(self) -> None:
        """Close the connection."""
        self._connection.close()

    @contextmanager
    def transaction(self) -> Iterator[sqlite3.Connection]:
        """Commit all that is written within, or nothing. A transaction within another one is a part of it."""
        with self._lock:
            if self._connection.in_transaction:
                yield self._connection
                return
            try:
                self._connection.execute("BEGIN IMMEDIATE")
                yield self._connection
                self._connection.execute("COMMIT")
            except BaseException as error:
                self._connection.rollback()
                if isinstance(error, sqlite3.Error):
                    raise self._error(error) from None
                raise

    def rows(self, query: str, values: Sequence[object] = ()) -> list[tuple]:  # type: ignore[type-arg]
        """Return the rows of a query."""
        try:
            return self._connection.execute(query, values).fetchall()
        except sqlite3.Error as error:
            raise self._error(error) from None

    def write(self, statement: str, values: Sequence[object] = ()) -> None:
        """Execute one statement in a transaction."""
        with self.transaction() as connection:
            connection.execute(statement, values)

    @property
    def _fix(self) -> str:
        return f"fix that, or give another folder with {self._option}"

    def _error(self, error: sqlite3.Error) -> RunError:
        full = "full" in str(error) or "disk I/O" in str(error)
        kind, fix = (NoSpaceError, "free some space") if full else (RunError, self._fix)
        return kind(f"{self._path}: can't be written ({error}): {fix}")

    def _open(self, tables: str) -> sqlite3.Connection:
        os.close(os.open(self._path, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600))
        connection = sqlite3.connect(self._path, isolation_level=None, check_same_thread=False, timeout=30)
        connection.text_factory = lambda content: content.decode("utf-8", "replace")
        table_names = {row[0] for row in connection.execute("SELECT name FROM sqlite_master WHERE type = 'table'")}
        if table_names and not table_names & set(re.findall(r"EXISTS (\w+)", tables)):
            connection.close()
            raise UsageError(
                f"{self._path}: is a database that is not opduel's: give another folder with {self._option}"
            )
        connection.execute("PRAGMA auto_vacuum = FULL")  # or it would keep the size that it once had
        connection.execute("PRAGMA journal_mode = DELETE")
        # https://www.sqlite.org/pragma.html#pragma_synchronous: a commit survives a power cut.
        connection.execute("PRAGMA synchronous = EXTRA")
        connection.executescript(tables)
        problems = connection.execute("PRAGMA quick_check").fetchall()
        if problems != [("ok",)]:
            connection.close()
            raise sqlite3.DatabaseError(str(problems[0][0]))
        return connection
