"""Loads beside a measurement, as machines in use have them: ``with load("bursts"): ...``.

A load runs as long as its context, and its processes end with this one. ``wandering`` imitates a neighbour on the other
thread of the measuring processor: for 0.1 to 3 s all calls of 0.1 ms and more take 1.4 to 2 times as long, and then for
0.1 to 3 s they don't. Quads vary by 4 to 6 % beside it, and by 1 to 2 % without. It needs a real-time priority.
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

from opduel.harness.machine.cpus import plan_cpus
from opduel.records import UsageError

QUIET = "quiet"
MEAN_BURST_S = 0.1  # of work, and of rest
COPIED_BYTES = 256 << 20  # more than any cache holds
LIMIT = 1.5  # processors of the control group
PERIOD_US = 100_000  # the kernel's default
SWAP_BYTES, MEMORY_BYTES = 512 << 20, 256 << 20  # that the load touches, and that may stay in memory
CPU_CGROUPS, MEMORY_CGROUPS = Path("/sys/fs/cgroup/cpu"), Path("/sys/fs/cgroup/memory")
TURN_S = 0.1, 3.0  # shortest and longest turn, or rest, of a wandering neighbour
SHARE = 0.28, 0.52  # of the measuring processor that it uses in a turn
SHARE_S = 0.003  # mean time with the same share
SLICE_S = 20e-6  # time on the processor before it sleeps, unless waking up takes longer
WAKE_UPS, WAKE_UP_S = 500, 50e-6  # trials of what waking up costs
SETTLE_S = 1.0  # until a load is steady
SOURCE = """#include <algorithm>
#include <map>
#include <regex>
#include <string>
#include <vector>
template <int N> struct Table { static int sum(const std::vector<int>& v) {
  std::map<std::string, int> sums; for (int x : v) sums[std::to_string(x % N)] += x;
  std::regex digits("[0-9]+"); int s = 0; for (auto& [k, n] : sums) if (std::regex_match(k, digits)) s += n;
  return s + Table<N - 1>::sum(v); } };
template <> struct Table<0> { static int sum(const std::vector<int>& v) { return v.size(); } };
int main() { std::vector<int> v(100); return Table<40>::sum(v); }
"""


def steady() -> None:
    """Compute without pause."""
    while True:
        pass


def bursts() -> None:
    """Compute and rest in turns of exponentially distributed lengths."""
    rng = random.Random(os.getpid())
    while True:
        end = time.perf_counter() + rng.expovariate(1 / MEAN_BURST_S)
        while time.perf_counter() < end:
            pass
        time.sleep(rng.expovariate(1 / MEAN_BURST_S))


def memory() -> None:
    """Copy between two arrays that no cache holds."""
    source, target = bytearray(b"\1") * COPIED_BYTES, bytearray(COPIED_BYTES)
    view = memoryview(target)
    while True:
        view[:] = source


def compiling() -> None:
    """Compile C++ again and again, like a job of make."""
    with tempfile.TemporaryDirectory(dir=os.environ["OPDUEL_LOAD_FOLDER"]) as folder:
        source = Path(folder, "table.cc")
        source.write_text(SOURCE, encoding="utf-8")
        while True:
            subprocess.run(["c++", "-std=c++17", "-O2", "-c", "-o", f"{folder}/table.o", str(source)], check=True)


def swapping() -> None:
    """Touch pages in random order, of which the control group's memory holds half."""
    pages = bytearray(SWAP_BYTES)
    rng = random.Random(1)
    while True:
        pages[rng.randrange(SWAP_BYTES)] = 1


def wandering() -> None:
    """Take turns on the measuring processor, in slices of 20 us and more that preempt everything else.

    On a virtual machine waking up takes longer than such a slice. So its time is measured first, and a slice computes
    for the remaining time only.
    """
    os.sched_setaffinity(0, plan_cpus(1).measure)
    os.sched_setscheduler(0, os.SCHED_FIFO, os.sched_param(1))
    rng, clock = random.Random(os.getpid()), time.perf_counter
    start, used_s = clock(), time.thread_time()
    for _ in range(WAKE_UPS):
        time.sleep(WAKE_UP_S)
    own_s = (time.thread_time() - used_s) / WAKE_UPS
    wake_up_s = own_s + (clock() - start) / WAKE_UPS - WAKE_UP_S
    work_s = max(0.0, SLICE_S - wake_up_s)
    while True:
        now = redraw = clock()
        end = now + _turn_s(rng)
        while now < end:
            if now >= redraw:
                redraw = now + rng.expovariate(1 / SHARE_S)
                sleep_s = own_s + (work_s + wake_up_s) * (1 / rng.uniform(*SHARE) - 1)
            while work_s and clock() < now + work_s:
                pass
            time.sleep(sleep_s)
            now = clock()
        time.sleep(_turn_s(rng))


def _turn_s(rng: random.Random) -> float:
    shortest, longest = TURN_S
    return shortest * (longest / shortest) ** rng.random()


PROGRAMS: dict[str, Callable[[], None]] = {
    program.__name__: program for program in (steady, bursts, memory, compiling, swapping, wandering)
}


@contextlib.contextmanager
def _running(programs: Sequence[str], control_group: Path | None = None) -> Iterator[None]:
    """Run the programs, each in its own process group, in the control group if there is one."""
    with tempfile.TemporaryDirectory() as folder:
        environment = {**os.environ, "OPDUEL_LOAD_FOLDER": folder}
        command = [sys.executable, "-m", "benchmarks.loads"]
        root = Path(__file__).resolve().parent.parent
        processes = [
            subprocess.Popen(
                [*command, program, str(control_group or "")], env=environment, cwd=root, start_new_session=True
            )
            for program in programs
        ]
        try:
            time.sleep(SETTLE_S)
            if any(process.poll() is not None for process in processes):
                raise UsageError(f"the load {programs[0]} can't run on this machine")
            yield
        finally:
            for process in processes:
                with contextlib.suppress(ProcessLookupError):
                    os.killpg(process.pid, signal.SIGKILL)
                process.wait()


@contextlib.contextmanager
def _control_group(parent: Path, settings: dict[str, str]) -> Iterator[Path]:
    """Make a control group (version 1) below ``parent``, and remove it.

    Raises:
        UsageError: it can't be made on this machine.
    """
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
    """Move this process to the group above, and wait until all others have ended."""
    (group.parent / "cgroup.procs").write_text(str(os.getpid()), encoding="ascii")
    for _ in range(100):
        if not (group / "cgroup.procs").read_text(encoding="ascii").split():
            return
        time.sleep(0.05)


@contextlib.contextmanager
def _limited() -> Iterator[None]:
    """Limit this process, and all that it starts, to 1.5 processors, as a container does."""
    limits = {"cpu.cfs_period_us": str(PERIOD_US), "cpu.cfs_quota_us": str(round(LIMIT * PERIOD_US))}
    with _control_group(CPU_CGROUPS, limits) as group:
        (group / "cgroup.procs").write_text(str(os.getpid()), encoding="ascii")
        yield


@contextlib.contextmanager
def _swap() -> Iterator[None]:
    """Run a process that touches more memory than it has, beside a swap file for the difference."""
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
                _control_group(MEMORY_CGROUPS, {"memory.limit_in_bytes": str(MEMORY_BYTES)}) as group,
                _running(["swapping"], group),
            ):
                yield
        finally:
            subprocess.run(["swapoff", file], check=True)


def _programs(name: str, on_each_processor: bool = False) -> Callable[[], contextlib.AbstractContextManager[None]]:
    return lambda: _running([name] * (len(os.sched_getaffinity(0)) if on_each_processor else 1))


LOADS: dict[str, Callable[[], contextlib.AbstractContextManager[None]]] = {
    QUIET: contextlib.nullcontext,
    "steady": _programs("steady"),
    "bursts": _programs("bursts", on_each_processor=True),
    "memory": _programs("memory"),
    "compile": _programs("compiling", on_each_processor=True),
    "limited": _limited,
    "swap": _swap,
    "wandering": _programs("wandering"),
}


def load(name: str) -> contextlib.AbstractContextManager[None]:
    """Return the context of a load.

    Raises:
        UsageError: this machine can't run it: there is no compiler, no control group, or no right to them.
    """
    return LOADS[name]()


def main() -> None:
    """Run a program in a control group, or in none if ``GROUP`` is empty: ``python -m benchmarks.loads NAME GROUP``."""
    name, group = sys.argv[1:]
    ctypes.CDLL(None).prctl(1, signal.SIGKILL)  # PR_SET_PDEATHSIG: this process ends with its parent
    if group:
        Path(group, "cgroup.procs").write_text(str(os.getpid()), encoding="ascii")
    PROGRAMS[name]()


if __name__ == "__main__":
    main()
