"""The remote reporter and this server, together: they mean the same by every answer."""

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
import report_samples as samples
from results_server import REPORTS, RunningServer, numbered, running_server

from opduel.records import OpduelError, Verification
from opduel.reporters.document import to_bytes
from opduel.reporters.local import LocalReporter
from opduel.reporters.notify_command import NotifyCommand
from opduel.reporters.remote.delivery import Sender
from opduel.reporters.remote.place import parse_place
from opduel.reporters.remote.post import page_address
from opduel.reporters.remote.reporter import RemoteReporter
from opduel.reporters.remote.spool import Spool
from opduel.reporters.remote.token import Token


@pytest.fixture
def server(tmp_path: Path) -> Iterator[RunningServer]:
    """Yield a server that takes what is little larger than a sample."""
    with running_server(tmp_path, max_report_bytes=20_000) as running:
        yield running


@pytest.fixture
def spool(tmp_path: Path) -> Spool:
    """Return an empty spool."""
    return Spool(tmp_path / "spool")


def reporter(server: RunningServer, spool: Spool, token: str | None) -> RemoteReporter:
    """Return one that reports to ``server`` with ``token``."""
    credentials = None if token is None else Token(token, "a test")
    return RemoteReporter(parse_place(f"{server.url}{REPORTS}|nightly"), Sender(spool, credentials))


def waiting(spool: Spool) -> list[str]:
    """Return the runs in the spool."""
    return [entry.key for entry in spool.entries()]


def test_a_report_arrives_once_and_byte_for_byte(server: RunningServer, spool: Spool) -> None:
    report = numbered(1, command=["harness.py", "\u2028</script>\x1b[2J"])
    for _ in range(2):
        assert reporter(server, spool, server.write_token).report(report).startswith("sent: ")
    assert waiting(spool) == []
    with server.client("read") as client:
        assert client.get("/api/v1/runs").json()["total"] == 1
        assert client.get("/api/v1/runs/run-1/report").content == to_bytes(report)


def test_what_a_wrong_token_kept_back_goes_out_with_a_right_one(server: RunningServer, spool: Spool) -> None:
    for number, token in enumerate((None, "opduel_wrong", server.read_token)):
        with pytest.raises(OpduelError, match="token"):
            reporter(server, spool, token).report(numbered(number))
    assert waiting(spool) == ["run-0", "run-1", "run-2"]
    reporter(server, spool, server.write_token).report(numbered(3))
    assert waiting(spool) == []
    with server.client("read") as client:
        stored = [run["run_id"] for run in client.get("/api/v1/runs").json()["runs"]]
    assert stored == ["run-3", "run-2", "run-1", "run-0"]


def test_what_is_refused_is_kept_with_the_servers_words(server: RunningServer, spool: Spool) -> None:
    assert server.post(numbered(1)).status_code == 201
    refused = {
        "another report has the run id run-1": numbered(1, seed=8),
        "the body is larger than the 20000 bytes": numbered(2, command=["x" * 30_000]),
        "run.id": numbered(3, id="../x"),
    }
    for words, report in refused.items():
        with pytest.raises(OpduelError, match=words):
            reporter(server, spool, server.write_token).report(report)
    states = [entry.state for entry in spool.entries()]
    assert states == ["refused"] * 3


def test_a_notification_leads_to_the_runs_page(server: RunningServer, spool: Spool, tmp_path: Path) -> None:
    """The server has said where it is; the path of the report is still that of the file."""
    slower = samples.comparison("slow", "regressed", 1.2)
    again = replace(slower, verification=Verification("regressed", "regressed", 1.2))
    report = replace(numbered(1), comparisons=(again,))
    remote, local = reporter(server, spool, server.write_token), LocalReporter(tmp_path / "reports")
    notifier = NotifyCommand(
        ["sh", "-c", f"cat > {tmp_path}/text; echo $OPDUEL_PAGE $OPDUEL_REPORT > {tmp_path}/facts"]
    )
    notifier.meet([remote, local])
    assert remote.page(report) is None
    for receiver in (remote, local, notifier):
        receiver.report(report)
    page = f"{server.url}/runs/run-1"
    assert f"page       {page}\n" in (tmp_path / "text").read_text(encoding="utf-8")
    told_page, path = (tmp_path / "facts").read_text(encoding="utf-8").split()
    assert told_page == page
    assert Path(path).is_file()
    with server.client("read") as client:
        assert client.get(told_page).status_code == 200


@pytest.mark.parametrize(
    ("endpoint", "page", "address"),
    [
        ("https://r.example.org/api/v1/reports", "/runs/x", "https://r.example.org/runs/x"),
        ("https://r.example.org/opduel/api/v1/reports", "/runs/x", "https://r.example.org/opduel/runs/x"),
        ("https://r.example.org:8443/elsewhere", "/runs/x%20y", "https://r.example.org:8443/runs/x%20y"),
        ("https://r.example.org/api/v1/reports", "//evil.example/x", ""),
        ("https://r.example.org/api/v1/reports", "https://evil.example/x", ""),
        ("https://r.example.org/api/v1/reports", "javascript:alert(1)", ""),
        ("https://r.example.org/api/v1/reports", "/runs/a b", ""),
        ("https://r.example.org/api/v1/reports", "/runs/\x1b[2J", ""),
        ("https://r.example.org/api/v1/reports", "/" + "x" * 5000, ""),
        ("https://r.example.org/api/v1/reports", None, ""),
        ("https://r.example.org/api/v1/reports", ["/runs/x"], ""),
    ],
)
def test_a_page_is_below_the_server_that_names_it(endpoint: str, page: object, address: str) -> None:
    assert page_address(endpoint, page) == address
