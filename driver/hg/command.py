"""Run hg unattended, with an end in any case; and a command server, for thousands of commands."""

import os
import re
import shutil
import struct
import subprocess
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import IO

from opduel.driver.version_control import CommandFailed, Program, end_session, error_words
from opduel.records import RunError

# What another attempt would not change: the address is wrong, or the access to it. Mercurial's own words.
_PERMANENT = re.compile(
    r"does not appear to be an hg repository|unsupported URL|repository is unrelated|authorization (?:failed|required)"
    r"|certificate|Host key verification failed|Permission denied|HTTP Error 4(?!04|08|25|29)\d\d|requires features"
)
# There is no repository; of one that was there before, a disk may be away for a moment.
_NOT_THERE = re.compile(r"not found|HTTP Error 404|No such file or directory")
_MISSING = "hg is not installed, or not in PATH: install Mercurial (Debian's package mercurial, or PyPI's)"
_HEADER = struct.Struct(">cI")


def find_hg() -> str:
    """Return the program's path; RunError if there is none."""
    program = shutil.which("hg")
    if program is None:
        raise RunError(_MISSING)
    return program


class Hg(Program):
    """Runs hg on a clone of ours (``directory``)."""

    name = "hg"
    permanent = _PERMANENT
    not_there = _NOT_THERE

    def run(self, *arguments: str, folder: Path | None = None, network: bool = False) -> bytes:
        """Run to the end, in ``folder`` or the clone, and return what it wrote. CommandFailed: it failed or, using the
        network, did not end in the time limit."""
        with self._started(arguments, folder or self.directory, subprocess.PIPE) as process:
            output, errors = self.communicate(process, arguments[0], network=network)
        if process.returncode:
            raise self.failure(arguments[0], errors, process.returncode)
        return output

    @contextmanager
    def serving(self) -> Iterator["CommandServer"]:
        """Start a process that runs one command after the other: one for each would take a tenth of a second."""
        serve = ("serve", "--cmdserver", "pipe")
        with tempfile.TemporaryFile() as errors, self._started(serve, self.directory, errors) as process:
            assert process.stdin
            assert process.stdout
            server = CommandServer(process.stdin, process.stdout)
            try:
                server.read_frame()  # its greeting
                yield server
            except (EOFError, BrokenPipeError):
                process.wait()
                errors.seek(0)
                raise self.failure("serve", errors.read(), process.returncode) from None

    @contextmanager
    def _started(
        self, arguments: Sequence[str], folder: Path, errors: int | IO[bytes]
    ) -> Iterator[subprocess.Popen[bytes]]:
        """Start a process in a session of its own, so that nothing can ask on a terminal; it ends with the context."""
        serves = arguments[0] == "serve"
        process = subprocess.Popen(
            [find_hg(), "--noninteractive", *arguments],
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


@dataclass(frozen=True)
class CommandServer:
    """Mercurial's command server (wiki.mercurial-scm.org/CommandServer), over its pipes."""

    _requests: IO[bytes]
    _answers: IO[bytes]

    def run(self, *arguments: bytes) -> bytes:
        """Run one command and return its output; CommandFailed if it fails, EOFError if the server ends."""
        packed = b"\0".join(arguments)
        self._requests.write(b"runcommand\n" + struct.pack(">I", len(packed)) + packed)
        self._requests.flush()
        output, errors = [], []
        while True:
            channel, data = self.read_frame()
            if channel == b"o":
                output.append(data)
            elif channel == b"e":
                errors.append(data)
            elif channel == b"r":
                (status,) = struct.unpack(">i", data)
                if status:
                    raise CommandFailed(f"hg {os.fsdecode(arguments[0])}", error_words(b"".join(errors)), status)
                return b"".join(output)
            elif channel in (b"I", b"L"):  # it asks for input: there is none
                self._requests.write(struct.pack(">I", 0))
                self._requests.flush()

    def read_frame(self) -> tuple[bytes, bytes]:
        """Return what the server writes next: the channel, and the data. EOFError: it has ended."""
        channel, length = _HEADER.unpack(self._exactly(_HEADER.size))
        return channel, b"" if channel in (b"I", b"L") else self._exactly(length)

    def _exactly(self, length: int) -> bytes:
        data = self._answers.read(length)
        if len(data) < length:
            raise EOFError
        return data


def _environment() -> dict[str, str]:
    """Return the user's environment, which says how remotes are reached, without aliases and other languages."""
    unwanted = ("HGPLAINEXCEPT", "HGREVISION", "HG_NODE")
    inherited = {name: value for name, value in os.environ.items() if name not in unwanted}
    return {**inherited, "HGPLAIN": "1", "HGENCODING": "UTF-8", "LANGUAGE": "en", "SSH_ASKPASS_REQUIRE": "never"}
