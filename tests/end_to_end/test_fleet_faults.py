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


def signal_all(processes: list[psutil.Process], signal_number: int) -> None:
    for process in processes:
        with suppress(psutil.Error):
            process.send_signal(signal_number)


@contextmanager
def slowed(process: "subprocess.Popen[bytes]", times: float) -> Iterator[None]:
    """A host that computes for one slice of time in so many."""
    over = threading.Event()

    def slow() -> None:
        while not over.is_set():
            processes = tree(process)
            signal_all(processes, signal.SIGSTOP)
            over.wait(0.05 * (times - 1))
            signal_all(processes, signal.SIGCONT)
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
    samples_by_host: dict[str, dict[str, set[tuple[int, float]]]] = {}
    for line in log.read_text(encoding="utf-8").splitlines():
        entry = json.loads(line)
        text: dict[str, Any] = json.loads(entry["text"]) if entry.get("event") == "round" else {"kind": None}
        for sample in text["result"]["samples"] if text["kind"] == "round" else ():
            cases = samples_by_host.setdefault(entry["host"], {})
            cases.setdefault(sample["case_id"], set()).add((sample["round"], sample["log_ratio"]))
    return samples_by_host


def check(folder: Path, log: Path | None = None) -> dict[str, Any]:
    """The report is whole; every sample in it is of the host that it names."""
    document = report(folder)
    assert document["run"]["complete"], document["run"]["stop_reason"]
    assert sorted(row["case"] for row in document["comparisons"]) == sorted(
        f"{name}(64, float64)" for name in FUNCTIONS
    )
    for row in document["comparisons"]:
        samples = [(sample["round"], sample["log_ratio"]) for sample in row["samples"]]
        assert samples
        assert len(samples) == len(set(samples))
        for host, cases in (samples_sent(log) if log else {}).items():
            assert host == row["host"] or not set(samples) & cases.get(row["case"], set())
    return document


def run(folder: Path, fleet: Fleet, *words: str) -> "subprocess.Popen[str]":
    words_of_run = command(folder, fleet, "--round_log", str(folder / "rounds"), *words, functions=FUNCTIONS)
    return subprocess.Popen(words_of_run, stderr=subprocess.PIPE, text=True)


def errors_at_end(client: "subprocess.Popen[str]") -> str:
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
        errors = errors_at_end(client)
    document = check(tmp_path, copy)
    moved = [json.loads(line) for line in copy.read_text().splitlines() if '"event": "moved"' in line]
    assert len(moved) == errors.count("slow is slow: other hosts take over ")
    for entry in moved:
        assert entry["host"] == "slow"
        other_cases = {case for shard in entry["shards"] for case in shard}
        assert {row["host"] for row in document["comparisons"] if row["case"] in other_cases} == {"quick"}
    if times == 10:
        assert moved or "does not finish" in errors, errors


def test_a_host_that_hangs_is_given_up(fleet: Fleet, tmp_path: Path) -> None:
    hangs = fleet.worker("hangs")
    fleet.worker("other")
    log, copy = tmp_path / "rounds", tmp_path / "copy"
    client = run(tmp_path, fleet, "--fleet_silence", "20")
    fleet.wait_for(lambda: rounds_of(log, "hangs"))
    copy.hardlink_to(log)
    processes = tree(hangs)
    signal_all(processes, signal.SIGSTOP)
    try:
        errors = errors_at_end(client)
    finally:
        signal_all(processes, signal.SIGCONT)
    assert "hangs has said nothing for" in errors or "hangs does not finish" in errors, errors
    document = check(tmp_path, copy)
    assert {row["host"] for row in document["comparisons"]} == {"other"}


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
        errors = errors_at_end(client)
        assert f"full: cannot keep shards in {place} ({SPACE}): free space there, or give --folder" in errors, errors
        assert {row["host"] for row in check(tmp_path)["comparisons"]} == {"other"}


@NEEDS_ROOT
def test_a_client_whose_disk_is_full_has_its_report_and_says_so_once(fleet: Fleet, tmp_path: Path) -> None:
    fleet.worker("one")
    with small_disk(tmp_path / "small", "16k") as place:
        client = run(tmp_path, fleet, "--round_log", str(place / "rounds"))
        errors = errors_at_end(client)
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
        errors = errors_at_end(client)
        network.plug(["cut"])
        document = check(tmp_path, copy)
        entries = [json.loads(line) for line in copy.read_text().splitlines()]
        cut_keys = {entry["key"] for entry in entries if entry.get("host") == "cut"}
        other_keys = {entry["key"] for entry in entries if entry.get("event") == "round" and entry["host"] == "other"}
        assert cut_keys <= other_keys, errors
        assert {row["host"] for row in document["comparisons"]} == {"other"}
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
    errors = errors_at_end(client)
    document = check(tmp_path, copy)
    assert {row["host"] for row in document["comparisons"]} == {"off", "right"}, errors


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
    errors = errors_at_end(run(tmp_path, fleet))
    assert "install the same version on all hosts" in errors
    assert {row["host"] for row in check(tmp_path)["comparisons"]} == {"new"}
