"""Loads beside a measurement, as machines in use have them: ``with load("bursts"): ...``.

A load runs as long as its context, and its processes end with this one. ``wandering`` imitates a neighbour on the other
thread of the measuring processor: for 0.1 to 3 s all calls of 0.1 ms and more take 1.4 to 2 times as long, and then for
0.1 to 3 s they don't. Quads vary by 4 to 6 % beside it, and by 1 to 2 % without. It needs a real-time priority.
"""

import contextlib
import ctypes
import os
import random
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

from opduel.harness.machine.cpus import plan_cpus
from opduel.records import UsageError

ROOT = Path(__file__).resolve().parent.parent
QUIET = "quiet"
LOADS = (QUIET, "bursts", "wandering")
MEAN_BURST_S = 0.1  # of work, and of rest
TURN_S = 0.1, 3.0  # shortest and longest turn, or rest, of a wandering neighbour
SHARE = 0.28, 0.52  # of the measuring processor that it uses in a turn
SHARE_S = 0.003  # mean time with the same share
SLICE_S = 20e-6  # time on the processor before it sleeps, unless waking up takes longer
WAKE_UPS, WAKE_UP_S = 500, 50e-6  # trials of what waking up costs
SETTLE_S = 1.0  # until a load is steady


def _bursts() -> None:
    """Compute and rest in turns of exponentially distributed lengths."""
    rng = random.Random(os.getpid())
    while True:
        end = time.perf_counter() + rng.expovariate(1 / MEAN_BURST_S)
        while time.perf_counter() < end:
            pass
        time.sleep(rng.expovariate(1 / MEAN_BURST_S))


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


PROGRAMS: dict[str, Callable[[], None]] = {"bursts": _bursts, "wandering": _wandering}


@contextlib.contextmanager
def load(name: str) -> Iterator[None]:
    """Run a load: its program, on each processor that of ``bursts``.

    Raises:
        UsageError: this machine can't run it: there is no right to a priority.
    """
    with contextlib.ExitStack() as stack:
        if name != QUIET:
            command = [sys.executable, "-m", "benchmarks.loads", name]
            count = len(os.sched_getaffinity(0)) if name == "bursts" else 1
            processes = [subprocess.Popen(command, cwd=ROOT) for _ in range(count)]
            for process in processes:
                stack.callback(process.wait)
                stack.callback(process.kill)
            time.sleep(SETTLE_S)
            if any(process.poll() is not None for process in processes):
                raise UsageError(f"the load {name} can't run on this machine")
        yield


if __name__ == "__main__":
    ctypes.CDLL(None).prctl(1, signal.SIGKILL)  # PR_SET_PDEATHSIG: this process ends with its parent
    PROGRAMS[sys.argv[1]]()
