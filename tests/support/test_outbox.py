"""The outbox: delivered at least once, whatever ends a process; several processes at once; bounded in size and age."""

import signal
import sqlite3
import subprocess
import sys
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from opduel.records import NoSpaceError, RunError
from opduel.support.outbox import LONGEST_S, OUTBOX_TABLE, Attempt, Delivery, Entry, Outbox
from opduel.support.sqlite_file import SqliteFile

ROOT = Path(__file__).resolve().parents[2]


class Clock:
    """Seconds since 1970, as the test sets them."""

    now = 1_700_000_000.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def file(tmp_path: Path) -> Iterator[SqliteFile]:
    opened = SqliteFile(tmp_path / "outbox.db", OUTBOX_TABLE, "--spool")
    yield opened
    opened.close()


@pytest.fixture
def outbox(file: SqliteFile, clock: Clock) -> Outbox:
    return Outbox(file, clock, most_bytes=1000)


class Receivers:
    """Take what they are sent, but for what they are to answer otherwise."""

    def __init__(self, **answers: str) -> None:
        self.answers = answers
        self.received: list[tuple[str, str, bytes]] = []

    def __call__(self, entry: Entry, payload: bytes) -> Attempt:
        self.received.append((entry.receiver, entry.key, payload))
        return Attempt(self.answers.get(entry.key, "delivered"), f"about {entry.key}")  # type: ignore[arg-type]


def states(deliveries: Iterator[Delivery]) -> dict[str, str]:
    return {delivery.entry.key: delivery.state for delivery in deliveries}


def test_each_receiver_gets_each_entry_once(outbox: Outbox) -> None:
    for key in ("a", "b", "a"):
        outbox.add("notice", ["one", "two"], key, key.encode())
    outbox.add("report", ["one"], "a", b"another kind")
    receivers = Receivers()
    assert states(outbox.deliver(outbox.entries("notice"), receivers)) == {"a": "sent", "b": "sent"}
    assert receivers.received == [("one", "a", b"a"), ("two", "a", b"a"), ("one", "b", b"b"), ("two", "b", b"b")]
    assert outbox.entries("notice") == []
    assert len(outbox.entries("report")) == 1


def test_what_is_remembered_is_not_added_again_until_it_is_old(outbox: Outbox, clock: Clock) -> None:
    def delivered() -> dict[str, str]:
        outbox.add("notice", ["one"], "a", b"x" * 900)
        return states(outbox.deliver(outbox.entries("notice"), Receivers(), remember=True))

    assert delivered() == {"a": "sent"}
    outbox.add("notice", ["one"], "b", b"x" * 50)  # there is room: no payload is remembered
    assert delivered() == {"b": "sent"}
    clock.now += LONGEST_S + 1
    assert delivered() == {"a": "sent"}


@pytest.mark.parametrize(
    ("answer", "first", "second"),
    [
        ("failed", {"a": "waiting", "b": "waiting"}, ["b", "a"]),  # a may be what the receiver fails on
        ("away", {"a": "waiting", "b": "waiting"}, ["a", "b"]),
        ("refused", {"a": "refused", "b": "sent"}, []),
        ("damaged", {"a": "damaged", "b": "sent"}, []),
    ],
)
def test_what_a_failed_attempt_means_for_the_others(
    outbox: Outbox, answer: str, first: dict[str, str], second: list[str]
) -> None:
    for key in ("a", "b"):
        outbox.add("report", ["one"], key, b"")
    assert states(outbox.deliver(outbox.entries("report"), Receivers(a=answer))) == first
    assert [entry.reason for entry in outbox.entries("report") if entry.key == "a"] == ["about a"]
    receivers = Receivers()
    list(outbox.deliver(outbox.entries("report"), receivers))
    assert [key for _, key, _ in receivers.received] == second


def test_what_was_refused_is_sent_when_asked_for_or_when_it_is_put_again(outbox: Outbox) -> None:
    outbox.add("report", ["one"], "a", b"old")
    list(outbox.deliver(outbox.entries("report"), Receivers(a="refused")))
    assert states(outbox.deliver(outbox.entries("report"), Receivers())) == {"a": "refused"}
    receivers = Receivers(a="refused")
    list(outbox.deliver(outbox.entries("report"), receivers, retry_refused=True))
    outbox.add("report", ["one"], "a", b"new")
    list(outbox.deliver(outbox.entries("report"), receivers))
    assert [payload for _, _, payload in receivers.received] == [b"old", b"new"]


def test_of_one_server_that_is_away_no_receiver_is_tried(outbox: Outbox) -> None:
    for receiver in ("host/a", "host/b", "other/a"):
        outbox.add("report", [receiver], receiver, b"")
    receivers = Receivers(**{"host/a": "away"})
    list(outbox.deliver(outbox.entries("report"), receivers, server=lambda receiver: receiver.partition("/")[0]))
    assert [receiver for receiver, _, _ in receivers.received] == ["host/a", "other/a"]


def test_it_is_bounded_in_size_and_age(outbox: Outbox, clock: Clock) -> None:
    outbox.add("report", ["one"], "a", b"x" * 600)
    with pytest.raises(NoSpaceError, match="the outbox is full"):
        outbox.add("report", ["one"], "b", b"x" * 600)
    with pytest.raises(NoSpaceError):
        outbox.add("report", ["two", "three"], "b", b"x" * 300)
    assert [entry.key for entry in outbox.entries("report")] == ["a"]
    clock.now += LONGEST_S + 1
    receivers = Receivers()
    assert states(outbox.deliver(outbox.entries("report"), receivers)) == {"a": "expired"}
    assert (receivers.received, outbox.entries("report")) == ([], [])


def test_what_raises_leaves_its_entry_as_it_was(outbox: Outbox) -> None:
    def broken(_: Entry, __: bytes) -> Attempt:
        raise RunError("broken")

    outbox.add("run", ["one"], "a")
    before = outbox.entries("run")
    with pytest.raises(RunError, match="broken"):
        list(outbox.deliver(before, broken))
    assert outbox.entries("run") == before


def test_an_entry_is_a_part_of_the_transaction_that_it_is_put_in(file: SqliteFile, outbox: Outbox) -> None:
    def put_and_fail() -> None:
        with file.transaction():
            outbox.add("run", ["one"], "a")
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        put_and_fail()
    assert outbox.entries("run") == []


WRITER = """
import sys
import time
from pathlib import Path
from opduel.support.outbox import OUTBOX_TABLE, Outbox
from opduel.support.sqlite_file import SqliteFile
outbox = Outbox(SqliteFile(Path(sys.argv[1]), OUTBOX_TABLE, "--spool"))
for number in range(10 ** 9):
    outbox.add("report", ["one"], f"{sys.argv[2]} {number}", b"x" * 5000)
    print(number, flush=True)
    time.sleep(0.05)  # SQLite's lock is not fair
"""


def test_several_processes_that_are_killed_lose_nothing(tmp_path: Path) -> None:
    path = tmp_path / "outbox.db"
    commands = [[sys.executable, "-c", WRITER, str(path), name] for name in ("a", "b")]
    writers = [subprocess.Popen(command, stdout=subprocess.PIPE, text=True, cwd=ROOT) for command in commands]
    output_lines = []
    for writer in writers:
        assert writer.stdout
        lines = [writer.stdout.readline() for _ in range(5)]
        writer.send_signal(signal.SIGKILL)
        output_lines.append(len([line for line in (*lines, *writer.stdout.readlines()) if line.endswith("\n")]))
        writer.wait()
    file = SqliteFile(path, OUTBOX_TABLE, "--spool")
    assert not file.damage
    outbox = Outbox(file)
    entries = outbox.entries("report")
    for name, count in zip("ab", output_lines, strict=True):
        keys = [entry.key for entry in entries if entry.key.startswith(name)]
        assert keys == [f"{name} {number}" for number in range(len(keys))]
        assert len(keys) >= count >= 5
    assert all(outbox.payload(entry) == b"x" * 5000 for entry in entries)
    size = path.stat().st_size
    list(outbox.deliver(entries, lambda *_: Attempt("delivered")))
    assert path.stat().st_size < size / 2, "it gives the room back"
    file.close()


def test_a_home_folder_on_nfs_has_no_write_ahead_log(file: SqliteFile, tmp_path: Path) -> None:
    assert file.rows("PRAGMA journal_mode") == [("delete",)]
    assert file.rows("PRAGMA synchronous") == [(3,)], "EXTRA: a commit outlasts a power cut"
    with closing(sqlite3.connect(tmp_path / "outbox.db")) as beside:
        assert beside.execute("PRAGMA auto_vacuum").fetchone() == (1,)
