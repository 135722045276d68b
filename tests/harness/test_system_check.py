"""Advice: each piece when its fact was seen, and only then; facts from made-up folders."""

import dataclasses
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from opduel.harness.machine.cpus import CpuPlan
from opduel.harness.machine.system_check import (
    OTHERS,
    STEAL,
    Busy,
    Facts,
    Watch,
    _busiest,
    _cpu_seconds_of_others,
    check_system,
)
from opduel.records import HostRecord

QUIET = Facts(logical_cpus=4, measure=(3,), control=(0, 1, 2), virtual=False, governors={3: "performance"}, siblings=(),
              steal=0.0, other_processes_cpus=0.0, swapped_pages=0)  # fmt: skip
CPU = "devices/system/cpu"
PLAN = CpuPlan(measure=frozenset({3}), start=frozenset({2, 3}), control=frozenset({0, 1, 2}))


def test_a_quiet_host_needs_no_advice() -> None:
    assert list(check_system(QUIET)) == []


def test_what_the_host_does_not_tell_gives_no_advice() -> None:
    assert list(check_system(Facts(logical_cpus=4, measure=(3,), control=(0,), virtual=None))) == []


@pytest.mark.parametrize(
    ("changes", "fact", "fix"),
    [
        ({"control": (3,)}, "controller runs on CPU 3", "taskset -c 0,1 python3"),
        ({"control": (0,), "measure": (0,), "logical_cpus": 1}, "controller runs on CPU 0", "one processor more"),
        ({"governors": {3: "powersave"}}, "is powersave", "echo performance | sudo tee /sys/" + CPU + "/cpu3/cpufreq/"),
        ({"turbo": f"/sys/{CPU}/cpufreq/boost"}, "turbo is on", f"echo 0 | sudo tee /sys/{CPU}/cpufreq/boost"),
        (
            {"turbo": f"/sys/{CPU}/intel_pstate/no_turbo"},
            "turbo is on",
            f"echo 1 | sudo tee /sys/{CPU}/intel_pstate/no_turbo",
        ),
        ({"siblings": (1,)}, "CPU 1 shares a core with CPU 3", f"echo 0 | sudo tee /sys/{CPU}/cpu1/online"),
        ({"steal": STEAL}, "0.5% of the processors' time", "dedicated processors"),
        ({"swapped_pages": 12}, "12 pages", "sudo swapoff -a"),
        ({"virtual": True}, "virtual machine", "machine of your own"),
        ({"other_processes_cpus": OTHERS}, "0.05 processors' worth", "isolcpus=3, and start with taskset -c 0,3"),
        (
            {"other_processes_cpus": 0.5, "busiest": (Busy(77, "cc1plus", 0.42),)},
            "cc1plus (pid 77) 0.42",
            "stop them",
        ),
    ],
)
def test_one_fact_one_advice(changes: dict[str, Any], fact: str, fix: str) -> None:
    (advice,) = check_system(dataclasses.replace(QUIET, **changes))
    assert fact in advice.fact
    assert fix in advice.fix


@pytest.mark.parametrize("changes", [{"steal": STEAL * 0.99}, {"other_processes_cpus": OTHERS * 0.99}])
def test_a_little_noise_is_no_fact(changes: dict[str, Any]) -> None:
    assert list(check_system(dataclasses.replace(QUIET, **changes))) == []


def write(folder: Path, files: dict[str, str]) -> None:
    for name, text in files.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(text)


def test_facts_of_a_made_up_host(tmp_path: Path) -> None:
    write(tmp_path, {
        "vmstat": "pswpin 5\npswpout 7\n",
        f"{CPU}/cpu3/cpufreq/scaling_governor": "schedutil\n",
        f"{CPU}/cpu2/cpufreq/scaling_governor": "ignored, does not measure\n",
        f"{CPU}/cpu3/topology/thread_siblings_list": "1,3\n",
        f"{CPU}/cpufreq/boost": "1\n",
    })  # fmt: skip
    watch = Watch(PLAN, tmp_path, tmp_path)
    write(tmp_path, {"vmstat": "pswpin 6\npswpout 10\n"})
    facts = watch.facts(HostRecord(logical_cpus=4, hypervisor=True))
    assert facts == Facts(
        logical_cpus=4, measure=(3,), control=(0, 1, 2), virtual=True, governors={3: "schedutil"},
        turbo=f"/sys/{CPU}/cpufreq/boost", siblings=(1,), swapped_pages=4, busiest=facts.busiest,
    )  # fmt: skip


@pytest.mark.parametrize(
    ("name", "text", "on"),
    [("cpufreq/boost", "0", False), ("intel_pstate/no_turbo", "1", False), ("intel_pstate/no_turbo", "0", True)],
)
def test_turbo_is_on_or_off(tmp_path: Path, name: str, text: str, on: bool) -> None:
    write(tmp_path, {f"{CPU}/{name}": f"{text}\n"})
    turbo = Watch(PLAN, tmp_path, tmp_path).facts(HostRecord(logical_cpus=4, hypervisor=None)).turbo
    assert turbo == (f"/sys/{CPU}/{name}" if on else None)


def test_a_host_that_tells_nothing_or_nonsense(tmp_path: Path) -> None:
    write(tmp_path, {f"{CPU}/cpu3/topology/thread_siblings_list": "all of them\n", "vmstat": "pswpin many\n"})
    facts = Watch(PLAN, tmp_path, tmp_path).facts(HostRecord(logical_cpus=4, hypervisor=None))
    assert (facts.governors, facts.turbo, facts.siblings, facts.swapped_pages) == ({}, None, (), None)
    assert (facts.steal, facts.other_processes_cpus, facts.virtual) == (None, None, None)
    assert list(check_system(dataclasses.replace(facts, busiest=()))) == []


def test_our_own_processes_are_not_others() -> None:
    with subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE) as ours:
        pids = {pid for pid, _ in _cpu_seconds_of_others()}
        ours.communicate(b"\n")
    assert not pids & {ours.pid, os.getpid()}


def test_the_busiest_are_named_by_what_they_took_meanwhile() -> None:
    before = {(1, 0.0): ("init", 100.0), (2, 0.0): ("cc", 5.0), (3, 0.0): ("gone", 5.0)}
    after = {
        (1, 0.0): ("init", 100.0),
        (2, 0.0): ("cc", 9.0),
        (2, 8.0): ("came later", 1.0),  # the number of one that ended, given again
        (4, 1.0): ("ld", 3.0),
        (6, 1.0): ("kthreadd", 0.1),
        (5, 1.0): ("python", 8.0),
    }
    assert _busiest(before, after, 10.0) == (Busy(5, "python", 0.8), Busy(2, "cc", 0.4), Busy(4, "ld", 0.3))
    few = {(6, 1.0): ("kthreadd", 0.1), (2, 0.0): ("cc", 9.0)}
    assert _busiest(before, few, 10.0) == (Busy(2, "cc", 0.4),)
    assert _busiest(before, after, 0.0) == ()
