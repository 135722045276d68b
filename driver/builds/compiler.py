"""Compile a native library: run the platform's build script on a work tree, limited in time and space, with a log."""

import logging
import os
import re
import shutil
import signal
import subprocess
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from functools import cached_property
from hashlib import sha256
from pathlib import Path

import psutil

from opduel.driver.builds.framework_data import Platform
from opduel.driver.builds.process import clean_environment, run
from opduel.driver.lock import ANOTHER_FOLDER, held_lock
from opduel.records import BrokenBuildError, Commit, NoSpaceError, RunError
from opduel.support.output import MOST_KEPT, keep_ends, key_line

_LOG_END_BYTES = 2**20  # of a log, in which the reason is looked for
# With these the environment would decide what is compiled, and by which compiler, unknown to the build's identity.
DROPPED_VARIABLES = (
    *("CC", "CXX", "FC", "F77", "F90", "CUDACXX", "CUDAHOSTCXX"),
    *("AR", "LD", "CC_LD", "CXX_LD", "FC_LD", "LDSHARED", "OPT"),
    *("CPPFLAGS", "CFLAGS", "CXXFLAGS", "FFLAGS", "FCFLAGS", "LDFLAGS"),
    *("CUDAFLAGS", "NVCC_PREPEND_FLAGS", "NVCC_APPEND_FLAGS"),
    *("CPATH", "C_INCLUDE_PATH", "CPLUS_INCLUDE_PATH", "LIBRARY_PATH"),
    *("CMAKE_ARGS", "CMAKE_BUILD_TYPE", "CMAKE_TOOLCHAIN_FILE"),
    *("SKBUILD_*", "MESON_*", "NPY_*", "SETUPTOOLS_SCM_PRETEND_VERSION*", "BUILD_COMMANDS"),
)
# These say where libraries lie, which people need; their values are part of the identity.
_HASHED_VARIABLES = ("PKG_CONFIG_PATH", "CMAKE_PREFIX_PATH")
_FULL = re.compile(r"No space left on device|Disk quota exceeded")
_NEXT_TO_NOTHING_BYTES = 2**20  # free after a compile that failed: then the log may lack the reason, too
_PAUSE_S = 0.2
_SPACE_EVERY_S = 5.0
_DYING_S = 10.0  # for killed processes to be gone
_DYING_PAUSE_S = 0.02

log = logging.getLogger(__name__)

# Brings a folder to a commit: (commit, folder).
Checkout = Callable[[Commit, Path], None]


@dataclass(frozen=True)
class Limits:
    """What a compile may take: seconds, free bytes that must stay, jobs at a time, and processors (None: all)."""

    time_s: float
    free_bytes: int
    jobs: int
    processors: frozenset[int] | None = None


@dataclass
class Compiler:
    """Compiles in ``folder``, which it keeps: a work tree, and one build folder for each set of flags.

    These files make the next compile shorter, but are never part of a build. Once ``stopped`` is set, a compile ends,
    and none begins. ``variables`` are further ones for the script, which begins in the work tree's ``subfolder``;
    ``output`` is the name of the one file that it writes, if it doesn't fill the destination.
    """

    folder: Path
    platform: Platform
    flags: tuple[str, ...]
    checkout: Checkout
    stopped: threading.Event
    variables: Mapping[str, str] = field(default_factory=dict)
    subfolder: str = ""
    output: str = ""
    _turn: threading.Lock = field(default_factory=threading.Lock)  # of this process; ``_sole`` is for what others left

    @cached_property
    def toolchain(self) -> tuple[str, ...]:
        """The platform's toolchain."""
        return toolchain_of(self.platform)

    def compile(self, commit: Commit, destination: Path, log_path: Path, limits: Limits) -> None:
        """Leave the commit's library in ``destination``.

        A compile that fails in a build folder that others have used is tried once more in a fresh one; one that fails
        in a fresh one leaves none.

        Raises:
            RunError: it failed, or took more time or space than it may; with the reason in one line and the log's path.
                Or it was stopped.
            NoSpaceError: the disk is full.
            OSError: the folder or the log can't be written.
        """
        if ignored := sorted(name for name, value in os.environ.items() if value and _is_dropped(name)):
            log.warning("%s: ignored when compiling; use --cmake_args instead", ", ".join(ignored))
        self.folder.mkdir(parents=True, exist_ok=True)
        with self._turn, _sole(self.folder) as lock:
            self._raise_if_stopped()
            source, build = self.folder / "src", self._build_folder()
            self.checkout(commit, source)
            while True:
                is_reused = build.exists()
                try:
                    return self._attempt(source, build, destination, log_path, limits, lock)
                except _ScriptFailedError:
                    shutil.rmtree(build)
                    if not is_reused:
                        raise
                    log.warning("%s: compiling failed in a kept build folder; retrying in a fresh one", commit.short)

    def _attempt(self, source: Path, build: Path, destination: Path, log_path: Path, limits: Limits, lock: int) -> None:
        shutil.rmtree(destination, ignore_errors=True)
        destination.mkdir(parents=True)
        build.mkdir(exist_ok=True)
        log_path.parent.mkdir(parents=True, exist_ok=True)
        command = ["nice", "-n", "10", "sh", str(self.platform.script)]
        command += [str(source / self.subfolder), str(destination / self.output), *self.flags]
        self._raise_if_stopped()
        log_path.unlink(missing_ok=True)
        with log_path.open("ab") as stream:  # it can be shortened meanwhile
            process = subprocess.Popen(
                command,
                stdin=subprocess.DEVNULL,
                stdout=stream,
                stderr=subprocess.STDOUT,
                env=self._environment(build, limits),
                start_new_session=True,
                pass_fds=(lock,),
            )
        try:
            if limits.processors:
                with suppress(OSError):  # it may have ended already
                    os.sched_setaffinity(process.pid, limits.processors)
            _note(lock, process.pid)
            code = self._watch(process, build, log_path, limits)
        except BaseException:
            _end_session(process.pid)
            process.wait()
            raise
        if code != 0:
            how = f"exit code {code}" if code > 0 else f"signal {-code}"
            if _FULL.search(_end_of(log_path)) or shutil.disk_usage(build).free < _NEXT_TO_NOTHING_BYTES:
                raise NoSpaceError(f"{build}: the disk is full: free some space, or {ANOTHER_FOLDER}; log: {log_path}")
            reason = key_line(_end_of(log_path)) or "it printed nothing"
            raise _ScriptFailedError(f"{reason}; {self.platform.script.name} ended with {how}, log: {log_path}")
        if not any(destination.iterdir()):
            raise _ScriptFailedError(f"{self.platform.script} left nothing in its destination, log: {log_path}")

    def _watch(self, process: subprocess.Popen[bytes], build: Path, log_path: Path, limits: Limits) -> int:
        """Wait for the end of the script; return its exit code. RunError: the time or the space was used up, or the
        compile was stopped."""
        began = time.monotonic()
        look_at_space = began
        while True:
            try:
                return process.wait(_PAUSE_S)
            except subprocess.TimeoutExpired:
                now = time.monotonic()
            self._raise_if_stopped()
            if log_path.stat().st_size > MOST_KEPT:  # it must not fill the disk: of a very long one the ends stay
                with log_path.open("ab+") as stream:
                    keep_ends(stream.fileno(), MOST_KEPT)
            if now - began > limits.time_s:
                raise RunError(f"compiling took longer than {limits.time_s:g} s (--build_timeout); log: {log_path}")
            if now >= look_at_space:
                look_at_space = now + _SPACE_EVERY_S
                require_space(build, limits.free_bytes)

    def _raise_if_stopped(self) -> None:
        if self.stopped.is_set():
            raise RunError("compiling was stopped")

    def _build_folder(self) -> Path:
        """Return a build folder for this script, these tools and flags alone: CMake remembers its settings.

        What the same flags left under another script or other tools serves nobody any more, and is removed.
        """
        same_flags = f"build-{_short(self.flags)}"
        script = sha256(self.platform.script.read_bytes()).hexdigest()
        folder = self.folder / f"{same_flags}-{_short([script, *self.toolchain])}"
        for other in self.folder.glob(f"{same_flags}*"):
            if other != folder:
                log.info("removing %s: the build script or its tools have changed", other)
                shutil.rmtree(other, ignore_errors=True)
        return folder

    def _environment(self, build: Path, limits: Limits) -> dict[str, str]:
        """Return all that the script gets. ccache knows paths below our folder as relative ones."""
        environment = {name: value for name, value in clean_environment().items() if not _is_dropped(name)}
        environment |= {"BUILD_DIR": str(build), "JOBS": str(limits.jobs), **self.variables}
        if shutil.which("ccache"):
            environment |= {"CCACHE_BASEDIR": str(self.folder), "CCACHE_NOHASHDIR": "1"}
            environment |= {"CCACHE": "" if {"CC", "CXX"} & self.variables.keys() else "ccache"}  # it would choose cc
            environment |= {f"CMAKE_{language}_COMPILER_LAUNCHER": "ccache" for language in ("C", "CXX", "CUDA")}
        return environment


class _ScriptFailedError(BrokenBuildError):
    """The build script failed; the leftovers of an earlier compile may be the reason."""


@contextmanager
def _sole(folder: Path) -> Iterator[int]:
    """Let one compile at a time run in a folder of one driver; end first what outlived its killed driver.

    Yield the descriptor of the lock, which every process of a compile holds, with a note of who leads them.
    """
    with held_lock(folder / ".lock", lambda lock: _end_orphan(os.pread(lock, 100, 0).decode())) as lock:
        os.truncate(lock, 0)
        yield lock


def _note(lock: int, leader: int) -> None:
    """Write down who leads the compile's processes, and since when: numbers of processes are used again.

    Nothing is written where the compile has filled the disk already."""
    with suppress(psutil.NoSuchProcess, OSError):
        os.truncate(lock, 0)
        os.pwrite(lock, f"{leader} {psutil.Process(leader).create_time()}".encode(), 0)


def _end_orphan(note: str) -> None:
    """End the compile of that note, unless its number is another process's by now."""
    with suppress(ValueError):  # a killed driver may not have come to its note
        leader, since = note.split()
        with suppress(psutil.NoSuchProcess):
            if abs(psutil.Process(int(leader)).create_time() - float(since)) >= 1:
                return  # a number is not used again while processes of its session live
        log.warning("ending the compile that a killed driver left behind")
        _end_session(int(leader))


def _is_dropped(variable: str) -> bool:
    return any(fnmatchcase(variable, pattern) for pattern in DROPPED_VARIABLES)


def require_space(folder: Path, free_bytes: int) -> None:
    """Raise NoSpaceError if the disk has less free than must stay."""
    free = shutil.disk_usage(folder).free
    if free < free_bytes:
        raise NoSpaceError(
            f"{folder}: {free / 2**30:.1f} GiB free, less than the {free_bytes / 2**30:.1f} that must stay: free some "
            f"space, or lower --min_free"
        )


def _end_of(log_path: Path) -> str:
    with log_path.open("rb") as stream:
        stream.seek(max(0, log_path.stat().st_size - _LOG_END_BYTES))
        return stream.read().decode(errors="replace")


def _end_session(leader: int) -> None:
    """End all processes of the session that ``leader`` began, whether or not it lives itself.

    Its process group is not enough: Ninja gives each command that it starts a group of its own.
    """
    end = time.monotonic() + _DYING_S
    while (members := _session(leader)) and time.monotonic() < end:
        for member in members:
            with suppress(ProcessLookupError):
                os.kill(member, signal.SIGKILL)
        time.sleep(_DYING_PAUSE_S)  # for one that was being started meanwhile


def _session(leader: int) -> list[int]:
    """Return the living processes of a session."""
    processes = []
    for process in psutil.process_iter():
        with suppress(psutil.Error, ProcessLookupError):
            if os.getsid(process.pid) == leader and process.status() != psutil.STATUS_ZOMBIE:
                processes.append(process.pid)
    return processes


def toolchain_of(platform: Platform) -> tuple[str, ...]:
    """Return what each tool says of its version, and hashes of the set variables that say where libraries lie. Raise
    RunError if a tool is not installed."""
    optional = [tool for tool in platform.optional_tools if shutil.which(tool)]
    versions = (_version(tool) for tool in (*platform.tools, *optional))
    values = {name: os.environ.get(name) for name in _HASHED_VARIABLES}
    return (*versions, *(f"{name}: {_short([value])}" for name, value in values.items() if value))


def _version(tool: str) -> str:
    if shutil.which(tool) is None:
        raise RunError(f"{tool} is not installed, and compiling needs it: install it, or use --build overlay")
    lines = run([tool, "--version"], timeout=60).stdout.splitlines()
    return f"{tool}: {next((line.strip() for line in lines if re.search(r'[0-9][.][0-9]', line)), 'unknown')}"


def _short(flags: Sequence[str]) -> str:
    return sha256("\0".join(flags).encode()).hexdigest()[:10]
