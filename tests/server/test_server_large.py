"""Large reports: worked on in another process, one after the other, a few at once; answers that are packed."""

import json
import socket
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager, ExitStack
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from urllib.parse import urlsplit

import psutil
import pytest
from raw_requests import wait_for
from results_server import REPORTS, RunningServer, body, numbered, running_server

from opduel.records import Report
from opduel.reporters import http_request
from opduel.reporters.document import to_bytes
from opduel.reporters.html import to_html
from opduel.reporters.remote.delivery import Sender
from opduel.reporters.remote.place import parse_place
from opduel.reporters.remote.reporter import RemoteReporter
from opduel.reporters.remote.spool import Spool
from opduel.reporters.remote.token import Token
from opduel.server import api, large, subprocess_jobs
from opduel.server import upload as receiving
from opduel.server.middleware import SMALLEST

SMALL = 30_000  # bytes; what these tests call large has more


@pytest.fixture(autouse=True)
def _soon_large(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(receiving, "_IN_MEMORY", SMALL)
    monkeypatch.setattr(api, "LARGE_BYTES", SMALL)


def large_report(number: int, **changes: Any) -> Report:
    """Return a report that is large here."""
    return numbered(number, command=["x" * 2 * SMALL], **changes)


def test_a_large_report_is_stored_and_read_by_another_process(
    tmp_path: Path, database_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """This one, in which the server answers, never parses it."""
    report = large_report(1)
    with running_server(tmp_path, database_url) as server:
        with monkeypatch.context() as patched:
            patched.setattr(large, "accept", _never)
            patched.setattr(large, "document_of", _never)
            first, again = server.post(report), server.post(report)
            with server.client("read") as client:
                document, page = client.get("/api/v1/runs/run-1/report"), client.get("/runs/run-1/report.html")
        assert [first.status_code, again.status_code] == [201, 200]
        assert first.json() == {"run_id": "run-1", "stored": True, "page": "/runs/run-1"}
        assert document.content == to_bytes(report)
        assert page.text == to_html(report)
        assert document.headers["Content-Disposition"] == 'attachment; filename="report.json"'
        with server.client("read") as client:
            assert client.get("/api/v1/runs").json()["runs"][0]["received_from"] == "writes"


def _never(*_arguments: object) -> None:
    raise AssertionError("in this process")


def test_refusals_are_the_same_from_another_process(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    with running_server(tmp_path) as server:
        assert server.post(large_report(1)).status_code == 201
        other = server.post(large_report(1, seed=8))
        assert (other.status_code, other.json()) == (409, {"detail": "another report has the run id run-1"})
        wrong = server.post(large_report(2, alpha=7.0))
        assert (wrong.status_code, wrong.json()["detail"][:10]) == (422, "run.alpha:")
        with server.client("write") as client:
            headers = {"Content-Type": "application/json"}
            assert client.post(REPORTS, content=b"[" * 2 * SMALL, headers=headers).status_code == 400
        with server.client("read") as client:
            assert client.get("/api/v1/runs").json()["total"] == 1
    assert "Traceback" not in caplog.text


@pytest.mark.nightly  # fills the memory that a process may have
def test_one_that_would_take_too_much_memory_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(subprocess_jobs, "_MEMORY_BESIDE", 128 * 2**20)
    monkeypatch.setattr(subprocess_jobs, "_MEMORY_PER_BYTE", 0)
    with running_server(tmp_path) as server:
        assert server.post(large_report(1)).status_code == 201
        answer = server.post(numbered(2, command=["x" * 20_000_000]))
    assert answer.status_code == 413
    assert "too much memory" in answer.json()["detail"]


def children() -> list[psutil.Process]:
    """Return the processes that work on large reports now."""
    pids = []
    for process in psutil.Process().children(recursive=True):
        try:
            if process.parent() is not None and "forkserver" in " ".join(process.parent().cmdline()):
                pids.append(process)
        except psutil.NoSuchProcess:
            pass
    return pids


def test_the_process_ends_with_its_work_and_there_is_one_at_a_time(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    most: list[int] = []
    received = subprocess_jobs._receive_outcome

    async def counted(connection: Any) -> Any:
        most.append(len(children()))
        return await received(connection)

    monkeypatch.setattr(subprocess_jobs, "_receive_outcome", counted)
    with running_server(tmp_path) as server, ThreadPoolExecutor(subprocess_jobs.MOST_AT_ONCE) as pool:
        answers = list(pool.map(lambda number: server.post(large_report(number)), range(subprocess_jobs.MOST_AT_ONCE)))
        assert [answer.status_code for answer in answers] == [201] * subprocess_jobs.MOST_AT_ONCE
        assert wait_for(lambda: not children())
    assert len(most) == subprocess_jobs.MOST_AT_ONCE
    assert max(most) <= 1


def test_a_process_that_is_killed_leaves_nothing_and_the_sender_comes_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    received = subprocess_jobs._receive_outcome

    async def killed(connection: Any) -> Any:
        for process in children():
            process.kill()
        return await received(connection)

    with running_server(tmp_path) as server:
        with monkeypatch.context() as patched:
            patched.setattr(subprocess_jobs, "_receive_outcome", killed)
            answer = server.post(large_report(1))
        assert (answer.status_code, answer.headers["Retry-After"]) == (503, "30")
        with server.client("read") as client:
            assert client.get("/api/v1/runs").json()["total"] == 0
        assert server.post(large_report(1)).status_code == 201
    assert "the process that worked on a large report was ended" in caplog.text


@pytest.fixture
def full(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[tuple[RunningServer, ExitStack]]:
    """Yield a server that is receiving as many large reports as it receives at once, and what ends them."""
    jobs_in_use: list[subprocess_jobs.SubprocessJobs] = []
    place = subprocess_jobs.SubprocessJobs.place

    def noted(jobs: subprocess_jobs.SubprocessJobs) -> AbstractContextManager[None]:
        jobs_in_use.append(jobs)
        return place(jobs)

    monkeypatch.setattr(subprocess_jobs.SubprocessJobs, "place", noted)
    with running_server(tmp_path) as server, ExitStack() as connections:
        host = urlsplit(server.url)
        head = f"POST {REPORTS} HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\n"
        head += f"Content-Length: {2 * SMALL}\r\nAuthorization: Bearer {server.write_token}\r\n\r\n{{"
        for _ in range(subprocess_jobs.MOST_AT_ONCE):
            connection = socket.create_connection((host.hostname, host.port), timeout=30)
            connections.callback(connection.close)
            connection.sendall(head.encode())
        # Seen from inside: a report posted to find out would take the place of one that is still to be received.
        assert wait_for(lambda: bool(jobs_in_use) and jobs_in_use[0]._places_in_use == subprocess_jobs.MOST_AT_ONCE)
        yield server, connections


def test_more_large_ones_than_it_receives_at_once_are_asked_to_retry_later(
    full: tuple[RunningServer, ExitStack],
) -> None:
    server, connections = full
    answers = [server.post(large_report(9)) for _ in range(20)]
    assert {answer.status_code for answer in answers} == {503}
    assert {answer.json()["detail"] for answer in answers} == {
        "the server is busy with other large reports: try again later"
    }
    waits = {int(answer.headers["Retry-After"]) for answer in answers}
    assert waits <= set(range(5, 16))
    assert len(waits) > 1  # not all come back at once
    assert server.post(numbered(2)).status_code == 201  # a small one needs no place
    with server.client("write") as client:
        posted = json.dumps(body(large_report(9))).encode()
        pieces = (posted[start : start + 5000] for start in range(0, len(posted), 5000))
        headers = {"Content-Type": "application/json"}
        assert client.post(REPORTS, content=pieces, headers=headers).status_code == 503  # of no length that it says
    connections.close()
    assert wait_for(lambda: server.post(large_report(3)).status_code in (200, 201))


def test_our_reporter_waits_as_long_as_asked_and_then_delivers(
    full: tuple[RunningServer, ExitStack], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    server, connections = full
    pauses: list[float] = []

    def sleep(seconds: float) -> None:
        pauses.append(seconds)
        connections.close()
        assert wait_for(lambda: server.post(large_report(8)).status_code in (200, 201))

    monkeypatch.setattr(http_request, "time", SimpleNamespace(sleep=sleep, time=time.time))
    sender = Sender(Spool(tmp_path / "spool"), Token(server.write_token, "a test"))
    reporter = RemoteReporter(parse_place(f"{server.url}{REPORTS}|nightly"), sender)
    assert reporter.report(large_report(7)).startswith("sent: ")
    assert len(pauses) == 1
    assert pauses[0] >= 5


@pytest.mark.parametrize("size", ["small", "large"])
def test_answers_are_packed_where_that_saves_something(tmp_path: Path, size: str) -> None:
    report = numbered(1) if size == "small" else large_report(1)
    with running_server(tmp_path, open_read=True) as server, server.client(None) as client:
        server.post(report)
        for path in ("/", "/runs/run-1", "/runs/run-1/report.html", "/api/v1/runs/run-1/report", "/assets/d3.min.js"):
            packed = client.get(path)
            plain = client.get(path, headers={"Accept-Encoding": "identity"})
            assert (packed.headers["Content-Encoding"], packed.headers["Vary"]) == ("gzip", "Accept-Encoding"), path
            assert "Content-Encoding" not in plain.headers
            assert packed.content == plain.content
            assert packed.num_bytes_downloaded < len(plain.content) / 2, path
        assert client.get("/healthz").headers.get("Content-Encoding") is None
        assert len(client.get("/healthz").content) < SMALLEST


@pytest.mark.parametrize("site", ["cross-site", "same-site"])
def test_what_another_site_made_a_browser_ask_for_is_not_packed(tmp_path: Path, site: str) -> None:
    """Its length would say whether a text in the address is one of the page."""
    with running_server(tmp_path, open_read=True) as server, server.client(None) as client:
        server.post(numbered(1))
        for path in ("/search?q=secret", "/api/v1/runs/run-1/report", "/runs/run-1/report.html"):
            assert client.get(path, headers={"Sec-Fetch-Site": "same-origin"}).headers["Content-Encoding"] == "gzip"
            assert "Content-Encoding" not in client.get(path, headers={"Sec-Fetch-Site": site}).headers
