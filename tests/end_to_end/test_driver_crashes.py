"""The driver killed, stopped and started twice: nothing is lost, nothing told twice, nothing measured again."""

import contextlib
import json
import os
import signal
import sqlite3
import time
from pathlib import Path

import psutil
import pytest
from toy_driver import Outcome, Shared, ToyDriver, toy_driver, wait_for
from toy_project import ToyProject

SLOW = "Check every sum twice"
OPTIONS = ("--regression", "--operators", "sum", "--build", "source")


@pytest.fixture(scope="module")
def short(tmp_path_factory: pytest.TempPathFactory) -> ToyProject:
    """Three commits after the first, of which the second is slow."""
    project = ToyProject(tmp_path_factory.mktemp("short") / "toy")
    project.commit("Change 1")
    project.commit(SLOW, slow={"sum": 1.6})
    project.commit("Change 3")
    return project


@pytest.fixture
def own(short: ToyProject, shared: Shared, tmp_path: Path) -> ToyDriver:
    """The command with a build cache of its own, so that it compiles."""
    return toy_driver(tmp_path, short).with_environment(UV_CACHE_DIR=str(shared.caches / "uv"))


def count(driver: ToyDriver, table: str) -> int:
    """Rows of a table of the journal; none before there is one."""
    with contextlib.suppress(sqlite3.OperationalError):
        return int(driver.journal(f"SELECT COUNT(*) FROM {table}")[0][0])
    return 0


def is_compiling(driver: ToyDriver) -> bool:
    """Whether a compile has begun its log."""
    return any((driver.work / "builds" / "logs").glob("*.log"))


def check_end(outcome: Outcome, driver: ToyDriver) -> None:
    """As after a run that nobody disturbed: the commit is named, and each run of the journal is reported once."""
    assert outcome.code == 1, outcome.err
    assert f" Ada Toymaker: {SLOW}\n" in outcome.out
    assert outcome.out.count("first bad: ") == 1
    journalled = [json.loads(text)["run"]["id"] for (text,) in driver.journal("SELECT text FROM reports")]
    reported = [report["run"]["id"] for report in driver.reports()]
    assert sorted(reported) == sorted(journalled)
    assert len(set(reported)) == len(reported)
    assert [report["run"]["run_type"] for report in driver.reports()][:2] == ["benchmark", "verify"]
    assert driver.journal("SELECT * FROM rounds") == []
    assert all(report["run"]["complete"] for report in driver.reports())
    for report in driver.reports():
        for comparison in report["comparisons"]:
            rounds = [sample["round"] for sample in comparison["samples"]]
            assert len(set(rounds)) == len(rounds)


@pytest.mark.nightly  # the next tests kill it once
def test_killed_again_and_again_it_ends_as_if_nobody_had(own: ToyDriver) -> None:
    """Killed while it compiles, while it measures, and between a run's end and its telling; then it may end."""
    process = own.start(*OPTIONS)
    wait_for(lambda: is_compiling(own), process)
    process.kill()
    process.wait()
    assert count(own, "reports") == 0

    process = own.start(*OPTIONS)
    wait_for(lambda: count(own, "rounds") >= 3, process)
    process.kill()
    process.wait()
    round_texts = {text for (text,) in own.journal("SELECT text FROM rounds")}
    assert len(round_texts) >= 3

    process = own.start(*OPTIONS)
    wait_for(lambda: {text for (text,) in own.journal("SELECT text FROM rounds")} - round_texts, process)
    process.kill()
    process.wait()
    assert round_texts < {text for (text,) in own.journal("SELECT text FROM rounds")}

    process = own.start(*OPTIONS)
    wait_for(lambda: count(own, "reports") > 0, process)
    process.kill()
    process.wait()

    outcome = own.run(*OPTIONS)
    check_end(outcome, own)
    assert own.reports()[0]["run"]["resumed"]
    assert no_process_of(own)


@pytest.mark.nightly  # the CI runs it
def test_sigterm_ends_it_at_once_and_the_next_start_goes_on(own: ToyDriver) -> None:
    process = own.start(*OPTIONS)
    wait_for(lambda: is_compiling(own), process)
    process.send_signal(signal.SIGTERM)
    stopped = own.end(process)
    assert stopped.code == 3, stopped.err
    assert "stopped by SIGTERM" in stopped.err
    assert no_process_of(own)

    process = own.start(*OPTIONS)
    wait_for(lambda: count(own, "rounds") >= 2, process)
    process.send_signal(signal.SIGTERM)
    stopped = own.end(process)
    assert stopped.code == 3, stopped.err
    assert "stopped by SIGTERM" in stopped.err
    assert count(own, "rounds") >= 2
    assert own.reports() == []
    assert no_process_of(own)
    check_end(own.run(*OPTIONS), own)


def test_a_second_driver_in_the_same_work_directory_is_refused(own: ToyDriver) -> None:
    process = own.start(*OPTIONS)
    try:
        wait_for(lambda: (own.work / "driver.lock").exists() and (own.work / "driver.lock").read_text(), process)
        with own.fork(own.command(*OPTIONS)) as second:
            out, err = second.communicate()
        assert second.returncode == 3
        assert err == (
            f"repo_driver.py: error: {own.work}: another driver (process {process.pid}) is using it: "
            "wait until it ends, or give another --work_dir\n"
        )
        assert out == ""
    finally:
        process.kill()
        process.wait()


def test_a_damaged_journal_is_put_aside(driver: ToyDriver) -> None:
    options = ("--branch", "quiet", "--operators", "add")
    assert driver.run(*options).code == 0
    journal = driver.work / "journal.db"
    content = bytearray(journal.read_bytes())
    content[:100] = os.urandom(100)
    journal.write_bytes(content)
    outcome = driver.run(*options)
    assert outcome.code == 0, outcome.err
    (aside,) = driver.work.glob("journal-damaged-*.db")
    assert f"{journal} is damaged" in outcome.err
    assert f"kept as {aside}" in outcome.err
    assert aside.read_bytes() == bytes(content)
    assert [kind for (kind,) in driver.journal("SELECT kind FROM events")] == ["damage"]
    assert len(driver.reports()) == 2  # what was measured before is not known any more


def no_process_of(driver: ToyDriver) -> bool:
    """Whether no compiler, worker or git of the driver's lives any more; they may take a moment to be gone."""
    deadline = time.monotonic() + 30
    while any(str(driver.work) in text for text in command_lines()):
        if time.monotonic() > deadline:
            return False
        time.sleep(0.05)
    return True


def command_lines() -> list[str]:
    commands = []
    for process in psutil.process_iter():
        with contextlib.suppress(psutil.Error):
            if process.pid != os.getpid() and process.status() != psutil.STATUS_ZOMBIE:
                commands.append(" ".join(process.cmdline()))
    return commands
