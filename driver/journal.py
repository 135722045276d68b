"""The journal: what a driver has done and found, durable at once, so that the next start goes on where this one ended.

One SQLite file. Each write is a transaction, flushed to the disk before the call returns (synchronous=FULL,
https://www.sqlite.org/pragma.html#pragma_synchronous).
"""

import logging
import re
import sqlite3
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from opduel.records import NoSpaceError, RunError, UsageError
from opduel.records.redaction import redact

FIRST_RETRY_S = 3600.0  # after a commit could not be built
LAST_RETRY_S = 7 * 24 * 3600.0
_TABLES = """
CREATE TABLE IF NOT EXISTS rounds (run TEXT NOT NULL, number INTEGER NOT NULL, text TEXT NOT NULL,
    PRIMARY KEY (run, number));
CREATE TABLE IF NOT EXISTS reports (run TEXT PRIMARY KEY, text TEXT NOT NULL);
CREATE TABLE IF NOT EXISTS told (run TEXT NOT NULL, whom TEXT NOT NULL, PRIMARY KEY (run, whom));
CREATE TABLE IF NOT EXISTS facts (name TEXT PRIMARY KEY, text TEXT NOT NULL);
CREATE TABLE IF NOT EXISTS troubled (item TEXT PRIMARY KEY, attempts INTEGER NOT NULL, retry_at REAL NOT NULL,
    text TEXT NOT NULL);
CREATE TABLE IF NOT EXISTS notices (name TEXT NOT NULL, whom TEXT NOT NULL, text TEXT NOT NULL,
    attempts INTEGER NOT NULL, told INTEGER NOT NULL, PRIMARY KEY (name, whom));
CREATE TABLE IF NOT EXISTS events (at REAL NOT NULL, kind TEXT NOT NULL, text TEXT NOT NULL);
CREATE TABLE IF NOT EXISTS damaged (at REAL NOT NULL, name TEXT NOT NULL, reason TEXT NOT NULL, text TEXT);
"""

_OUR_TABLES = set(re.findall(r"EXISTS (\w+)", _TABLES))

log = logging.getLogger(__name__)


@dataclass(frozen=True)
class Trouble:
    """Something that did not work, and is to be tried again: after ``retry_at``, seconds since 1970."""

    attempts: int
    retry_at: float
    text: str


class Journal:
    """Opened by the one driver that holds the work directory's lock.

    Raises:
        RunError: the file can't be written: no space, no permission. Any method may.
    """

    def __init__(self, path: Path, clock: Callable[[], float] = time.time) -> None:
        """A damaged file is put aside whole, beside its place, and said so; what it held is then unknown.

        Raises:
            UsageError: it is a database of something else's; nothing in it was changed.
        """
        self._path = path
        self._clock = clock
        try:
            self._connection = _open(path)
        except sqlite3.DatabaseError as error:
            if isinstance(error, sqlite3.OperationalError):
                raise self._error(error) from None
            aside = path.with_name(f"{path.stem}-damaged-{int(clock())}{path.suffix}")
            with suppress(FileNotFoundError):  # it holds what is newest; under this name SQLite finds it again
                path.with_name(f"{path.name}-wal").rename(aside.with_name(f"{aside.name}-wal"))
            path.rename(aside)
            path.with_name(f"{path.name}-shm").unlink(missing_ok=True)
            log.error("%s is damaged (%s): kept as %s; starting with an empty one", path, error, aside)
            self._connection = _open(path)
            self.note("damage", f"the journal before this one was damaged: {error}; it is kept as {aside.name}")

    def close(self) -> None:
        """No more of it."""
        self._connection.close()

    def note(self, kind: str, text: str) -> None:
        """Something happened that whoever looks later should know: "remote gone", "clock jump"..."""
        self._write("INSERT INTO events VALUES (?, ?, ?)", (self._clock(), kind, redact(text)))

    def events(self) -> list[tuple[float, str, str]]:
        """All notes, in order: seconds since 1970, kind, text."""
        return list(self._connection.execute("SELECT at, kind, text FROM events ORDER BY rowid"))

    def set_fact(self, name: str, text: str) -> None:
        """Keep a text under a name; an earlier one is replaced."""
        self._write("INSERT OR REPLACE INTO facts VALUES (?, ?)", (name, text))

    def get_fact(self, name: str) -> str | None:
        """The text kept under that name."""
        return self._one("SELECT text FROM facts WHERE name = ?", (name,))

    def set_facts(self, facts: Mapping[str, str]) -> None:
        """Keep texts under their names: all of them, or none."""
        with self._transaction() as connection:
            connection.executemany("INSERT OR REPLACE INTO facts VALUES (?, ?)", facts.items())

    def facts(self, prefix: str) -> dict[str, str]:
        """All texts whose names begin so, by name."""
        query = "SELECT name, text FROM facts WHERE substr(name, 1, length(?)) = ?"
        return dict(self._connection.execute(query, (prefix, prefix)))

    def forget_each(self, names: Sequence[str]) -> None:
        """Let the texts of these names go."""
        with self._transaction() as connection:
            connection.executemany("DELETE FROM facts WHERE name = ?", [(one,) for one in names])

    def forget_facts(self, prefix: str) -> None:
        """Let all texts go whose names begin so."""
        self._write("DELETE FROM facts WHERE substr(name, 1, length(?)) = ?", (prefix, prefix))

    def rounds_of(self, run: str) -> "Rounds":
        """The log of the rounds of one run, under the run's name."""
        return Rounds(self, run)

    def finish_run(self, run: str, report: str) -> None:
        """Keep a run's report; its rounds, which the report holds, are let go in the same breath."""
        with self._transaction() as connection:
            connection.execute("INSERT OR REPLACE INTO reports VALUES (?, ?)", (run, report))
            connection.execute("DELETE FROM rounds WHERE run = ?", (run,))

    def report(self, run: str) -> str | None:
        """The report of a run that was finished."""
        return self._one("SELECT text FROM reports WHERE run = ?", (run,))

    def runs(self, prefix: str) -> list[str]:
        """The runs, finished or begun, whose names begin so."""
        query = "SELECT run FROM reports UNION SELECT run FROM rounds"
        return [row[0] for row in self._connection.execute(query) if row[0].startswith(prefix)]

    def forget_run(self, run: str) -> None:
        """Let a run go, so that it is made again."""
        with self._transaction() as connection:
            for table in ("reports", "rounds", "told"):
                connection.execute(f"DELETE FROM {table} WHERE run = ?", (run,))

    def put_aside_report(self, run: str, reason: str) -> None:
        """Keep a report that can't be read among what is damaged, say so, and let the run go: it is made again."""
        with self._transaction() as connection:
            self._keep_damaged(connection, run, reason, "SELECT text FROM reports WHERE run = ?", (run,))
            for table in ("reports", "rounds", "told"):
                connection.execute(f"DELETE FROM {table} WHERE run = ?", (run,))

    def put_aside_notice(self, name: str, whom: str, reason: str) -> None:
        """The same for a notice to ``whom``; what it told may be queued again."""
        row = (name, whom)
        with self._transaction() as connection:
            query = "SELECT text FROM notices WHERE name = ? AND whom = ?"
            self._keep_damaged(connection, f"{name} for {whom}", reason, query, row)
            connection.execute("DELETE FROM notices WHERE name = ? AND whom = ?", row)
            connection.execute("DELETE FROM facts WHERE name LIKE 'notified/%' AND text = ?", (name,))

    def _keep_damaged(
        self, connection: sqlite3.Connection, name: str, reason: str, query: str, values: Sequence[str]
    ) -> None:
        now = self._clock()
        text = f"{name} can't be read ({reason}): kept in the journal's table damaged"
        log.warning("damage: %s", text)
        connection.execute(f"INSERT INTO damaged VALUES (?, ?, ?, ({query}))", (now, name, reason, *values))
        connection.execute("INSERT INTO events VALUES (?, 'damage', ?)", (now, text))

    def undelivered(self, whom: str) -> list[str]:
        """The finished runs not yet delivered to ``whom``, in the order in which they were finished."""
        query = "SELECT run FROM reports WHERE run NOT IN (SELECT run FROM told WHERE whom = ?) ORDER BY rowid"
        return [row[0] for row in self._connection.execute(query, (whom,))]

    def mark_delivered(self, run: str, whom: str) -> None:
        """``whom`` has been told of the run."""
        self._write("INSERT OR IGNORE INTO told VALUES (?, ?)", (run, whom))

    def queue_notice(
        self, name: str, whom: Sequence[str], text: str, tells: Sequence[str], forgets: Sequence[str] = ()
    ) -> None:
        """Keep a notice until everyone in ``whom`` has been told; and, as facts named ``tells``, that it tells so. The
        facts named ``forgets`` go.

        All of it is done or nothing. A notice that was queued before stays as it was.
        """
        with self._transaction() as connection:
            rows = [(name, one, text) for one in whom]
            connection.executemany("INSERT OR IGNORE INTO notices VALUES (?, ?, ?, 0, 0)", rows)
            connection.executemany("INSERT OR REPLACE INTO facts VALUES (?, ?)", [(one, name) for one in tells])
            connection.executemany("DELETE FROM facts WHERE name = ?", [(one,) for one in forgets])

    def waiting_notices(self, whom: str) -> list[tuple[str, str]]:
        """Names and texts of the notices of which ``whom`` has not been told; those that failed least come first, so
        that one that nobody takes holds up no other."""
        query = "SELECT name, text FROM notices WHERE whom = ? AND NOT told ORDER BY attempts, rowid"
        return list(self._connection.execute(query, (whom,)))

    def notice_tried(self, name: str, whom: str, told: bool) -> None:
        """``whom`` was reported the notice, or could not be."""
        statement = "UPDATE notices SET attempts = attempts + 1, told = ? WHERE name = ? AND whom = ?"
        self._write(statement, (told, name, whom))

    def trouble(self, item: str) -> Trouble | None:
        """What is the matter with the item, if anything."""
        query = "SELECT attempts, retry_at, text FROM troubled WHERE item = ?"
        row = self._connection.execute(query, (item,)).fetchone()
        return Trouble(*row) if row else None

    def troubled(self) -> dict[str, Trouble]:
        """All items that did not work, those due first in front."""
        rows = self._connection.execute("SELECT item, attempts, retry_at, text FROM troubled ORDER BY retry_at")
        return {item: Trouble(attempts, retry_at, text) for item, attempts, retry_at, text in rows}

    def is_due(self, item: str) -> bool:
        """Whether to try the item: it never failed, or long enough ago. A clock that was set back makes it due."""
        trouble = self.trouble(item)
        if trouble is None:
            return True
        left = trouble.retry_at - self._clock()
        return left <= 0 or left > pause_after(trouble.attempts)

    def record_trouble(self, item: str, text: str, soon: bool = False) -> Trouble:
        """It failed (again): to be tried after a pause that doubles each time, or at once (``soon``)."""
        before = self.trouble(item)
        attempts = before.attempts + 1 if before else 1
        found = Trouble(attempts, self._clock() + (0.0 if soon else pause_after(attempts)), redact(text))
        row = (item, found.attempts, found.retry_at, found.text)
        self._write("INSERT OR REPLACE INTO troubled VALUES (?, ?, ?, ?)", row)
        return found

    def clear_trouble(self, item: str) -> None:
        """It works."""
        self._write("DELETE FROM troubled WHERE item = ?", (item,))

    def _write(self, statement: str, values: Sequence[object]) -> None:
        with self._transaction() as connection:
            connection.execute(statement, values)

    def _one(self, query: str, values: Sequence[object]) -> str | None:
        row = self._connection.execute(query, values).fetchone()
        return str(row[0]) if row else None

    def _transaction(self) -> "_Transaction":
        return _Transaction(self._connection, self._error)

    def _error(self, error: sqlite3.Error) -> RunError:
        full = "full" in str(error) or "disk I/O" in str(error)
        kind = NoSpaceError if full else RunError
        fix = "free some space" if full else "fix that, or give another folder with --work_dir"
        return kind(f"{self._path}: can't be written ({error}): {fix}")


class Rounds:
    """The rounds of one run, as ``harness`` keeps them: texts, in order."""

    def __init__(self, journal: Journal, run: str) -> None:
        self._journal = journal
        self._run = run

    def rounds(self) -> list[str]:
        """All that was kept."""
        query = "SELECT text FROM rounds WHERE run = ? ORDER BY number"
        return [row[0] for row in self._journal._connection.execute(query, (self._run,))]

    def keep(self, text: str) -> None:
        """Durable when this returns."""
        statement = "INSERT INTO rounds SELECT ?, COALESCE(MAX(number) + 1, 0), ? FROM rounds WHERE run = ?"
        self._journal._write(statement, (self._run, text, self._run))


class _Transaction:
    """All or nothing, with errors that say which file."""

    def __init__(self, connection: sqlite3.Connection, explain: Callable[[sqlite3.Error], RunError]) -> None:
        self._connection = connection
        self._explain = explain

    def __enter__(self) -> sqlite3.Connection:
        try:
            self._connection.execute("BEGIN IMMEDIATE")
        except sqlite3.Error as error:
            raise self._explain(error) from None
        return self._connection

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, _: object) -> None:
        try:
            self._connection.execute("ROLLBACK" if kind else "COMMIT")
        except sqlite3.Error as problem:
            if self._connection.in_transaction:
                self._connection.execute("ROLLBACK")
            if error is None:
                raise self._explain(problem) from None
        if isinstance(error, sqlite3.Error):
            raise self._explain(error) from None


def pause_after(attempts: int) -> float:
    """Seconds until the next try."""
    return float(min(LAST_RETRY_S, FIRST_RETRY_S * 2 ** (attempts - 1)))


def _open(path: Path) -> sqlite3.Connection:
    connection = sqlite3.connect(path, isolation_level=None, check_same_thread=False, timeout=30)
    connection.text_factory = lambda content: content.decode("utf-8", "replace")
    tables = {row[0] for row in connection.execute("SELECT name FROM sqlite_master WHERE type = 'table'")}
    if tables and not tables & _OUR_TABLES:
        connection.close()
        raise UsageError(f"{path}: is a database that is not the driver's: give another folder with --work_dir")
    connection.execute("PRAGMA journal_mode = WAL")
    connection.execute("PRAGMA synchronous = FULL")
    connection.executescript(_TABLES)
    problems = connection.execute("PRAGMA quick_check").fetchall()
    if problems != [("ok",)]:
        connection.close()
        raise sqlite3.DatabaseError(str(problems[0][0]))
    return connection
