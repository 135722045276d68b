"""Which processors measure, which start workers: the same for both sides, on one memory node; and how fast they run."""

import os
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from opduel.records import UsageError

_SYS = Path("/sys")


@dataclass(frozen=True)
class CpuPlan:
    """``measure``: where both sides' timed calls run. ``start``: where workers may import the framework while nothing
    is measured. ``prepare``: where they import it, and cases are prepared, while others are measured. ``control``:
    where the controller runs, but for handing over from block to block. The last two keep apart from the measuring
    ones if there are others."""

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
    """The last ``threads`` processors that this process may use measure; the others are left to the controller.

    Workers start on all allowed processors of the measuring ones' memory node, so that what they allocate while
    importing is as near as what they allocate while measuring.

    Raises:
        UsageError: fewer processors are allowed than threads are asked for.
    """
    allowed = sorted(os.sched_getaffinity(0))
    if threads > len(allowed):
        raise UsageError(f"--threads {threads}: this process may use {len(allowed)} processors; ask for at most that")
    measure = frozenset(allowed[-threads:])
    start = measure | (frozenset(allowed) & _same_node(measure))
    return CpuPlan(measure, start, (frozenset(allowed) - measure) or measure)


@contextmanager
def this_thread_on(cpus: frozenset[int]) -> Iterator[None]:
    """Within it this thread, and those that it starts, keep to these processors."""
    before = os.sched_getaffinity(0)
    os.sched_setaffinity(0, cpus)
    try:
        yield
    finally:
        os.sched_setaffinity(0, before)


def _same_node(cpus: frozenset[int]) -> frozenset[int]:
    found: set[int] = set()
    for listing in sorted((_SYS / "devices/system/node").glob("node[0-9]*/cpulist")):
        node = parse_cpu_list(listing.read_text(encoding="ascii"))
        if node & cpus:
            found |= node
    return frozenset(found)


def parse_cpu_list(text: str) -> frozenset[int]:
    """The kernel's list format: ``0-3,8`` is {0, 1, 2, 3, 8}."""
    cpus: set[int] = set()
    for part in text.strip().split(","):
        if part:
            first, _, last = part.partition("-")
            cpus.update(range(int(first), int(last or first) + 1))
    return frozenset(cpus)


def current_mhz(cpus: Iterable[int], sys_folder: Path = _SYS) -> list[float]:
    """MHz of each of ``cpus`` that tells (virtual machines mostly don't), to be read right after they have measured: an
    idle one may slow down.

    https://docs.kernel.org/admin-guide/pm/cpufreq.html, ``scaling_cur_freq``, which is in kHz.
    """
    found = []
    for cpu in cpus:
        try:
            text = (sys_folder / f"devices/system/cpu/cpu{cpu}/cpufreq/scaling_cur_freq").read_text(encoding="ascii")
        except (OSError, ValueError):
            continue
        if text.strip().isdigit() and int(text) > 0:
            found.append(int(text) / 1000)
    return found
