"""The spool: reports on disk that a server has not confirmed yet, each a file that is there whole or not at all.

A file is a line of JSON about the report, then the very bytes that are posted. No token is in it.
"""

import fcntl
import hashlib
import json
import logging
import os
import stat
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass, replace
from datetime import UTC, datetime
from pathlib import Path

import platformdirs
from pydantic import ConfigDict, TypeAdapter, ValidationError, with_config

from opduel.records import UsageError
from opduel.records.atomic import path_part, write_atomically
from opduel.reporters.remote.place import Place, parse_endpoint

FORMAT = 1
_SUFFIX = ".report"
_LOCK = ".lock"
_ASIDE = "damaged"
_LONGEST_HEADER = 16_384  # bytes
_POLL_S = 0.05
_MINE_ALONE = 0o600

log = logging.getLogger(__name__)


@dataclass(frozen=True)
class Refusal:
    """The server's last word: ``at`` (ISO 8601, UTC), its status, and why in one line."""

    at: str
    status: int
    why: str


@with_config(ConfigDict(extra="forbid"))
@dataclass(frozen=True)
class Header:
    """What a file says of its report. ``kept``: since when, ISO 8601, UTC; ``sha256``: of what is posted."""

    opduel_spool: int
    endpoint: str
    category: str
    run: str
    kept: str
    sha256: str
    refused: Refusal | None = None


@dataclass(frozen=True)
class OutboxEntry:
    """A report in the spool."""

    path: Path
    header: Header

    @property
    def place(self) -> Place:
        """Where it goes."""
        return Place(self.header.endpoint, self.header.category)


@dataclass(frozen=True)
class Damaged:
    """A file that is no such report, and why."""

    path: Path
    why: str


_HEADER: TypeAdapter[Header] = TypeAdapter(Header)


class DamagedError(Exception):
    """A file of the spool is not what was written there; the text says why."""


def default_spool() -> Path:
    """``$XDG_STATE_HOME/opduel/spool``, ~/.local/state when that is not set."""
    return platformdirs.user_state_path("opduel") / "spool"


class Spool:
    """A folder of letters, which its user alone can read."""

    def __init__(self, directory: Path) -> None:
        """It is made when something is to be kept in it."""
        self.directory = directory

    def prepare(self) -> None:
        """Make the folder if it isn't there.

        Raises:
            OSError: it can't be made.
        """
        self.directory.mkdir(mode=0o700, parents=True, exist_ok=True)

    def keep(self, place: Place, run: str, body: bytes) -> OutboxEntry:
        """Keep what is to be posted; it is safely on disk when this returns. The same twice is kept once.

        Raises:
            OSError: it could not be kept.
        """
        digest = hashlib.sha256(body).hexdigest()
        key = "\0".join((place.endpoint, place.category, run, digest))
        name = f"{path_part(run)}-{hashlib.sha256(key.encode()).hexdigest()[:16]}{_SUFFIX}"
        header = Header(FORMAT, place.endpoint, place.category, run, moment(), digest)
        self.prepare()
        entry = OutboxEntry(self.directory / name, header)
        _write(entry, body)
        return entry

    def contents(self) -> tuple[list[OutboxEntry], list[Damaged]]:
        """All letters, the oldest first, and the files that are none. Nothing is changed.

        Raises:
            OSError: the folder is there and can't be read.
        """
        entries, damaged = [], []
        try:
            names = sorted(os.listdir(self.directory))
        except FileNotFoundError:
            return [], []
        for path in (self.directory / name for name in names if name.endswith(_SUFFIX)):
            try:
                entries.append(OutboxEntry(path, _read(path)[0]))
            except FileNotFoundError:
                continue  # another process has just sent it
            except (DamagedError, OSError) as error:
                damaged.append(Damaged(path, str(error)))
        return sorted(entries, key=lambda one: (one.header.kept, one.path.name)), damaged

    def body(self, entry: OutboxEntry) -> bytes:
        """What is to be posted.

        Raises:
            DamagedError: it isn't what was kept; OSError: it can't be read.
        """
        _, body = _read(entry.path, whole=True)
        if hashlib.sha256(body).hexdigest() != entry.header.sha256:
            raise DamagedError(f"its report is cut off or changed ({len(body)} bytes)")
        return body

    def remove(self, entry: OutboxEntry) -> None:
        """The server has it.

        Raises:
            OSError: it can't be removed.
        """
        entry.path.unlink(missing_ok=True)

    def mark(self, entry: OutboxEntry, refusal: Refusal, body: bytes) -> None:
        """Write down that the server refuses it.

        Raises:
            OSError: it can't be written down; the file is as it was.
        """
        _write(replace(entry, header=replace(entry.header, refused=refusal)), body)

    def set_aside(self, path: Path) -> Path:
        """Move a damaged file out of the way; returns where it is now.

        Raises:
            OSError: it can't be moved.
        """
        folder = self.directory / _ASIDE
        folder.mkdir(mode=0o700, exist_ok=True)
        aside = folder / f"{path.name}.{time.time_ns()}"
        path.rename(aside)
        return aside

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
        descriptor = os.open(self.directory / _LOCK, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC, _MINE_ALONE)
        try:
            yield _lock(descriptor, clock() + wait_s, clock, sleep)
        finally:
            os.close(descriptor)


def moment() -> str:
    """Now, ISO 8601, UTC."""
    return datetime.now(UTC).isoformat(timespec="microseconds")


def _lock(descriptor: int, until: float, clock: Callable[[], float], sleep: Callable[[float], None]) -> bool:
    while True:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            return True
        except BlockingIOError:
            if clock() >= until:
                return False
            sleep(_POLL_S)


def _write(entry: OutboxEntry, body: bytes) -> None:
    header = json.dumps(asdict(entry.header)).encode()
    write_atomically(entry.path, header + b"\n" + body, mode=_MINE_ALONE)


def _read(path: Path, whole: bool = False) -> tuple[Header, bytes]:
    """A file's header, and the rest of it if ``whole``.

    Raises:
        DamagedError: it has no such header, or is none of our files; OSError: it can't be read.
    """
    descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    with open(descriptor, "rb") as file:
        status = os.fstat(descriptor)
        if not stat.S_ISREG(status.st_mode) or status.st_uid != os.geteuid():
            raise DamagedError("it is no plain file of this user")
        line = file.readline(_LONGEST_HEADER)
        return _header(line), file.read() if whole else b""


def _header(line: bytes) -> Header:
    try:
        header = _HEADER.validate_json(line, strict=True)
        if header.opduel_spool != FORMAT:
            raise DamagedError(f"it is of format {header.opduel_spool}, and {FORMAT} is known here")
        if parse_endpoint(header.endpoint) != header.endpoint or not line.endswith(b"\n"):
            raise DamagedError("its first line does not say where it goes")
    except (ValidationError, UsageError):
        raise DamagedError("its first line does not say where it goes") from None
    return header
