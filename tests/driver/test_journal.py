"""The journal: what is written is there after whatever ends the process, and what can't be read is put aside."""

import os
import signal
import sqlite3
import subprocess
import sys
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from opduel.driver.journal import FIRST_RETRY_S, LAST_RETRY_S, RUN, Journal, pause_after
from opduel.records import RunError, UsageError
from opduel.support.outbox import Attempt

WEEK_S = 7 * 86400.0


class Clock:
    """Seconds since 1970, as the test says."""

    now = 1_700_000_000.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def journal(tmp_path: Path, clock: Clock) -> Iterator[Journal]:
    opened = Journal(tmp_path / "journal.db", clock)
    yield opened
    opened.close()


def test_rounds_are_kept_in_order_and_let_go_with_the_end_of_their_run(journal: Journal, tmp_path: Path) -> None:
    for text in ("b", "a", "ü\n"):
        journal.rounds_of("one").keep(text)
    journal.rounds_of("two").keep("other")
    again = Journal(tmp_path / "journal.db")
    assert again.rounds_of("one").rounds() == ["b", "a", "ü\n"]
    assert again.report("one") is None
    assert again.runs("") == ["one", "two"]

    journal.finish_run("one", "a report")
    assert again.rounds_of("one").rounds() == []
    assert again.rounds_of("two").rounds() == ["other"]
    assert again.report("one") == "a report"
    again.close()


def test_a_killed_process_loses_nothing_that_it_has_kept(tmp_path: Path) -> None:
    code = (
        "import sys; from pathlib import Path; from opduel.driver.journal import Journal\n"
        "log = Journal(Path(sys.argv[1])).rounds_of('run')\n"
        "for number in range(10 ** 9):\n"
        "    log.keep(str(number)); print(number, flush=True)\n"
    )
    root = Path(__file__).resolve().parents[2]
    command = [sys.executable, "-c", code, str(tmp_path / "journal.db")]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True, cwd=root)
    assert process.stdout
    lines = [process.stdout.readline() for _ in range(20)]
    process.send_signal(signal.SIGKILL)
    lines += process.stdout.readlines()
    process.wait()
    rounds = Journal(tmp_path / "journal.db").rounds_of("run").rounds()
    assert rounds == [str(number) for number in range(len(rounds))]
    assert len(rounds) >= len([line for line in lines if line.endswith("\n")]) >= 20


def undelivered(journal: Journal) -> list[str]:
    """The runs that the reporters don't have yet."""
    return [entry.key for entry in journal.outbox.entries(RUN)]


def deliver(journal: Journal, *runs: str) -> None:
    entries = [entry for entry in journal.outbox.entries(RUN) if entry.key in runs]
    list(journal.outbox.deliver(entries, lambda *_: Attempt("delivered")))


def test_runs_are_delivered_in_the_order_in_which_they_ended(journal: Journal) -> None:
    for run in ("z", "a", "m"):
        journal.finish_run(run, f"report {run}")
    assert undelivered(journal) == ["z", "a", "m"]
    deliver(journal, "a")
    assert undelivered(journal) == ["z", "m"]
    journal.finish_run("z", "another report")
    assert undelivered(journal) == ["m", "z"]


def test_a_forgotten_run_is_as_if_it_had_never_been(journal: Journal) -> None:
    journal.finish_run("line/benchmark", "report")
    deliver(journal, "line/benchmark")
    journal.rounds_of("line/verify").keep("round")
    journal.finish_run("other", "report")
    assert journal.runs("line/") == ["line/benchmark", "line/verify"]
    for run in journal.runs("line/"):
        journal.forget_run(run)
    assert journal.runs("") == ["other"]
    journal.finish_run("line/benchmark", "another")
    assert undelivered(journal) == ["other", "line/benchmark"]


def test_facts_and_notes(journal: Journal, clock: Clock) -> None:
    assert journal.get_fact("name") is None
    journal.set_fact("name", "old")
    journal.set_fact("name", "new")
    assert journal.get_fact("name") == "new"
    journal.note("remote gone", "for a while")
    clock.now -= 1000
    journal.note("clock jump", "back")
    assert [note[1:] for note in journal.events()] == [("remote gone", "for a while"), ("clock jump", "back")]


def test_pauses_double_from_an_hour_to_a_week() -> None:
    assert [pause_after(attempts) / 3600 for attempts in (1, 2, 3, 4)] == [1, 2, 4, 8]
    assert pause_after(1) == FIRST_RETRY_S
    assert pause_after(50) == LAST_RETRY_S == WEEK_S


def test_what_failed_is_due_after_its_pause(journal: Journal, clock: Clock) -> None:
    assert journal.is_due("commit")
    began = clock.now
    for attempt, pause_s in ((1, 3600.0), (2, 7200.0)):
        trouble = journal.record_trouble("commit", f"failure {attempt}")
        assert (trouble.attempts, trouble.retry_at - clock.now, trouble.text) == (
            attempt,
            pause_s,
            f"failure {attempt}",
        )
        clock.now += pause_s - 1
        assert not journal.is_due("commit")
        clock.now += 1
        assert journal.is_due("commit")
    assert clock.now == began + 3 * 3600
    journal.clear_trouble("commit")
    assert "commit" not in journal.troubled()
    assert journal.record_trouble("commit", "again").attempts == 1


def test_what_is_tried_again_at_once_lengthens_no_pause(journal: Journal, clock: Clock) -> None:
    """However often: a full disk, with a pass a minute."""
    for _ in range(3):
        assert journal.record_trouble("commit", "no space", soon=True).retry_at == clock.now
    assert journal.record_trouble("commit", "no network").retry_at == clock.now + FIRST_RETRY_S
    journal.write("UPDATE troubled SET attempts = 5000", ())  # whatever they came from
    assert journal.record_trouble("commit", "no network").retry_at == clock.now + LAST_RETRY_S
    assert journal.is_due("commit") is False


def test_a_clock_that_was_set_back_holds_nothing_up(journal: Journal, clock: Clock) -> None:
    journal.record_trouble("commit", "failure")
    clock.now -= 10 * WEEK_S
    assert journal.is_due("commit")


def test_those_due_first_come_first(journal: Journal, clock: Clock) -> None:
    journal.record_trouble("twice", "once")
    journal.record_trouble("twice", "twice")
    clock.now += 10
    journal.record_trouble("once", "once")
    assert list(journal.troubled()) == ["once", "twice"]


@pytest.mark.parametrize("damage", ["garbage", "cut", "header"])
def test_a_damaged_file_is_put_aside_and_said_so(tmp_path: Path, damage: str, caplog: pytest.LogCaptureFixture) -> None:
    path = tmp_path / "journal.db"
    first = Journal(path)
    for number in range(200):
        first.rounds_of("run").keep("text " * 100 + str(number))
    first.close()
    content = path.read_bytes()
    damaged = {
        "garbage": os.urandom(5000),
        "cut": content[: len(content) // 2],
        "header": b"\0" * 100 + content[100:],
    }[damage]
    path.write_bytes(damaged)
    journal = Journal(path, clock=lambda: 1234.5)
    aside = tmp_path / "journal-damaged-1234.db"
    assert aside.read_bytes() == damaged
    assert f"{path} is damaged" in caplog.text
    assert str(aside) in caplog.text
    assert journal.runs("") == []
    ((_, kind, text),) = journal.events()
    assert kind == "damage"
    assert aside.name in text
    journal.rounds_of("run").keep("works again")
    journal.close()


def test_a_database_of_something_else_is_refused_and_not_changed(tmp_path: Path) -> None:
    path = tmp_path / "journal.db"
    with closing(sqlite3.connect(path)) as connection:
        connection.execute("CREATE TABLE diary (day TEXT)")
        connection.commit()
    before = path.read_bytes()
    with pytest.raises(UsageError, match=f"{path}: is a database that is not opduel's: give another folder"):
        Journal(path)
    assert path.read_bytes() == before
    assert [file_path.name for file_path in tmp_path.iterdir()] == [path.name]


def test_an_empty_file_is_an_empty_journal(tmp_path: Path) -> None:
    (tmp_path / "journal.db").touch()
    journal = Journal(tmp_path / "journal.db")
    assert journal.events() == []
    journal.close()


def test_a_file_that_cannot_be_opened_is_one_error_with_a_fix(tmp_path: Path) -> None:
    (tmp_path / "journal.db").mkdir()
    with pytest.raises(RunError, match=r"journal.db: can't be opened .*: fix that, or give another folder"):
        Journal(tmp_path / "journal.db")


def test_a_full_disk_is_said_so_and_what_was_kept_stays(journal: Journal) -> None:
    log = journal.rounds_of("run")
    log.keep("first")
    pages = journal._connection.execute("PRAGMA page_count").fetchone()[0]
    journal._connection.execute(f"PRAGMA max_page_count = {pages + 2}")
    with pytest.raises(RunError, match=r"can't be written \(.*full.*\): free some space"):
        log.keep("x" * 100_000)
    assert log.rounds() == ["first"]
    journal._connection.execute("PRAGMA max_page_count = 1000000")
    log.keep("second")
    assert log.rounds() == ["first", "second"]


def test_half_of_a_transaction_is_never_kept(journal: Journal) -> None:
    journal.rounds_of("run").keep("round")
    journal._connection.execute("CREATE TRIGGER no BEFORE DELETE ON rounds BEGIN SELECT RAISE(ABORT, 'no'); END")
    with pytest.raises(RunError):
        journal.finish_run("run", "report")
    assert journal.report("run") is None
    assert journal.rounds_of("run").rounds() == ["round"]
