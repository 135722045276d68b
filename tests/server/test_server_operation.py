"""How it runs: behind a proxy or not, what it logs of untrusted requests, a full disk, ended amid a request."""

import tempfile
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import httpx
import pytest
from raw_requests import raw, wait_for
from results_server import REPORTS, RunningServer, numbered, running_server

from opduel.server import app
from opduel.server import upload as receiving


def log_in(server: RunningServer, token: str, **headers: str) -> httpx.Response:
    """Return the answer to a login with these headers, ``_`` for ``-`` in their names."""
    with server.client(None) as client:
        named = {"Referer": f"{server.url}/login"} | {name.replace("_", "-"): value for name, value in headers.items()}
        return client.post("/login", data={"token": token}, headers=named)


def test_behind_tls_the_cookie_is_for_tls_alone(tmp_path: Path) -> None:
    with running_server(tmp_path, behind_proxy=True) as server:
        page = server.url.replace("http:", "https:")
        answer = log_in(server, server.read_token, X_Forwarded_Proto="https", Origin=page)
    assert "Secure" in answer.headers["Set-Cookie"]


def test_without_a_proxy_nobody_says_who_somebody_is(server: RunningServer) -> None:
    codes = [log_in(server, "wrong", X_Forwarded_For=f"10.0.0.{number}").status_code for number in range(11)]
    assert codes == [401] * 10 + [429]


def test_a_proxy_says_who_somebody_is(tmp_path: Path) -> None:
    with running_server(tmp_path, behind_proxy=True) as server:
        codes = [log_in(server, "wrong", X_Forwarded_For="10.0.0.1").status_code for _ in range(11)]
        other = log_in(server, server.read_token, X_Forwarded_For="10.0.0.2", X_Forwarded_Proto="http")
    assert codes == [401] * 10 + [429]
    assert other.status_code == 303


def test_a_request_is_one_entry_in_the_log(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """Neither a path nor an address, as a proxy says it, makes another entry or other fields."""
    caplog.set_level("INFO", "opduel.server")
    head = "HTTP/1.1\r\nHost: x\r\nConnection: close\r\nX-Forwarded-For: 6.6.6.6 POST /api/v1/reports 201\r\n\r\n"
    with running_server(tmp_path, behind_proxy=True) as server:
        raw(server, f"GET /x%0A2026-11-22%20INFO%20fake {head}".encode())
    (entry,) = [message for message in caplog.messages if "GET" in message]
    client, method, path, status, _, unit = entry.split(" ")
    assert client.startswith("6.6.6.6_POST_/api") or client == "127.0.0.1"
    assert (method, path, status, unit) == ("GET", r"/x\x0a2026-11-22_INFO_fake", "404", "ms")


@pytest.mark.parametrize("before", [1, 150, 180, 195])
def test_no_part_of_a_token_is_logged(server: RunningServer, caplog: pytest.LogCaptureFixture, before: int) -> None:
    caplog.set_level("INFO", "opduel.server")
    with server.client(None) as client:
        client.get(f"/{'x' * (before - 1)}{server.read_token}")
    assert wait_for(lambda: "GET" in caplog.text)  # the entry may come after the answer
    assert server.read_token[:20] not in caplog.text
    assert server.read_token[-43:][:10] not in caplog.text


def test_without_room_for_a_body_nothing_is_stored_and_later_is_said(
    server: RunningServer, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    began = time.monotonic()
    with monkeypatch.context() as patched:
        patched.setattr(receiving, "_IN_MEMORY", 1000)
        patched.setattr(tempfile, "TemporaryFile", lambda **_: Path("/dev/full").open("w+b"))  # noqa: SIM115
        answer = server.post(numbered(1))
    assert (answer.status_code, answer.headers["Retry-After"]) == (503, "30")
    assert "nothing was stored" in answer.json()["detail"]
    assert "Traceback" not in caplog.text
    assert wait_for(lambda: "No space left on device" in caplog.text)
    assert time.monotonic() - began < 0.8 * receiving._PATIENCE_S / 10  # for more of a body that had ended
    assert server.post(numbered(1)).status_code == 201


def test_who_is_cut_off_by_its_end_is_asked_to_retry(
    tmp_path: Path, starts: list[object], monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(app, "_LAST_REQUESTS_S", 1)
    with ThreadPoolExecutor(1) as pool:
        with running_server(tmp_path) as server:
            head = f"POST {REPORTS} HTTP/1.1\r\nHost: x\r\nContent-Length: 1000\r\nContent-Type: application/json\r\n"
            head += f"Authorization: Bearer {server.write_token}\r\n\r\n{{"
            late_answer = pool.submit(raw, server, head.encode())
            assert wait_for(lambda: len(starts) == 1)
        answer = late_answer.result()
    assert answer.startswith(b"HTTP/1.1 503")
    assert b"retry-after: 30" in answer.lower()
    assert "CancelledError" not in caplog.text


@pytest.mark.parametrize("name", ["evil.example", "evil.example:8000", "127.0.0.1.evil.example", "["])
def test_a_name_that_is_not_the_servers_reads_nothing(tmp_path: Path, name: str) -> None:
    """A page whose name was made to lead here could read what needs no token."""
    head = f"GET /api/v1/runs HTTP/1.1\r\nHost: {name}\r\nConnection: close\r\n\r\n"
    with running_server(tmp_path, open_read=True) as server:
        assert raw(server, head.encode()).startswith((b"HTTP/1.1 421", b"HTTP/1.1 400"))


@pytest.mark.parametrize(
    "name", ["127.0.0.1", "[::1]:8000", "localhost:1", "a.localhost", "bench-1", "results.example.org", "10.0.0.1:80"]
)
def test_the_servers_names_are_known(tmp_path: Path, name: str) -> None:
    head = f"GET /api/v1/runs HTTP/1.1\r\nHost: {name}\r\nConnection: close\r\n\r\n"
    with running_server(tmp_path, open_read=True, public_url="https://Results.example.org") as server:
        assert raw(server, head.encode()).startswith(b"HTTP/1.1 200")


def test_who_has_a_token_may_use_any_name(server: RunningServer) -> None:
    with server.client() as client:
        assert client.get("/api/v1/runs", headers={"Host": "results.example.org"}).status_code == 200


@pytest.mark.parametrize("path", ["/", "/healthz", "/login", "/api/v1/runs", "/nothing", "/api/v1/nothing"])
def test_head_is_answered_as_get_without_a_body(tmp_path: Path, path: str) -> None:
    with running_server(tmp_path, open_read=True) as server, server.client() as client:
        page, head = client.get(path), client.head(path)
    assert (head.status_code, head.content) == (page.status_code, b"")
    assert head.headers["Content-Length"] == page.headers["Content-Length"]
