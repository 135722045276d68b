"""The spool: a folder with the outbox of reports that a results server has not confirmed yet. It contains no token."""

import fcntl
import logging
import os
import stat
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import platformdirs

from opduel.reporters.remote.place import Place
from opduel.support.outbox import OUTBOX_TABLE, Entry, Outbox
from opduel.support.sqlite_file import SqliteFile

REPORT = "report"  # the kind of the entries; their receiver is a place, their key the run's id
_FILE = "outbox.db"
_LOCK = ".lock"
_POLL_S = 0.05

log = logging.getLogger(__name__)


def default_spool() -> Path:
    """Return ``$XDG_STATE_HOME/opduel/spool``; ~/.local/state where that is not set."""
    return platformdirs.user_state_path("opduel") / "spool"


def place_of(entry: Entry) -> Place:
    """Return the place that a report is sent to."""
    endpoint, _, category = entry.receiver.rpartition("|")
    return Place(endpoint, category)


def endpoint_of(receiver: str) -> str:
    """Return the endpoint of a report's receiver."""
    return receiver.rpartition("|")[0]


class Spool:
    """A folder which its user alone can read. The outbox in it is opened for one operation at a time."""

    def __init__(self, directory: Path) -> None:
        """Name the folder; it is made when a report is kept in it."""
        self.directory = directory

    def prepare(self) -> None:
        """Make the folder if it isn't there. Raises OSError: it can't be made."""
        self.directory.mkdir(mode=0o700, parents=True, exist_ok=True)

    @contextmanager
    def outbox(self) -> Iterator[Outbox]:
        """Open the outbox. Raises OSError: the folder can't be made; RunError: the file in it can't be used."""
        self.prepare()
        file = SqliteFile(self.directory / _FILE, OUTBOX_TABLE, "--spool")
        try:
            yield Outbox(file)
        finally:
            file.close()

    def keep(self, place: Place, run: str, body: bytes) -> None:
        """Keep what is to be posted; it is safely on disk when this returns. A run is kept once for a place. Raises
        OSError, RunError: it could not be kept."""
        with self.outbox() as outbox:
            outbox.add(REPORT, [f"{place.endpoint}|{place.category}"], run, body)

    def entries(self) -> list[Entry]:
        """Return the reports that wait, were refused or are damaged, in the order in which they are sent. Raises
        OSError, RunError: the folder can't be read."""
        if not self.directory.is_dir():
            return []
        with self.outbox() as outbox:
            return outbox.entries(REPORT)

    @contextmanager
    def locked(self, wait_s: float) -> Iterator[bool]:
        """Keep other processes from sending from this spool; yield False if one still does after ``wait_s``. Raises
        OSError: the folder can't be written, or its lock is a link."""
        self.prepare()
        if stat.S_IMODE(self.directory.stat().st_mode) & 0o022:
            log.warning("--spool %s: others can write there: chmod go-w %s", self.directory, self.directory)
        descriptor = os.open(self.directory / _LOCK, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
        try:
            until = time.monotonic() + wait_s
            while not (locked := _locks(descriptor)) and time.monotonic() < until:
                time.sleep(_POLL_S)
            yield locked
        finally:
            os.close(descriptor)


def _locks(descriptor: int) -> bool:
    with suppress(BlockingIOError):
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        return True
    return False
