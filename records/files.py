"""The one reader of files that a user names: bounded in size and in time, whatever is found there."""

import json
import os
import select
import stat
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

LONGEST_TEXT = 2 * 2**20  # bytes of what a person writes: a spec, settings, a description
LONGEST_REPORT = 512 * 2**20  # of what a run writes
SILENCE_S = 10.0  # that a pipe's writer may take before more comes
OPENING_S = 1.0  # until a pipe has a writer
_CHUNK = 1 << 20


class UnreadableError(Exception):
    """A file can't be read as what it is to be. The text is the reason alone: "is a folder"."""


class MissingError(UnreadableError):
    """There is none."""


class TooLargeError(UnreadableError):
    """There is more of it than may be read."""


def read_bytes(
    path: Path,
    longest: int = LONGEST_TEXT,
    pipes: bool = True,
    look: Callable[[os.stat_result], None] = lambda _: None,
) -> bytes:
    """The content of a regular file, or of a pipe if ``pipes``: of at most ``longest`` bytes.

    ``look`` sees the status of the very file that is read, before it is, and may raise. Nothing is waited for but a
    pipe that somebody writes to, and that only as long as it doesn't fall silent.

    Raises:
        MissingError: there is no such file; TooLargeError: it is longer; UnreadableError: it can't be read, or is
        something else.
    """
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC | os.O_NOCTTY)
    except FileNotFoundError as error:
        raise MissingError(_reason(error)) from None
    except (OSError, ValueError) as error:  # the latter: a null character
        raise UnreadableError(_reason(error)) from None
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
        content = _piped(descriptor, longest) if is_pipe else _until(descriptor, longest)
    except OSError as error:
        raise UnreadableError(_reason(error)) from None
    finally:
        os.close(descriptor)
    if len(content) > longest:
        raise TooLargeError(f"is larger than {_size(longest)}")
    return content


def read_text(path: Path, longest: int = LONGEST_TEXT, pipes: bool = True) -> str:
    """The same, as UTF-8, without a byte order mark. UnreadableError: as ``read_bytes``, or it is something else than
    UTF-8."""
    try:
        return read_bytes(path, longest, pipes).decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise UnreadableError(f"is not UTF-8 text (byte {error.start})") from None


def parse_json(text: str | bytes, **options: Any) -> Any:
    """What a JSON text says, read with options of ``json.loads``; UnreadableError if it is none, or is nested too
    deeply."""
    try:
        return json.loads(text, **options)
    except RecursionError:
        raise UnreadableError("is nested too deeply") from None
    except ValueError as error:  # Python's own limit on digits, too
        raise UnreadableError(f"is not JSON ({error})") from None


def _until(descriptor: int, longest: int) -> bytes:
    """What comes of a file, up to its end or one byte more than ``longest``."""
    pieces, left = [], longest + 1
    while left > 0 and (piece := os.read(descriptor, min(left, _CHUNK))):
        pieces.append(piece)
        left -= len(piece)
    return b"".join(pieces)


def _piped(descriptor: int, longest: int) -> bytes:
    """The same of a pipe: whoever has it open for writing may take ``SILENCE_S`` seconds at a time."""
    pieces, left = [], longest + 1
    nobody = time.monotonic() + OPENING_S
    while left > 0:
        try:
            piece = os.read(descriptor, min(left, _CHUNK))
        except BlockingIOError:
            if not select.select([descriptor], [], [], SILENCE_S)[0]:
                raise UnreadableError(f"is a pipe that was silent for {SILENCE_S:g} s") from None
            continue
        if piece:
            pieces.append(piece)
            left -= len(piece)
        elif pieces:
            break
        elif time.monotonic() > nobody:
            raise UnreadableError("is a pipe into which nobody writes")
        else:
            time.sleep(0.02)  # its writer was waiting for us
    return b"".join(pieces)


def _reason(error: OSError | ValueError) -> str:
    return error.strerror or type(error).__name__ if isinstance(error, OSError) else "is no path"


def _size(count: int) -> str:
    return f"{count // 2**20} MiB" if count >= 2**20 else f"{count} bytes"
