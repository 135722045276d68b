"""What git and hg commands share: they end in any case, fail in one line, and are retried over the network."""

import logging
import os
import re
import signal
import subprocess
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress

from opduel.records import NoSpaceError, RunError
from opduel.support.redaction import redact

NETWORK_SECONDS = 3600.0  # for one command that uses the network
PAUSES = (10.0, 60.0)  # seconds between the attempts to fetch
FIRST_PAUSES = (2.0, 8.0)  # between those to clone: somebody is probably watching

_FULL_DISK = (b"No space left on device", b"Disk quota exceeded")
_MOST_CHARACTERS = 400  # of one error
_ERROR_PREFIXES = ("fatal:", "error:", "remote:", "ERROR:", "abort:")

log = logging.getLogger(__name__)


class CommandFailed(RunError):
    """A command failed. ``reason`` is what the program wrote, redacted, on one line; ``status`` its exit code."""

    def __init__(self, command: str, reason: str, status: int) -> None:
        super().__init__(f"{command}: {reason}")
        self.reason = reason
        self.status = status


class RemoteGone(RunError):
    """What needs the network failed at every attempt."""


def retry(
    program: str,
    task: str,
    action: Callable[[], bytes],
    clean_up: Callable[[], None],
    may_succeed: Callable[[CommandFailed], bool],
    pauses: Sequence[float],
    sleep: Callable[[float], None],
) -> bytes:
    """Run ``action`` until it succeeds: once, and once more after each of the pauses (seconds).

    ``clean_up`` is called after each failure; ``may_succeed`` tells whether another attempt can help.

    Raises:
        RemoteGone: the last attempt failed too, or another one can't help.
        NoSpaceError: the disk is full.
    """
    for pause in (*pauses, None):
        try:
            return action()
        except CommandFailed as error:
            clean_up()
            if isinstance(error, NoSpaceError):
                raise
            if not may_succeed(error):
                fix = f"correct the address, or {program}'s access to it"
                raise RemoteGone(f"{task}: {program} said: {error.reason}: {fix}") from None
            if pause is None:
                attempts = f"failed {len(pauses) + 1} times; {program}'s last error" if pauses else f"{program} said"
                raise RemoteGone(f"{task}: {attempts}: {error.reason}") from None
            log.warning("%s: %s failed: %s; retrying in %g s", task, program, error.reason, pause)
            sleep(pause)
    raise AssertionError("the last attempt returns or raises")


def is_full_disk(errors: bytes) -> bool:
    """Tell whether a program's errors, in English, say that the disk is full."""
    return any(words in errors for words in _FULL_DISK)


def one_line(errors: bytes, secrets: Iterable[str] = ()) -> str:
    """Return what git or hg wrote, redacted: its errors and the server's words, or else all of it; "nothing" if it
    wrote nothing."""
    lines = [line.strip() for line in re.split(r"[\r\n]+", errors.decode("utf-8", "replace"))]
    error_lines = [line for line in lines if line.startswith(_ERROR_PREFIXES)] or lines
    text = redact("; ".join(dict.fromkeys(line for line in error_lines if line)), secrets)
    text = "".join(character if character.isprintable() else "?" for character in text)
    if len(text) > _MOST_CHARACTERS:
        text = text[: _MOST_CHARACTERS // 2] + " ... " + text[-_MOST_CHARACTERS // 2 :]
    return text or "nothing"


def end_session(process: subprocess.Popen[bytes]) -> None:
    """Kill the session of a command that still runs, its children included, and wait for the command."""
    if process.poll() is None:
        with suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
    for pipe in (process.stdin, process.stdout, process.stderr):
        if pipe:
            with suppress(OSError):
                pipe.close()
    process.wait()
