"""Loads of six kinds beside a measurement: what a machine that people use does to it.

``with load("bursts"):`` the load is there from before the first statement until after the last. Whatever a load starts
ends with it, and ends with this process.
"""

import contextlib
import ctypes
import os
import random
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

from opduel.records import UsageError

QUIET = "quiet"
MEAN_BURST_S = 0.1  # of work, and of rest: busy for half of the time
HOG_BYTES = 256 << 20  # copied over and over: more than any cache holds
LIMIT = 1.5  # processors that the container gets
PERIOD_US = 100_000  # the kernel's own default
SWAP_BYTES, KEPT_BYTES = 512 << 20, 256 << 20  # what the load touches over and over, and what of it may stay in memory
CPU_CGROUPS, MEMORY_CGROUPS = Path("/sys/fs/cgroup/cpu"), Path("/sys/fs/cgroup/memory")
SETTLE_S = 1.0  # until a load is what it will be
SOURCE = """#include <algorithm>
#include <map>
#include <regex>
#include <string>
#include <vector>
template <int N> struct Table { static int sum(const std::vector<int>& v) {
  std::map<std::string, int> found; for (int x : v) found[std::to_string(x % N)] += x;
  std::regex digits("[0-9]+"); int s = 0; for (auto& [k, n] : found) if (std::regex_match(k, digits)) s += n;
  return s + Table<N - 1>::sum(v); } };
template <> struct Table<0> { static int sum(const std::vector<int>& v) { return v.size(); } };
int main() { std::vector<int> v(100); return Table<40>::sum(v); }
"""


def steady() -> None:
    """One process that computes without pause."""
    while True:
        pass


def bursts() -> None:
    """Work and rest in turns, each of a length drawn from an exponential distribution."""
    rng = random.Random(os.getpid())
    while True:
        ends = time.perf_counter() + rng.expovariate(1 / MEAN_BURST_S)
        while time.perf_counter() < ends:
            pass
        time.sleep(rng.expovariate(1 / MEAN_BURST_S))


def memory() -> None:
    """Copies between two arrays that no cache holds."""
    source, target = bytearray(b"\1") * HOG_BYTES, bytearray(HOG_BYTES)
    view = memoryview(target)
    while True:
        view[:] = source


def compiling() -> None:
    """One compilation of C++ after the other, as one of make's jobs."""
    with tempfile.TemporaryDirectory(dir=os.environ["OPDUEL_LOAD_FOLDER"]) as folder:
        source = Path(folder, "table.cc")
        source.write_text(SOURCE, encoding="utf-8")
        while True:
            subprocess.run(["c++", "-std=c++17", "-O2", "-c", "-o", f"{folder}/table.o", str(source)], check=True)


def swapping() -> None:
    """Touches pages in random order, of which the container's memory holds half."""
    pages = bytearray(SWAP_BYTES)
    rng = random.Random(1)
    while True:
        pages[rng.randrange(SWAP_BYTES)] = 1


PROGRAMS: dict[str, Callable[[], None]] = {one.__name__: one for one in (steady, bursts, memory, compiling, swapping)}


@contextlib.contextmanager
def _running(programs: Sequence[str], joins: Path | None = None) -> Iterator[None]:
    """The programs, each in a process group of its own. ``joins``: a control group that they run in."""
    with tempfile.TemporaryDirectory() as folder:
        environment = {**os.environ, "OPDUEL_LOAD_FOLDER": folder}
        command = [sys.executable, "-m", "benchmarks.loads"]
        root = Path(__file__).resolve().parent.parent
        started = [
            subprocess.Popen([*command, one, str(joins or "")], env=environment, cwd=root, start_new_session=True)
            for one in programs
        ]
        try:
            time.sleep(SETTLE_S)
            if any(one.poll() is not None for one in started):
                raise UsageError(f"the load {programs[0]} can't run on this machine")
            yield
        finally:
            for one in started:
                with contextlib.suppress(ProcessLookupError):
                    os.killpg(one.pid, signal.SIGKILL)
                one.wait()


@contextlib.contextmanager
def _control_group(parent: Path, settings: dict[str, str]) -> Iterator[Path]:
    """A control group (version 1) below ``parent``. Raises UsageError: it can't be made here."""
    group = parent / f"opduel-{os.getpid()}"
    try:
        group.mkdir()
        for name, value in settings.items():
            (group / name).write_text(value, encoding="ascii")
    except OSError as error:
        with contextlib.suppress(OSError):
            group.rmdir()
        raise UsageError(f"{error.filename}: {error.strerror}: this load needs root and control groups") from None
    try:
        yield group
    finally:
        _empty(group)
        group.rmdir()


def _empty(group: Path) -> None:
    """Wait until its processes have ended; this one goes back to the group above."""
    (group.parent / "cgroup.procs").write_text(str(os.getpid()), encoding="ascii")
    for _ in range(100):
        if not (group / "cgroup.procs").read_text(encoding="ascii").split():
            return
        time.sleep(0.05)


@contextlib.contextmanager
def _limited() -> Iterator[None]:
    """This process, and all that it starts, get 1.5 processors, as a container with that limit."""
    limits = {"cpu.cfs_period_us": str(PERIOD_US), "cpu.cfs_quota_us": str(round(LIMIT * PERIOD_US))}
    with _control_group(CPU_CGROUPS, limits) as group:
        (group / "cgroup.procs").write_text(str(os.getpid()), encoding="ascii")
        yield


@contextlib.contextmanager
def _swap() -> Iterator[None]:
    """A process whose memory doesn't hold what it touches, and a swap file for the rest."""
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder, "swap")
        with file.open("wb") as stream:
            os.posix_fallocate(stream.fileno(), 0, 2 * SWAP_BYTES)
        file.chmod(0o600)
        for command in ("mkswap", "swapon"):
            if shutil.which(command) is None or subprocess.run([command, file], capture_output=True).returncode:
                raise UsageError(f"{command} failed: the load swap needs root")
        try:
            with (
                _control_group(MEMORY_CGROUPS, {"memory.limit_in_bytes": str(KEPT_BYTES)}) as group,
                _running(["swapping"], group),
            ):
                yield
        finally:
            subprocess.run(["swapoff", file], check=True)


def _programs(name: str, of_each_processor: bool = False) -> Callable[[], contextlib.AbstractContextManager[None]]:
    return lambda: _running([name] * (len(os.sched_getaffinity(0)) if of_each_processor else 1))


LOADS: dict[str, Callable[[], contextlib.AbstractContextManager[None]]] = {
    QUIET: contextlib.nullcontext,
    "steady": _programs("steady"),
    "bursts": _programs("bursts", of_each_processor=True),
    "memory": _programs("memory"),
    "compile": _programs("compiling", of_each_processor=True),
    "limited": _limited,
    "swap": _swap,
}


def load(name: str) -> contextlib.AbstractContextManager[None]:
    """The load of this name, for as long as the context lasts.

    Raises:
        UsageError: this machine can't bear it: no compiler, no control groups, no right to them.
    """
    return LOADS[name]()


def main() -> None:
    """One of the programs: ``python -m benchmarks.loads NAME GROUP``."""
    name, group = sys.argv[1:]
    ctypes.CDLL(None).prctl(1, signal.SIGKILL)  # PR_SET_PDEATHSIG: it ends with whoever started it
    if group:
        Path(group, "cgroup.procs").write_text(str(os.getpid()), encoding="ascii")
    PROGRAMS[name]()


if __name__ == "__main__":
    main()
