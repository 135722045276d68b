"""Write to streams whose encoding may lack characters, or whose reader may be gone."""

import os
import sys
from typing import IO, Any, TextIO

from opduel.records import RunError

_nowhere: list[IO[Any]] = []


def write_text(stream: TextIO, text: str) -> None:
    """Write and flush ``text``; characters that the stream's encoding lacks become escapes.

    If the reader is gone (``| head``), the remaining text is dropped, and so is what the interpreter would flush at
    exit (docs.python.org/3/library/signal.html#note-on-sigpipe). Raises OSError: it can't be written, such as to a full
    disk. The stream may write it later; ``discard`` drops it.
    """
    encoding = getattr(stream, "encoding", None) or "utf-8"
    try:
        stream.write(text.encode(encoding, "backslashreplace").decode(encoding))
        stream.flush()
    except BrokenPipeError:
        discard(stream)


def print_result(text: str, fix: str = "") -> None:
    """Write a command's result on standard output; ``fix`` says what to do when that is not possible. Raises RunError:
    it can't be written."""
    advice = f": {fix}" if fix else ""
    if sys.stdout in _nowhere:
        raise RunError(f"standard output: is closed{advice}")
    try:
        write_text(sys.stdout, text)
    except OSError as error:
        discard(sys.stdout)
        raise RunError(f"standard output: cannot be written ({error.strerror}){advice}") from None


def discard(stream: TextIO) -> None:
    """Drop unwritten text: redirect the stream's descriptor to nothing, so that a later flush can't fail."""
    try:
        descriptor = stream.fileno()
    except (OSError, ValueError):
        return  # not a real file: there is nothing to flush
    nothing = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nothing, descriptor)
    os.close(nothing)


def print_note(text: str) -> None:
    """Write a note on standard error; if that is not possible, it is lost."""
    try:
        write_text(sys.stderr, text)
    except OSError:
        discard(sys.stderr)


def open_closed_streams() -> None:
    """Replace standard streams that were closed (``2>&-``) by files that drop everything: others write without
    asking."""
    for name, mode in (("stdin", "r"), ("stdout", "w"), ("stderr", "w")):
        if getattr(sys, name) is None:
            _nowhere.append(open(os.devnull, mode, encoding="utf-8"))  # noqa: SIM115 - for good
            setattr(sys, name, _nowhere[-1])
