"""Hosts of a fleet that hang, are slow, have no space left, another clock or another version: each for real.

The run ends with a complete report, no case is lost or measured on two hosts, and one line says what happened.
"""

import json
import os
import shutil
import signal
import subprocess
import threading
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import Any

import psutil
import pytest
from host_network import Network
from made_fleet import LONG_S, ROOT, Fleet, command, report

from opduel.fleet.address import FleetChoice, parse_address
from opduel.fleet.hosts import wait_for_hosts
from opduel.fleet.service import connect

pytestmark = pytest.mark.nightly
FUNCTIONS = (
    *("exp", "sqrt", "negative", "sin", "cos", "tanh", "log1p", "square", "floor", "absolute", "sign", "rint"),
    *("cumsum", "diff", "sum", "mean", "std", "argsort", "sort", "flip", "cosh", "expm1", "ravel", "copy"),
)
NEEDS_ROOT = pytest.mark.skipif(os.geteuid() != 0, reason="mounts a file system, or makes network namespaces")
COMPILER = shutil.which("cc") or shutil.which("gcc")
NEEDS_COMPILER = pytest.mark.skipif(COMPILER is None, reason="no C compiler")
DAY_S = 86400
SPACE = "No space left on device"


def tree(process: "subprocess.Popen[bytes]") -> list[psutil.Process]:
    """A worker and all that it has started."""
    with suppress(psutil.Error):
        worker = psutil.Process(process.pid)
        return [worker, *worker.children(recursive=True)]
    return []


def each(processes: list[psutil.Process], signal_number: int) -> None:
    for one in processes:
        with suppress(psutil.Error):
            one.send_signal(signal_number)


@contextmanager
def slowed(process: "subprocess.Popen[bytes]", times: float) -> Iterator[None]:
    """A host that computes for one slice of time in so many."""
    over = threading.Event()

    def slow() -> None:
        while not over.is_set():
            stopped = tree(process)
            each(stopped, signal.SIGSTOP)
            over.wait(0.05 * (times - 1))
            each(stopped, signal.SIGCONT)
            over.wait(0.05)

    thread = threading.Thread(target=slow)
    thread.start()
    try:
        yield
    finally:
        over.set()
        thread.join()


def clock(folder: Path, off_s: int) -> dict[str, str]:
    """The variables of a process whose time of day is wrong by so much."""
    library = folder / "wrong_clock.so"
    source = Path(__file__).with_name("wrong_clock.c")
    subprocess.run([COMPILER or "cc", "-shared", "-fPIC", "-o", str(library), str(source), "-ldl"], check=True)
    return {"LD_PRELOAD": str(library), "OPDUEL_TEST_CLOCK": str(off_s)}


def rounds_of(log: Path, host: str) -> int:
    text = log.read_text(encoding="utf-8", errors="replace") if log.exists() else ""
    return sum(f'"host": "{host}"' in line and '"event": "round"' in line for line in text.splitlines())


def samples_sent(log: Path) -> dict[str, dict[str, set[tuple[int, float]]]]:
    """Host -> case -> what the host measured of it, as the client kept it."""
    found: dict[str, dict[str, set[tuple[int, float]]]] = {}
    for line in log.read_text(encoding="utf-8").splitlines():
        entry = json.loads(line)
        text: dict[str, Any] = json.loads(entry["text"]) if entry.get("event") == "round" else {"kind": None}
        for sample in text["result"]["samples"] if text["kind"] == "round" else ():
            cases = found.setdefault(entry["host"], {})
            cases.setdefault(sample["case_id"], set()).add((sample["round"], sample["log_ratio"]))
    return found


def check(folder: Path, log: Path | None = None) -> dict[str, Any]:
    """The report is whole; every sample in it is of the host that it names."""
    found = report(folder)
    assert found["run"]["complete"], found["run"]["stop_reason"]
    assert sorted(one["case"] for one in found["comparisons"]) == sorted(f"{name}_0/forward" for name in FUNCTIONS)
    for one in found["comparisons"]:
        samples = [(sample["round"], sample["log_ratio"]) for sample in one["samples"]]
        assert samples
        assert len(samples) == len(set(samples))
        for host, cases in (samples_sent(log) if log else {}).items():
            assert host == one["host"] or not set(samples) & cases.get(one["case"], set())
    return found


def run(folder: Path, fleet: Fleet, *words: str) -> "subprocess.Popen[str]":
    made = command(folder, fleet, "--round_log", str(folder / "rounds"), *words, functions=FUNCTIONS)
    return subprocess.Popen(made, stderr=subprocess.PIPE, text=True)


def ended(client: "subprocess.Popen[str]") -> str:
    """What it said, when it has ended."""
    errors = client.communicate(timeout=2 * LONG_S)[1]
    assert client.returncode in (0, 1), errors
    return errors


@pytest.fixture
def fleet(tmp_path: Path) -> Iterator[Fleet]:
    with ExitStack() as stack:
        yield Fleet(tmp_path, stack)


@pytest.mark.parametrize("times", [2, 10])
def test_open_cases_of_a_slow_host_move(fleet: Fleet, tmp_path: Path, times: int) -> None:
    """Ten times as slow: the other host is sooner, and measures them from the start; half as fast: it may be."""
    slow = fleet.worker("slow")
    fleet.worker("quick")
    log, copy = tmp_path / "rounds", tmp_path / "copy"
    with slowed(slow, times):
        client = run(tmp_path, fleet, "--max_rounds", "8")
        fleet.wait_for(log.exists)
        copy.hardlink_to(log)
        errors = ended(client)
    found = check(tmp_path, copy)
    moved = [json.loads(line) for line in copy.read_text().splitlines() if '"event": "moved"' in line]
    assert len(moved) == errors.count("slow is slow: other hosts take over ")
    for entry in moved:
        assert entry["host"] == "slow"
        elsewhere = {case for shard in entry["shards"] for case in shard}
        assert {one["host"] for one in found["comparisons"] if one["case"] in elsewhere} == {"quick"}
    if times == 10:
        assert moved or "does not finish" in errors, errors


def test_a_host_that_hangs_is_given_up(fleet: Fleet, tmp_path: Path) -> None:
    hangs = fleet.worker("hangs")
    fleet.worker("other")
    log, copy = tmp_path / "rounds", tmp_path / "copy"
    client = run(tmp_path, fleet, "--fleet_silence", "20")
    fleet.wait_for(lambda: rounds_of(log, "hangs"))
    copy.hardlink_to(log)
    stopped = tree(hangs)
    each(stopped, signal.SIGSTOP)
    try:
        errors = ended(client)
    finally:
        each(stopped, signal.SIGCONT)
    assert "hangs has said nothing for" in errors or "hangs does not finish" in errors, errors
    found = check(tmp_path, copy)
    assert {one["host"] for one in found["comparisons"]} == {"other"}


@contextmanager
def small_disk(place: Path, size: str) -> Iterator[Path]:
    place.mkdir()
    subprocess.run(["mount", "-t", "tmpfs", "-o", f"size={size}", "none", str(place)], check=True)
    try:
        yield place
    finally:
        subprocess.run(["umount", "-l", str(place)], check=True)


def fill(place: Path) -> None:
    """Leave no space."""
    with suppress(OSError), (place / "filler").open("wb", buffering=0) as file:
        while file.write(b"x" * 4096):
            pass


@NEEDS_ROOT
@pytest.mark.parametrize("when", ["before", "meanwhile"])
def test_a_host_whose_disk_is_full_is_left_out(fleet: Fleet, tmp_path: Path, when: str) -> None:
    with small_disk(tmp_path / "small", "2m") as place:
        fleet.worker("full", "--folder", str(place))
        fleet.worker("other")
        if when == "before":
            fill(place)
        client = run(tmp_path, fleet)
        if when == "meanwhile":
            fleet.wait_for(lambda: rounds_of(tmp_path / "rounds", "full"))
            fill(place)
        errors = ended(client)
        assert f"full: cannot keep shards in {place} ({SPACE}): free space there, or give --folder" in errors, errors
        assert {one["host"] for one in check(tmp_path)["comparisons"]} == {"other"}


@NEEDS_ROOT
def test_a_client_whose_disk_is_full_has_its_report_and_says_so_once(fleet: Fleet, tmp_path: Path) -> None:
    fleet.worker("one")
    with small_disk(tmp_path / "small", "16k") as place:
        client = run(tmp_path, fleet, "--round_log", str(place / "rounds"))
        errors = ended(client)
        assert errors.count("cannot be saved") == 1, errors
        check(tmp_path)


@NEEDS_ROOT
def test_a_shard_that_is_measured_twice_counts_once(tmp_path: Path) -> None:
    """A cut network: the scheduler gives the shard to another host, while the first one still measures it."""
    with ExitStack() as stack:
        network = Network(["cut", "other"])
        stack.callback(network.remove)
        fleet = Fleet(tmp_path, stack, network)
        fleet.worker("cut")
        fleet.worker("other")
        log, copy = tmp_path / "rounds", tmp_path / "copy"
        client = run(tmp_path, fleet)
        fleet.wait_for(lambda: rounds_of(log, "cut"))
        copy.hardlink_to(log)
        network.pull(["cut"])
        errors = ended(client)
        network.plug(["cut"])
        found = check(tmp_path, copy)
        entries = [json.loads(line) for line in copy.read_text().splitlines()]
        begun = {one["key"] for one in entries if one.get("host") == "cut"}
        assert begun <= {one["key"] for one in entries if one.get("event") == "round" and one["host"] == "other"}, (
            errors
        )
        assert {one["host"] for one in found["comparisons"]} == {"other"}
        back = FleetChoice(parse_address(fleet.address), fleet.certificates, timeout_s=LONG_S, hosts=("cut",))
        with connect(back) as again:
            assert list(wait_for_hosts(again, back)) == ["cut"]


@NEEDS_COMPILER
@pytest.mark.parametrize("off_s", [DAY_S, -3000])
def test_a_clock_that_is_off_changes_nothing(fleet: Fleet, tmp_path: Path, off_s: int) -> None:
    fleet.worker("off", env=clock(tmp_path, off_s))
    fleet.worker("right")
    log, copy = tmp_path / "rounds", tmp_path / "copy"
    client = run(tmp_path, fleet)
    fleet.wait_for(log.exists)
    copy.hardlink_to(log)
    errors = ended(client)
    found = check(tmp_path, copy)
    assert {one["host"] for one in found["comparisons"]} == {"off", "right"}, errors


@NEEDS_COMPILER
def test_a_clock_before_the_certificates_is_named(fleet: Fleet, tmp_path: Path) -> None:
    _, log = fleet.start(
        "early", "worker", fleet.address, "--folder", str(tmp_path / "early"), env=clock(tmp_path, -2 * DAY_S)
    )
    fleet.wait_for(lambda: "trying again" in log.read_text())
    assert "certificate is not yet valid" in log.read_text()


def test_a_worker_of_another_version_is_refused_in_one_line(fleet: Fleet, tmp_path: Path) -> None:
    patch = tmp_path / "patch"
    patch.mkdir()
    (patch / "sitecustomize.py").write_text("import opduel\nopduel.__version__ = '0.0.1'\n")
    fleet.worker("old", env={"PYTHONPATH": f"{patch}:{ROOT}"})
    client = run(tmp_path, fleet)
    errors = client.communicate(timeout=LONG_S)[1]
    assert client.returncode == 3
    assert errors.splitlines()[-1].startswith(
        "harness.py: error: nothing was measured: old: has opduel 0.0.1, the run is"
    )
    assert "Traceback" not in errors
    fleet.worker("new")
    errors = ended(run(tmp_path, fleet))
    assert "install the same version on all hosts" in errors
    assert {one["host"] for one in check(tmp_path)["comparisons"]} == {"new"}
