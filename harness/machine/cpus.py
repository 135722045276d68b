"""The host's processors: which measure, and which start workers, the same for both sides, on one memory node; how fast
they run, at present and at most (the measured roofline); and how much memory to read to evict their caches.
"""

import json
import os
import statistics
import subprocess
import sys
import time
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from opduel.records import RunError, UsageError
from opduel.records.host_record import RooflineRecord
from opduel.support.output import key_line

_SYS = Path("/sys")
_CPUS = _SYS / "devices/system/cpu"
WIPING_VARIABLE = "OPDUEL_WIPE_CACHE"  # tells a worker how many bytes to read
LINE = 64  # bytes
# in bytes; the usual size where the host doesn't say what it has
LEAST_WIPED, USUAL_WIPED, MOST_WIPED = 16 << 20, 64 << 20, 256 << 20
PROBE = Path(__file__).with_name("roofline_probe.py")
PROBE_TIMEOUT_S = 60.0
CACHES = 4  # a copied array is so many times the largest cache, within these bounds
LEAST_COPIED, MOST_COPIED = 1 << 26, 1 << 28  # bytes
THREAD_VARIABLES = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS")
_UNITS = {"K": 1 << 10, "M": 1 << 20, "G": 1 << 30}


@dataclass(frozen=True)
class CpuPlan:
    """``measure``: where both sides' timed calls run. ``start``: where workers may import the framework while nothing
    is measured. ``control``: where the controller runs, but when it asks for blocks one by one; apart from the
    measuring ones if there are others."""

    measure: frozenset[int]
    start: frozenset[int]
    control: frozenset[int]

    @property
    def prepare(self) -> frozenset[int]:
        """Processors of the same memory node that don't measure, or else those that do."""
        return (self.start - self.measure) or self.measure

    @property
    def can_overlap(self) -> bool:
        """Whether there is a processor to prepare on while others measure."""
        return self.prepare.isdisjoint(self.measure)


def plan_cpus(threads: int) -> CpuPlan:
    """Return the plan of a run: the last ``threads`` processors that this process may use measure, the others are left
    to the controller. Workers start on the measuring ones' memory node, so that what they allocate while importing is
    near. Raises UsageError: fewer processors are allowed than threads are asked for."""
    allowed = sorted(os.sched_getaffinity(0))
    if threads > len(allowed):
        raise UsageError(f"--threads {threads}: this process may use {len(allowed)} processors; ask for at most that")
    measure, same_node = frozenset(allowed[-threads:]), set[int]()
    for listing in (_SYS / "devices/system/node").glob("node[0-9]*/cpulist"):
        node = parse_cpu_list(listing.read_text(encoding="ascii"))
        same_node |= node if node & measure else set()
    start = measure | (frozenset(allowed) & same_node)
    return CpuPlan(measure, start, (frozenset(allowed) - measure) or measure)


@contextmanager
def this_thread_on(cpus: frozenset[int]) -> Iterator[None]:
    """Keep this thread, and those that it starts, to these processors within the context."""
    before = os.sched_getaffinity(0)
    os.sched_setaffinity(0, cpus)
    try:
        yield
    finally:
        os.sched_setaffinity(0, before)


def parse_cpu_list(text: str) -> frozenset[int]:
    """Read the kernel's list format: ``0-3,8`` is {0, 1, 2, 3, 8}."""
    cpus: set[int] = set()
    for part in text.strip().split(","):
        if part:
            first, _, last = part.partition("-")
            cpus.update(range(int(first), int(last or first) + 1))
    return frozenset(cpus)


def current_mhz(cpus: Iterable[int], sys_folder: Path = _SYS) -> list[float]:
    """Return the MHz of each of ``cpus`` that tells, to be read right after they have measured: an idle one may slow
    down (https://docs.kernel.org/admin-guide/pm/cpufreq.html, ``scaling_cur_freq``, which is in kHz)."""
    mhz = []
    for cpu in cpus:
        try:
            text = (sys_folder / f"devices/system/cpu/cpu{cpu}/cpufreq/scaling_cur_freq").read_text(encoding="ascii")
        except (OSError, ValueError):
            continue
        if text.strip().isdigit() and int(text) > 0:
            mhz.append(int(text) / 1000)
    return mhz


@dataclass(frozen=True)
class Wiping:
    """Evicting the caches before each timed call, as AI-PEP's --wipe_cache does: the bytes that the worker reads
    (``wipe``, harness/worker/timing.py), and the nanoseconds that this takes."""

    size: int
    ns: float


def plan_wiping(cpus: Path = _CPUS) -> Wiping:
    """Read twice what the largest cache holds; one time is measured here and now."""
    size = min(MOST_WIPED, max(LEAST_WIPED, 2 * largest_cache(cpus) or USUAL_WIPED))
    memory = bytearray(b"\1") * size
    spent = []
    for _ in range(3):
        began = time.perf_counter_ns()
        _ = memory[::LINE]
        spent.append(time.perf_counter_ns() - began)
    return Wiping(size, float(statistics.median(spent)))


def largest_cache(cpus: Path = _CPUS) -> int:
    """Return the bytes of the largest cache that any processor has; 0 where the host doesn't say."""
    sizes = [0]
    for path in cpus.glob("cpu[0-9]*/cache/index[0-9]*/size"):
        try:
            text = path.read_text(encoding="ascii").strip()
            sizes.append(int(text.rstrip("KMG")) * _UNITS.get(text[-1:], 1))
        except (OSError, ValueError):
            continue
    return max(sizes)


def measure_roofline(
    cpus: CpuPlan, threads: int, environment: Mapping[str, str], probe: Path = PROBE
) -> RooflineRecord:
    """Measure the peak rates of ``threads`` on the measuring processors, in about a second, with the workers'
    ``environment`` (Williams, Waterman and Patterson 2009, Communications of the ACM 52 (4), 65-76). Raises RunError:
    it could not be measured."""
    ours = {**dict.fromkeys(THREAD_VARIABLES, str(threads)), "PYTHONPATH": str(Path(np.__file__).parents[1])}
    copied = max(LEAST_COPIED, min(MOST_COPIED, CACHES * largest_cache()))
    try:
        with this_thread_on(cpus.measure):
            finished = subprocess.run(
                [sys.executable, str(probe), str(threads), str(copied)],
                capture_output=True,
                text=True,
                timeout=PROBE_TIMEOUT_S,
                env={**environment, **ours},
                check=True,
            )
        return RooflineRecord.of(json.loads(finished.stdout))
    except (OSError, subprocess.SubprocessError, ValueError) as error:
        words = key_line(error.stderr if isinstance(error, subprocess.CalledProcessError) else str(error))
        raise RunError(f"--roofline: could not be measured ({words}): leave it out") from None
