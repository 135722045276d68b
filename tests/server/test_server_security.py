"""Attacks: without a token, with a wrong one, with too much, out of the folder, by a browser."""

import http.client
import json
import re
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from urllib.parse import urlsplit

import httpx
import pytest
from playwright.sync_api import Page, expect
from raw_requests import raw, wait_for
from results_server import REPORTS, RunningServer, body, numbered, running_server
from sqlalchemy import update

from opduel.server import templating
from opduel.server.middleware import SECURITY_HEADERS
from opduel.server.models import Token
from opduel.server.tokens import add_token, revoke_token

LIMIT = 200_000


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningServer]:
    """Yield a server with one run, that takes no large bodies."""
    with running_server(tmp_path_factory.mktemp("security"), max_report_bytes=LIMIT) as running:
        assert running.post(numbered(1)).status_code == 201
        yield running


READS = ("/api/v1/runs", "/api/v1/runs/run-1", "/api/v1/runs/run-1/report", "/api/v1/cases", "/api/v1/cases/1/history")


@pytest.mark.parametrize("path", READS)
def test_reading_needs_a_token_that_may(server: RunningServer, path: str) -> None:
    with server.client(None) as client:
        none = client.get(path)
        forged = client.get(path, headers={"Authorization": f"Bearer {forge(server.read_token)}"})
        basic = client.get(path, headers={"Authorization": f"Basic {server.read_token}"})
    assert (none.status_code, none.headers["WWW-Authenticate"]) == (401, "Bearer")
    assert (forged.status_code, basic.status_code) == (401, 401)
    with server.client("write") as client:
        assert client.get(path).status_code == 403
    with server.client("read") as client:
        assert client.get(path).status_code == 200


def forge(token: str) -> str:
    """Return a token with the public part of ``token`` and another secret one."""
    return token[:-43] + "A" * 43


@pytest.mark.parametrize("bad", ["", "x", "opduel_", "opduel_" + "0" * 16 + "_" + "A" * 43, "é", "A" * 60_000])
def test_what_is_no_token_opens_nothing(server: RunningServer, bad: str) -> None:
    with server.client(None) as client:
        header = {"Authorization": f"Bearer {bad}".strip().encode()}
        answers = [client.post(REPORTS, json={}, headers=header), client.get("/api/v1/runs", headers=header)]
    assert [answer.status_code for answer in answers] == [401, 401]


def test_writing_needs_a_token_that_may(server: RunningServer) -> None:
    with server.client(None) as client:
        assert client.post(REPORTS, json=body(numbered(9))).status_code == 401
    with server.client("read") as client:
        assert client.post(REPORTS, json=body(numbered(9))).status_code == 403
        assert client.get("/api/v1/runs").json()["total"] == 1


def test_a_token_ends_when_it_expires_or_is_revoked(tmp_path: Path) -> None:
    with running_server(tmp_path) as server:
        now = datetime.now(UTC)
        with server.database.writing() as session:
            short = add_token(session, "short", ["read"], now, timedelta(days=1))
            revoked = add_token(session, "gone", ["read"], now)
        with server.client(short) as expiring, server.client(revoked) as revoking:
            assert [client.get("/api/v1/runs").status_code for client in (expiring, revoking)] == [200, 200]
            revoking.cookies.update(logged_in(server, revoked).cookies)
            with server.database.writing() as session:
                session.execute(update(Token).where(Token.name == "short").values(expires=now))
                revoke_token(session, "gone", now)
            assert [client.get("/api/v1/runs").status_code for client in (expiring, revoking)] == [401, 401]
            del revoking.headers["Authorization"]
            assert revoking.get("/api/v1/runs").status_code == 401


def test_open_read_lets_anybody_read_and_nobody_write(tmp_path: Path) -> None:
    with running_server(tmp_path, open_read=True) as server, server.client(None) as client:
        assert server.post(numbered(1)).status_code == 201
        assert [client.get(path).status_code for path in READS] == [200] * len(READS)
        assert client.post(REPORTS, json=body(numbered(2))).status_code == 401


def logged_in(server: RunningServer, token: str, **form: str) -> httpx.Response:
    """Return the answer to a login."""
    with server.client(None) as client:
        return client.post("/login", data={"token": token, **form}, headers={"Origin": server.url})


def test_a_browser_logs_in_reads_and_logs_out(server: RunningServer) -> None:
    answer = logged_in(server, server.read_token, next="/cases?text=a")
    assert (answer.status_code, answer.headers["Location"]) == (303, "/cases?text=a")
    cookie = answer.headers["Set-Cookie"]
    assert "HttpOnly" in cookie
    assert "SameSite=strict" in cookie
    assert "Secure" not in cookie  # plain HTTP on the loopback device: a browser would not send it back
    assert server.read_token[-43:] not in cookie
    with server.client(None) as client:
        client.cookies.update(answer.cookies)
        assert client.get("/api/v1/runs").status_code == 200
        assert client.post(REPORTS, json=body(numbered(2))).status_code == 401
        assert client.post("/logout", headers={"Sec-Fetch-Site": "cross-site"}).status_code == 403
        assert client.get("/api/v1/runs").status_code == 200
        assert client.post("/logout", headers={"Sec-Fetch-Site": "same-origin"}).status_code == 303
        client.cookies.update(answer.cookies)  # the browser forgets it, and so does the server
        assert client.get("/api/v1/runs").status_code == 401


def test_a_login_that_both_may_use_still_does_not_write(server: RunningServer) -> None:
    answer = logged_in(server, server.token)
    with server.client(None) as client:
        client.cookies.update(answer.cookies)
        assert client.get("/api/v1/runs").status_code == 200
        assert client.post(REPORTS, json=body(numbered(2))).status_code == 401


@pytest.mark.parametrize(
    "target", ["//evil.example", "https://evil.example", "/\\evil.example", "/a\\b", "javascript:1", "/a\r\nX: y", ""]
)
def test_a_login_leads_nowhere_else(server: RunningServer, target: str) -> None:
    assert logged_in(server, server.read_token, next=target).headers["Location"] == "/"


@pytest.mark.parametrize("token", ["", "wrong", "write", "forged"])
def test_a_wrong_login_says_so_and_no_more(server: RunningServer, token: str) -> None:
    text = {"write": server.write_token, "forged": forge(server.read_token)}.get(token, token)
    answer = logged_in(server, text, next='/"><script>alert(1)</script>')
    assert answer.status_code == 401
    assert "Set-Cookie" not in answer.headers
    assert "That is not a valid token with scope read." in answer.text
    assert "<script" not in answer.text
    assert not text or text not in answer.text


def test_failed_logins_have_to_wait(tmp_path: Path) -> None:
    with running_server(tmp_path) as server:
        codes = [logged_in(server, "wrong").status_code for _ in range(11)]
        late = logged_in(server, server.read_token)
        with server.client("read") as client:
            assert client.get("/api/v1/runs").status_code == 200
    assert codes == [401] * 10 + [429]
    assert late.status_code == 429
    assert 0 < int(late.headers["Retry-After"]) <= 61


OWN = {"Sec-Fetch-Site": "same-origin"}


def test_a_login_from_another_site_is_refused(server: RunningServer) -> None:
    with server.client(None) as client:
        data = {"token": server.read_token}
        assert client.post("/login", data=data, headers={"Sec-Fetch-Site": "cross-site"}).status_code == 403
        assert client.post("/login", content=b"token=" + b"x" * 70_000, headers=OWN).status_code == 413


def test_a_form_of_many_fields_is_refused_without_a_trace(
    server: RunningServer, caplog: pytest.LogCaptureFixture
) -> None:
    with server.client(None) as client:
        answer = client.post("/login", content=b"&".join([b"a=b"] * 1001), headers=OWN)
    assert answer.status_code == 400
    assert "the form has too many fields" in answer.text
    assert "Traceback" not in caplog.text


ALL = ["/login", "/healthz", "/api/v1/runs", "/api/v1/nothing", "/nothing", "/assets/nothing", "/api/openapi.json"]


@pytest.mark.parametrize("path", ALL)
def test_every_answer_binds_the_browser_and_names_nobody(server: RunningServer, path: str) -> None:
    with server.client(None) as client:
        answers = [client.get(path), client.put(path), client.request("BREW", path)]
    for answer in answers:
        for name, value in SECURITY_HEADERS.items():
            assert answer.headers[name] == value
        assert "Server" not in answer.headers
        assert "unsafe" not in answer.headers["Content-Security-Policy"]
    assert [answer.status_code for answer in answers[1:]] in ([405, 405], [404, 404])


def test_there_is_no_page_with_scripts_from_elsewhere(server: RunningServer) -> None:
    with server.client() as client:
        assert [client.get(path).status_code for path in ("/docs", "/redoc")] == [404, 404]


def test_people_get_pages_and_programs_json_when_something_is_not_there(server: RunningServer) -> None:
    with server.client() as client:
        page, answer = client.get("/nothing/<script>"), client.get("/api/v1/nothing/<script>")
    assert page.headers["Content-Type"] == "text/html; charset=utf-8"
    assert "<script" not in page.text
    assert answer.json() == {"detail": "Not Found"}


def test_assets_are_those_of_the_folder_and_nothing_else(
    server: RunningServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "assets").mkdir()
    (tmp_path / "assets" / "theme.css").write_text("a {}", encoding="utf-8")
    (tmp_path / "assets" / "__init__.py").write_text("secret", encoding="utf-8")
    (tmp_path / "secret.css").write_text("secret", encoding="utf-8")
    monkeypatch.setattr(templating, "_FOLDERS", (tmp_path / "assets",))
    templating.assets.cache_clear()
    try:
        with server.client(None) as client:
            asset = client.get(templating.asset_url("theme.css"))
            assert (asset.text, asset.headers["Content-Type"]) == ("a {}", "text/css; charset=utf-8")
            assert "immutable" in asset.headers["Cache-Control"]
            assert client.get("/assets/theme.css?v=other").headers["Cache-Control"] == "no-cache"
        for path in (
            "/assets/../secret.css",
            "/assets/..%2fsecret.css",
            "/assets/%2e%2e/secret.css",
            "/assets/..%5csecret.css",
            "/assets/..;/secret.css",
            "/assets//etc/passwd",
            f"/assets/{tmp_path}/secret.css",
            "/assets/__init__.py",
            "/assets/theme.css%00.js",
            "/assets/",
        ):
            answer = raw(server, f"GET {path} HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n".encode())
            assert answer.startswith(b"HTTP/1.1 404"), path
            assert b"secret" not in answer
    finally:
        templating.assets.cache_clear()


def test_a_body_that_is_too_large_is_refused_and_the_answer_is_read(server: RunningServer) -> None:
    """By its length, and by what comes when it has none; the client that sends it all still gets the answer."""
    large = b" " * (LIMIT * 20)
    with server.client("write") as client:
        headers = {"Content-Type": "application/json"}
        by_length = client.post(REPORTS, content=large, headers=headers)
        chunks = (large[start : start + 50_000] for start in range(0, len(large), 50_000))
        in_chunks = client.post(REPORTS, content=chunks, headers=headers)
        assert client.post(REPORTS, content=b" " * LIMIT, headers=headers).status_code == 400
    for answer in (by_length, in_chunks):
        assert answer.status_code == 413
        assert answer.json() == {
            "detail": f"the body is larger than the {LIMIT} bytes that are accepted: see --max_report_bytes"
        }


def test_a_length_that_is_claimed_is_refused_before_anything_comes(server: RunningServer) -> None:
    head = f"POST {REPORTS} HTTP/1.1\r\nHost: x\r\nConnection: close\r\nExpect: 100-continue\r\n"
    head += f"Authorization: Bearer {server.write_token}\r\nContent-Type: application/json\r\n"
    answer = raw(server, f"{head}Content-Length: {10**15}\r\n\r\n".encode())
    assert answer.startswith(b"HTTP/1.1 413")
    assert b"100 Continue" not in answer


def test_without_a_token_no_body_is_read(server: RunningServer) -> None:
    head = f"POST {REPORTS} HTTP/1.1\r\nHost: x\r\nConnection: close\r\nContent-Type: application/json\r\n"
    answer = raw(server, f"{head}Content-Length: 1000\r\n\r\n".encode())
    assert answer.startswith(b"HTTP/1.1 401")


@pytest.mark.parametrize(
    "headers",
    [
        {"Content-Type": "text/plain"},
        {"Content-Type": "application/x-www-form-urlencoded"},
        {"Content-Type": "application/json; charset=utf-16"},
        {"Content-Type": "application/json", "Content-Encoding": "gzip"},
        {},
    ],
)
def test_another_type_is_refused(server: RunningServer, headers: dict[str, str]) -> None:
    with server.client("write") as client:
        assert client.post(REPORTS, content=json.dumps(body(numbered(2))), headers=headers).status_code == 415


@pytest.mark.parametrize("sent", [0, 1000])
def test_a_sender_who_goes_away_in_mid_body_leaves_nothing(
    server: RunningServer, sent: int, starts: list[object], caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("INFO", "opduel.server")
    content = json.dumps(body(numbered(77))).encode()
    host = urlsplit(server.url)
    connection = http.client.HTTPConnection(host.hostname or "", host.port, timeout=30)
    connection.putrequest("POST", REPORTS)
    connection.putheader("Authorization", f"Bearer {server.write_token}")
    connection.putheader("Content-Type", "application/json")
    connection.putheader("Content-Length", str(len(content)))
    connection.endheaders()
    connection.send(content[:sent])
    assert wait_for(lambda: len(starts) == 1)
    connection.close()
    assert wait_for(lambda: f"POST {REPORTS} gone" in caplog.text)  # what the guard logs when it is over
    with server.client() as client:
        assert client.get("/api/v1/runs/run-77").status_code == 404
        assert client.get("/healthz").status_code == 200


def test_a_body_or_form_that_does_not_come_is_not_waited_for(
    server: RunningServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("opduel.server.upload._PATIENCE_S", 0.05)
    monkeypatch.setattr("opduel.server.upload._FORM_PATIENCE_S", 0.05)
    head = "HTTP/1.1\r\nHost: x\r\nConnection: close\r\nContent-Length: 1000\r\nSec-Fetch-Site: same-origin\r\n"
    head += f"Authorization: Bearer {server.write_token}\r\nContent-Type: application/json\r\n\r\n"
    for path in (REPORTS, "/login"):
        assert raw(server, f"POST {path} {head}{{".encode()).startswith(b"HTTP/1.1 408"), path


def test_bytes_that_are_no_request_are_answered_without_a_trace(server: RunningServer) -> None:
    for request in (
        b"\x16\x03\x01\x02\x00\x01\x00\r\n\r\n",
        b"GET\r\n\r\n",
        b"GET / HTTP/1.1\r\nHost: x\r\nA: \x00\r\n\r\n",
    ):
        answer = raw(server, request)
        assert answer.startswith(b"HTTP/1.1 400")
        assert b"Traceback" not in answer
    with server.client(None) as client:
        assert client.get("/healthz").status_code == 200


def test_an_error_of_ours_is_logged_and_answered_without_a_trace(
    server: RunningServer, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def fail(*_arguments: object) -> None:
        raise ZeroDivisionError("a secret detail")

    monkeypatch.setattr("opduel.server.queries.count_rows", fail)
    with server.client("read") as client:
        answer = client.get("/api/v1/runs")
    assert (answer.status_code, answer.json()) == (500, {"detail": "the server failed: its log says why"})
    assert answer.headers["X-Content-Type-Options"] == "nosniff"
    assert wait_for(lambda: "a secret detail" in caplog.text)


def test_tokens_are_nowhere_at_rest(tmp_path: Path) -> None:
    with running_server(tmp_path, f"sqlite:///{tmp_path}/results.sqlite") as server:  # a file that the product makes
        secrets = [token[-43:] for token in (server.token, server.read_token, server.write_token)]
        secrets.append(re.findall(r"opduel_session=([^;]+)", logged_in(server, server.token).headers["Set-Cookie"])[0])
        assert server.post(numbered(1)).status_code == 201
    written = b"".join(path.read_bytes() for path in tmp_path.iterdir())
    assert b"run-1" in written
    assert not any(secret.encode() in written for secret in secrets)
    assert (tmp_path / "results.sqlite").stat().st_mode & 0o077 == 0


def test_a_link_from_another_site_finds_who_is_logged_in(server: RunningServer, page: Page) -> None:
    """In a real browser: the strict cookie does not come along, so the login page sends the browser on, once."""
    here = server.url.replace("127.0.0.1", "localhost")  # another name is another site

    page.route("**/favicon.ico", lambda route: route.fulfill(status=204))  # which JSON has no link to

    def follow_link() -> None:
        link = f'<a href="{here}/login?next=/api/v1/runs">to the runs</a>'
        page.route("**/elsewhere", lambda route: route.fulfill(body=link, content_type="text/html"))
        page.goto(f"{server.url}/elsewhere")
        page.get_by_role("link").click()

    page.goto(f"{here}/login?next=/healthz")
    page.get_by_label("Token").fill(server.read_token)
    page.get_by_role("button", name="Log in").click()
    page.wait_for_url("**/healthz")
    follow_link()
    page.wait_for_url("**/api/v1/runs")
    expect(page.locator("body")).to_contain_text('"total":1')
