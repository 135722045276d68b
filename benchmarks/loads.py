"""Loads beside a measurement, as machines in use have them: ``with load("bursts"): ...``.

A load runs as long as its context, and its processes end with this one. ``wandering`` imitates a neighbour on the other
thread of the measuring processor: for 0.1 to 3 s all calls of 0.1 ms and more take 1.4 to 2 times as long, and then for
0.1 to 3 s they don't. Quads vary by 4 to 6 % beside it, and by 1 to 2 % without. It needs a real-time priority, and
``swap`` needs root and control groups (version 1).
"""

import contextlib
import ctypes
import os
import random
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path

from opduel.harness.machine.cpus import plan_cpus
from opduel.records import UsageError

QUIET = "quiet"
LOADS = (QUIET, "steady", "bursts", "swap", "wandering")
MEAN_BURST_S = 0.1  # of work, and of rest
SWAP_BYTES, MEMORY_BYTES = 512 << 20, 256 << 20  # that the load touches, and that may stay in memory
MEMORY_CGROUPS = Path("/sys/fs/cgroup/memory")
TURN_S = 0.1, 3.0  # shortest and longest turn, or rest, of a wandering neighbour
SHARE = 0.28, 0.52  # of the measuring processor that it uses in a turn
SHARE_S = 0.003  # mean time with the same share
SLICE_S = 20e-6  # time on the processor before it sleeps, unless waking up takes longer
WAKE_UPS, WAKE_UP_S = 500, 50e-6  # trials of what waking up costs
SETTLE_S = 1.0  # until a load is steady


def _steady() -> None:
    """Compute without pause."""
    while True:
        pass


def _bursts() -> None:
    """Compute and rest in turns of exponentially distributed lengths."""
    rng = random.Random(os.getpid())
    while True:
        end = time.perf_counter() + rng.expovariate(1 / MEAN_BURST_S)
        while time.perf_counter() < end:
            pass
        time.sleep(rng.expovariate(1 / MEAN_BURST_S))


def _swap() -> None:
    """Touch pages in random order, of which the control group's memory holds half."""
    pages = bytearray(SWAP_BYTES)
    rng = random.Random(1)
    while True:
        pages[rng.randrange(SWAP_BYTES)] = 1


def _wandering() -> None:
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
    return float(shortest * (longest / shortest) ** rng.random())


PROGRAMS: dict[str, Callable[[], None]] = {
    "steady": _steady,
    "bursts": _bursts,
    "swap": _swap,
    "wandering": _wandering,
}


@contextlib.contextmanager
def load(name: str) -> Iterator[None]:
    """Run a load: its program, on each processor that of ``bursts``.

    Raises:
        UsageError: this machine can't run it: there is no control group, or no right to a priority.
    """
    with contextlib.ExitStack() as stack:
        if name == QUIET:
            yield
            return
        group = stack.enter_context(_small_memory()) if name == "swap" else ""
        command = [sys.executable, "-m", "benchmarks.loads", name, str(group)]
        root = Path(__file__).resolve().parent.parent
        count = len(os.sched_getaffinity(0)) if name == "bursts" else 1
        processes = [subprocess.Popen(command, cwd=root) for _ in range(count)]
        for process in processes:
            stack.callback(process.wait)
            stack.callback(process.kill)
        time.sleep(SETTLE_S)
        if any(process.poll() is not None for process in processes):
            raise UsageError(f"the load {name} can't run on this machine")
        yield


@contextlib.contextmanager
def _small_memory() -> Iterator[Path]:
    """Make a control group whose processes have little memory, and a swap file for what they use beyond it.

    Raises:
        UsageError: they can't be made on this machine.
    """
    group = MEMORY_CGROUPS / f"opduel-{os.getpid()}"
    with tempfile.TemporaryDirectory() as folder, contextlib.ExitStack() as stack:
        file = Path(folder, "swap")
        try:
            with file.open("wb") as stream:
                os.posix_fallocate(stream.fileno(), 0, 2 * SWAP_BYTES)
            file.chmod(0o600)
            for command in ("mkswap", "swapon"):
                subprocess.run([command, file], capture_output=True, check=True)
            stack.callback(lambda: subprocess.run(["swapoff", file], check=True))
            group.mkdir()
            stack.callback(group.rmdir)
            (group / "memory.limit_in_bytes").write_text(str(MEMORY_BYTES), encoding="ascii")
        except (OSError, subprocess.CalledProcessError) as error:
            raise UsageError(f"the load swap needs root and control groups: {error}") from None
        yield group


def main() -> None:
    """Run a program in a control group, or in none if ``GROUP`` is empty: ``python -m benchmarks.loads NAME GROUP``."""
    name, group = sys.argv[1:]
    ctypes.CDLL(None).prctl(1, signal.SIGKILL)  # PR_SET_PDEATHSIG: this process ends with its parent
    if group:
        Path(group, "cgroup.procs").write_text(str(os.getpid()), encoding="ascii")
    PROGRAMS[name]()


if __name__ == "__main__":
    main()
