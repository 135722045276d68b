"""One hg command: unattended, with an end in any case; and a command server, for thousands of them."""

import os
import re
import shutil
import struct
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO

from opduel.driver.git.command import (
    DIES_WITH_US,
    FULL,
    NETWORK_SECONDS,
    PAUSES,
    CommandFailed,
    end_session,
    insist,
    one_line,
)
from opduel.driver.lock import ANOTHER_FOLDER
from opduel.records import NoSpaceError, RunError

# What another attempt would not change: the address is wrong, or the access to it. Mercurial's own words.
_FOR_GOOD = re.compile(
    r"does not appear to be an hg repository|unsupported URL|repository is unrelated|authorization (?:failed|required)"
    r"|certificate|Host key verification failed|Permission denied|HTTP Error 4(?!04|08|25|29)\d\d|requires features"
)
# There is no repository; of one that was there before, a disk may be away for a moment.
_NOT_THERE = re.compile(r"not found|HTTP Error 404|No such file or directory")
_MISSING = "hg is not installed, or not in PATH: install Mercurial (Debian's package mercurial, or PyPI's)"
_HEADER = struct.Struct(">cI")


class HgFailed(CommandFailed):
    """An hg command failed."""


class HgNoSpace(HgFailed, NoSpaceError):
    """It failed because the disk is full."""


def find_hg() -> str:
    """The program; RunError if there is none."""
    found = shutil.which("hg")
    if found is None:
        raise RunError(_MISSING)
    return found


@dataclass(frozen=True)
class Hg:
    """Runs hg on a clone of ours (``directory``)."""

    directory: Path
    time_limit: float = NETWORK_SECONDS  # for one command that uses the network
    pauses: tuple[float, ...] = PAUSES  # s; one attempt more than pauses
    sleep: Callable[[float], None] = field(default=time.sleep, repr=False)

    def run(self, *arguments: str, folder: Path | None = None, network: bool = False) -> bytes:
        """Run to the end, in ``folder`` or the clone, and return what it wrote.

        Raises:
            HgFailed: it failed or, using the network, did not end in the time limit.
        """
        with self._started(arguments, folder or self.directory, subprocess.PIPE) as process:
            try:
                output, errors = process.communicate(timeout=self.time_limit if network else None)
            except subprocess.TimeoutExpired:
                raise HgFailed(f"hg {arguments[0]}", f"not done after {self.time_limit:g} s: stopped", -1) from None
        if process.returncode:
            raise self._failure(arguments[0], errors, process.returncode)
        return output

    def insist(self, what: str, action: Callable[[], bytes], between: Callable[[], None], known: bool) -> bytes:
        """Do what uses the network, several times where that may help; ``known``: the remote was there before.

        Raises:
            RemoteGone: the last attempt failed too, or another one could not succeed.
        """

        def may_help(error: BaseException) -> bool:
            if not isinstance(error, HgFailed) or isinstance(error, HgNoSpace):
                return False
            return not _FOR_GOOD.search(error.said) and (known or not _NOT_THERE.search(error.said))

        return insist("hg", what, action, between, may_help, self.pauses, self.sleep)

    @contextmanager
    def serving(self) -> Iterator["CommandServer"]:
        """A process that runs one command after the other: starting one for each takes a tenth of a second."""
        serve = ("serve", "--cmdserver", "pipe")
        with tempfile.TemporaryFile() as errors, self._started(serve, self.directory, errors) as process:
            assert process.stdin
            assert process.stdout
            server = CommandServer(process.stdin, process.stdout)
            try:
                server.begin()
                yield server
            except (EOFError, BrokenPipeError):
                process.wait()
                errors.seek(0)
                raise self._failure("serve", errors.read(), process.returncode) from None

    def _failure(self, command: str, errors: bytes, status: int) -> HgFailed:
        said = one_line(errors)
        if any(words in errors for words in FULL):
            said = f"{said}: free some space for {self.directory.parent}, or {ANOTHER_FOLDER}"
            return HgNoSpace(f"hg {command}", said, status)
        return HgFailed(f"hg {command}", said, status)

    @contextmanager
    def _started(
        self, arguments: Sequence[str], folder: Path, errors: int | IO[bytes]
    ) -> Iterator[subprocess.Popen[bytes]]:
        """The process, in a session of its own, so that nothing can ask on a terminal; it ends with the context."""
        serves = arguments[0] == "serve"
        process = subprocess.Popen(
            [*DIES_WITH_US, find_hg(), "--noninteractive", *arguments],
            cwd=folder,
            env=_environment(),
            stdin=subprocess.PIPE if serves else subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=errors,
            start_new_session=True,
        )
        try:
            yield process
        finally:
            end_session(process)


class CommandServer:
    """Mercurial's command server (wiki.mercurial-scm.org/CommandServer), over its pipes."""

    def __init__(self, requests: IO[bytes], answers: IO[bytes]) -> None:
        self._requests, self._answers = requests, answers

    def begin(self) -> None:
        """Read its greeting."""
        self._frame()

    def run(self, *arguments: bytes) -> bytes:
        """One command's output; HgFailed if it fails, EOFError if the server ends."""
        packed = b"\0".join(arguments)
        self._requests.write(b"runcommand\n" + struct.pack(">I", len(packed)) + packed)
        self._requests.flush()
        output, errors = [], []
        while True:
            channel, data = self._frame()
            if channel == b"o":
                output.append(data)
            elif channel == b"e":
                errors.append(data)
            elif channel == b"r":
                (status,) = struct.unpack(">i", data)
                if status:
                    raise HgFailed(f"hg {os.fsdecode(arguments[0])}", one_line(b"".join(errors)), status)
                return b"".join(output)
            elif channel in (b"I", b"L"):  # it asks for input: there is none
                self._requests.write(struct.pack(">I", 0))
                self._requests.flush()

    def _frame(self) -> tuple[bytes, bytes]:
        channel, length = _HEADER.unpack(self._exactly(_HEADER.size))
        return channel, b"" if channel in (b"I", b"L") else self._exactly(length)

    def _exactly(self, length: int) -> bytes:
        data = self._answers.read(length)
        if len(data) < length:
            raise EOFError
        return data


def _environment() -> dict[str, str]:
    """The user's, as their settings say how remotes are reached; but no aliases, no other language, no questions."""
    kept = {name: value for name, value in os.environ.items() if name not in ("HGPLAINEXCEPT", "HGREVISION", "HG_NODE")}
    return {**kept, "HGPLAIN": "1", "HGENCODING": "UTF-8", "LANGUAGE": "en", "SSH_ASKPASS_REQUIRE": "never"}
