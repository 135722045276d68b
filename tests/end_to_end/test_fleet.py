"""A fleet for real: a scheduler and workers as programs of their own, with certificates, and kills."""

import contextlib
import http.client
import os
import signal
import subprocess
import sys
import time
import urllib.request
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path

import psutil
import pytest
from forked import run_forked
from made_fleet import FUNCTIONS, LONG_S, ROOT, Fleet, command, end_process, report

from opduel.commands.fleet import run_fleet_command
from opduel.commands.fleet_options import FleetPart
from opduel.fleet.address import FleetChoice, parse_address
from opduel.fleet.hosts import wait_for_hosts
from opduel.fleet.service import connect
from opduel.records import RunError


@pytest.fixture(scope="module")
def fleet(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Fleet]:
    with ExitStack() as stack:
        own_fleet = Fleet(tmp_path_factory.mktemp("fleet"), stack)
        own_fleet.first = own_fleet.worker(
            "one", "--tag", "fast", "--before_run", f"echo prepared >> {own_fleet.folder / 'prepared'}"
        )
        yield own_fleet


def test_a_run_on_a_fleet(fleet: Fleet, tmp_path: Path) -> None:
    process = run_forked(command(tmp_path, fleet, "--fleet_tag", "fast"))
    assert process.returncode in (0, 1, 3), process.stderr  # 3: its rounds may be too few for a verdict
    document = report(tmp_path)
    assert {row["case"]: row["host"] for row in document["comparisons"]} == {
        f"{name}(64, float64)": "one" for name in FUNCTIONS
    }
    assert [(host["name"], host["cases"]) for host in document["run"]["fleet"]["hosts"]] == [("one", len(FUNCTIONS))]
    assert all(row["rounds"] for row in document["comparisons"])
    assert (fleet.folder / "prepared").read_text() == "prepared\n"  # by the host's --before_run, once for its shard


def listening(process: int) -> set[tuple[str, int]]:
    """Where a program listens, and those that it started."""
    parent = psutil.Process(process)
    return {
        (connection.laddr.ip, connection.laddr.port)
        for child in [parent, *parent.children(recursive=True)]
        for connection in child.net_connections("tcp")
        if connection.status == psutil.CONN_LISTEN
    }


def test_no_part_of_it_serves_web_pages(fleet: Fleet) -> None:
    """Dask's would tell without encryption what is measured where."""
    served = listening(fleet.scheduler.pid) | listening(fleet.first.pid)
    assert len(served) >= 4  # of scheduler, nanny and worker, each with certificates; and web servers with no pages
    pages = ("status", "info/main/workers.html", "json/counts.json", "metrics", "health")
    for _, port in served:
        for page in pages:
            with contextlib.suppress(OSError, http.client.HTTPException):  # TLS
                connection = http.client.HTTPConnection("127.0.0.1", port, timeout=10)
                connection.request("GET", f"/{page}")
                assert connection.getresponse().status == 404


def test_who_does_not_belong_to_it_is_refused_in_one_line(fleet: Fleet, tmp_path: Path) -> None:
    other = tmp_path / "other"
    assert run_fleet_command(FleetPart("certificates", folder=other)) == 0
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
    assert run_fleet_command(FleetPart("certificates", folder=other)) == 0
    _, log = fleet.start("stranger", "worker", fleet.address, "--folder", str(tmp_path / "w"), certificates=other)
    why = "the certificates are not of the same fleet, or have expired"
    fleet.wait_for(lambda: why in log.read_text())  # of an attempt that a busy machine doesn't time out
    assert "trying again" in log.read_text()


@pytest.mark.nightly
def test_a_worker_that_is_killed_loses_no_round_and_counts_none_twice(tmp_path: Path) -> None:
    """Killed with all that it started, in the middle of a shard; another worker of that host goes on with it."""
    with ExitStack() as stack:
        own_fleet = Fleet(tmp_path, stack)
        first = own_fleet.worker("host")
        log = tmp_path / "rounds"
        words = ["--round_log", str(log), "--max_rounds", "6"]
        run = subprocess.Popen(command(tmp_path, own_fleet, *words), stderr=subprocess.PIPE, text=True)
        own_fleet.wait_for(lambda: log.exists() and log.read_text().count('"event": "round"') >= 2)
        os.killpg(first.pid, signal.SIGKILL)
        own_fleet.worker("host")
        errors = run.communicate(timeout=LONG_S)[1]
        assert run.returncode in (0, 1), errors
        rows = report(tmp_path)["comparisons"]
        assert len(rows) == len(FUNCTIONS)
        for row in rows:
            numbers = [(sample["stage"], sample["round"]) for sample in row["samples"]]
            assert len(numbers) == len(set(numbers))


@pytest.mark.nightly
def test_a_client_that_is_killed_goes_on_where_it_was(tmp_path: Path) -> None:
    with ExitStack() as stack:
        own_fleet = Fleet(tmp_path, stack)
        own_fleet.worker("host")
        log = tmp_path / "rounds"
        words = ["--round_log", str(log), "--max_rounds", "6"]
        run = subprocess.Popen(command(tmp_path, own_fleet, *words), stderr=subprocess.DEVNULL)
        own_fleet.wait_for(lambda: log.exists() and log.read_text().count('"event": "round"') >= 2)
        run.kill()
        run.wait()
        rounds_before = log.read_text().count('"event": "round"')
        process = subprocess.run(command(tmp_path, own_fleet, *words), capture_output=True, text=True, check=False)
        assert process.returncode in (0, 1), process.stderr
        document = report(tmp_path)
        assert max(row["rounds"] for row in document["comparisons"]) <= 12
        assert document["run"]["rounds"] >= rounds_before - 1  # the first text is not a round
        assert not log.exists()


@pytest.mark.nightly
def test_a_run_that_is_made_again_is_measured_again(fleet: Fleet, tmp_path: Path) -> None:
    """Its hosts have the shards of the first one, of the same seed."""
    log_ratios = []
    for _ in range(2):
        process = subprocess.run(command(tmp_path, fleet, "--seed", "7"), capture_output=True, text=True, check=False)
        assert process.returncode in (0, 1), process.stderr
        log_ratios.append(
            [[sample["log_ratio"] for sample in row["samples"]] for row in report(tmp_path)["comparisons"]]
        )
    assert log_ratios[0] != log_ratios[1]


@pytest.mark.nightly
def test_a_run_whose_time_was_too_short_goes_on_with_more(fleet: Fleet, tmp_path: Path) -> None:
    log = tmp_path / "rounds"
    words = ["--round_log", str(log), "--max_rounds", "40", "--threshold", "0.1%"]
    documents = []
    for seconds in ("6", "12"):
        longer = command(tmp_path, fleet, *words, "--time_budget", seconds)
        process = subprocess.run(longer, capture_output=True, text=True, check=False)
        assert process.returncode in (0, 1, 3), process.stderr
        documents.append(report(tmp_path))
    first, second = documents
    assert not first["run"]["complete"]
    assert second["run"]["rounds"] > first["run"]["rounds"]
    assert any(row["samples"] for row in first["comparisons"])
    for before, after in zip(first["comparisons"], second["comparisons"], strict=True):
        assert after["samples"][: len(before["samples"])] == before["samples"]


@pytest.mark.nightly
def test_a_scheduler_on_all_addresses_serves_its_dashboard_on_loopback(tmp_path: Path) -> None:
    """Without bokeh, which is no part of the environment: the page says so."""
    code = "import sys; from opduel.commands.entry import run_command; from opduel.fleet.service import run_scheduler; "
    code += "from opduel.fleet.address import parse_address; port = 0 if sys.argv[1:] else None; "
    code += "run_command('x', lambda: run_scheduler(parse_address('tcp://0.0.0.0:0'), None, port) or 0)"
    for words in ([], ["dashboard"]):
        log = tmp_path / "log"
        with log.open("wb") as errors:
            process = subprocess.Popen([sys.executable, "-c", code, *words], cwd=ROOT, stderr=errors)
        try:
            end = time.monotonic() + LONG_S
            while ("dashboard at" if words else "scheduler at") not in log.read_text():
                assert time.monotonic() < end
                time.sleep(0.05)
            own = {address for address in listening(process.pid) if address[0] != "0.0.0.0"}
            assert {host for host, _ in own} == {"127.0.0.1"}
            if words:
                link = f"http://127.0.0.1:{own.pop()[1]}/status"
                assert f"dashboard at {link}" in log.read_text()
                assert urllib.request.urlopen(link, timeout=10).status == 200
        finally:
            end_process(process)


@pytest.mark.nightly
def test_a_worker_that_ends_puts_the_frequency_back(fleet: Fleet, tmp_path: Path) -> None:
    policy = tmp_path / "cpufreq" / "policy0"
    policy.mkdir(parents=True)
    for name in ("cpuinfo_min_freq", "cpuinfo_max_freq", "scaling_min_freq", "scaling_max_freq"):
        (policy / name).write_text("800000" if "min" in name else "3600000")
    code = "import sys; from functools import partial; from pathlib import Path; "
    code += "from opduel.commands import fleet; from opduel.commands.entry import run_command; "
    code += "fleet.frequency_set = partial(fleet.frequency_set, policies=Path(sys.argv[1])); "
    code += "from opduel.commands.fleet_options import FleetPart, fleet_parser; "
    code += "part = FleetPart(**vars(fleet_parser().parse_args(sys.argv[2:]))); "
    code += "run_command('x', lambda: fleet.run_fleet_command(part))"
    words = ["worker", fleet.address, "--certificates", str(fleet.certificates), "--name", "steady"]
    words += ["--folder", str(tmp_path), "--set_freq", "max"]
    command = [sys.executable, "-c", code, str(policy.parent), *words]
    log = tmp_path / "log"
    with log.open("wb") as errors:
        process = subprocess.Popen(command, cwd=ROOT, stderr=errors, start_new_session=True)
    try:
        fleet.wait_for(lambda: "measures for" in log.read_text())
        assert (policy / "scaling_min_freq").read_text() == "3600000\n"
        choice = FleetChoice(parse_address(fleet.address), fleet.certificates, LONG_S, tags=("freq-max",))
        with connect(choice) as client:
            assert list(wait_for_hosts(client, choice)) == ["steady"]
        process.send_signal(signal.SIGTERM)
        fleet.wait_for(lambda: (policy / "scaling_min_freq").read_text() == "800000\n")
    finally:
        end_process(process)


@pytest.mark.nightly
def test_a_host_whose_own_command_fails_is_left_out_and_said_to_be(fleet: Fleet, tmp_path: Path) -> None:
    fleet.worker("hot", "--before_run", "echo 95 degrees >&2; exit 1")
    fleet.worker("slow", "--before_run", "sleep 60", "--before_run_timeout", "0.5")
    words = command(tmp_path, fleet, "--devices", "hot,slow")
    process = subprocess.run(words, capture_output=True, text=True, check=False)
    assert process.returncode == 3, process.stderr
    last = process.stderr.splitlines()[-1]
    assert "hot: --before_run ended with 1: 95 degrees" in last
    assert "slow: --before_run took more than 0.5 s: it was ended, and nothing is measured here" in last


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
    process = subprocess.run(
        ["unshare", "-m", "mount", "-t", "tmpfs", "none", "/mnt"], capture_output=True, check=False
    )
    return process.returncode == 0


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
        own_fleet = Fleet(tmp_path, stack)
        within = ["env", f"HIDDEN={tmp_path / 'client'}", "unshare", "-m", "sh", "-c", HIDING, "sh"]
        for name in ("one", "two"):
            own_fleet.worker(name, within=within)
        own = str(Path(sys.executable).parent.parent)
        words = ["--suite", str(suite), "--control", own, "--treatment", own, "--max_rounds", "2", "--sentinels", "0"]
        words += ["--busy_host", "report", "--explain", "none", "--simple_local_reporter", str(tmp_path / "report")]
        words += ["--fleet", own_fleet.address, "--fleet_certificates", str(own_fleet.certificates)]
        process = subprocess.run(
            [sys.executable, str(ROOT / "harness.py"), *words],
            env={**os.environ, "TMPDIR": str(temporary)},
            capture_output=True,
            text=True,
            check=False,
        )
    assert process.returncode in (0, 1), process.stderr
    document = report(tmp_path)
    rows = {row["case"]: row for row in document["comparisons"]}
    assert rows["one.Cached.track_answer/value"]["control"] == 42
    assert all(rows[case]["rounds"] for case in ("one.Cached.time_answer", "one.time_sum"))
    assert (rows["one.Fails.time_never"]["failure"] or {})["side"] == "both"
    host = rows["one.Fails.time_never"]["host"]
    why = "setup_cache of one.Fails.time_never: OSError: no data set"
    assert document["run"]["suite"]["problems"] == [f"{host}: {side}: {why}" for side in ("control", "treatment")]
    assert "fleet: sending the suite bench" in process.stderr
    assert not list(temporary.rglob("failed.txt"))
