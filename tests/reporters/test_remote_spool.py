"""The spool: whole files or none, damaged ones set aside, one sender at a time, and nothing lost to kill -9."""

import errno
import hashlib
import json
import os
import signal
import stat
import subprocess
import sys
import tempfile
import threading
from collections.abc import Callable
from dataclasses import asdict, fields
from pathlib import Path

import hypothesis.strategies as st
import pytest
import report_samples as samples
from faulty_server import TOKEN, Fault, ResultsServer
from hypothesis import given, settings

from opduel.records import RunError, UsageError
from opduel.reporters.document import write_report
from opduel.reporters.remote.delivery import Sender
from opduel.reporters.remote.place import Place, parse_place
from opduel.reporters.remote.post import Waits
from opduel.reporters.remote.reporter import RemoteReporter
from opduel.reporters.remote.spool import Header, Spool
from opduel.reporters.remote.token import Token

ROOT = Path(__file__).resolve().parents[2]
PLACE = Place("https://results.example.org/api/v1/reports", "nightly")


@pytest.fixture
def spool(tmp_path: Path) -> Spool:
    return Spool(tmp_path / "state" / "spool")


def sender(spool: Spool, **waits: float) -> Sender:
    return Sender(spool, Token(TOKEN, "a test"), Waits(**{"first_pause_s": 0.01, **waits}))


def reporter(spool: Spool, server: ResultsServer, **waits: float) -> RemoteReporter:
    return RemoteReporter(parse_place(server.place), sender(spool, **waits))


def body(run: str) -> bytes:
    return json.dumps({"category": "nightly", "report": {"run": {"id": run}}}).encode()


def names(spool: Spool) -> list[str]:
    return sorted(os.listdir(spool.directory))


def test_what_is_kept_is_its_users_alone_and_comes_back_as_it_was(spool: Spool) -> None:
    entry = spool.keep(PLACE, "../../etc/run 1", b'{"a": 1}\n\x00\xff')
    assert entry.path.parent == spool.directory
    assert stat.S_IMODE(entry.path.stat().st_mode) == 0o600
    assert stat.S_IMODE(spool.directory.stat().st_mode) == 0o700
    assert spool.contents() == ([entry], [])
    assert (entry.place, entry.header.run) == (PLACE, "../../etc/run 1")
    assert spool.body(entry) == b'{"a": 1}\n\x00\xff'


def test_places_runs_and_contents_don_t_meet_and_the_same_is_kept_once(spool: Spool) -> None:
    for place in (PLACE, Place(PLACE.endpoint, "weekly"), Place("https://elsewhere/x", "nightly")):
        for run in ("a", "b", "b"):
            spool.keep(place, run, b"1")
    spool.keep(PLACE, "a", b"2")
    entries, _ = spool.contents()
    assert len({entry.path for entry in entries}) == 7
    assert [entry.header.kept for entry in entries] == sorted(entry.header.kept for entry in entries)


def cut(path: Path) -> None:
    path.write_bytes(path.read_bytes()[:-3])


def change(path: Path) -> None:
    path.write_bytes(path.read_bytes().replace(b"nightly", b"dailies"))


def other_host(path: Path) -> None:
    path.write_bytes(path.read_bytes().replace(b'"http://localhost', b'"http://me:pw@evil'))


def linked(path: Path) -> None:
    real = path.rename(path.with_suffix(".real"))
    path.symlink_to(real)


def piped(path: Path) -> None:
    path.unlink()
    os.mkfifo(path)


@pytest.mark.parametrize(
    "damage",
    [
        cut,
        change,
        other_host,
        linked,
        piped,
        lambda path: path.write_bytes(b""),
        lambda path: path.write_bytes(b"\0" * 5000),
        lambda path: path.write_bytes(b"x" * 1_000_000),
        lambda path: path.write_bytes(b'{"opduel_spool": 2}\n'),
    ],
)
def test_a_damaged_file_is_set_aside_and_stops_no_other(spool: Spool, damage: Callable[[Path], object]) -> None:
    with ResultsServer() as server:
        damaged = spool.keep(parse_place(server.place), "a", body("a")).path
        damage(damaged)
        line = reporter(spool, server).report(samples.report(id="b"))
        assert list(server.stored) == ["b"]
    assert damaged.name in line
    (aside,) = (spool.directory / "damaged").iterdir()
    assert str(aside) in line
    assert names(spool) == sorted([".lock", "damaged", *([damaged.with_suffix(".real").name] * (damage is linked))])
    assert sender(spool).deliver() == []


FIELDS = st.sampled_from([field.name for field in fields(Header)]) | st.text(max_size=5)
VALUES = st.none() | st.text(max_size=5) | st.integers() | st.lists(st.integers())


@given(st.binary(max_size=60) | st.dictionaries(FIELDS, VALUES))
@settings(max_examples=60)
def test_whatever_a_file_holds_it_is_a_letter_or_damaged(content: bytes | dict[str, object]) -> None:
    with tempfile.TemporaryDirectory() as folder:
        spool = Spool(Path(folder))
        path = spool.keep(PLACE, "a", b"{}").path
        header, _, rest = path.read_bytes().partition(b"\n")
        if isinstance(content, dict):
            path.write_bytes(json.dumps({**json.loads(header), **content}).encode() + b"\n" + rest)
        else:
            path.write_bytes(header[: len(content)] + content)
        entries, damaged = spool.contents()
        assert len(entries) + len(damaged) == 1


def test_without_a_spool_it_is_sent_all_the_same(spool: Spool, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*_: object) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(os, "fsync", full)
    with ResultsServer(Fault(500)) as server:
        line = reporter(spool, server).report(samples.report(id="a"))
        assert line.endswith(f"; it can't be kept in {spool.directory} (No space left on device)")
        assert list(server.stored) == ["a"]
        server.faults = [Fault(400)]
        with pytest.raises(RunError, match=r"it says 400 .*No space left on device\): run_bench\.py --send"):
            reporter(spool, server).report(samples.report(id="b"))
    assert not list(spool.directory.iterdir())


def test_a_spool_that_cant_be_is_said_before_anything_is_measured(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(UsageError, match=r"--spool .*/file/spool: cannot be written \(Not a directory\): give"):
        RemoteReporter(PLACE, sender(Spool(tmp_path / "file" / "spool"))).check()
    RemoteReporter(PLACE, sender(Spool(tmp_path / "new" / "spool"))).check()
    assert stat.S_IMODE((tmp_path / "new" / "spool").stat().st_mode) == 0o700


def test_one_that_can_t_be_removed_is_no_trouble(spool: Spool, monkeypatch: pytest.MonkeyPatch) -> None:
    def denied(*_: object, **__: object) -> None:
        raise PermissionError(errno.EPERM, os.strerror(errno.EPERM))

    with ResultsServer() as server:
        spool.keep(parse_place(server.place), "a", body("a"))
        with monkeypatch.context() as patched:
            patched.setattr(Path, "unlink", denied)
            (outcome,) = sender(spool).deliver()
        assert (outcome.state, outcome.words) == ("sent", "stored; its file can't be removed (Operation not permitted)")
        (outcome,) = sender(spool).deliver()
        assert (outcome.state, outcome.words) == ("sent", "was there already")
        assert len(server.stored) == 1


def test_only_what_is_asked_for_is_sent(spool: Spool) -> None:
    with ResultsServer() as server, ResultsServer() as other:
        for one, run in ((server, "a"), (other, "b")):
            spool.keep(parse_place(one.place), run, body(run))
        outcomes = sender(spool).deliver([server.endpoint])
        assert [outcome.run for outcome in outcomes] == ["a"]
        assert other.seen == []


def test_a_server_that_is_away_keeps_no_other_waiting(spool: Spool) -> None:
    with ResultsServer(Fault(500)) as away, ResultsServer() as server:
        for one, run in ((away, "a"), (server, "b"), (away, "c"), (server, "d")):
            spool.keep(parse_place(one.place), run, body(run))
        outcomes = sender(spool, first_pause_s=1000).deliver(each=True)
        assert {outcome.run: outcome.state for outcome in outcomes} == {
            "a": "waiting",
            "b": "sent",
            "c": "waiting",
            "d": "sent",
        }
        assert [one.headers["Idempotency-Key"] for one in away.seen] == ["a"]


def test_two_at_once_send_each_report_once(spool: Spool) -> None:
    with ResultsServer() as server:
        for run in map(str, range(20)):
            spool.keep(parse_place(server.place), run, body(run))
        threads = [threading.Thread(target=sender(spool).deliver) for _ in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert len(server.seen) == len(server.stored) == 20
    assert names(spool) == [".lock"]


def test_who_can_t_wait_for_another_sender_says_so(spool: Spool) -> None:
    with ResultsServer() as server, spool.locked(0) as alone:
        assert alone
        with pytest.raises(RunError, match=r"another process is sending from this spool; 1 report waits in"):
            reporter(spool, server, whole_s=0.1).report(samples.report(id="a"))
        assert server.seen == []


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
        (entry,) = spool.contents()[0]
        whole = spool.body(entry)
        (outcome,) = sender(spool).deliver()
        assert (outcome.run, outcome.state, outcome.words) == (
            "killed",
            "sent",
            "was there already" if stores else "stored",
        )
        assert server.stored == {"killed": whole}
    assert names(spool) == [".lock"]


def test_the_file_holds_the_very_bytes_and_no_token(spool: Spool) -> None:
    with ResultsServer(Fault(401)) as server:
        with pytest.raises(RunError):
            reporter(spool, server).report(samples.report(id="a"))
        (entry,) = spool.contents()[0]
        line, _, rest = entry.path.read_bytes().partition(b"\n")
        assert json.loads(line) == asdict(entry.header)
        assert hashlib.sha256(rest).hexdigest() == entry.header.sha256
        assert TOKEN.encode() not in line + rest
        sender(spool).deliver()
        assert server.seen[0].body == server.seen[1].body == rest


def test_a_lock_that_is_a_link_makes_no_file_elsewhere(spool: Spool, tmp_path: Path) -> None:
    spool.prepare()
    (spool.directory / ".lock").symlink_to(tmp_path / "elsewhere")
    with pytest.raises(RunError, match="cannot be used"):
        sender(spool).deliver()
    assert not (tmp_path / "elsewhere").exists()


@pytest.mark.parametrize(("mode", "said"), [(0o700, False), (0o755, False), (0o775, True), (0o777, True)])
def test_a_spool_that_others_can_write_is_said(
    spool: Spool, caplog: pytest.LogCaptureFixture, mode: int, said: bool
) -> None:
    spool.prepare()
    spool.directory.chmod(mode)
    sender(spool).deliver()
    assert ("others can write there: chmod go-w" in caplog.text) is said
