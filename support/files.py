"""The reader of files that a user names: bounded in size, whatever the file is."""

import json
import os
import stat
from collections.abc import Callable
from pathlib import Path
from typing import Any

LONGEST_TEXT = 2 * 2**20  # bytes of a file that a person writes: a spec, settings, a description
LONGEST_REPORT = 512 * 2**20  # bytes of a file that a run writes
_CHUNK = 1 << 20


class UnreadableError(Exception):
    """A file can't be read, or is of another kind. The text is the reason alone: "is a folder"."""


class MissingError(UnreadableError):
    """There is no such file."""


class TooLargeError(UnreadableError):
    """The file is longer than allowed."""


def read_bytes(
    path: Path,
    longest: int = LONGEST_TEXT,
    pipes: bool = True,
    look: Callable[[os.stat_result], None] = lambda _: None,
) -> bytes:
    """Return the content of a regular file, or of a pipe if ``pipes``, of at most ``longest`` bytes.

    ``look`` is called with the status of the opened file before it is read, and may raise. Raises MissingError: there
    is no such file; TooLargeError: it is longer; UnreadableError: it can't be read, or is of another kind.
    """
    pieces, size = [], 0
    try:  # without waiting for what is no file to be opened
        with open(path, "rb", buffering=0, opener=lambda name, flags: os.open(name, flags | os.O_NONBLOCK)) as file:
            status = os.fstat(file.fileno())
            if not stat.S_ISREG(status.st_mode) and not (pipes and stat.S_ISFIFO(status.st_mode)):
                raise UnreadableError("is not a regular file")
            look(status)
            os.set_blocking(file.fileno(), True)
            while max(size, status.st_size) <= longest and (piece := file.read(_CHUNK)):
                pieces.append(piece)
                size += len(piece)
    except FileNotFoundError as error:
        raise MissingError(error.strerror) from None
    except IsADirectoryError:
        raise UnreadableError("is a folder") from None
    except OSError as error:
        raise UnreadableError(error.strerror or type(error).__name__) from None
    except ValueError:  # a null character
        raise UnreadableError("is no path") from None
    if max(size, status.st_size) > longest:
        raise TooLargeError(f"is larger than {longest // 2**20 or longest} {'MiB' if longest >= 2**20 else 'bytes'}")
    return b"".join(pieces)


def read_text(path: Path, longest: int = LONGEST_TEXT, pipes: bool = True) -> str:
    """Return the content as UTF-8 text without a byte order mark. UnreadableError: as ``read_bytes``, or it is not
    UTF-8."""
    try:
        return read_bytes(path, longest, pipes).decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise UnreadableError(f"is not UTF-8 text (byte {error.start})") from None


def parse_json(text: str | bytes, **options: Any) -> Any:
    """Return the data of a JSON text, read with options of ``json.loads``; UnreadableError if it is not JSON, or is
    nested too deeply."""
    try:
        return json.loads(text, **options)
    except RecursionError:
        raise UnreadableError("is nested too deeply") from None
    except ValueError as error:  # Python's own limit on digits, too
        raise UnreadableError(f"is not JSON ({error})") from None
