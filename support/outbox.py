"""The outbox: entries that must be delivered at least once wait in a table of a SQLite file until their receiver has
them.

An entry is on disk before the first attempt. After a crash between the receiver's answer and its recording it is
delivered again, with the same key, by which the receiver recognizes it.
"""

import hashlib
import logging
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Literal

from opduel.support.errors import NoSpaceError, RunError
from opduel.support.sqlite_file import SqliteFile

State = Literal["waiting", "refused", "damaged", "delivered"]

LONGEST_S = 90 * 24 * 3600.0  # the longest time that an entry waits, or is remembered
MOST_BYTES = 2 * 2**30  # of all payloads
OUTBOX_TABLE = """
CREATE TABLE IF NOT EXISTS outbox (number INTEGER PRIMARY KEY AUTOINCREMENT, kind TEXT NOT NULL, receiver TEXT NOT NULL,
    key TEXT NOT NULL, payload BLOB NOT NULL, sha256 TEXT NOT NULL, created REAL NOT NULL, attempts INTEGER NOT NULL,
    state TEXT NOT NULL, reason TEXT NOT NULL, UNIQUE (kind, receiver, key));
"""
_COLUMNS = "number, kind, receiver, key, created, attempts, state, reason"

log = logging.getLogger(__name__)


@dataclass(frozen=True)
class Entry:
    """Something to be delivered to one receiver.

    ``key`` identifies it among the receiver's entries of its kind; ``created``: seconds since 1970; ``attempts``:
    failed ones of which the entry itself may be the cause; ``reason``: one line on the last attempt, empty before it.
    """

    number: int
    kind: str
    receiver: str
    key: str
    created: float
    attempts: int
    state: State
    reason: str


@dataclass(frozen=True)
class Attempt:
    """The result of one attempt, with the reason in one line.

    ``failed``: to be repeated, and the entry may be the cause; ``away``: to be repeated, and the entry can't be the
    cause; ``refused``: the receiver will never take it; ``damaged``: it isn't what was written. After ``failed`` and
    ``away`` the receiver gets no other entry this time. ``page``: a web address at the receiver.
    """

    state: Literal["delivered", "failed", "away", "refused", "damaged"]
    reason: str = ""
    page: str = ""


@dataclass(frozen=True)
class Delivery:
    """The state of an entry after a delivery. ``expired``: it waited too long, and was removed."""

    entry: Entry
    state: Literal["sent", "waiting", "refused", "damaged", "expired"]
    reason: str
    page: str = ""


class Outbox:
    """The entries in one file. Raises RunError: the file can't be read or written. Any method may."""

    def __init__(self, file: SqliteFile, clock: Callable[[], float] = time.time, most_bytes: int = MOST_BYTES) -> None:
        """``file`` has the table ``OUTBOX_TABLE``."""
        self._file = file
        self._clock = clock
        self._most_bytes = most_bytes

    def add(
        self, kind: str, receivers: Sequence[str], key: str, payload: bytes = b"", created: float | None = None
    ) -> None:
        """Add an entry for each receiver. An entry that waits or was delivered stays as it is; one that was refused, or
        is damaged, is replaced. NoSpaceError: the outbox, or the disk, is full."""
        statement = (
            "INSERT INTO outbox VALUES (NULL, ?, ?, ?, ?, ?, ?, 0, 'waiting', '') "
            "ON CONFLICT (kind, receiver, key) DO UPDATE SET payload = excluded.payload, sha256 = excluded.sha256, "
            "created = excluded.created, attempts = 0, state = 'waiting', reason = '' "
            "WHERE state IN ('refused', 'damaged')"
        )
        moment = self._clock() if created is None else created
        with self._file.transaction() as connection:
            long_ago = self._clock() - LONGEST_S
            connection.execute(
                "DELETE FROM outbox WHERE state IN ('delivered', 'damaged') AND created < ?", (long_ago,)
            )
            ((stored_bytes,),) = connection.execute("SELECT COALESCE(SUM(LENGTH(payload)), 0) FROM outbox")
            if stored_bytes + len(payload) * len(receivers) > self._most_bytes:
                raise NoSpaceError(f"the outbox is full: {stored_bytes >> 20} MiB wait for their receivers")
            for receiver in receivers:
                connection.execute(statement, (kind, receiver, key, payload, _digest(receiver, key, payload), moment))

    def entries(self, kind: str) -> list[Entry]:
        """Return the entries that are not delivered, those with the fewest failures first, then the oldest, so that an
        entry that always fails blocks no other."""
        query = f"SELECT {_COLUMNS} FROM outbox WHERE kind = ? AND state != 'delivered' ORDER BY attempts, number"
        return [Entry(*row) for row in self._file.rows(query, (kind,))]

    def payload(self, entry: Entry) -> bytes | None:
        """Return the entry's payload; None if it is gone, or isn't what was written."""
        query = "SELECT payload, sha256 FROM outbox WHERE number = ? AND receiver = ? AND key = ?"
        for payload, digest in self._file.rows(query, (entry.number, entry.receiver, entry.key)):
            content = payload if isinstance(payload, bytes) else str(payload).encode()
            return content if _digest(entry.receiver, entry.key, content) == digest else None
        return None

    def remove(self, entry: Entry) -> None:
        """Remove an entry."""
        self._file.write("DELETE FROM outbox WHERE number = ?", (entry.number,))

    def remove_all(self, kind: str, key: str) -> None:
        """Remove the entries of this key for all receivers."""
        self._file.write("DELETE FROM outbox WHERE kind = ? AND key = ?", (kind, key))

    def deliver(
        self,
        entries: Sequence[Entry],
        attempt: Callable[[Entry, bytes], Attempt],
        server: Callable[[str], str] = lambda receiver: receiver,
        retry_refused: bool = False,
        remember: bool = False,
        longest_s: float = LONGEST_S,
    ) -> Iterator[Delivery]:
        """Attempt to deliver each entry, in order, and record the result before the next one.

        ``server``: the server of a receiver; once it is away, none of its receivers gets more. ``remember``: a
        delivered entry stays, without its payload, so that ``add`` doesn't add it again. Entries older than
        ``longest_s`` are removed.
        """
        closed: dict[str, str] = {}  # servers that get no more this time, and why
        for entry in entries:
            if entry.created < self._clock() - longest_s:
                self.remove(entry)
                reason = f"not delivered in {longest_s / 86400:g} days: given up"
                log.warning("%s for %s: %s", entry.key, entry.receiver, reason)
                yield Delivery(entry, "expired", reason)
            elif entry.state == "damaged" or (entry.state == "refused" and not retry_refused):
                yield Delivery(entry, entry.state, entry.reason)
            elif server(entry.receiver) in closed:
                yield Delivery(entry, "waiting", closed[server(entry.receiver)])
            else:
                payload = self.payload(entry)
                result = (
                    Attempt("damaged", "it is not what was written") if payload is None else attempt(entry, payload)
                )
                if result.state in ("failed", "away"):
                    closed[server(entry.receiver)] = result.reason
                yield self._record(entry, result, remember)

    def _record(self, entry: Entry, result: Attempt, remember: bool) -> Delivery:
        state: State = "waiting" if result.state in ("failed", "away") else result.state  # type: ignore[assignment]
        reason = result.reason
        try:
            if state == "delivered" and not remember:
                self.remove(entry)
            else:
                changes = "attempts = attempts + ?, state = ?, reason = ?"
                changes += ", payload = x''" if state == "delivered" else ""
                values = (result.state == "failed", state, reason, entry.number)
                self._file.write(f"UPDATE outbox SET {changes} WHERE number = ?", values)
        except RunError as error:  # then it is attempted again next time
            reason = f"{reason}; that can't be recorded: {error}"
        return Delivery(entry, "sent" if state == "delivered" else state, reason, result.page)


def _digest(receiver: str, key: str, payload: bytes) -> str:
    digest = hashlib.sha256("\0".join((receiver, key, "")).encode("utf-8", "surrogatepass"))
    digest.update(payload)
    return digest.hexdigest()
