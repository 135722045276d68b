"""The spool: a folder with the outbox of reports that a results server has not confirmed yet. No token is in it."""

import fcntl
import hashlib
import logging
import os
import stat
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from datetime import datetime
from pathlib import Path
from typing import Literal

import platformdirs
from pydantic import TypeAdapter, ValidationError
from typing_extensions import TypedDict

from opduel.records import OpduelError, UsageError
from opduel.records.outbox import OUTBOX_TABLE, Entry, Outbox
from opduel.records.sqlite_file import SqliteFile
from opduel.reporters.remote.place import Place, parse_endpoint

REPORT = "report"  # the kind of the entries; their receiver is a place, their key the run's id
_FILE = "outbox.db"
_LOCK = ".lock"
_POLL_S = 0.05

_OLD_SUFFIX = ".report"  # of the files of earlier versions: a line of JSON, then what is posted
_LONGEST_HEADER = 16_384  # bytes
_NO_PLACE = "its first line doesn't say where it goes"

log = logging.getLogger(__name__)


def default_spool() -> Path:
    """``$XDG_STATE_HOME/opduel/spool``, ~/.local/state when that is not set."""
    return platformdirs.user_state_path("opduel") / "spool"


def place_of(entry: Entry) -> Place:
    """Where a report goes."""
    endpoint, _, category = entry.receiver.rpartition("|")
    return Place(endpoint, category)


def endpoint_of(receiver: str) -> str:
    """The endpoint of a report's receiver."""
    return receiver.rpartition("|")[0]


class Spool:
    """A folder which its user alone can read. The outbox in it is opened for one operation at a time."""

    def __init__(self, directory: Path) -> None:
        """It is made when something is to be kept in it."""
        self.directory = directory

    def prepare(self) -> None:
        """Make the folder if it isn't there.

        Raises:
            OSError: it can't be made.
        """
        self.directory.mkdir(mode=0o700, parents=True, exist_ok=True)

    @contextmanager
    def outbox(self) -> Iterator[Outbox]:
        """The outbox, with the reports that an earlier version left in files.

        Raises:
            OSError: the folder can't be made; RunError: the file in it can't be used.
        """
        self.prepare()
        file = SqliteFile(self.directory / _FILE, OUTBOX_TABLE, "--spool", shared=True)
        try:
            outbox = Outbox(file)
            for path in sorted(self.directory.glob(f"*{_OLD_SUFFIX}")):
                _take_over(path, outbox)
            yield outbox
        finally:
            file.close()

    def keep(self, place: Place, run: str, body: bytes) -> None:
        """Keep what is to be posted; it is safely on disk when this returns. A run is kept once for a place.

        Raises:
            OSError, RunError: it could not be kept.
        """
        with self.outbox() as outbox:
            outbox.put(REPORT, [f"{place.endpoint}|{place.category}"], run, body)

    def entries(self) -> list[Entry]:
        """The reports that wait, were refused or are damaged, in the order in which they are sent.

        Raises:
            OSError, RunError: the folder can't be read.
        """
        if not self.directory.is_dir():
            return []
        with self.outbox() as outbox:
            return outbox.entries(REPORT)

    @contextmanager
    def locked(
        self, wait_s: float, clock: Callable[[], float] = time.monotonic, sleep: Callable[[float], None] = time.sleep
    ) -> Iterator[bool]:
        """Within it no other process sends from this spool; yields False when another one still does after
        ``wait_s``.

        Raises:
            OSError: the folder can't be written, or its lock is a link.
        """
        self.prepare()
        if stat.S_IMODE(self.directory.stat().st_mode) & 0o022:
            log.warning("--spool %s: others can write there: chmod go-w %s", self.directory, self.directory)
        descriptor = os.open(self.directory / _LOCK, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
        try:
            until = clock() + wait_s
            while not (locked := _locks(descriptor)) and clock() < until:
                sleep(_POLL_S)
            yield locked
        finally:
            os.close(descriptor)


def _locks(descriptor: int) -> bool:
    with suppress(BlockingIOError):
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        return True
    return False


class _OldHeader(TypedDict):
    """The first line of an earlier version's file."""

    opduel_spool: Literal[1]  # the format
    endpoint: str
    category: str
    run: str
    kept: datetime
    sha256: str


_OLD_HEADER: TypeAdapter[_OldHeader] = TypeAdapter(_OldHeader)


def _take_over(path: Path, outbox: Outbox) -> None:
    """Move the report in an earlier version's file to the outbox. A damaged file is moved to ``damaged/``."""
    try:
        with open(os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC), "rb") as file:
            status = os.fstat(file.fileno())
            if not stat.S_ISREG(status.st_mode) or status.st_uid != os.geteuid():
                raise ValueError("it is not a regular file of this user")
            line, body = file.readline(_LONGEST_HEADER), file.read()
        header = _OLD_HEADER.validate_json(line)
        if parse_endpoint(header["endpoint"]) != header["endpoint"]:
            raise ValueError(_NO_PLACE)
        if hashlib.sha256(body).hexdigest() != header["sha256"]:
            raise ValueError(f"its report is cut off or changed ({len(body)} bytes)")
        receiver = f"{header['endpoint']}|{header['category']}"
        outbox.put(REPORT, [receiver], header["run"], body, header["kept"].timestamp())
        path.unlink(missing_ok=True)
    except FileNotFoundError:
        return  # another process has just taken it over
    except (ValueError, ValidationError, UsageError) as error:
        _set_aside(path, _NO_PLACE if isinstance(error, ValidationError) else str(error))
    except (OSError, OpduelError) as error:
        if path.is_symlink():
            _set_aside(path, "it is a link")
        else:
            log.warning("%s: can't be moved to the outbox (%s)", path, error)


def _set_aside(path: Path, why: str) -> None:
    folder = path.parent / "damaged"
    with suppress(OSError):
        folder.mkdir(mode=0o700, exist_ok=True)
        aside = path.rename(folder / f"{path.name}.{time.time_ns()}")
        log.warning("%s: damaged: %s; moved to %s", path.name, why, aside)
