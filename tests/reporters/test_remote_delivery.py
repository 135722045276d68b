"""Reports on their way to a results server that is down, slow, broken or hostile: nothing lost, nothing doubled."""

import json
import logging
import socket
import socketserver
import struct
import sys
import threading
import time
from dataclasses import replace
from email.utils import formatdate
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import hypothesis.strategies as st
import pytest
import report_samples as samples
from faulty_server import PATH, PIECE, TOKEN, Fault, ResultsServer, closed_port, refusal
from hypothesis import given, settings

from opduel.records import Report, RunError
from opduel.reporters import http_request
from opduel.reporters.base import PartlyReportedError
from opduel.reporters.document import to_bytes
from opduel.reporters.remote.delivery import Sender
from opduel.reporters.remote.place import Place, parse_place
from opduel.reporters.remote.post import LIMITS, Payload, post
from opduel.reporters.remote.reporter import RemoteReporter, to_body
from opduel.reporters.remote.spool import Spool
from opduel.reporters.remote.token import Token

STORED = Fault(201, json.dumps({"run_id": samples.report().run.id}).encode())


@pytest.fixture
def spool(tmp_path: Path) -> Spool:
    return Spool(tmp_path / "spool")


@pytest.fixture
def pauses(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """The pauses between attempts, which take no time."""
    slept: list[float] = []
    monkeypatch.setattr(http_request, "PAUSES_S", (1.0, 4.0))
    monkeypatch.setattr(http_request, "time", SimpleNamespace(sleep=slept.append, time=time.time))
    return slept


def sender(spool: Spool, token: str | None = TOKEN, **limits: Any) -> Sender:
    access_token = None if token is None else Token(token, "a test")
    return Sender(spool, access_token, replace(LIMITS, **limits))


def reporter(spool: Spool, place: str, **settings: Any) -> RemoteReporter:
    return RemoteReporter(parse_place(place), sender(spool, **settings))


def runs(*ids: str) -> list[Report]:
    return [samples.report(id=run_id) for run_id in ids]


def waiting(spool: Spool) -> list[str]:
    """The runs in the spool, the oldest first."""
    return [entry.key for entry in spool.entries()]


def ids(server: ResultsServer) -> list[str]:
    """The runs that were asked about, in order."""
    return [request.headers["Idempotency-Key"] for request in server.requests]


def test_a_report_arrives_whole_with_every_number_as_it_was(spool: Spool) -> None:
    odd = (0.1 + 0.2, 1 / 3, 5e-324, sys.float_info.max, 1e16 + 2, 1.0000000000000002)
    comparisons = [samples.comparison(f"case {n}", ratio=ratio, control=1e5 / 3) for n, ratio in enumerate(odd)]
    hostile = samples.comparison("</script>\u2028\x1b[2J", note="é☃\ud800")
    report = samples.report((*comparisons, hostile), seed=2**32 - 1)
    with ResultsServer() as server:
        line = reporter(spool, server.place).report(report)
        (request,) = server.requests
    posted = json.loads(request.body)
    assert posted == {"category": "nightly", "report": json.loads(to_bytes(report))}
    assert [comparison["ratio"] for comparison in posted["report"]["comparisons"][: len(odd)]] == list(odd)
    assert (request.path, request.headers["Authorization"]) == (PATH, f"Bearer {TOKEN}")
    assert line == f"sent: {server.endpoint} (nightly)"
    assert waiting(spool) == []


@given(st.floats(allow_nan=False, allow_infinity=False), st.text())
@settings(max_examples=50)
def test_any_number_and_any_text_is_posted_as_it_is_on_disk(number: float, text: str) -> None:
    report = samples.report((samples.comparison("a", note=text, mde=number),))
    posted = json.loads(to_body(report, "nightly"))
    assert posted["report"] == json.loads(to_bytes(report))
    assert struct.pack("d", posted["report"]["comparisons"][0]["mde"]) == struct.pack("d", number)


def test_a_server_that_is_down_gets_what_waited_later_the_oldest_first(spool: Spool, pauses: list[float]) -> None:
    port = closed_port()
    first, second, third = runs("one", "two", "three")
    for number, report in enumerate((first, second), 1):
        with pytest.raises(RunError) as error:
            reporter(spool, f"http://localhost:{port}{PATH}|nightly").report(report)
        noun = "1 report waits" if number == 1 else "2 reports wait"
        assert f"no connection (Connection refused); {noun} in {spool.directory}" in str(error.value)
        assert "opduel flush" in str(error.value)
    assert pauses == [1, 4, 1, 4]
    assert waiting(spool) == ["one", "two"]
    with ResultsServer(port=port) as server:
        assert reporter(spool, server.place).report(third).endswith("; 2 that waited, too")
        assert ids(server) == ["one", "two", "three"]
        assert [json.loads(body)["report"]["run"]["id"] for body in server.stored.values()] == ["one", "two", "three"]
    assert waiting(spool) == []


def test_catching_up_sends_what_waits_and_nothing_else(spool: Spool) -> None:
    refused, first, second = runs("refused", "first", "second")
    with ResultsServer(refusal(422), refusal(401), refusal(401)) as server:
        remote_reporter = reporter(spool, server.place)
        assert remote_reporter.catch_up() is None
        for report in (refused, first):
            with pytest.raises(RunError):
                remote_reporter.report(report)
        remote_reporter.keep(second)
        with pytest.raises(RunError, match=r"it says 401 .*; 2 of 2 that waited could not be sent"):
            remote_reporter.catch_up()
        assert remote_reporter.catch_up() == f"sent: {server.endpoint}: 2 that waited"
        assert list(server.stored) == ["first", "second"]
        assert remote_reporter.catch_up() is None
    assert waiting(spool) == ["refused"]


def test_what_was_sent_before_a_server_went_away_is_said_with_what_was_not(spool: Spool) -> None:
    with ResultsServer(*[refusal(401)] * 2) as server:
        remote_reporter = reporter(spool, server.place)
        for report in runs("first", "second"):
            with pytest.raises(RunError):
                remote_reporter.report(report)
        server.faults = [Fault(201, json.dumps({"run_id": "first"}).encode()), refusal(401)]
        with pytest.raises(PartlyReportedError, match="1 of 2 that waited could not be sent") as error:
            remote_reporter.catch_up()
    assert error.value.line == f"sent: {server.endpoint}: 1 that waited"
    assert waiting(spool) == ["second"]


def test_a_server_that_never_answers(spool: Spool) -> None:
    words = r"no answer for 0\.2 s; 1 report waits"
    with ResultsServer(*[Fault(silent=True)] * 3) as server, pytest.raises(RunError, match=words):
        reporter(spool, server.place, silence_s=0.2).report(samples.report())
    assert len(waiting(spool)) == 1


def test_a_server_that_sends_a_byte_now_and_then_is_not_waited_for_longer(spool: Spool) -> None:
    words = r"no complete answer within 0\.3 s"
    with ResultsServer(*[Fault(trickles=True)] * 3) as server, pytest.raises(RunError, match=words):
        reporter(spool, server.place, whole_s=0.3).report(samples.report())
    assert len(waiting(spool)) == 1


def test_500_then_200(spool: Spool, pauses: list[float]) -> None:
    with ResultsServer(refusal(500, "a bug"), Fault(503, b"<html>")) as server:
        reporter(spool, server.place).report(samples.report())
        assert len(server.requests) == 3
        assert len(server.stored) == 1
    assert pauses == [1, 4]
    assert waiting(spool) == []


@pytest.mark.parametrize(
    "fault",
    [
        Fault(reads=100),  # the server goes in mid-body
        Fault(),
        Fault(stores=True),  # it has the report, and the answer is lost
        Fault(201, b'{"id": 12345}', cut=5, stores=True),
        Fault(201, b'{"id": 12345}', cut=5),
        Fault(408),
        Fault(429),
        Fault(502, b"<html><script>alert(1)</script>"),
    ],
)
def test_what_may_be_over_in_a_moment_is_tried_again_and_nothing_is_doubled(spool: Spool, fault: Fault) -> None:
    with ResultsServer(fault) as server:
        reporter(spool, server.place).report(samples.report(id="one"))
        assert ids(server) == ["one", "one"]
        assert list(server.stored) == ["one"]
    assert waiting(spool) == []


def test_retry_after_is_followed_up_to_a_bound(spool: Spool, pauses: list[float]) -> None:
    for late in ("7", "x", "999999999999999999"):  # no number that anybody means: passed over
        with ResultsServer(refusal(429, "slowly", **{"Retry-After": late})) as server:
            reporter(spool, server.place).report(samples.report())
    assert pauses == [7, 1, 1]
    for late in ("61", formatdate(4_000_000_000, usegmt=True)):
        server = ResultsServer(refusal(503, "later", **{"Retry-After": late}))
        with server, pytest.raises(RunError, match="it says 503 Service Unavailable: later"):
            reporter(spool, server.place).report(samples.report())
    assert pauses == [7, 1, 1]


@pytest.mark.parametrize(
    ("status", "words"), [(400, "versions"), (404, "address"), (409, "one report"), (413, "limit"), (422, "no")]
)
def test_what_is_refused_is_kept_and_explained_and_not_tried_again(spool: Spool, status: int, words: str) -> None:
    with ResultsServer(refusal(status)) as server:
        with pytest.raises(RunError, match=f"refuses the report: it says {status} .*{words}.*--retry_refused"):
            reporter(spool, server.place).report(samples.report(id="one"))
        (entry,) = spool.entries()
        assert (entry.state, f"it says {status}" in entry.reason) == ("refused", True)
        line = reporter(spool, server.place).report(samples.report(id="two"))  # stops no other
        assert "; 1 refused, see opduel flush" in line
        assert ids(server) == ["one", "two"]
        assert waiting(spool) == ["one"]
        outcomes = sender(spool).deliver(retry_refused=True)
        assert [(outcome.entry.key, outcome.state) for outcome in outcomes] == [("one", "sent")]
    assert waiting(spool) == []


@pytest.mark.parametrize("status", [401, 403])
def test_a_wrong_token_stops_and_a_repaired_one_heals(spool: Spool, status: int) -> None:
    with ResultsServer(refusal(status), refusal(status)) as server:
        for report in runs("one", "two"):
            with pytest.raises(RunError, match=rf"it says {status} .*: no \(give a token"):
                reporter(spool, server.place, token="old").report(report)
        assert ids(server) == ["one", "one"]  # once a run: nobody knocks for ever with the wrong key
        reporter(spool, server.place).report(samples.report(id="three"))
        assert list(server.stored) == ["one", "two", "three"]


def test_no_token_is_none(spool: Spool) -> None:
    with ResultsServer() as server:
        with pytest.raises(RunError, match="no token was sent"):
            reporter(spool, server.place, token=None).report(samples.report())
        assert "Authorization" not in server.requests[0].headers


def test_netrc_has_no_say(spool: Spool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "netrc").write_text("machine localhost login me password secret\n")
    monkeypatch.setenv("NETRC", str(tmp_path / "netrc"))
    with ResultsServer() as server:
        reporter(spool, server.place).report(samples.report())


@pytest.mark.parametrize("status", [301, 302, 303, 307, 308])
def test_a_redirect_is_not_followed(spool: Spool, status: int) -> None:
    with ResultsServer() as other:
        there = other.endpoint.replace("localhost", "127.0.0.1")
        redirect = Fault(status, headers={"Location": there})
        with ResultsServer(redirect) as server, pytest.raises(RunError, match=f"{status} .*sends on to {there}"):
            reporter(spool, server.place).report(samples.report())
        assert other.requests == []
    assert len(waiting(spool)) == 1


def test_a_server_without_tls_is_asked_once(spool: Spool) -> None:
    """One of plain http, addressed without a scheme, so that https is meant."""
    hellos: list[bytes] = []

    class Plain(socketserver.BaseRequestHandler):
        def handle(self) -> None:
            hellos.append(self.request.recv(10_000))
            self.request.sendall(b"HTTP/1.1 400 Bad Request\r\n\r\n")

    with socketserver.TCPServer(("127.0.0.1", 0), Plain) as server:
        threading.Thread(target=server.serve_forever, args=(0.01,)).start()
        try:
            with pytest.raises(RunError, match="the server has no TLS: use http:// if that is intended"):
                reporter(spool, f"localhost:{server.server_address[1]}/x|nightly").report(samples.report())
        finally:
            server.shutdown()
    assert len(hellos) == 1


@pytest.mark.parametrize("location", ["http://[", "http://\xff.example/"])
def test_a_redirect_to_nowhere_stops_no_other_server(spool: Spool, location: str) -> None:
    headers = {"Location": location, "Content-Encoding": "gzip"}  # neither followed nor unpacked
    with ResultsServer(Fault(302, b"not packed", headers)) as bad, ResultsServer() as good:
        for server in (bad, good):
            place = parse_place(server.place)
            spool.keep(place, "a", b'{"report": {"run": {"id": "a"}}}')
        states = {outcome.state for outcome in sender(spool).deliver()}
        assert list(good.stored) == ["a"]
    assert states == {"sent", "waiting"}
    assert waiting(spool) == ["a"]


@pytest.mark.parametrize(
    "answer",
    [
        Fault(200, b"<html>Welcome to the hotel"),
        Fault(201, b"[]"),
        Fault(200, b"["),
        Fault(204),
        Fault(202),
        Fault(200, b'{"error": "log in first"}'),
        Fault(201, b'{"run_id": "another"}'),
    ],
)
def test_only_a_results_servers_word_is_believed(spool: Spool, answer: Fault) -> None:
    with ResultsServer(answer) as server:
        with pytest.raises(RunError, match=r"is the address right\?"):
            reporter(spool, server.place).report(samples.report())
        assert len(server.requests) == 1
    assert len(waiting(spool)) == 1


@pytest.mark.parametrize(
    "fault",
    [
        refusal(400, "\x1b[2J\x07\r\nharness.py: \u202eall is well"),
        refusal(400, f"you sent Bearer {TOKEN}"),
        refusal(400, 290 * "x" + TOKEN),
        refusal(400, "long " * 200_000),
        refusal(422, [{"loc": ["body"], "msg": f"{TOKEN}\x1b"}]),
        Fault(400, b"\xff\xfe"),
        Fault(400, b"[" * 50_000),
        Fault(400, b'{"detail": ' + b"[" * 20_000),
        Fault(400, b"{}", reason=f"\x1b[31m{TOKEN}"),
        Fault(302, headers={"Location": f"http://x/{TOKEN}\x1b"}),
    ],
)
def test_hostile_answers_are_one_short_printable_line_without_the_token(spool: Spool, fault: Fault) -> None:
    with ResultsServer(fault) as server, pytest.raises(RunError) as error:
        reporter(spool, server.place).report(samples.report())
    assert str(error.value).isprintable()
    assert len(str(error.value)) < 1000
    (entry,) = spool.entries()
    for text in (str(error.value), (spool.directory / "outbox.db").read_bytes().decode("latin-1"), repr(entry)):
        assert TOKEN[:6] not in text
    assert entry.reason.isprintable()


def test_the_token_is_in_no_log_and_no_text(spool: Spool, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG)
    with ResultsServer(Fault(500), Fault(stores=True)) as server:
        remote_reporter = reporter(spool, server.place)
        remote_reporter.report(samples.report())
    assert TOKEN not in caplog.text + repr(remote_reporter.sender)


def test_a_proxy_is_honoured(spool: Spool, monkeypatch: pytest.MonkeyPatch) -> None:
    with ResultsServer(STORED) as proxy:
        monkeypatch.setenv("http_proxy", proxy.endpoint.removesuffix(PATH))
        monkeypatch.delenv("no_proxy", raising=False)
        monkeypatch.delenv("NO_PROXY", raising=False)
        reporter(spool, "http://results.invalid/api|nightly").report(samples.report())
        assert proxy.requests[0].path == "http://results.invalid/api"


@pytest.mark.parametrize("host", ["a..b", ".", "*.org", "[v1.a]", f"{70 * 'a'}.org"])
def test_an_address_that_no_server_has_waits_for_a_better_one(spool: Spool, host: str) -> None:
    with pytest.raises(RunError, match=r"nothing was sent \(.*\): correct the address.*; 1 report waits"):
        reporter(spool, f"http://{host}/api|nightly").report(samples.report())


def test_a_proxy_that_is_none_is_said_without_its_password(spool: Spool, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("http_proxy", "http://me:hunter2@:x/")
    with pytest.raises(RunError, match="1 report waits") as error:
        reporter(spool, "http://results.invalid/api|nightly").report(samples.report())
    assert "hunter2" not in str(error.value)


def test_a_server_that_resets_the_connection_after_a_refusal_is_heard() -> None:
    """As servers do that won't read a body that is too large: it is larger than what the sockets hold."""
    with socket.create_server(("127.0.0.1", 0)) as listening:

        def serve() -> None:
            connection, _ = listening.accept()
            connection.recv(1000)
            connection.sendall(b"HTTP/1.1 413 Too Large\r\nContent-Length: 2\r\n\r\n{}")
            connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 0, 0))
            connection.shutdown(socket.SHUT_WR)
            connection.recv(1)

        thread = threading.Thread(target=serve)
        thread.start()
        place = Place(f"http://127.0.0.1:{listening.getsockname()[1]}/x", "nightly")
        answer = post(Payload(place, "one", b"x" * 20_000_000), Token(TOKEN, "a test"))
        thread.join()
    assert (answer.kind, answer.status) == ("refused", 413)


def test_a_slow_line_is_no_time_out(spool: Spool) -> None:
    """Sending takes several times as long as anybody waits for a single word."""
    body = json.dumps({"category": "c", "report": {"run": {"id": "big"}, "x": "x" * 200 * PIECE}}).encode()
    with ResultsServer(Fault(201, b'{"run_id": "big"}', slowly=True, stores=True)) as server:
        spool.keep(parse_place(server.place), "big", body)
        (outcome,) = sender(spool, connect_s=1.5).deliver()
        assert (outcome.state, outcome.reason) == ("sent", "stored")
        assert server.stored == {"big": body}
