"""The journal: what a driver has done and found, durable at once, so that the next start goes on where this one ended.

One SQLite file. Each write is a transaction, flushed to the disk before the call returns.
"""

import logging
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from opduel.support.outbox import OUTBOX_TABLE, Entry, Outbox
from opduel.support.redaction import redact
from opduel.support.sqlite_file import SqliteFile

RUN, NOTICE = "run", "notice"  # kinds of entries in the outbox: a finished run (its key is the run's name), an alert
RECIPIENT = "reporters"  # the receiver of runs

MOST_WITH_ROUNDS = 20  # finished runs
FIRST_RETRY_S = 3600.0  # after a commit could not be built
LAST_RETRY_S = 7 * 24 * 3600.0
_TABLES = """
CREATE TABLE IF NOT EXISTS rounds (run TEXT NOT NULL, number INTEGER NOT NULL, text TEXT NOT NULL,
    PRIMARY KEY (run, number));
CREATE TABLE IF NOT EXISTS reports (run TEXT PRIMARY KEY, text TEXT NOT NULL);
CREATE TABLE IF NOT EXISTS facts (name TEXT PRIMARY KEY, text TEXT NOT NULL);
CREATE TABLE IF NOT EXISTS troubled (item TEXT PRIMARY KEY, attempts INTEGER NOT NULL, retry_at REAL NOT NULL,
    text TEXT NOT NULL);
CREATE TABLE IF NOT EXISTS events (at REAL NOT NULL, kind TEXT NOT NULL, text TEXT NOT NULL);
"""

log = logging.getLogger(__name__)


@dataclass(frozen=True)
class Trouble:
    """Something that did not work, and is to be tried again: after ``retry_at``, seconds since 1970."""

    attempts: int
    retry_at: float
    text: str


class Journal(SqliteFile):
    """Opened by the one driver that holds the work directory's lock. What is to be delivered is in its ``outbox``."""

    def __init__(self, path: Path, clock: Callable[[], float] = time.time) -> None:
        """Open the file, or make it. UsageError: it is a database of something else's; nothing in it was changed."""
        super().__init__(path, _TABLES + OUTBOX_TABLE, "--work_dir", clock)
        self.outbox = Outbox(self, clock)
        if self.damage:
            self.note("damage", f"the previous journal was damaged: {self.damage}")

    def note(self, kind: str, text: str) -> None:
        """Record an event that whoever looks later should know of: "remote gone", "history"..."""
        self.write("INSERT INTO events VALUES (?, ?, ?)", (self._clock(), kind, redact(text)))

    def events(self) -> list[tuple[float, str, str]]:
        """Return all notes, in order: seconds since 1970, kind, text."""
        return self.rows("SELECT at, kind, text FROM events ORDER BY rowid")

    def set_fact(self, name: str, text: str) -> None:
        """Keep a text under a name; an earlier one is replaced."""
        self.set_facts({name: text})

    def get_fact(self, name: str) -> str | None:
        """Return the text kept under that name."""
        return self._first_text("SELECT text FROM facts WHERE name = ?", (name,))

    def set_facts(self, facts: Mapping[str, str]) -> None:
        """Keep texts under their names: all of them, or none."""
        with self.transaction() as connection:
            connection.executemany("INSERT OR REPLACE INTO facts VALUES (?, ?)", facts.items())

    def facts(self, prefix: str) -> dict[str, str]:
        """Return all texts whose names begin so, by name."""
        query = "SELECT name, text FROM facts WHERE substr(name, 1, length(?)) = ?"
        return dict(self.rows(query, (prefix, prefix)))

    def forget_each(self, names: Sequence[str]) -> None:
        """Let the texts of these names go."""
        with self.transaction() as connection:
            connection.executemany("DELETE FROM facts WHERE name = ?", [(name,) for name in names])

    def forget_facts(self, prefix: str) -> None:
        """Let all texts go whose names begin so."""
        self.write("DELETE FROM facts WHERE substr(name, 1, length(?)) = ?", (prefix, prefix))

    def rounds_of(self, run: str) -> "Rounds":
        """Return the log of the rounds of one run, under the run's name."""
        return Rounds(self, run)

    def finish_run(self, run: str, report: str, keeps_rounds: bool = False) -> None:
        """Keep a run's report, for the reporters, too. Its rounds, which the report holds, are removed with it, unless
        a later start may go on from them (``keeps_rounds``): then those of the newest ``MOST_WITH_ROUNDS`` stay."""
        finished = "SELECT run FROM rounds WHERE run IN (SELECT run FROM reports) GROUP BY run ORDER BY MAX(rowid) DESC"
        with self.transaction() as connection:
            connection.execute("INSERT OR REPLACE INTO reports VALUES (?, ?)", (run, report))
            if keeps_rounds:
                older = f"DELETE FROM rounds WHERE run IN ({finished} LIMIT -1 OFFSET ?)"
                connection.execute(older, (MOST_WITH_ROUNDS,))
            else:
                connection.execute("DELETE FROM rounds WHERE run = ?", (run,))
            self.outbox.remove_all(RUN, run)
            self.outbox.add(RUN, [RECIPIENT], run)

    def report(self, run: str) -> str | None:
        """Return the report of a run that was finished."""
        return self._first_text("SELECT text FROM reports WHERE run = ?", (run,))

    def runs(self, prefix: str) -> list[str]:
        """Return the runs, finished or begun, whose names begin so."""
        query = "SELECT run FROM reports UNION SELECT run FROM rounds"
        return [row[0] for row in self.rows(query) if row[0].startswith(prefix)]

    def forget_run(self, run: str) -> None:
        """Let a run go, so that it is made again."""
        with self.transaction() as connection:
            for table in ("reports", "rounds"):
                connection.execute(f"DELETE FROM {table} WHERE run = ?", (run,))
            self.outbox.remove_all(RUN, run)

    def drop_report(self, run: str, reason: str) -> None:
        """Let go of a run whose report can't be read, and say so: it is made again."""
        with self.transaction():
            self._note_damage(run, reason)
            self.forget_run(run)

    def drop_notice(self, entry: Entry, reason: str) -> None:
        """Do the same with a notice; what it reports may be queued again."""
        with self.transaction() as connection:
            self._note_damage(f"{entry.key} for {entry.receiver}", reason)
            self.outbox.remove(entry)
            connection.execute("DELETE FROM facts WHERE name LIKE 'notified/%' AND text = ?", (entry.key,))

    def _note_damage(self, name: str, reason: str) -> None:
        text = f"{name} can't be read ({reason}): dropped"
        log.warning("damage: %s", text)
        self.note("damage", text)

    def queue_notice(
        self, name: str, receivers: Sequence[str], text: str, reported: Sequence[str], removed: Sequence[str] = ()
    ) -> None:
        """Put a notice into the outbox for each receiver, keep facts named ``reported`` that it reports, and remove
        those named ``removed``: all of it, or nothing. A notice that was queued before stays as it was.
        """
        with self.transaction() as connection:
            self.outbox.add(NOTICE, receivers, name, text.encode())
            connection.executemany("INSERT OR REPLACE INTO facts VALUES (?, ?)", [(fact, name) for fact in reported])
            connection.executemany("DELETE FROM facts WHERE name = ?", [(fact,) for fact in removed])

    def troubled(self) -> dict[str, Trouble]:
        """Return all items that did not work, those due first in front."""
        rows = self.rows("SELECT item, attempts, retry_at, text FROM troubled ORDER BY retry_at")
        return {item: Trouble(attempts, retry_at, text) for item, attempts, retry_at, text in rows}

    def is_due(self, item: str) -> bool:
        """Tell whether to try the item: it never failed, or long enough ago. A clock that was set back makes it due."""
        trouble = self.troubled().get(item)
        if trouble is None:
            return True
        pause = trouble.retry_at - self._clock()
        return pause <= 0 or pause > pause_after(trouble.attempts)

    def record_trouble(self, item: str, text: str, soon: bool = False) -> Trouble:
        """Record that an item failed (again): it is due after a pause that doubles each time, or at once (``soon``)."""
        before = self.troubled().get(item)
        attempts = (before.attempts if before else 0) + (not soon)  # the pause is for what did not help
        trouble = Trouble(attempts, self._clock() + (0.0 if soon else pause_after(attempts)), redact(text))
        row = (item, trouble.attempts, trouble.retry_at, trouble.text)
        self.write("INSERT OR REPLACE INTO troubled VALUES (?, ?, ?, ?)", row)
        return trouble

    def clear_trouble(self, item: str) -> None:
        """Forget that an item failed."""
        self.write("DELETE FROM troubled WHERE item = ?", (item,))

    def _first_text(self, query: str, values: Sequence[object]) -> str | None:
        return next((str(text) for (text,) in self.rows(query, values)), None)


@dataclass(frozen=True)
class Rounds:
    """The rounds of one run, as ``harness`` keeps them: texts, in order."""

    _journal: Journal
    _run: str

    def rounds(self) -> list[str]:
        """Return all that was kept."""
        query = "SELECT text FROM rounds WHERE run = ? ORDER BY number"
        return [row[0] for row in self._journal.rows(query, (self._run,))]

    def keep(self, text: str) -> None:
        """Keep a text; it is durable when this returns."""
        statement = "INSERT INTO rounds SELECT ?, COALESCE(MAX(number) + 1, 0), ? FROM rounds WHERE run = ?"
        self._journal.write(statement, (self._run, text, self._run))


def pause_after(attempts: int) -> float:
    """Return the seconds until the next try."""
    return float(min(LAST_RETRY_S, FIRST_RETRY_S * 2 ** min(30, max(0, attempts - 1))))
