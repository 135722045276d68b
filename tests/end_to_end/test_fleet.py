"""A fleet for real: a scheduler and workers as programs of their own, with certificates, and kills."""

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from opduel.commands.fleet import run_fleet_command
from opduel.fleet.address import FleetChoice, parse_address
from opduel.fleet.client import wait_for_hosts
from opduel.fleet.service import connect
from opduel.records import RunError

ROOT = Path(__file__).resolve().parent.parent.parent
FUNCTIONS = ("exp", "sqrt")
LONG_S = 120.0  # against hanging for ever


class Fleet:
    """A scheduler, and workers on demand."""

    def __init__(self, folder: Path, stack: ExitStack) -> None:
        self.folder, self._stack = folder, stack
        self.certificates = folder / "certificates"
        assert run_fleet_command(["certificates", str(self.certificates)]) == 0
        self.address = "tls://127.0.0.1:0"
        self.scheduler, log = self.start("scheduler", "scheduler", self.address)
        self.wait_for(lambda: "scheduler at " in log.read_text())
        self.address = log.read_text().partition("scheduler at ")[2].split()[0]

    def start(
        self, name: str, *words: str, certificates: Path | None = None, within: Sequence[str] = ()
    ) -> tuple[subprocess.Popen[bytes], Path]:
        """One of its programs, run by the command ``within``, and its log."""
        log = self.folder / f"{name}.log"
        command = [*within, sys.executable, "-m", "opduel", "fleet", *words]
        command += ["--certificates", str(certificates or self.certificates)]
        with log.open("wb") as errors:
            process = subprocess.Popen(command, cwd=ROOT, stderr=errors, start_new_session=True)
        self._stack.callback(_end, process)
        return process, log

    def worker(self, name: str, *words: str, within: Sequence[str] = ()) -> subprocess.Popen[bytes]:
        """A measuring host, when it is there."""
        place = ("--folder", str(self.folder / name))
        process, log = self.start(name, "worker", self.address, "--name", name, *place, *words, within=within)
        self.wait_for(lambda: f"{name} measures for" in log.read_text())
        return process

    def wait_for(self, what: Callable[[], object]) -> None:
        end = time.monotonic() + LONG_S
        while not what():
            assert time.monotonic() < end
            time.sleep(0.05)


def _end(process: subprocess.Popen[bytes]) -> None:
    if process.poll() is None:
        process.send_signal(signal.SIGTERM)
    try:
        process.wait(20)
    except subprocess.TimeoutExpired:
        os.killpg(process.pid, signal.SIGKILL)
        process.wait()


@pytest.fixture(scope="module")
def fleet(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Fleet]:
    with ExitStack() as stack:
        made = Fleet(tmp_path_factory.mktemp("fleet"), stack)
        made.worker("one", "--tag", "fast")
        yield made


def spec(folder: Path) -> Path:
    tests = [{"operator": f"numpy.{name}", "inputs": {"args": [[64]]}} for name in FUNCTIONS]
    path = folder / "spec.json"
    path.write_text(json.dumps({"framework": "python", "tests": tests}), encoding="utf-8")
    return path


def command(folder: Path, fleet: Fleet, *words: str) -> list[str]:
    own = str(Path(sys.executable).parent.parent)
    sides = ["--control", own, "--treatment", own]
    bounds = ["--max_rounds", "2", "--sentinels", "0", "--busy_host", "report", "--explain", "none"]
    place = ["--fleet", fleet.address, "--fleet_certificates", str(fleet.certificates)]
    made = [sys.executable, str(ROOT / "harness.py"), "-b", str(spec(folder)), *sides, *bounds]
    return [*made, "--simple_local_reporter", str(folder / "report"), *place, *words]


def report(folder: Path) -> dict[str, Any]:
    read: dict[str, Any] = json.loads((folder / "report" / "report.json").read_text(encoding="utf-8"))
    return read


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


SUITE = """
from pathlib import Path

class Cached:
    def setup_cache(self):
        return (Path(__file__).parent / "answer.txt").read_text()

    def track_answer(self, cache):
        return int(cache)

    def time_answer(self, cache):
        sum(range(int(cache) * 100))

def time_sum():
    sum(range(5000))

class Fails:
    def setup_cache(self):
        raise OSError("no data set")

    def time_never(self, cache):
        pass
"""
HIDING = 'for one in $HIDDEN; do mount -t tmpfs none "$one" || exit 1; done; exec "$@"'


def hides_folders() -> bool:
    """Whether this user may have mounts of its own."""
    done = subprocess.run(["unshare", "-m", "mount", "-t", "tmpfs", "none", "/mnt"], capture_output=True, check=False)
    return done.returncode == 0


@pytest.mark.nightly
@pytest.mark.skipif(not hides_folders(), reason="needs root, for a mount namespace")
def test_a_suite_on_hosts_that_cannot_see_the_clients_files(tmp_path: Path) -> None:
    """Neither its folder nor the copies that the client makes; and what no host can do is reported."""
    suite, temporary = tmp_path / "client" / "bench", tmp_path / "client" / "tmp"
    suite.mkdir(parents=True)
    temporary.mkdir()
    (suite / "one.py").write_text(SUITE)
    (suite / "answer.txt").write_text("42")
    with ExitStack() as stack:
        made = Fleet(tmp_path, stack)
        within = ["env", f"HIDDEN={tmp_path / 'client'}", "unshare", "-m", "sh", "-c", HIDING, "sh"]
        for name in ("one", "two"):
            made.worker(name, within=within)
        own = str(Path(sys.executable).parent.parent)
        words = ["--suite", str(suite), "--control", own, "--treatment", own, "--max_rounds", "2", "--sentinels", "0"]
        words += ["--busy_host", "report", "--explain", "none", "--simple_local_reporter", str(tmp_path / "report")]
        words += ["--fleet", made.address, "--fleet_certificates", str(made.certificates)]
        done = subprocess.run(
            [sys.executable, str(ROOT / "harness.py"), *words],
            env={**os.environ, "TMPDIR": str(temporary)},
            capture_output=True,
            text=True,
            check=False,
        )
    assert done.returncode in (0, 1), done.stderr
    found = report(tmp_path)
    rows = {one["case"]: one for one in found["comparisons"]}
    assert rows["one.Cached.track_answer/value"]["control"] == 42
    assert all(rows[case]["rounds"] for case in ("one.Cached.time_answer", "one.time_sum"))
    assert (rows["one.Fails.time_never"]["failure"] or {})["side"] == "both"
    host = rows["one.Fails.time_never"]["host"]
    why = "setup_cache of one.Fails.time_never: OSError: no data set"
    assert found["run"]["suite"]["problems"] == [f"{host}: {side}: {why}" for side in ("control", "treatment")]
    assert "fleet: sending the suite bench" in done.stderr
    assert not list(temporary.rglob("failed.txt"))
