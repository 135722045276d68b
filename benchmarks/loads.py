"""Loads of seven kinds beside a measurement: what a machine that people use does to it.

``with load("bursts"):`` the load is there from before the first statement until after the last. Whatever a load starts
ends with it, and ends with this process.

``wandering`` is a neighbour on the measuring processor's other thread: for 0.1 to 3 s calls of 0.1 ms and more take
1.4 to 2 times as long, all of them, and then for 0.1 to 3 s they don't. Quads of blocks of a millisecond vary by 4 to
6 % beside it, where they vary by 1 to 2 % without. It needs the right to a real-time priority.
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

from opduel.harness.cpus import plan_cpus
from opduel.records import UsageError

QUIET = "quiet"
MEAN_BURST_S = 0.1  # of work, and of rest: busy for half of the time
HOG_BYTES = 256 << 20  # copied over and over: more than any cache holds
LIMIT = 1.5  # processors that the container gets
PERIOD_US = 100_000  # the kernel's own default
SWAP_BYTES, KEPT_BYTES = 512 << 20, 256 << 20  # what the load touches over and over, and what of it may stay in memory
CPU_CGROUPS, MEMORY_CGROUPS = Path("/sys/fs/cgroup/cpu"), Path("/sys/fs/cgroup/memory")
TURN_S = 0.1, 3.0  # of a wandering neighbour's turns and rests
SHARE = 0.28, 0.52  # of the measuring processor, which it takes in a turn: 40 % in the mean
SHARE_S = 0.003  # for which it takes the same share, in the mean
SLICE_S = 20e-6  # for which it takes the processor at a time, or longer if waking up takes longer
WAKE_UPS, WAKE_UP_S = 500, 50e-6  # that are tried, to know what it takes to wake up
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


def wandering() -> None:
    """Takes turns on the measuring processor, in slices of 20 us and more before which everything else has to wait.

    On a virtual machine waking up costs the processor more than such a slice: what it costs is measured first, and only
    the rest of a slice is work.
    """
    os.sched_setaffinity(0, plan_cpus(1).measure)
    os.sched_setscheduler(0, os.SCHED_FIFO, os.sched_param(1))
    rng, clock = random.Random(os.getpid()), time.perf_counter
    began, used_s = clock(), time.thread_time()
    for _ in range(WAKE_UPS):
        time.sleep(WAKE_UP_S)
    own_s = (time.thread_time() - used_s) / WAKE_UPS
    woken_s = own_s + (clock() - began) / WAKE_UPS - WAKE_UP_S
    work_s = max(0.0, SLICE_S - woken_s)
    while True:
        now = redraw = clock()
        ends = now + _turn_s(rng)
        while now < ends:
            if now >= redraw:
                redraw = now + rng.expovariate(1 / SHARE_S)
                sleep_s = own_s + (work_s + woken_s) * (1 / rng.uniform(*SHARE) - 1)
            while work_s and clock() < now + work_s:
                pass
            time.sleep(sleep_s)
            now = clock()
        time.sleep(_turn_s(rng))


def _turn_s(rng: random.Random) -> float:
    shortest, longest = TURN_S
    return shortest * (longest / shortest) ** rng.random()


PROGRAMS: dict[str, Callable[[], None]] = {
    one.__name__: one for one in (steady, bursts, memory, compiling, swapping, wandering)
}


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
    "wandering": _programs("wandering"),
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
