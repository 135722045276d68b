"""The reader of files that a user names: bounded in size and in time, whatever the file is."""

import json
import os
import select
import stat
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

LONGEST_TEXT = 2 * 2**20  # bytes of a file that a person writes: a spec, settings, a description
LONGEST_REPORT = 512 * 2**20  # bytes of a file that a run writes
SILENCE_S = 10.0  # how long a pipe's writer may be silent
OPENING_S = 1.0  # how long a pipe may have no writer
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

    ``look`` is called with the status of the opened file before it is read, and may raise. Only a pipe that somebody
    writes to is waited for, and only until it falls silent. Raises MissingError: there is no such file; TooLargeError:
    it is longer; UnreadableError: it can't be read, or is of another kind.
    """
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC | os.O_NOCTTY)
    except FileNotFoundError as error:
        raise MissingError(_error_text(error)) from None
    except (OSError, ValueError) as error:  # the latter: a null character
        raise UnreadableError(_error_text(error)) from None
    try:
        status = os.fstat(descriptor)
        is_pipe = stat.S_ISFIFO(status.st_mode)
        if stat.S_ISDIR(status.st_mode):
            raise UnreadableError("is a folder")
        if not stat.S_ISREG(status.st_mode) and not (is_pipe and pipes):
            raise UnreadableError("is not a regular file")
        look(status)
        if not is_pipe and status.st_size > longest:
            raise TooLargeError(f"is larger than {_size(longest)}")
        content = _read(descriptor, longest, is_pipe)
    except OSError as error:
        raise UnreadableError(_error_text(error)) from None
    finally:
        os.close(descriptor)
    if len(content) > longest:
        raise TooLargeError(f"is larger than {_size(longest)}")
    return content


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


def _read(descriptor: int, longest: int, is_pipe: bool) -> bytes:
    """Return the content of a file or pipe, up to its end or one byte more than ``longest``."""
    pieces, remaining = [], longest + 1
    gives_up_at = time.monotonic() + OPENING_S
    while remaining > 0:
        try:
            piece = os.read(descriptor, min(remaining, _CHUNK))
        except BlockingIOError:
            if not select.select([descriptor], [], [], SILENCE_S)[0]:
                raise UnreadableError(f"is a pipe that was silent for {SILENCE_S:g} s") from None
            continue
        pieces.append(piece)
        remaining -= len(piece)
        if piece:
            continue
        if len(pieces) > 1 or not is_pipe:
            break
        pieces.clear()
        if time.monotonic() > gives_up_at:
            raise UnreadableError("is a pipe into which nobody writes")
        time.sleep(0.02)  # its writer was waiting for us
    return b"".join(pieces)


def _error_text(error: OSError | ValueError) -> str:
    return error.strerror or type(error).__name__ if isinstance(error, OSError) else "is no path"


def _size(count: int) -> str:
    return f"{count // 2**20} MiB" if count >= 2**20 else f"{count} bytes"
