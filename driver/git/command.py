"""One git command: unattended, in an environment without surprises, with an end in any case."""

import fcntl
import logging
import os
import re
import shutil
import signal
import subprocess
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO

from tenacity import RetryCallState, Retrying, retry_if_exception, stop_after_attempt

from opduel.driver.git.access import TOKEN_VARIABLE, Access, config_environment
from opduel.driver.git.gitpython import git
from opduel.driver.git.ids import ConvertedIds
from opduel.driver.lock import ANOTHER_FOLDER
from opduel.records import NoSpaceError, RunError, UsageError
from opduel.records.redaction import redact

log = logging.getLogger(__name__)

NETWORK_SECONDS = 3600.0  # for one command that uses the network
PAUSES = (10.0, 60.0)  # seconds between the attempts to fetch
FIRST_PAUSES = (2.0, 8.0)  # between those to clone: somebody is probably watching
# The kernel ends git when the driver is killed (util-linux). Python's preexec_fn could ask for that, too, but would
# copy the whole process for each command, which takes seven times as long, and is not safe beside other threads.
DIES_WITH_US = ["setpriv", "--pdeathsig", "KILL", "--"] if shutil.which("setpriv") else []

# What a git hook or a shell may have set, and would lead git elsewhere (git rev-parse --local-env-vars), or make it
# talk.
_UNWANTED = {
    "GIT_ALTERNATE_OBJECT_DIRECTORIES",
    "GIT_CEILING_DIRECTORIES",
    "GIT_COMMON_DIR",
    "GIT_DIR",
    "GIT_GRAFT_FILE",
    "GIT_IMPLICIT_WORK_TREE",
    "GIT_INDEX_FILE",
    "GIT_INTERNAL_SUPER_PREFIX",
    "GIT_NAMESPACE",
    "GIT_OBJECT_DIRECTORY",
    "GIT_PREFIX",
    "GIT_QUARANTINE_PATH",
    "GIT_REPLACE_REF_BASE",
    "GIT_SHALLOW_FILE",
    "GIT_WORK_TREE",
    TOKEN_VARIABLE,
}
_TALKATIVE = ("GIT_TRACE", "GIT_CURL_VERBOSE")
# What another attempt would not change: the address is wrong, or the access to it.
_FOR_GOOD = re.compile(
    r"transport '[^']*' not allowed|unable to find remote helper|is not a git command|[Uu]nsupported protocol"
    r"|[Pp]rotocol .* not supported|illegal format|URL rejected|Malformed input to a URL|Authentication failed"
    r"|could not read (?:Username|Password)|terminal prompts disabled|Permission denied|Host key verification failed"
    r"|[Aa]ccess denied|certificate|The requested URL returned error: 4(?!04|08|25|29)\d\d"
)
# There is no repository; of one that was there before, a disk may be away for a moment.
_NOT_THERE = re.compile(r"not found\b|does not exist|does not appear to be a git repository|returned error: 404")
FULL = (b"No space left on device", b"Disk quota exceeded")  # where git speaks English
_LONGEST = 400  # characters of one error
_TELLING = ("fatal:", "error:", "remote:", "ERROR:", "abort:")
_BAD_SETTINGS = re.compile(rb"bad [\w ]*config (?:line|variable|value|file)|bogus count in GIT_CONFIG_COUNT")

# The repository is ours alone: no hooks of the user's in it, nothing behind our back, nothing removed that nobody
# names.
_SETTINGS = (
    ("core.hooksPath", "/dev/null"),
    ("core.fsmonitor", "false"),
    ("gc.auto", "0"),
    ("maintenance.auto", "false"),
    ("submodule.recurse", "false"),
    ("fetch.recurseSubmodules", "false"),
    ("fetch.pruneTags", "false"),
)


class CommandFailed(RunError):
    """A command failed. ``said`` is the program's own words, on one line, redacted; ``status`` its exit code."""

    def __init__(self, what: str, said: str, status: int) -> None:
        super().__init__(f"{what}: {said}")
        self.said = said
        self.status = status


class GitFailed(CommandFailed):
    """A git command failed."""


class GitNoSpace(GitFailed, NoSpaceError):
    """It failed because the disk is full."""


class RemoteGone(RunError):
    """What needs the network failed at every attempt."""


@dataclass(frozen=True)
class Git:
    """Runs git on a bare repository (``directory``), or in a folder given with the command.

    ``lock`` is a file that every running command holds a shared lock on, whoever started it: see `wait_for_leftovers`.
    """

    directory: Path
    lock: Path
    askpass: Path
    access: Access = field(default_factory=Access)
    time_limit: float = NETWORK_SECONDS
    ours: bool = True  # False: the user's repository, which is only read
    sleep: Callable[[float], None] = field(default=time.sleep, repr=False)
    pauses: tuple[float, ...] = field(default_factory=lambda: PAUSES)  # s; one attempt more than pauses
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
        """Run to the end, and return what it wrote. Bytes, since a path, a name or a subject may be in any encoding.

        ``fatal``: words that mean a failure, whatever the exit code. ``variables``: further ones for git alone, which
        may say where it finds things.

        Raises:
            GitFailed: it ended with a code not in ``fine``, or, using the network, did not end in the time limit
            (seconds).
            UsageError: objects that are borrowed from the user's repository are no longer there.
        """
        limit = self.time_limit if network else None
        with self._started(arguments, folder, network, stdin is not None, variables or {}) as process:
            try:
                output, errors = process.communicate(stdin, timeout=limit)
            except subprocess.TimeoutExpired:
                raise GitFailed(_name(arguments), f"not done after {limit:g} s: stopped", -1) from None
        if process.returncode not in fine or (fatal and fatal in errors):
            self.fail(arguments, process.returncode, errors)
        return output

    def text(self, *arguments: str, folder: Path | None = None, fine: Sequence[int] = (0,)) -> str:
        """The output as text, without white space around it; what is not UTF-8 as Python keeps it in file names."""
        return os.fsdecode(self.run(*arguments, folder=folder, fine=fine)).strip()

    @contextmanager
    def stream(self, *arguments: str) -> Iterator[IO[bytes]]:
        """The output while it is written. Leaving early stops the command; reading to the end raises as `run` does."""
        with self._started(arguments, None, False, False, {}) as process:
            assert process.stdout
            assert process.stderr
            errors: list[bytes] = []
            reader = threading.Thread(
                target=lambda pipe: errors.append(pipe.read()), args=[process.stderr], daemon=True
            )
            reader.start()
            yield process.stdout
            if not process.stdout.read(1):
                reader.join()
                if process.wait():
                    self.fail(arguments, process.returncode, b"".join(errors))

    def insist(
        self, what: str, action: Callable[[], bytes], between: Callable[[], None] = lambda: None, known: bool = True
    ) -> bytes:
        """Do what uses the network, several times where that may help, with growing pauses; ``between`` clears up after
        a failure. ``known``: the remote was there before.

        Raises:
            RemoteGone: the last attempt failed too, or another one could not succeed.
            GitNoSpace: the disk is full.
        """

        def may_help(error: BaseException) -> bool:
            if not isinstance(error, GitFailed) or isinstance(error, GitNoSpace):
                return False
            return not _FOR_GOOD.search(error.said) and (known or not _NOT_THERE.search(error.said))

        return insist("git", what, action, between, may_help, self.pauses, self.sleep)

    def fail(self, arguments: Sequence[str], status: int, errors: bytes) -> None:
        """Raise what a failed command means: UsageError if borrowed objects are gone or git's settings are broken."""
        if self.ours:
            raise_if_lost(self.directory)
        said = one_line(errors, self.access.secrets)
        if any(words in errors for words in FULL):
            said = f"{said}: free some space for {self.directory.parent}, or {ANOTHER_FOLDER}"
            raise GitNoSpace(_name(arguments), said, status)
        if _BAD_SETTINGS.search(errors):
            raise UsageError(f"git can't read its settings: {said}: correct them")
        raise GitFailed(_name(arguments), said, status)

    @contextmanager
    def _started(
        self, arguments: Sequence[str], folder: Path | None, network: bool, feed: bool, variables: Mapping[str, str]
    ) -> Iterator[subprocess.Popen[bytes]]:
        """The process, in a session of its own; within the context at the latest, it and its children end."""
        where = ["-C", str(folder)] if folder else [f"--git-dir={self.directory}"]
        program = shutil.which(git.Git.GIT_PYTHON_GIT_EXECUTABLE or "git")
        if program is None:
            raise RunError("git is not installed, or not in PATH: install it")
        if self.ids:
            arguments = [self.ids.ours(argument) for argument in arguments]
        command = [*_in_environment(variables), *DIES_WITH_US, program, *where, *arguments]
        environment = {
            "GIT_TERMINAL_PROMPT": "0",
            "LANGUAGE": "en",  # its messages are read, here and by people
            "SSH_ASKPASS_REQUIRE": "never",
            **config_environment(iter((*_SETTINGS, *self.access.config)), os.environ),
            **(self.access.environment(self.askpass) if network else {}),
        }
        with self.lock.open("ab") as lock:
            fcntl.flock(lock, fcntl.LOCK_SH)
            launched = git.Git().execute(
                command,
                env=environment,
                as_process=True,
                istream=subprocess.PIPE if feed else None,
                start_new_session=True,
                pass_fds=(lock.fileno(),),
            )
            assert isinstance(launched, git.Git.AutoInterrupt)
            process = launched.proc
            assert process
            try:
                yield process
            finally:
                end_session(process)
                launched.proc = None  # GitPython has no further part in it


def insist(
    program: str,
    what: str,
    action: Callable[[], bytes],
    between: Callable[[], None],
    may_help: Callable[[BaseException], bool],
    pauses: Sequence[float],
    sleep: Callable[[float], None],
) -> bytes:
    """Do what uses the network once, and after each pause (seconds) once more, as long as that ``may_help``.

    Raises:
        RemoteGone: the last attempt failed too, or another one could not succeed.
        NoSpaceError: the disk is full.
    """
    times = len(pauses) + 1

    def attempt() -> bytes:
        try:
            return action()
        except CommandFailed:
            between()
            raise

    def warn(state: RetryCallState) -> None:
        said = state.outcome.exception().said  # type: ignore[union-attr]
        log.warning("%s: %s failed: %s; retrying in %g s", what, program, said, state.upcoming_sleep)

    try:
        return Retrying(
            retry=retry_if_exception(may_help),
            stop=stop_after_attempt(times),
            wait=lambda state: (*pauses, 0.0)[state.attempt_number - 1],
            before_sleep=warn,
            sleep=sleep,
            reraise=True,
        )(attempt)
    except NoSpaceError:
        raise
    except CommandFailed as error:
        if not may_help(error):
            fix = f"correct the address, or {program}'s access to it"
            raise RemoteGone(f"{what}: {program} said: {error.said}: {fix}") from None
        how = f"failed {times} times; {program}'s last error" if times > 1 else f"{program} said"
        raise RemoteGone(f"{what}: {how}: {error.said}") from None


def wait_for_leftovers(lock: Path, seconds: float = 60.0) -> None:
    """Wait until the commands of a killed predecessor have ended: each holds the file's lock. Not for ever, though."""
    with lock.open("ab") as file:
        end = time.monotonic() + seconds
        while True:
            try:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
                return
            except BlockingIOError:
                if time.monotonic() > end:
                    log.warning("a git command that a killed process started still runs after %g s", seconds)
                    return
                time.sleep(0.1)


def raise_if_lost(repository: Path) -> None:
    """Raises UsageError when a repository borrows objects from a place that is gone."""
    for line in borrowed(repository):
        if not Path(line).is_dir():
            raise UsageError(
                f"{line}: is gone, but {repository} uses its objects: restore it, "
                f"or remove {repository}, which the next start creates again"
            )


def borrowed(repository: Path) -> list[str]:
    """The object folders that a repository borrows from (gitrepository-layout, objects/info/alternates)."""
    objects = repository / "objects"
    try:
        lines = os.fsdecode((objects / "info" / "alternates").read_bytes()).splitlines()
    except FileNotFoundError:
        return []
    return [os.path.normpath(objects / line) for line in lines if line and not line.startswith("#")]


def one_line(stderr: bytes, secrets: Iterable[str] = ()) -> str:
    """What git or hg said, redacted: its errors and the server's words if there are any, else all of it; "nothing" if
    nothing."""
    lines = [line.strip() for line in re.split(r"[\r\n]+", stderr.decode("utf-8", "replace"))]
    telling = [line for line in lines if line.startswith(_TELLING)] or lines
    said = redact("; ".join(dict.fromkeys(line for line in telling if line)), secrets)
    said = "".join(character if character.isprintable() else "?" for character in said)
    if len(said) > _LONGEST:
        said = said[: _LONGEST // 2] + " ... " + said[-_LONGEST // 2 :]
    return said or "nothing"


def _in_environment(variables: Mapping[str, str]) -> list[str]:
    """A prefix that takes the unwanted variables away, if there are any, and then sets others: GitPython can only add
    some, and these may be among the unwanted."""
    present = [name for name in os.environ if name in _UNWANTED or name.startswith(_TALKATIVE)]
    unset = [part for name in sorted(present) for part in ("-u", name)]
    assigned = [f"{name}={value}" for name, value in variables.items()]
    return ["env", *unset, *assigned] if unset or assigned else []


def _name(arguments: Sequence[str]) -> str:
    return "git " + next((argument for argument in arguments if not argument.startswith("-")), "")


def end_session(process: subprocess.Popen[bytes]) -> None:
    """End the whole session of a command that still runs, and wait for it."""
    if process.poll() is None:
        with suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
    for pipe in (process.stdin, process.stdout, process.stderr):
        if pipe:
            with suppress(OSError):
                pipe.close()
    process.wait()
