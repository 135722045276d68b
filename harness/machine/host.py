"""The host: what it is (``host_fingerprint``) and how busy it was before and during a run (``HostMonitor``)."""

import contextlib
import os
import platform
import re
import socket
import sys
import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from pathlib import Path
from typing import TypeVar

import psutil

from opduel.records.host_record import HostRecord, MeasureRecord, NoiseRecord

T = TypeVar("T")
PROC = Path("/proc")
SYS = Path("/sys")
PRESSURES = ("cpu", "memory", "io")
SHARES = (*(f"{name}_pressure" for name in PRESSURES), "steal", "other_cpu", "neighbours", "stolen")
# Fields of /proc/stat's cpu lines, https://man7.org/linux/man-pages/man5/proc_stat.5.html; guest time is in user.
_STAT_FIELDS = ("user", "nice", "system", "idle", "iowait", "irq", "softirq", "steal")
_BUSY_FIELDS = ("user", "nice", "system", "irq", "softirq")


def host_fingerprint(proc: Path = PROC, sys_folder: Path = SYS) -> HostRecord:
    """Return what the host is, without its noise; None for whatever it doesn't tell."""
    cpuinfo = cpu_info(proc)
    memory, swap = _tolerant(psutil.virtual_memory), _tolerant(psutil.swap_memory)
    frequency = _tolerant(psutil.cpu_freq)
    flags = cpuinfo.get("flags")
    return HostRecord(
        name=host_name(),
        cpu_model=cpuinfo.get("model name"),
        gpus=gpu_models(proc),
        logical_cpus=os.cpu_count(),
        allowed_cpus=tuple(sorted(os.sched_getaffinity(0))),
        governors=_governors(sys_folder),
        frequency_mhz=frequency and {name: getattr(frequency, name) or None for name in ("current", "min", "max")},
        kernel=f"{platform.system()} {platform.release()}",
        machine=platform.machine(),
        hypervisor=None if flags is None else "hypervisor" in flags.split(),
        memory_total=memory and memory.total,
        memory_available=memory and memory.available,
        swap_total=swap and swap.total,
        swap_used=swap and swap.used,
        python=sys.version.split()[0],
    )


def cpu_info(proc: Path = PROC) -> dict[str, str]:
    """Return what the kernel says of the first processor, by name."""
    first = text_of(proc / "cpuinfo").partition("\n\n")[0]
    return {key.strip(): value.strip() for key, _, value in (line.partition(":") for line in first.splitlines())}


def gpu_models(proc: Path = PROC) -> tuple[str, ...]:
    """Return the models of the GPUs that NVIDIA's driver knows, as often as each is there."""
    texts = map(text_of, sorted((proc / "driver/nvidia/gpus").glob("*/information")))
    return tuple(match[1] for text in texts if (match := re.search(r"^Model:\s*(\S.*?)\s*$", text, re.M)))


def host_name() -> str | None:
    """Return what reports call this host: the environment variable OPDUEL_HOST_NAME, or else its host name without
    the domain. None where that is empty."""
    name = os.environ.get("OPDUEL_HOST_NAME")
    return (socket.gethostname().partition(".")[0] if name is None else name.strip()) or None


@dataclass(frozen=True)
class HostSample:
    """The host's counters at one moment. What the host doesn't tell is None."""

    time_s: float  # of a monotonic clock
    load: float | None  # runnable and waiting tasks, averaged by the kernel over a minute
    pressure_avg10: dict[str, float]  # resource -> share of the last 10 s in which some task waited for it
    pressure_total_s: dict[str, float]  # resource -> the same in seconds since boot
    cpu_s: dict[str, float] | None  # /proc/stat's kinds of time, seconds over all CPUs since boot
    allowed_s: dict[str, float] | None  # the same over the CPUs that this process may use
    own_cpu_s: float  # CPU time of this process and its descendants, seconds
    available_memory: int | None  # bytes
    oom_kills: int | None  # since boot


def out_of_memory_kills(proc: Path = PROC) -> int | None:
    """Return how many processes the kernel has killed for memory since boot; None where it doesn't say."""
    match = re.search(r"^oom_kill (\d+)$", text_of(proc / "vmstat"), re.M)
    return int(match[1]) if match else None


def _available_memory(proc: Path) -> int | None:
    """Return the bytes that are available on the host; None where the kernel doesn't say."""
    match = re.search(r"^MemAvailable: +(\d+) kB$", text_of(proc / "meminfo"), re.M)
    return int(match[1]) * 1024 if match else None


_orphans_cpu_s: list[float] = []


def _cpu_seconds_of(process: psutil.Process) -> float:
    times = _tolerant(process.cpu_times)
    return times.user + times.system + times.children_user + times.children_system if times is not None else 0.0


def count_orphans(pids: Iterable[int]) -> None:
    """Call this before a process is killed together with its children (``pids``): when it can't wait for them any more,
    the kernel adds their CPU time to nobody's, and it would be taken for that of others."""
    for pid in pids:
        with contextlib.suppress(psutil.Error):
            _orphans_cpu_s.append(_cpu_seconds_of(psutil.Process(pid)))


def own_cpu_seconds() -> float:
    """Return the CPU time of this process, its descendants, those that have ended and been waited for, and
    ``count_orphans``'."""
    total = sum(_orphans_cpu_s)
    me = psutil.Process()
    for process in [me, *(_tolerant(lambda: me.children(recursive=True)) or [])]:
        total += _cpu_seconds_of(process)
    return total


@dataclass
class HostMonitor:
    """Takes a sample when it is made ("before"), and further ones when told to, and sums them up ("during").

    Call ``sample`` as often as convenient: one that comes less than ``interval_s`` after the last is not taken.
    A sample costs a few ms, so call it between measurements. There is no background thread.
    """

    proc: Path = PROC
    interval_s: float = 0.5
    clock: Callable[[], float] = time.monotonic
    own_cpu: Callable[[], float] = own_cpu_seconds
    allowed: frozenset[int] = field(default_factory=lambda: frozenset(os.sched_getaffinity(0)))
    _samples: list[HostSample] = field(default_factory=list, init=False)

    def __post_init__(self) -> None:
        self.sample()

    def sample(self) -> None:
        """Take a sample, unless the last one is too recent."""
        if self._samples and self.clock() - self._samples[-1].time_s < self.interval_s:
            return
        pressures = {name: pressure for name in PRESSURES if (pressure := _pressure(self.proc, name))}
        load = text_of(self.proc / "loadavg").split()
        sample = HostSample(
            time_s=self.clock(),
            load=float(load[0]) if load else None,
            pressure_avg10={name: average for name, (average, _) in pressures.items()},
            pressure_total_s={name: total for name, (_, total) in pressures.items()},
            cpu_s=_cpu_seconds(self.proc),
            allowed_s=_cpu_seconds(self.proc, self.allowed),
            own_cpu_s=self.own_cpu(),
            available_memory=_available_memory(self.proc),
            oom_kills=out_of_memory_kills(self.proc),
        )
        self._samples.append(sample)

    @property
    def before(self) -> NoiseRecord:
        """The host as it was when it began to be watched."""
        return _noise(self._samples[:1])

    @property
    def during(self) -> NoiseRecord:
        """The noise since then."""
        return _noise(self._samples)


def _noise(samples: Sequence[HostSample]) -> NoiseRecord:
    """Sum up one phase of a sample or more. Means are over time, the extremes those of the intervals."""
    first, last = samples[0], samples[-1]
    intervals, phase = [_between(*pair) for pair in pairwise(samples)], _between(first, last)
    shares = {name: _spread([interval.get(name) for interval in intervals], phase.get(name)) for name in SHARES}
    if len(samples) == 1:  # the kernel's own average over the last 10 s
        shares |= {f"{name}_pressure": _spread([first.pressure_avg10.get(name)]) for name in PRESSURES}
    return NoiseRecord(
        samples=len(samples),
        seconds=last.time_s - first.time_s,
        load=_spread([sample.load for sample in samples]),
        **shares,
        available_memory=_spread([sample.available_memory for sample in samples]),
        oom_kills=None if first.oom_kills is None or last.oom_kills is None else last.oom_kills - first.oom_kills,
    )


def merged_noise(parts: Sequence[NoiseRecord | None]) -> NoiseRecord | None:
    """Merge the parts of one phase: extremes over all, means weighted by seconds.

    So a mean stays the share of all time watched, as if the parts had been one.
    """
    phases = [part for part in parts if part]
    if len(phases) < 2:
        return phases[0] if phases else None
    seconds = [part.seconds for part in phases]
    merged = {
        name: _merged([getattr(part, name) for part in phases], seconds)
        for name in ("load", *SHARES, "available_memory")
    }
    return NoiseRecord(
        samples=_total(part.samples for part in phases),
        seconds=sum(seconds),
        **merged,
        oom_kills=_total(part.oom_kills for part in phases),
    )


def _total(counts: Iterable[int | None]) -> int | None:
    known_counts = [count for count in counts if count is not None]
    return sum(known_counts) if known_counts else None


def _merged(measures: Sequence[MeasureRecord | None], seconds: Sequence[float]) -> MeasureRecord | None:
    weighted = [(measure, weight) for measure, weight in zip(measures, seconds, strict=True) if measure is not None]
    if not weighted:
        return None
    total_s = sum(weight for _, weight in weighted)
    weights = [weight / total_s if total_s else 1 / len(weighted) for _, weight in weighted]
    return MeasureRecord(
        min=min(measure.min for measure, _ in weighted),
        max=max(measure.max for measure, _ in weighted),
        mean=sum(weight * measure.mean for weight, (measure, _) in zip(weights, weighted, strict=True)),
    )


def _spread(values: Sequence[float | None], mean: float | None = None) -> MeasureRecord | None:
    numbers = [float(value) for value in values if value is not None]
    if not numbers:
        return None
    return MeasureRecord(min=min(numbers), max=max(numbers), mean=sum(numbers) / len(numbers) if mean is None else mean)


def _between(start: HostSample, end: HostSample) -> dict[str, float | None]:
    """Return what has a value between two samples: shares of time, and how many of the allowed CPUs others kept busy
    (``neighbours``: we ourselves run nowhere else) and the hypervisor withheld (``stolen``)."""
    seconds, own_s = end.time_s - start.time_s, end.own_cpu_s - start.own_cpu_s
    shares: dict[str, float | None] = {}
    for name in PRESSURES:
        start_s, end_s = start.pressure_total_s.get(name), end.pressure_total_s.get(name)
        shares[f"{name}_pressure"] = None if start_s is None or end_s is None else _share(end_s - start_s, seconds)
    if start.cpu_s is not None and end.cpu_s is not None:
        total_s = _grown(start.cpu_s, end.cpu_s, _STAT_FIELDS)
        shares["steal"] = _share(_grown(start.cpu_s, end.cpu_s, ("steal",)), total_s)
        shares["other_cpu"] = _share(_grown(start.cpu_s, end.cpu_s, _BUSY_FIELDS) - own_s, total_s)
    if start.allowed_s is not None and end.allowed_s is not None and seconds > 0:
        others_s = _grown(start.allowed_s, end.allowed_s, _BUSY_FIELDS) - own_s
        shares["neighbours"] = max(0.0, others_s) / seconds
        shares["stolen"] = max(0.0, _grown(start.allowed_s, end.allowed_s, ("steal",))) / seconds
    return shares


def _grown(start: dict[str, float], end: dict[str, float], kinds: Sequence[str]) -> float:
    return sum(end[kind] - start[kind] for kind in kinds)


def _share(part: float, total: float) -> float | None:
    """Return ``part / total`` kept within 0 and 1 (the counters tick in 10 ms); None when no time has passed."""
    return min(1.0, max(0.0, part / total)) if total > 0 else None


def text_of(path: Path) -> str:
    """Return what the file says; empty when there is none, or none for us."""
    try:
        return path.read_text(encoding="utf-8", errors="replace")
    except OSError:
        return ""


def _tolerant(call: Callable[[], T]) -> T | None:
    try:
        return call()
    except (OSError, RuntimeError, NotImplementedError, psutil.Error):
        return None


def _governors(sys_folder: Path) -> tuple[str, ...] | None:
    files = (sys_folder / "devices/system/cpu").glob("cpu[0-9]*/cpufreq/scaling_governor")
    names = {text_of(file).strip() for file in files} - {""}
    return tuple(sorted(names)) or None


def _pressure(proc: Path, resource: str) -> tuple[float, float] | None:
    """Return "some" as a share of the last 10 s, and in seconds since boot (docs.kernel.org/accounting/psi.html)."""
    text = text_of(proc / "pressure" / resource)
    match = re.search(r"^some +avg10=(\d+(?:\.\d+)?) .*total=(\d+)$", text, re.M)
    return (float(match[1]) / 100, int(match[2]) / 1e6) if match else None


def _cpu_seconds(proc: Path, cpus: frozenset[int] | None = None) -> dict[str, float] | None:
    """Return the seconds since boot by kind, over all CPUs or over these; None unless the host tells of every one of
    them."""
    missing_names = {"cpu"} if cpus is None else {f"cpu{number}" for number in cpus}
    second = os.sysconf("SC_CLK_TCK")
    total = dict.fromkeys(_STAT_FIELDS, 0.0)
    for line in text_of(proc / "stat").splitlines():
        name, *ticks = line.split() or [""]
        if name in missing_names and len(ticks) >= len(_STAT_FIELDS) and all(tick.isdigit() for tick in ticks):
            missing_names.remove(name)
            for kind, tick in zip(_STAT_FIELDS, ticks, strict=False):
                total[kind] += int(tick) / second
    return None if missing_names else total
