"""--fleet and the options with it: what goes together, and what is said of the rest."""

import subprocess
import sys
from functools import partial
from itertools import pairwise
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from opduel.commands import fleet
from opduel.commands.fleet import count_hosts, fleet_choice, measurer
from opduel.commands.launch import run_calibration, run_harness
from opduel.commands.options import read_options
from opduel.commands.subcommands import SUBCOMMANDS
from opduel.driver.build_turns import LAST
from opduel.fleet.address import FleetChoice
from opduel.fleet.frequency import frequency_set
from opduel.harness.run import run_ab
from opduel.records import UsageError


def choice(*words: str) -> object:
    return fleet_choice(read_options(["-b", "smoke", *words]))


def test_what_is_asked_for() -> None:
    assert choice() is None
    words = ["--fleet", "tls://bench:8786", "--fleet_tag", "gpu", "--fleet_tag", "fast", "-d", "a, b"]
    fleet = fleet_choice(read_options([*words, "--excluded_devices", "c", "--fleet_timeout", "5"]))
    assert fleet is not None
    assert (fleet.tags, fleet.hosts, fleet.excluded) == (("gpu", "fast"), ("a", "b"), ("c",))
    assert (fleet.address.text, fleet.timeout_s, fleet.silence_s) == ("tls://bench:8786", 5.0, 900.0)
    for name in ("--device", "--devices"):  # AI-PEP's words
        other = fleet_choice(read_options(["--fleet", "local:1", name, "a"]))
        assert other is not None
        assert other.hosts == ("a",)


@pytest.mark.parametrize(
    ("words", "why"),
    [
        (["--devices", "a"], "--devices: chooses hosts of a fleet: add --fleet ADDRESS"),
        (["--fleet_tag", "gpu"], "--fleet_tag: chooses hosts of a fleet"),
        (["--fleet", "local:2", "--golden", "x"], "--golden: does not go with --fleet"),
        (["--fleet", "local:2", "--fuzz", "3"], "--fuzz: does not go with --fleet"),
        (["--fleet", "local:2", "--profile_output", "x"], "--profile_output: does not go with --fleet"),
        (["--fleet", "here"], "--fleet here: is no address of a fleet"),
    ],
)
def test_what_does_not_go_together(words: list[str], why: str) -> None:
    with pytest.raises(UsageError) as caught:
        choice(*words)
    assert str(caught.value).startswith(why)


def test_names_are_separated_by_commas() -> None:
    with pytest.raises(UsageError, match="give names, separated by commas"):
        choice("--fleet", "local:1", "--devices", "a,,b")


def test_one_build_and_a_calibration_are_for_this_host() -> None:
    with pytest.raises(UsageError, match="--fleet: belongs to an A/B"):
        run_harness("harness.py", ["-b", "smoke", "--single", "--fleet", "local:2"])
    with pytest.raises(UsageError, match="--golden: does not go with --fleet: outputs are compared with stored ones"):
        run_harness("harness.py", ["-b", "smoke", "--golden", "x", "--treatment", "mxnet==1.9.1", "--fleet", "local:2"])
    with pytest.raises(UsageError, match="--fleet: is for other hosts, and --calibrate judges this one"):
        run_calibration("opduel calibrate", ["--fleet", "local:2"])


def test_without_a_fleet_this_host_measures() -> None:
    assert measurer(read_options(["-b", "smoke"])) is run_ab


def test_the_workers_of_a_fleet_on_this_machine_are_counted_without_starting_them(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setitem(sys.modules, "opduel.fleet.service", None)
    options = read_options(["-b", "smoke", "--fleet", "local:3"])
    assert count_hosts(options) == 3
    assert count_hosts(read_options(["-b", "smoke"])) == 1


def test_what_is_needed_now_comes_before_all_that_is_measured_ahead(monkeypatch: pytest.MonkeyPatch) -> None:
    priorities = []

    def run_fleet(_request: object, chosen: FleetChoice, _hear: object, _suite: object) -> None:
        priorities.append(chosen.priority)

    monkeypatch.setattr("opduel.fleet.client.run_fleet", run_fleet)
    options = read_options(["-b", "smoke", "--fleet", "local:3"])
    request: Any = SimpleNamespace(framework=SimpleNamespace(has_own_sides=False))
    for rank in (None, 1, 2, LAST):
        measurer(options, rank)(request, lambda _: None)
    shards = 4000  # each of which has a priority of its own
    assert all(later < earlier - shards for earlier, later in pairwise(priorities))


def test_without_the_extra_it_says_what_to_install(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    for name in ("client", "job"):
        monkeypatch.setitem(sys.modules, f"opduel.fleet.{name}", None)
    with pytest.raises(UsageError, match=r"--fleet: needs the extra fleet: .*'opduel\[fleet\]'"):
        measurer(read_options(["-b", "smoke", "--fleet", "local:2"]))
    with pytest.raises(UsageError, match=r"opduel fleet needs the extra fleet"):
        SUBCOMMANDS["fleet"].run("opduel fleet", ["certificates", str(tmp_path)])


@pytest.mark.parametrize(
    ("words", "why"),
    [
        (["worker", "local:2"], "ADDRESS local:2: give the scheduler's"),
        (["scheduler", "here"], "ADDRESS here: is no address of a fleet"),
        (["worker", "tls://a:1", "--certificates", "/nowhere"], "--certificates /nowhere: ca.pem is missing"),
        (["worker", "tcp://a:1", "--set_freq", "fast"], "--set_freq: 'fast': give max, mid or min, or a number of MHz"),
        (
            ["worker", "tcp://a:1", "--before_run_timeout", "0"],
            "--before_run_timeout: '0' is not a number of seconds above 0",
        ),
        (["scheduler", "tcp://a:1", "--dashboard", "here"], "--dashboard: 'here'"),
        (["scheduler", "tcp://a:1", "--dashboard", "8787"], "--dashboard: Dask draws it with bokeh: install that with"),
    ],
)
def test_what_parts_of_a_fleet_refuse(words: list[str], why: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "bokeh", None)  # where it is installed, too
    with pytest.raises(UsageError) as caught:
        SUBCOMMANDS["fleet"].run("opduel fleet", words)
    assert str(caught.value).removeprefix("argument ").startswith(why)


def test_a_host_without_frequency_control_refuses_to_set_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fleet, "frequency_set", partial(frequency_set, policies=tmp_path / "none"))
    with pytest.raises(UsageError, match=r"^--set_freq max: this host has no frequency control") as caught:
        SUBCOMMANDS["fleet"].run(
            "opduel fleet", ["worker", "tcp://127.0.0.1:1", "--folder", str(tmp_path), "--set_freq", "max"]
        )
    assert caught.value.exit_code == 2


def test_a_plain_command_loads_nothing_of_dask() -> None:
    modules = "[name for name in sys.modules if 'dask' in name or 'distributed' in name]"
    code = f"import sys, opduel.commands.harness, opduel.commands.repo_driver; print({modules})"
    process = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert process.stdout.strip() == "[]"
