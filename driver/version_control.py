"""What git and hg commands share: they end in any case, fail in one line, and are retried over the network."""

import logging
import os
import re
import signal
import subprocess
import time
from collections.abc import Callable, Iterable
from contextlib import suppress
from dataclasses import KW_ONLY, dataclass, field
from pathlib import Path
from typing import ClassVar

from opduel.driver.lock import ANOTHER_FOLDER
from opduel.records import NoSpaceError, RunError
from opduel.support.redaction import redact
from opduel.support.text import clipped, printable

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


class CommandNoSpace(CommandFailed, NoSpaceError):
    """A command failed because the disk is full."""


class RemoteGone(RunError):
    """What needs the network failed at every attempt."""


@dataclass(frozen=True)
class Program:
    """A version control program that runs unattended on a repository of ours (``directory``)."""

    name: ClassVar[str]
    permanent: ClassVar[re.Pattern[str]]  # errors that another attempt would not change: of the address or the access
    not_there: ClassVar[re.Pattern[str]]  # there is no repository; of one that was there, a disk may be away

    directory: Path
    _: KW_ONLY
    time_limit: float = NETWORK_SECONDS
    pauses: tuple[float, ...] = field(default_factory=lambda: PAUSES)  # s; one attempt more than pauses
    sleep: Callable[[float], None] = field(default=time.sleep, repr=False)

    def retry(self, task: str, action: Callable[[], object], clean_up: Callable[[], object], clones: bool) -> None:
        """Run what uses the network, again after a pause where that may help; ``clean_up`` follows each failure.

        ``clones``: the remote has not been there before, so that one that is not found is not expected back.
        RemoteGone: the last attempt failed too, or another one can't help; NoSpaceError: the disk is full.
        """
        pauses = FIRST_PAUSES if clones and self.pauses else self.pauses
        for pause in (*pauses, None):
            try:
                action()
                return
            except CommandFailed as error:
                clean_up()
                if isinstance(error, NoSpaceError):
                    raise
                if self.permanent.search(error.reason) or (clones and self.not_there.search(error.reason)):
                    fix = f"correct the address, or {self.name}'s access to it"
                    raise RemoteGone(f"{task}: {self.name} said: {error.reason}: {fix}") from None
                if pause is None:
                    attempts = f"failed {len(pauses) + 1} times; {self.name}'s last error"
                    raise RemoteGone(f"{task}: {attempts if pauses else f'{self.name} said'}: {error.reason}") from None
                log.warning("%s: %s failed: %s; retrying in %g s", task, self.name, error.reason, pause)
                self.sleep(pause)

    def communicate(
        self, process: subprocess.Popen[bytes], command: str, stdin: bytes | None = None, network: bool = False
    ) -> tuple[bytes, bytes]:
        """Return what a process writes to standard output and error until its end; CommandFailed if it uses the
        network and does not end in the time limit."""
        limit = self.time_limit if network else None
        try:
            return process.communicate(stdin, timeout=limit)
        except subprocess.TimeoutExpired:
            raise CommandFailed(f"{self.name} {command}", f"not done after {limit:g} s: stopped", -1) from None

    def failure(self, command: str, errors: bytes, status: int, secrets: Iterable[str] = ()) -> CommandFailed:
        """Return the error of a command that wrote ``errors``."""
        reason, failed = error_words(errors, secrets), CommandFailed
        if any(words in errors for words in _FULL_DISK):
            reason = f"{reason}: free some space for {self.directory.parent}, or {ANOTHER_FOLDER}"
            failed = CommandNoSpace
        return failed(f"{self.name} {command}", reason, status)


def error_words(errors: bytes, secrets: Iterable[str] = ()) -> str:
    """Return what git or hg wrote, redacted, on one line: its errors and the server's words, or else all of it;
    "nothing" if it wrote nothing."""
    lines = [line.strip() for line in re.split(r"[\r\n]+", errors.decode("utf-8", "replace"))]
    error_lines = [line for line in lines if line.startswith(_ERROR_PREFIXES)] or lines
    text = redact("; ".join(dict.fromkeys(line for line in error_lines if line)), secrets)
    return clipped(printable(text), _MOST_CHARACTERS) or "nothing"


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
