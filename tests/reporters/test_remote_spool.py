"""The spool: damage stops no other report, one sender at a time, nothing lost to kill -9."""

import json
import os
import signal
import sqlite3
import stat
import subprocess
import sys
import threading
from contextlib import closing
from dataclasses import replace
from pathlib import Path

import pytest
import report_samples as samples
from faulty_server import TOKEN, Fault, ResultsServer

from opduel.records import RunError, UsageError
from opduel.reporters.document import write_report
from opduel.reporters.remote.delivery import Sender
from opduel.reporters.remote.place import Place, parse_place
from opduel.reporters.remote.post import LIMITS
from opduel.reporters.remote.reporter import RemoteReporter
from opduel.reporters.remote.spool import Spool, place_of
from opduel.reporters.remote.token import Token
from opduel.support.outbox import LONGEST_S, Outbox

ROOT = Path(__file__).resolve().parents[2]
PLACE = Place("https://results.example.org/api/v1/reports", "nightly")


@pytest.fixture
def spool(tmp_path: Path) -> Spool:
    return Spool(tmp_path / "state" / "spool")


def sender(spool: Spool, whole_s: float = 60.0) -> Sender:
    return Sender(spool, Token(TOKEN, "a test"), replace(LIMITS, whole_s=whole_s))


def reporter(spool: Spool, server: ResultsServer, whole_s: float = 60.0) -> RemoteReporter:
    return RemoteReporter(parse_place(server.place), sender(spool, whole_s))


def body(run: str) -> bytes:
    return json.dumps({"category": "nightly", "report": {"run": {"id": run}}}).encode()


def names(spool: Spool) -> list[str]:
    return sorted(os.listdir(spool.directory))


def damage(spool: Spool, change: str) -> None:
    """Change the outbox behind its back."""
    with closing(sqlite3.connect(spool.directory / "outbox.db")) as beside:
        beside.execute(f"UPDATE outbox SET {change}")
        beside.commit()


def test_what_is_kept_is_its_users_alone_and_comes_back_as_it_was(spool: Spool) -> None:
    spool.keep(PLACE, "../../etc/run 1", b'{"a": 1}\n\x00\xff')
    assert names(spool) == ["outbox.db"]
    assert stat.S_IMODE((spool.directory / "outbox.db").stat().st_mode) == 0o600
    assert stat.S_IMODE(spool.directory.stat().st_mode) == 0o700
    (entry,) = spool.entries()
    assert (place_of(entry), entry.key, entry.state) == (PLACE, "../../etc/run 1", "waiting")
    with spool.outbox() as outbox:
        assert outbox.payload(entry) == b'{"a": 1}\n\x00\xff'


def test_a_run_is_kept_once_for_each_place(spool: Spool) -> None:
    for place in (PLACE, Place(PLACE.endpoint, "weekly"), Place("https://elsewhere/x", "nightly")):
        for run in ("a", "b", "b"):
            spool.keep(place, run, b"1")
    entries = spool.entries()
    assert len({(place_of(entry), entry.key) for entry in entries}) == len(entries) == 6
    assert [entry.created for entry in entries] == sorted(entry.created for entry in entries)


@pytest.mark.parametrize(
    "change",
    [
        "payload = substr(payload, 2)",
        "payload = CAST(replace(payload, 'nightly', 'dailies') AS BLOB)",
        "payload = 7",
        "receiver = replace(receiver, 'http://localhost', 'http://evil')",
        "receiver = 'no place'",
        "key = 'another'",
        "sha256 = ''",
    ],
)
def test_a_damaged_entry_is_not_sent_and_stops_no_other(spool: Spool, change: str) -> None:
    with ResultsServer() as server:
        spool.keep(parse_place(server.place), "a", body("a"))
        damage(spool, change)
        spool.keep(parse_place(server.place), "b", body("b"))
        outcomes = sender(spool).deliver()
        assert {outcome.entry.number: outcome.state for outcome in outcomes} == {1: "damaged", 2: "sent"}
        assert list(server.stored) == ["b"]
    assert sender(spool).deliver() == [], "it is reported once"
    assert [entry.state for entry in spool.entries()] == ["damaged"]


@pytest.mark.parametrize("content", [b"", b"\0" * 5000, b"x" * 100_000])
def test_a_damaged_file_is_kept_and_a_new_one_begun(spool: Spool, content: bytes) -> None:
    with ResultsServer() as server:
        spool.prepare()
        (spool.directory / "outbox.db").write_bytes(content)
        reporter(spool, server).report(samples.report(id="b"))
        assert list(server.stored) == ["b"]
    aside = [path.read_bytes() for path in spool.directory.glob("outbox-damaged-*.db")]
    assert aside == ([content] if content else [])


def test_a_file_that_is_a_link_is_not_followed(spool: Spool, tmp_path: Path) -> None:
    spool.prepare()
    (spool.directory / "outbox.db").symlink_to(tmp_path / "elsewhere")
    with pytest.raises(RunError, match="can't be opened"):
        spool.keep(PLACE, "a", b"{}")
    assert not (tmp_path / "elsewhere").exists()


def test_what_waited_too_long_is_given_up_and_reported(spool: Spool, caplog: pytest.LogCaptureFixture) -> None:
    with ResultsServer() as server:
        spool.keep(parse_place(server.place), "a", body("a"))
        damage(spool, f"created = created - {LONGEST_S + 60}")
        (outcome,) = sender(spool).deliver()
        assert (outcome.state, outcome.reason) == ("expired", "not delivered in 90 days: given up")
        assert server.requests == []
    assert "a for http://localhost" in caplog.text
    assert sender(spool).deliver() == []


def test_a_spool_that_cant_be_is_said_before_anything_is_measured(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(UsageError, match=r"--spool .*/file/spool: cannot be written \(Not a directory\): give"):
        RemoteReporter(PLACE, sender(Spool(tmp_path / "file" / "spool"))).check()
    RemoteReporter(PLACE, sender(Spool(tmp_path / "new" / "spool"))).check()
    assert stat.S_IMODE((tmp_path / "new" / "spool").stat().st_mode) == 0o700


def test_one_that_can_t_be_removed_is_no_trouble(spool: Spool, monkeypatch: pytest.MonkeyPatch) -> None:
    def denied(*_: object) -> None:
        raise RunError("outbox.db: can't be written")

    with ResultsServer() as server:
        spool.keep(parse_place(server.place), "a", body("a"))
        with monkeypatch.context() as patched:
            patched.setattr(Outbox, "remove", denied)
            (outcome,) = sender(spool).deliver()
        assert (outcome.state, outcome.reason) == (
            "sent",
            "stored; that can't be recorded: outbox.db: can't be written",
        )
        (outcome,) = sender(spool).deliver()
        assert (outcome.state, outcome.reason) == ("sent", "already stored")
        assert len(server.stored) == 1


def test_a_report_that_the_server_fails_on_blocks_no_other(spool: Spool) -> None:
    with ResultsServer(*[Fault(500)] * 6) as server:
        for run in ("poison", "b"):
            spool.keep(parse_place(server.place), run, body(run))
        states = [[delivery.state for delivery in sender(spool).deliver()] for _ in range(2)]
        assert states == [["waiting", "waiting"], ["waiting", "waiting"]]
        assert [request.headers["Idempotency-Key"] for request in server.requests] == [*3 * ["poison"], *3 * ["b"]]
        sender(spool).deliver()
        assert list(server.stored) == ["poison", "b"]


def test_only_what_is_asked_for_is_sent(spool: Spool) -> None:
    with ResultsServer() as server, ResultsServer() as other:
        for receiver, run in ((server, "a"), (other, "b")):
            spool.keep(parse_place(receiver.place), run, body(run))
        outcomes = sender(spool).deliver([server.endpoint])
        assert [outcome.entry.key for outcome in outcomes] == ["a"]
        assert other.requests == []


def test_a_server_that_is_away_keeps_no_other_waiting(spool: Spool) -> None:
    with ResultsServer(*[Fault(500)] * 3) as away, ResultsServer() as server:
        for receiver, run in ((away, "a"), (server, "b"), (away, "c"), (server, "d")):
            spool.keep(parse_place(receiver.place), run, body(run))
        outcomes = sender(spool).deliver(each=True)
        assert {outcome.entry.key: outcome.state for outcome in outcomes} == {
            "a": "waiting",
            "b": "sent",
            "c": "waiting",
            "d": "sent",
        }
        assert [request.headers["Idempotency-Key"] for request in away.requests] == ["a", "a", "a"]


def test_two_at_once_send_each_report_once(spool: Spool) -> None:
    with ResultsServer() as server:
        for run in map(str, range(20)):
            spool.keep(parse_place(server.place), run, body(run))
        threads = [threading.Thread(target=sender(spool).deliver) for _ in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert len(server.requests) == len(server.stored) == 20
    assert spool.entries() == []


def test_who_can_t_wait_for_another_sender_says_so(spool: Spool) -> None:
    with ResultsServer() as server, spool.locked(0) as alone:
        assert alone
        with pytest.raises(RunError, match=r"another process is sending from this spool; 1 report waits in"):
            reporter(spool, server, whole_s=0.1).report(samples.report(id="a"))
        assert server.requests == []


SEND = """
import sys
from pathlib import Path
from opduel.reporters import read_report
from opduel.reporters.remote.delivery import Sender
from opduel.reporters.remote.place import parse_place
from opduel.reporters.remote.reporter import RemoteReporter
from opduel.reporters.remote.spool import Spool
from opduel.reporters.remote.token import Token
report, spool, place, token = sys.argv[1:]
RemoteReporter(parse_place(place), Sender(Spool(Path(spool)), Token(token, ""))).report(read_report(Path(report)))
"""


@pytest.mark.parametrize("stores", [False, True])
def test_kill_9_in_mid_send_loses_nothing_and_doubles_nothing(spool: Spool, tmp_path: Path, stores: bool) -> None:
    report = samples.report(id="killed")
    write_report(tmp_path / "report.json", report)
    with ResultsServer(Fault(silent=True, stores=stores, reads=None if stores else 10)) as server:
        arguments = [tmp_path / "report.json", spool.directory, server.place, TOKEN]
        process = subprocess.Popen([sys.executable, "-c", SEND, *map(str, arguments)], cwd=ROOT)
        assert server.arrived.wait(60)
        process.send_signal(signal.SIGKILL)
        assert process.wait() == -signal.SIGKILL
        (entry,) = spool.entries()
        with spool.outbox() as outbox:
            payload = outbox.payload(entry)
        (outcome,) = sender(spool).deliver()
        assert (outcome.entry.key, outcome.state, outcome.reason) == (
            "killed",
            "sent",
            "already stored" if stores else "stored",
        )
        assert server.stored == {"killed": payload}
    assert spool.entries() == []


def test_the_file_holds_the_very_bytes_and_no_token(spool: Spool) -> None:
    with ResultsServer(Fault(401)) as server:
        with pytest.raises(RunError):
            reporter(spool, server).report(samples.report(id="a"))
        (entry,) = spool.entries()
        with spool.outbox() as outbox:
            payload = outbox.payload(entry)
        assert TOKEN.encode() not in (spool.directory / "outbox.db").read_bytes()
        sender(spool).deliver()
        assert server.requests[0].body == server.requests[1].body == payload


def test_a_lock_that_is_a_link_makes_no_file_elsewhere(spool: Spool, tmp_path: Path) -> None:
    spool.prepare()
    (spool.directory / ".lock").symlink_to(tmp_path / "elsewhere")
    with pytest.raises(RunError, match="cannot be used"):
        sender(spool).deliver()
    assert not (tmp_path / "elsewhere").exists()


@pytest.mark.parametrize(("mode", "is_said"), [(0o700, False), (0o755, False), (0o775, True), (0o777, True)])
def test_a_spool_that_others_can_write_is_said(
    spool: Spool, caplog: pytest.LogCaptureFixture, mode: int, is_said: bool
) -> None:
    spool.prepare()
    spool.directory.chmod(mode)
    sender(spool).deliver()
    assert ("others can write there: chmod go-w" in caplog.text) is is_said
