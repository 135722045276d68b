"""Writing to a stream that may not take every character, and that may be gone."""

import os
import sys
from typing import TextIO

from records import RunError


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
    try:
        write_text(sys.stdout, text)
    except OSError as error:
        discard(sys.stdout)
        advice = f": {fix}" if fix else ""
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
