"""Run git unattended, by GitPython: without prompts, and with an end in any case."""

import fcntl
import logging
import os
import re
import subprocess
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from opduel.driver.git.access import Access
from opduel.driver.git.borrowing import check_borrowed
from opduel.driver.git.gitpython import git
from opduel.driver.git.ids import ConvertedIds
from opduel.driver.lock import try_lock
from opduel.driver.version_control import CommandFailed, Program, end_session
from opduel.records import RunError, UsageError

log = logging.getLogger(__name__)

# What another attempt would not change: the address is wrong, or the access to it.
_PERMANENT = re.compile(
    r"transport '[^']*' not allowed|unable to find remote helper|is not a git command|[Uu]nsupported protocol"
    r"|[Pp]rotocol .* not supported|illegal format|URL rejected|Malformed input to a URL|Authentication failed"
    r"|could not read (?:Username|Password)|terminal prompts disabled|Permission denied|Host key verification failed"
    r"|[Aa]ccess denied|certificate|The requested URL returned error: 4(?!04|08|25|29)\d\d"
)
# There is no repository; of one that was there before, a disk may be away for a moment.
_NOT_THERE = re.compile(r"not found\b|does not exist|does not appear to be a git repository|returned error: 404")
_BAD_SETTINGS = re.compile(rb"bad [\w ]*config (?:line|variable|value|file)|bogus count in GIT_CONFIG_COUNT")

# The repository is ours alone: no hooks of the user's in it, nothing behind our back, nothing removed that nobody
# names. A remote is no descriptor of ours ("fd::7"), and one that falls silent is given up.
_SETTINGS = (
    ("core.hooksPath", "/dev/null"),
    ("core.fsmonitor", "false"),
    ("gc.auto", "0"),
    ("maintenance.auto", "false"),
    ("submodule.recurse", "false"),
    ("fetch.recurseSubmodules", "false"),
    ("fetch.pruneTags", "false"),
    ("protocol.fd.allow", "never"),
    ("http.lowSpeedLimit", "1"),
    ("http.lowSpeedTime", "600"),
)


@dataclass(frozen=True)
class Git(Program):
    """Runs git on a bare repository (``directory``), or in a folder given with the command.

    ``lock`` is a file that every running command holds a shared lock on, whoever started it (`wait_for_leftovers`).
    """

    name = "git"
    permanent = _PERMANENT
    not_there = _NOT_THERE

    lock: Path
    access: Access = field(default_factory=Access)
    ours: bool = True  # False: the user's repository, which is only read
    ids: ConvertedIds | None = None  # where commits are known by other ids: a command may be given those

    def run(
        self,
        *arguments: str,
        folder: Path | None = None,
        network: bool = False,
        stdin: bytes | None = None,
        fine: Sequence[int] = (0,),
        fatal: bytes | None = None,
        variables: Mapping[str, str] | None = None,
    ) -> bytes:
        """Run to the end, and return the output: bytes, since a path, a name or a subject may be in any encoding.

        ``fine``: exit codes that are no failure. ``fatal``: words that mean one, whatever the exit code. ``variables``:
        further ones for git alone, which may say where it finds things. CommandFailed: it failed or, using the network,
        did not end in the time limit; UsageError: objects that are borrowed from the user's repository are no longer
        there.
        """
        with self._started(arguments, folder, network, stdin is not None, variables or {}) as process:
            output, errors = self.communicate(process, _name(arguments), stdin, network)
        if process.returncode not in fine or (fatal and fatal in errors):
            raise self._git_failure(arguments, process.returncode, errors)
        return output

    def text(self, *arguments: str, folder: Path | None = None, fine: Sequence[int] = (0,)) -> str:
        """Return the output as text, without white space around it; what is not UTF-8 as Python has it in file
        names."""
        return os.fsdecode(self.run(*arguments, folder=folder, fine=fine)).strip()

    def _git_failure(self, arguments: Sequence[str], status: int, errors: bytes) -> CommandFailed:
        """Return the error of a failed command; UsageError if borrowed objects are gone or git's settings broken."""
        if self.ours:
            check_borrowed(self.directory)
        failure = self.failure(_name(arguments), errors, status, self.access.secrets)
        if _BAD_SETTINGS.search(errors):
            raise UsageError(f"git can't read its settings: {failure.reason}: correct them")
        return failure

    @contextmanager
    def _started(
        self,
        arguments: Sequence[str],
        folder: Path | None,
        network: bool,
        has_input: bool,
        variables: Mapping[str, str],
    ) -> Iterator[subprocess.Popen[bytes]]:
        """Start a command in a session of its own, which can't ask on a terminal and ends with the context."""
        if self.ids:
            arguments = [self.ids.ours(argument) for argument in arguments]
        # No working directory: GitPython would run the command in another one if that is gone.
        place = ["-C", str(folder)] if folder else [f"--git-dir={self.directory}"]
        environment = {
            "GIT_TERMINAL_PROMPT": "0",
            "SSH_ASKPASS_REQUIRE": "never",
            **self.access.environment(network, _SETTINGS),
            **variables,
        }
        with self.lock.open("ab") as lock:
            fcntl.flock(lock, fcntl.LOCK_SH)
            try:
                command = git.Git().execute(
                    ["git", *place, *arguments],
                    istream=subprocess.PIPE if has_input else None,
                    as_process=True,
                    env=environment,
                    start_new_session=True,
                    pass_fds=(lock.fileno(),),
                )
            except git.GitCommandNotFound:
                raise RunError("git is not installed, or not in PATH: install it") from None
            process = command.proc
            assert process
            try:
                yield process
            finally:
                end_session(process)


def wait_for_leftovers(lock: Path, seconds: float = 60.0) -> None:
    """Wait until the commands of a killed predecessor have ended (each holds the file's lock), but not for ever."""
    with lock.open("ab") as file:
        end = time.monotonic() + seconds
        while not try_lock(file.fileno()):
            if time.monotonic() > end:
                log.warning("a git command that a killed process started still runs after %g s", seconds)
                return
            time.sleep(0.1)


def _name(arguments: Sequence[str]) -> str:
    return next((argument for argument in arguments if not argument.startswith("-")), "")
