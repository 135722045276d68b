"""Writing to a stream that may not take every character, and that may be gone."""

import os
import sys
from typing import IO, Any, TextIO

from opduel.records import RunError

_nowhere: list[IO[Any]] = []


def write_text(stream: TextIO, text: str) -> None:
    """Write and flush ``text``; characters that the stream's encoding lacks become escapes.

    A reader that went away (``| head``) is no error: the rest is dropped quietly, and so is whatever the
    interpreter would still flush at exit (docs.python.org/3/library/signal.html#note-on-sigpipe).

    Raises:
        OSError: it can't be written: a disk is full, say. What is left may be written later; ``discard`` drops it.
    """
    encoding = getattr(stream, "encoding", None) or "utf-8"
    try:
        stream.write(text.encode(encoding, "backslashreplace").decode(encoding))
        stream.flush()
    except BrokenPipeError:
        discard(stream)


def print_result(text: str, fix: str = "") -> None:
    """Write what a command is asked for on standard output; ``fix`` says what to do when that can't be.

    Raises:
        RunError: it can't be written.
    """
    advice = f": {fix}" if fix else ""
    if sys.stdout in _nowhere:
        raise RunError(f"standard output: is closed{advice}")
    try:
        write_text(sys.stdout, text)
    except OSError as error:
        discard(sys.stdout)
        raise RunError(f"standard output: cannot be written ({error.strerror}){advice}") from None


def discard(stream: TextIO) -> None:
    """Drop what is left to be written: point the stream's descriptor at nothing, so that a later flush can't fail."""
    try:
        descriptor = stream.fileno()
    except (OSError, ValueError):
        return  # not a real file: nothing is left to flush
    nothing = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nothing, descriptor)
    os.close(nothing)


def print_note(text: str) -> None:
    """Write something beside the result on standard error; where that can't be written, it is lost."""
    try:
        write_text(sys.stderr, text)
    except OSError:
        discard(sys.stderr)


def open_closed_streams() -> None:
    """Give a standard stream that was closed (``2>&-``) a file that leads nowhere: others write without asking."""
    for name, mode in (("stdin", "r"), ("stdout", "w"), ("stderr", "w")):
        if getattr(sys, name) is None:
            _nowhere.append(open(os.devnull, mode, encoding="utf-8"))  # noqa: SIM115 - for good
            setattr(sys, name, _nowhere[-1])
