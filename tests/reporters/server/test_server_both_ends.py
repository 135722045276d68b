"""The remote reporter and this server, together: they mean the same by every answer."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from results_server import REPORTS, RunningServer, numbered, running_server

from records import OpduelError
from reporters.document import to_bytes
from reporters.remote.delivery import Sender
from reporters.remote.place import parse_place
from reporters.remote.post import Waits
from reporters.remote.reporter import RemoteReporter
from reporters.remote.spool import Spool
from reporters.remote.token import Token


@pytest.fixture
def server(tmp_path: Path) -> Iterator[RunningServer]:
    """A server that takes what is little larger than a sample."""
    with running_server(tmp_path, max_report_bytes=20_000) as running:
        yield running


@pytest.fixture
def spool(tmp_path: Path) -> Spool:
    """An empty spool."""
    return Spool(tmp_path / "spool")


def reporter(server: RunningServer, spool: Spool, token: str | None) -> RemoteReporter:
    """One that reports to ``server`` with ``token``."""
    found = None if token is None else Token(token, "a test")
    return RemoteReporter(parse_place(f"{server.url}{REPORTS}|nightly"), Sender(spool, found, Waits()))


def waiting(spool: Spool) -> list[str]:
    """The runs in the spool."""
    return [letter.header.run for letter in spool.contents()[0]]


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
        "another report is here with the run id run-1": numbered(1, seed=8),
        "the body is larger than the 20000 bytes": numbered(2, command=["x" * 30_000]),
        "run.id": numbered(3, id="../x"),
    }
    for words, report in refused.items():
        with pytest.raises(OpduelError, match=words):
            reporter(server, spool, server.write_token).report(report)
    kept = [letter.header.refused for letter in spool.contents()[0]]
    assert len(kept) == 3
    assert all(refusal is not None for refusal in kept)
