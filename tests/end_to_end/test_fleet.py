"""A fleet for real: a scheduler and workers as programs of their own, with certificates, and kills."""

import os
import signal
import subprocess
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path

import pytest
from made_fleet import FUNCTIONS, LONG_S, Fleet, command, report

from opduel.commands.fleet import run_fleet_command
from opduel.fleet.address import FleetChoice, parse_address
from opduel.fleet.client import wait_for_hosts
from opduel.fleet.service import connect
from opduel.records import RunError


@pytest.fixture(scope="module")
def fleet(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Fleet]:
    with ExitStack() as stack:
        made = Fleet(tmp_path_factory.mktemp("fleet"), stack)
        made.worker("one", "--tag", "fast")
        yield made


def test_a_run_on_a_fleet(fleet: Fleet, tmp_path: Path) -> None:
    done = subprocess.run(command(tmp_path, fleet, "--fleet_tag", "fast"), capture_output=True, text=True, check=False)
    assert done.returncode in (0, 1), done.stderr
    found = report(tmp_path)
    assert {one["case"]: one["host"] for one in found["comparisons"]} == {
        f"{name}_0/forward": "one" for name in FUNCTIONS
    }
    assert [(host["name"], host["cases"]) for host in found["run"]["fleet"]["hosts"]] == [("one", len(FUNCTIONS))]
    assert all(one["rounds"] for one in found["comparisons"])


def test_who_does_not_belong_to_it_is_refused_in_one_line(fleet: Fleet, tmp_path: Path) -> None:
    other = tmp_path / "other"
    assert run_fleet_command(["certificates", str(other)]) == 0
    plain = fleet.address.replace("tls:", "tcp:")
    own = FleetChoice(parse_address(fleet.address), fleet.certificates, timeout_s=1)
    for choice, why in (
        (replace(own, certificates=other), "the certificates are not of the same fleet"),
        (replace(own, address=parse_address(plain)), "a fleet with certificates has a tls:// address"),
        (replace(own, tags=("none",)), "no worker is a host with the tag none within 1 s (workers there: one)"),
        (replace(own, hosts=("two", "three")), "no worker is a host with a name among two, three"),
    ):
        with pytest.raises(RunError) as caught, connect(choice) as client:
            wait_for_hosts(client, choice)
        assert why in str(caught.value)


def test_a_worker_with_other_certificates_gets_nothing(fleet: Fleet, tmp_path: Path) -> None:
    other = tmp_path / "other"
    assert run_fleet_command(["certificates", str(other)]) == 0
    _, log = fleet.start("stranger", "worker", fleet.address, "--folder", str(tmp_path / "w"), certificates=other)
    fleet.wait_for(lambda: "trying again" in log.read_text())
    assert "the certificates are not of the same fleet, or have expired" in log.read_text()


@pytest.mark.nightly
def test_a_worker_that_is_killed_loses_no_round_and_counts_none_twice(tmp_path: Path) -> None:
    """Killed with all that it started, in the middle of a shard; another worker of that host goes on with it."""
    with ExitStack() as stack:
        made = Fleet(tmp_path, stack)
        first = made.worker("host")
        log = tmp_path / "rounds"
        words = ["--round_log", str(log), "--max_rounds", "6"]
        run = subprocess.Popen(command(tmp_path, made, *words), stderr=subprocess.PIPE, text=True)
        made.wait_for(lambda: log.exists() and log.read_text().count('"event": "round"') >= 2)
        os.killpg(first.pid, signal.SIGKILL)
        made.worker("host")
        errors = run.communicate(timeout=LONG_S)[1]
        assert run.returncode in (0, 1), errors
        rows = report(tmp_path)["comparisons"]
        assert len(rows) == len(FUNCTIONS)
        for one in rows:
            numbers = [(sample["stage"], sample["round"]) for sample in one["samples"]]
            assert len(numbers) == len(set(numbers))


@pytest.mark.nightly
def test_a_client_that_is_killed_goes_on_where_it_was(tmp_path: Path) -> None:
    with ExitStack() as stack:
        made = Fleet(tmp_path, stack)
        made.worker("host")
        log = tmp_path / "rounds"
        words = ["--round_log", str(log), "--max_rounds", "6"]
        run = subprocess.Popen(command(tmp_path, made, *words), stderr=subprocess.DEVNULL)
        made.wait_for(lambda: log.exists() and log.read_text().count('"event": "round"') >= 2)
        run.kill()
        run.wait()
        kept = log.read_text().count('"event": "round"')
        done = subprocess.run(command(tmp_path, made, *words), capture_output=True, text=True, check=False)
        assert done.returncode in (0, 1), done.stderr
        found = report(tmp_path)
        assert max(one["rounds"] for one in found["comparisons"]) <= 12
        assert found["run"]["rounds"] >= kept - 1  # the first text is not a round
        assert not log.exists()
