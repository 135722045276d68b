"""A worker's frequency settings: set on all processors, and put back whatever ended the worker."""

import contextlib
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from opduel.fleet.frequency import STATE, FrequencyChoice, frequency_set, put_back
from opduel.records import UsageError

ROOT = Path(__file__).resolve().parents[2]
KHZ = {"min": 800_000, "max": 3_600_000}
FORMER = {"scaling_governor": "powersave", "scaling_min_freq": "800000", "scaling_max_freq": "3600000"}
Machine = Callable[..., Path]


@pytest.fixture
def machine(tmp_path: Path) -> Machine:
    """Makes the part of sysfs with cpufreq, as of two processors that share a policy and one with its own."""

    def make(**files: str) -> Path:
        cpus = tmp_path / "cpu"
        for number in (0, 2):
            policy = cpus / "cpufreq" / f"policy{number}"
            policy.mkdir(parents=True)
            bounds = {f"cpuinfo_{name}_freq": str(khz) for name, khz in KHZ.items()}
            known = {"scaling_available_governors": "performance powersave", **bounds, **FORMER, **files}
            for name, text in known.items():
                (policy / name).write_text(f"{text}\n")
        for number, policy in enumerate(("policy0", "policy0", "policy2")):
            (cpus / f"cpu{number}").mkdir()
            (cpus / f"cpu{number}" / "cpufreq").symlink_to(f"../cpufreq/{policy}")
        return cpus

    return make


def values(cpus: Path) -> list[dict[str, str]]:
    """What is set, for each processor."""
    return [
        {name: (cpus / f"cpu{number}" / "cpufreq" / name).read_text().strip() for name in FORMER} for number in range(3)
    ]


def set_to(**changed: str) -> list[dict[str, str]]:
    return [FORMER | changed] * 3


@pytest.mark.parametrize(
    ("choice", "changed"),
    [
        (FrequencyChoice("performance"), {"scaling_governor": "performance"}),
        (FrequencyChoice(None, "max"), {"scaling_min_freq": "3600000", "scaling_max_freq": "3600000"}),
        (FrequencyChoice(None, "min"), {"scaling_min_freq": "800000", "scaling_max_freq": "800000"}),
        (FrequencyChoice(None, "mid"), {"scaling_min_freq": "2200000", "scaling_max_freq": "2200000"}),
        (
            FrequencyChoice("performance", "2400"),
            {"scaling_governor": "performance", "scaling_min_freq": "2400000", "scaling_max_freq": "2400000"},
        ),
    ],
)
def test_it_is_set_and_put_back(
    machine: Machine, tmp_path: Path, choice: FrequencyChoice, changed: dict[str, str]
) -> None:
    cpus = machine()
    with frequency_set(choice, tmp_path, cpus):
        assert values(cpus) == set_to(**changed)
    assert values(cpus) == set_to()
    assert not (tmp_path / STATE).exists()


def test_the_middle_is_the_median_of_the_steps_that_there_are(machine: Machine, tmp_path: Path) -> None:
    cpus = machine(scaling_available_frequencies="3600000 1600000 1200000 1000000 800000 ")
    with frequency_set(FrequencyChoice(None, "mid"), tmp_path, cpus):
        assert values(cpus) == set_to(scaling_min_freq="1200000", scaling_max_freq="1200000")


def test_a_failure_within_it_puts_it_back(machine: Machine, tmp_path: Path) -> None:
    cpus = machine()
    with contextlib.suppress(KeyboardInterrupt), frequency_set(FrequencyChoice("performance"), tmp_path, cpus):
        raise KeyboardInterrupt
    assert values(cpus) == set_to()


@pytest.mark.parametrize(
    ("choice", "why"),
    [
        (
            FrequencyChoice("fast"),
            "--governor fast: this host's governors are performance, powersave: give one of them",
        ),
        (FrequencyChoice(None, "9000"), "--set_freq 9000: cpu0 goes from 800 to 3600 MHz: give a frequency within it"),
    ],
)
def test_what_the_host_does_not_have_is_refused(
    machine: Machine, tmp_path: Path, choice: FrequencyChoice, why: str
) -> None:
    cpus = machine()
    with pytest.raises(UsageError) as caught, frequency_set(choice, tmp_path, cpus):
        pass
    assert str(caught.value) == why
    assert values(cpus) == set_to()
    assert not (tmp_path / STATE).exists()


def test_a_host_without_frequency_control_is_refused(tmp_path: Path) -> None:
    with pytest.raises(UsageError) as caught, frequency_set(FrequencyChoice("performance"), tmp_path, tmp_path / "cpu"):
        pass
    assert str(caught.value) == (
        f"--governor performance: this host has no frequency control (no {tmp_path}/cpu/cpu*/cpufreq): leave it out"
    )
    assert str(caught.value).count("\n") == 0


def test_one_that_can_not_be_set_is_refused_and_what_was_set_is_put_back(machine: Machine, tmp_path: Path) -> None:
    cpus = machine()
    (cpus / "cpufreq" / "policy2" / "scaling_governor").unlink()  # whoever writes it gets an error, root too
    (cpus / "cpufreq" / "policy2" / "scaling_governor").mkdir()
    with pytest.raises(UsageError) as caught, frequency_set(FrequencyChoice("performance"), tmp_path, cpus):
        pass
    assert str(caught.value).startswith(f"--governor performance: {cpus}/cpu2/cpufreq cannot be set (Is a directory)")
    assert (cpus / "cpu0" / "cpufreq" / "scaling_governor").read_text() == "powersave\n"
    assert not (tmp_path / STATE).exists()


# A program that has the settings until it ends, by the same code as a worker.
_PROGRAM = """
import sys, time
from pathlib import Path
from opduel.fleet.frequency import FrequencyChoice, frequency_set
with frequency_set(FrequencyChoice(*sys.argv[3:]), Path(sys.argv[1]), Path(sys.argv[2])):
    print("set", flush=True)
    time.sleep(60)
"""


@contextlib.contextmanager
def worker(folder: Path, cpus: Path) -> Iterator["subprocess.Popen[str]"]:
    command = [sys.executable, "-c", _PROGRAM, str(folder), str(cpus), "performance"]
    with subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, text=True, start_new_session=True) as process:
        assert process.stdout is not None
        try:
            assert process.stdout.readline() == "set\n"
            yield process
        finally:
            process.kill()


def guard_of(process: "subprocess.Popen[str]") -> int:
    children = Path(f"/proc/{process.pid}/task/{process.pid}/children").read_text().split()
    assert len(children) == 1
    return int(children[0])


def wait_for(what: Callable[[], bool]) -> None:
    end = time.monotonic() + 20
    while not what():
        assert time.monotonic() < end
        time.sleep(0.02)


def test_a_worker_that_is_killed_is_cleaned_up_after(machine: Machine, tmp_path: Path) -> None:
    cpus = machine()
    with worker(tmp_path, cpus) as process:
        assert values(cpus) == set_to(scaling_governor="performance")
        os.killpg(process.pid, signal.SIGKILL)
    wait_for(lambda: not (tmp_path / STATE).exists())
    assert values(cpus) == set_to()


def test_with_its_guard_killed_too_the_next_worker_puts_it_back(machine: Machine, tmp_path: Path) -> None:
    cpus = machine()
    with worker(tmp_path, cpus) as process:
        os.kill(guard_of(process), signal.SIGKILL)
        process.kill()
        process.wait()
        assert values(cpus) == set_to(scaling_governor="performance")
    with frequency_set(FrequencyChoice(), tmp_path, cpus):  # which sets nothing itself
        assert values(cpus) == set_to()
    assert not (tmp_path / STATE).exists()


def test_two_workers_of_one_host_do_not_both_set_it(
    machine: Machine, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("PATIENCE_S", "SHORT_PATIENCE_S"):
        monkeypatch.setattr(f"opduel.fleet.frequency.{name}", 0.2)
    cpus = machine()
    other = tmp_path / "other"
    other.mkdir()
    with worker(tmp_path, cpus):
        mine = frequency_set(FrequencyChoice("performance"), other, cpus)
        with pytest.raises(UsageError, match="another worker on this host sets it"), mine:
            pass
        with frequency_set(FrequencyChoice(), tmp_path, cpus):  # nor does one with the same folder put it back
            assert values(cpus) == set_to(scaling_governor="performance")


def test_what_was_kept_before_the_machine_was_started_is_dropped(machine: Machine, tmp_path: Path) -> None:
    cpus = machine(scaling_governor="performance")
    kept = {name: {"scaling_governor": "powersave"} for name in ("cpu0", "cpu2")}
    (tmp_path / STATE).write_text(json.dumps({"boot": "another", "cpus": kept}))
    put_back(tmp_path / STATE, cpus)
    assert values(cpus) == set_to(scaling_governor="performance")
    assert not (tmp_path / STATE).exists()


def test_a_damaged_file_is_logged_and_dropped(
    machine: Machine, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    cpus = machine()
    (tmp_path / STATE).write_text('{"boot": ')
    put_back(tmp_path / STATE, cpus)
    assert "is damaged" in caplog.text
    assert values(cpus) == set_to()
    assert not (tmp_path / STATE).exists()
