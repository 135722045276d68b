"""The host's fingerprint and noise, on this host, on a made-up one, and on one that tells nothing."""

import os
import subprocess
import sys
import time
from dataclasses import replace
from functools import cached_property
from pathlib import Path
from typing import Any

import psutil
import pytest

from opduel.harness.machine.host import HostMonitor, host_fingerprint, merged_noise, own_cpu_seconds
from opduel.records.host_record import MeasureRecord, NoiseRecord

HERTZ = os.sysconf("SC_CLK_TCK")


def _write(folder: Path, files: dict[str, str]) -> None:
    for name, text in files.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(text)


def _made_up(folder: Path, **changes: float) -> None:
    """A /proc with the given state; times in seconds."""
    state = {
        "cpu_avg10": 0.0,
        "cpu_total": 0.0,
        "user": 0,
        "idle": 0,
        "steal": 0,
        "user0": 0,
        "idle0": 0,
        "steal0": 0,
        "available": 8,
        "load": 0.5,
        **changes,
    }
    kinds = ("user", "", "", "idle", "", "", "", "steal", "", "")
    ticks = [str(int(state[kind] * HERTZ) if kind else 0) for kind in kinds]
    first = [str(int(state[f"{kind}0"] * HERTZ) if kind else 0) for kind in kinds]
    _write(
        folder,
        {
            "pressure/cpu": f"some avg10={state['cpu_avg10']:.2f} avg60=0.17 total={state['cpu_total'] * 1e6:.0f}\n"
            "full avg10=0.00 avg60=0.00 avg300=0.00 total=0\n",
            "stat": f"cpu  {' '.join(ticks)}\ncpu0 {' '.join(first)}\ncpu1 1 2 3 4 5 6 7 8 9 10\nintr 5\n",
            "meminfo": f"MemTotal: 16000 kB\nMemFree: 1 kB\nMemAvailable:    {state['available']} kB\nBuffers: 1 kB\n",
            "loadavg": f"{state['load']} 0.22 0.18 1/234 5678\n",
            "vmstat": f"nr_free_pages 7\noom_kill {state.get('oom_kill', 0)}\n",
        },
    )


class Run:
    """A monitor on a made-up host whose clock and own CPU time are set by hand."""

    def __init__(self, proc: Path) -> None:
        self.proc = proc
        self.now = 0.0
        self.own = 0.0

    @cached_property
    def monitor(self) -> HostMonitor:
        """Begins to watch when it is first used."""
        clock, own = (lambda: self.now), (lambda: self.own)
        return HostMonitor(self.proc, interval_s=1.0, clock=clock, own_cpu=own, allowed=frozenset({0}))

    def at(self, now: float, own: float = 0.0, **changes: float) -> None:
        """Move the host on."""
        self.now, self.own = now, own
        _made_up(self.proc, **changes)


@pytest.fixture
def run(tmp_path: Path) -> Run:
    return Run(tmp_path)


def noise_of(noise: NoiseRecord | None) -> NoiseRecord:
    assert noise is not None
    return noise


def spread_of(measure: MeasureRecord | None) -> tuple[float, float, float]:
    assert measure is not None
    return measure.min, measure.max, measure.mean


def test_this_hosts_fingerprint() -> None:
    fingerprint = host_fingerprint()
    assert fingerprint.logical_cpus == os.cpu_count()
    assert fingerprint.allowed_cpus == tuple(sorted(os.sched_getaffinity(0)))
    assert fingerprint.memory_total == psutil.virtual_memory().total
    assert 0 < (fingerprint.memory_available or 0) <= psutil.virtual_memory().total
    assert fingerprint.kernel == f"{os.uname().sysname} {os.uname().release}"
    assert fingerprint.machine == os.uname().machine
    assert str(fingerprint.python).split(".")[:2] == [str(part) for part in sys.version_info[:2]]


def test_a_made_up_hosts_fingerprint(tmp_path: Path) -> None:
    cpu = "devices/system/cpu"
    _write(
        tmp_path,
        {
            "cpuinfo": "processor : 0\nmodel name : Fast: CPU\nflags\t: fpu avx\n\nprocessor : 1\nmodel name : Other\n",
            f"{cpu}/cpu0/cpufreq/scaling_governor": "powersave\n",
            f"{cpu}/cpu1/cpufreq/scaling_governor": "performance\n",
            f"{cpu}/cpu12/cpufreq/scaling_governor": "performance\n",
            f"{cpu}/cpuidle/cpufreq/scaling_governor": "none of these\n",
            "driver/nvidia/gpus/0000:00:06.0/information": "Model: \t\t NVIDIA H100 80GB HBM3\nIRQ:   \t\t 41\n",
            "driver/nvidia/gpus/0000:00:07.0/information": "Model: \t\t NVIDIA H100 80GB HBM3\n",
            "driver/nvidia/gpus/0000:00:08.0/information": "IRQ: 1\n",
        },
    )
    fingerprint = host_fingerprint(tmp_path, tmp_path)
    assert fingerprint.cpu_model == "Fast: CPU"
    assert fingerprint.gpus == ("NVIDIA H100 80GB HBM3",) * 2
    assert fingerprint.hypervisor is False
    assert fingerprint.governors == ("performance", "powersave")
    (tmp_path / "cpuinfo").write_text("flags : fpu hypervisor avx\n")
    assert host_fingerprint(tmp_path, tmp_path).hypervisor is True


def test_a_host_that_tells_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse() -> Any:
        raise OSError("no")

    for name in ("virtual_memory", "swap_memory", "cpu_freq"):
        monkeypatch.setattr(psutil, name, refuse)
    fingerprint = host_fingerprint(tmp_path, tmp_path)
    unknown = {key for key, value in vars(fingerprint).items() if value is None}
    memory = {"memory_total", "memory_available", "swap_total", "swap_used"}
    not_yet = {"roofline", "before", "during", "verifying"}
    assert unknown == {"cpu_model", "governors", "frequency_mhz", "hypervisor"} | memory | not_yet
    monitor = HostMonitor(tmp_path, interval_s=0)
    monitor.sample()
    during = monitor.during
    assert during.samples == 2
    assert {key for key, value in vars(during).items() if value is not None} == {"samples", "seconds"}


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("pressure/cpu", "some\n"),
        ("pressure/cpu", "some avg10=x total=y\n"),
        ("pressure/cpu", "\n"),
        ("stat", "cpu 1 2\n"),
        ("stat", "cpu a b c d e f g h\n\n"),
        ("vmstat", "oom_kill many\n"),
    ],
)
def test_garbage_is_unknown(run: Run, name: str, text: str) -> None:
    measures = {
        "pressure/cpu": {"cpu_pressure"},
        "stat": {"steal", "other_cpu", "neighbours", "stolen"},
        "vmstat": {"oom_kills"},
    }
    for now in (0, 10):
        run.at(now, user=now, idle=now)
        _write(run.proc, {name: text})
        run.monitor.sample()
    unknown = {key for key, value in vars(run.monitor.during).items() if value is None}
    assert unknown == {"memory_pressure", "io_pressure"} | measures[name]


def test_a_run_is_summed_up(run: Run) -> None:
    run.at(100, load=0.25, cpu_avg10=12.5, cpu_total=5, user=50, idle=500, steal=1, available=1000)  # cpu0: 0 s of each
    run.monitor.sample()
    # 10 s on two CPUs: 12 s busy, 8 of them on the first, where our 7 are; 7 idle; 1 stolen; 1 s of waiting.
    run.at(110, own=7, load=1.5, cpu_total=6, user=62, idle=507, steal=2, available=400, oom_kill=1, user0=8, steal0=1)
    run.monitor.sample()
    # 30 s more: 30 busy, of which 20 are ours, and 23 on the first; 30 idle; none stolen; 15 s of waiting.
    run.at(
        140, own=27, load=1.0, cpu_total=21, user=92, idle=537, steal=2, available=600, oom_kill=3, user0=31, steal0=1
    )
    run.monitor.sample()
    before, during = run.monitor.before, run.monitor.during
    assert (before.samples, before.seconds, before.steal, before.other_cpu) == (1, 0, None, None)
    assert spread_of(before.load) == (0.25, 0.25, 0.25)
    assert spread_of(before.cpu_pressure) == (0.125, 0.125, 0.125)
    assert (during.samples, during.seconds, during.oom_kills) == (3, 40, 3)
    assert spread_of(during.load) == pytest.approx((0.25, 1.5, 2.75 / 3))
    assert spread_of(during.cpu_pressure) == pytest.approx((0.1, 0.5, 16 / 40))
    assert spread_of(during.steal) == pytest.approx((0, 1 / 20, 1 / 80))
    assert spread_of(during.other_cpu) == pytest.approx((10 / 60, 5 / 20, 15 / 80))
    assert spread_of(during.neighbours) == pytest.approx((0.1, 0.1, 4 / 40))
    assert spread_of(during.stolen) == pytest.approx((0, 0.1, 1 / 40))
    assert spread_of(during.available_memory) == pytest.approx((400 * 1024, 1000 * 1024, 2000 * 1024 / 3))
    assert during.memory_pressure is None


def test_a_host_that_does_not_tell_of_an_allowed_cpu_tells_of_no_neighbours(tmp_path: Path) -> None:
    _made_up(tmp_path)
    monitor = HostMonitor(tmp_path, interval_s=0, allowed=frozenset({1, 2}))
    monitor.sample()
    during = monitor.during
    assert (during.neighbours, during.stolen) == (None, None)
    assert during.samples == 2


def test_samples_that_come_too_soon_are_not_taken(run: Run) -> None:
    for now in (0, 0.5, 0.99, 1.0, 1.5, 2.5):
        run.at(now)
        run.monitor.sample()
    assert run.monitor.during.samples == 3


def test_shares_stay_between_0_and_1(run: Run) -> None:
    run.at(0)
    run.monitor.sample()
    run.at(1, own=5, cpu_total=1.5, user=2, user0=2)  # clocks that disagree a little
    run.monitor.sample()
    during = run.monitor.during
    assert spread_of(during.neighbours)[0] == 0
    assert spread_of(during.cpu_pressure)[1] == 1
    assert spread_of(during.other_cpu)[0] == 0


def test_this_host_can_be_sampled() -> None:
    monitor = HostMonitor(interval_s=0)
    time.sleep(0.1)
    monitor.sample()
    during = monitor.during
    assert spread_of(during.load)[0] >= 0
    assert 0 <= spread_of(during.other_cpu)[2] <= 1
    assert 0 < spread_of(during.available_memory)[1] <= psutil.virtual_memory().total


def test_own_cpu_time_counts_children_alive_and_gone() -> None:
    burn = "import time\nwhile time.process_time() < 0.3: pass\nprint(flush=True)\ninput()"
    before = own_cpu_seconds()
    with subprocess.Popen([sys.executable, "-c", burn], stdin=subprocess.PIPE, stdout=subprocess.PIPE) as child:
        assert child.stdout is not None
        child.stdout.readline()
        alive = own_cpu_seconds()
        child.communicate(b"\n")
    after_it = own_cpu_seconds()
    assert alive - before >= 0.25
    assert after_it >= alive - 0.03  # the clocks tick in 10 ms


def test_parts_become_one() -> None:
    """A lone sample is not weighted by time; what only one part reports is kept."""
    spread = MeasureRecord(min=0.1, max=0.3, mean=0.2)
    part = NoiseRecord(samples=3, seconds=20.0, load=spread, oom_kills=1)
    lone = NoiseRecord(
        samples=1, seconds=0.0, load=MeasureRecord(min=2.0, max=2.0, mean=2.0), steal=spread, oom_kills=0
    )
    assert merged_noise([]) is None
    assert merged_noise([None, part]) == part
    load = MeasureRecord(min=0.1, max=2.0, mean=0.2)
    merged = NoiseRecord(samples=4, seconds=20.0, load=load, steal=spread, oom_kills=1)
    assert merged_noise([part, None, lone]) == merged
    assert noise_of(merged_noise([lone, lone])).load == lone.load
    assert noise_of(merged_noise([replace(part, oom_kills=None), part])).oom_kills == 1


def test_a_host_is_called_by_its_name_or_as_it_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("socket.gethostname", lambda: "bench-7.example.org")
    monkeypatch.delenv("OPDUEL_HOST_NAME", raising=False)
    assert host_fingerprint().name == "bench-7"
    monkeypatch.setenv("OPDUEL_HOST_NAME", " the quiet one ")
    assert host_fingerprint().name == "the quiet one"
    monkeypatch.setenv("OPDUEL_HOST_NAME", "")
    assert host_fingerprint().name is None
