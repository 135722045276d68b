"""What on this host makes measurements noisy, as far as it was observed, and the command that fixes it."""

import heapq
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path

import psutil

from opduel.harness.machine.cpus import CpuPlan, parse_cpu_list
from opduel.harness.machine.host import PROC, SYS, HostMonitor, text_of
from opduel.records.host_record import HostRecord

# From here on a fact is worth a word. They decide what is said, not what is measured or claimed.
STEAL = 0.005  # share of all CPUs' time that the hypervisor gave to others
OTHERS = 0.05  # processors' worth of CPU time that other processes took
NAMED = 3  # other processes that are named


@dataclass(frozen=True)
class Busy:
    """Another process, and how many processors' worth of time it took."""

    pid: int
    name: str
    cpus: float


@dataclass(frozen=True)
class Facts:
    """What was seen of the host; None, or nothing, where it doesn't tell."""

    logical_cpus: int
    measure: tuple[int, ...]  # CPUs that timed calls run on
    control: tuple[int, ...]  # CPUs left to the controller
    virtual: bool | None
    governors: Mapping[int, str] = field(default_factory=dict)  # of the measuring CPUs
    turbo: str | None = None  # the file that switches it, when it is on
    siblings: tuple[int, ...] = ()  # CPUs in use that share a core with a measuring one
    steal: float | None = None  # share of all CPUs' time
    other_processes_cpus: float | None = None  # processors' worth
    busiest: tuple[Busy, ...] = ()
    swapped_pages: int | None = None


@dataclass(frozen=True)
class Remedy:
    """An observed fact, and its fix."""

    fact: str
    fix: str


class Watch:
    """Looks at the host from its making until ``facts``; ``sample`` takes some milliseconds: call it between runs."""

    def __init__(self, cpus: CpuPlan, proc: Path = PROC, sys_folder: Path = SYS) -> None:
        self._cpus = cpus
        self._proc = proc
        self._sys = sys_folder / "devices/system/cpu"
        self._monitor = HostMonitor(proc)
        self._processes = _cpu_seconds_of_others()
        self._swapped = _swapped_pages(proc)

    def sample(self) -> None:
        """Note how busy the host is."""
        self._monitor.sample()

    def facts(self, fingerprint: HostRecord) -> Facts:
        """Return all that was seen; ``fingerprint`` is ``host_fingerprint``'s."""
        self._monitor.sample()
        noise = self._monitor.during
        cpus, other_cpu, steal = fingerprint.logical_cpus or 1, noise.other_cpu, noise.steal
        swapped = _swapped_pages(self._proc)
        lists = (self._sys / f"cpu{cpu}/topology/thread_siblings_list" for cpu in self._cpus.measure)
        siblings = {sibling for listing in lists for sibling in _cpus_in(listing)}
        return Facts(
            logical_cpus=cpus,
            measure=tuple(sorted(self._cpus.measure)),
            control=tuple(sorted(self._cpus.control)),
            virtual=fingerprint.hypervisor,
            governors=_governors(self._sys, self._cpus.measure),
            turbo=_turbo(self._sys),
            siblings=tuple(sorted(siblings - self._cpus.measure)),
            steal=steal.mean if steal else None,
            other_processes_cpus=other_cpu.mean * cpus if other_cpu else None,
            busiest=_busiest(self._processes, _cpu_seconds_of_others(), noise.seconds),
            swapped_pages=None if swapped is None or self._swapped is None else swapped - self._swapped,
        )


def _busy_others(facts: Facts, cpus: float) -> Remedy:
    named = [f"{process.name} (pid {process.pid}) {process.cpus:.2g}" for process in facts.busiest]
    observation = f"other processes took {cpus:.2g} processors' worth of time"
    observation += f"; the busiest: {', '.join(named)}" if named else ""
    measure, away = _listed(facts.measure), sorted(set(facts.control) - set(facts.measure))
    fix = "stop them"
    if away:
        start = f"taskset -c {_listed(sorted({away[0], *facts.measure}))}"
        fix += f", or keep them off CPU {measure}: boot with isolcpus={measure}, and start with {start}"
    return Remedy(observation, fix)


def check_system(facts: Facts) -> Iterator[Remedy]:
    """Yield what could be fixed; nothing that was not observed. Pure."""
    if not set(facts.control) - set(facts.measure):
        measure = _listed(facts.measure)
        fix = "use a machine with one processor more than --threads"
        if facts.logical_cpus > len(facts.measure):
            fix = f"let it use one more: taskset -c {_listed(range(len(facts.measure) + 1))} python3 ..."
        yield Remedy(f"the controller runs on CPU {measure}, where the timed calls do: no other is allowed", fix)
    if facts.other_processes_cpus is not None and facts.other_processes_cpus >= OTHERS:
        yield _busy_others(facts, facts.other_processes_cpus)
    if facts.steal is not None and facts.steal >= STEAL:
        observation = f"the hypervisor gave {facts.steal:.1%} of the processors' time to other machines"
        yield Remedy(observation, "take an instance type with dedicated processors, or another time of day")
    if facts.swapped_pages:
        yield Remedy(f"{facts.swapped_pages} pages were swapped in or out", "free memory, then: sudo swapoff -a")
    if slow := {cpu: name for cpu, name in facts.governors.items() if name != "performance"}:
        names = ", ".join(sorted(set(slow.values())))
        observation = f"the frequency governor of CPU {_listed(slow)} is {names}, not performance"
        yield Remedy(observation, f"echo performance | sudo tee {_files(slow, 'cpufreq/scaling_governor')}")
    if facts.turbo is not None:
        off = 1 if facts.turbo.endswith("no_turbo") else 0
        yield Remedy("turbo is on: the clock changes with heat and neighbours", f"echo {off} | sudo tee {facts.turbo}")
    if facts.siblings:
        observation = f"CPU {_listed(facts.siblings)} shares a core with CPU {_listed(facts.measure)}, which measures"
        yield Remedy(observation, f"switch it off meanwhile: echo 0 | sudo tee {_files(facts.siblings, 'online')}")
    if facts.virtual:
        yield Remedy(
            "this is a virtual machine: clock changes and other guests can't be seen from inside, except as stolen "
            "time",
            "for the smallest changes use a machine of your own",
        )


def _files(cpus: Iterable[int], name: str) -> str:
    return " ".join(f"/sys/devices/system/cpu/cpu{cpu}/{name}" for cpu in cpus)


def _listed(cpus: Iterable[int]) -> str:
    return ",".join(map(str, cpus))


def _cpus_in(path: Path) -> tuple[int, ...]:
    """Read a file in the kernel's list format; what is not, is nothing."""
    try:
        return tuple(sorted(parse_cpu_list(text_of(path))))
    except ValueError:
        return ()


def _governors(folder: Path, cpus: frozenset[int]) -> dict[int, str]:
    texts = {cpu: text_of(folder / f"cpu{cpu}/cpufreq/scaling_governor").strip() for cpu in sorted(cpus)}
    return {cpu: name for cpu, name in texts.items() if name}


def _turbo(folder: Path) -> str | None:
    """Return the switch of a turbo that is on (docs.kernel.org/admin-guide/pm/intel_pstate.html and cpufreq.html)."""
    for name, on in (("intel_pstate/no_turbo", "0"), ("cpufreq/boost", "1")):
        if text_of(folder / name).strip() == on:
            return f"/sys/devices/system/cpu/{name}"
    return None


def _swapped_pages(proc: Path) -> int | None:
    counts = re.findall(r"^pswp(?:in|out) (\d+)$", text_of(proc / "vmstat"), re.M)
    return sum(map(int, counts)) if len(counts) == 2 else None


def _cpu_seconds_of_others() -> dict[tuple[int, float], tuple[str, float]]:
    """Return name and CPU seconds by pid and start; ours and our descendants are left out.

    Without those of ended children: they come all at once, with what was spent before anyone looked.
    """
    me = psutil.Process()
    own = {me.pid, *(child.pid for child in me.children(recursive=True))}
    seconds_by_process = {}
    for process in psutil.process_iter():
        try:
            if process.pid not in own:
                times = process.cpu_times()
                seconds_by_process[process.pid, process.create_time()] = (process.name(), times.user + times.system)
        except (psutil.Error, OSError):  # ended meanwhile, or not for us to see
            continue
    return seconds_by_process


def _busiest(
    before: Mapping[tuple[int, float], tuple[str, float]],
    after: Mapping[tuple[int, float], tuple[str, float]],
    seconds: float,
) -> tuple[Busy, ...]:
    """Return the ``NAMED`` processes that took most, of those that took half of ``OTHERS`` or more."""
    if seconds <= 0:
        return ()
    processes = [
        Busy(key[0], name, (spent - before.get(key, ("", 0.0))[1]) / seconds) for key, (name, spent) in after.items()
    ]
    busiest = heapq.nlargest(NAMED, processes, key=lambda process: process.cpus)
    return tuple(process for process in busiest if process.cpus >= OTHERS / 2)
