"""Stopped in mid-run: what was measured is on disk, and no worker is left behind."""

import contextlib
import os
import signal
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from command_line import (
    HARNESS,
    LONG_S,
    PYTHON_SAME_BUILD,
    PYTHON_SPEC,
    OnTerminal,
    only_report,
    wait_until_no_workers,
    workers,
    write_spec,
)


@pytest.fixture
def running(home: Path) -> Iterator[OnTerminal]:
    """A run that would go on for long, with some rounds done and workers alive; its output goes to a pipe."""
    temporary = home / "temporary"
    temporary.mkdir()
    environment = {"TMPDIR": str(temporary), "XDG_STATE_HOME": os.environ["XDG_STATE_HOME"]}
    options = ["-b", write_spec(home, PYTHON_SPEC), *PYTHON_SAME_BUILD, "--max_rounds", "1000", "--threshold", "0.01%"]
    reporters = ["--simple_screen_reporter", "--simple_local_reporter", str(home / "reports")]
    with OnTerminal(HARNESS, [*options, *reporters], environment, output_to_pipe=True) as terminal:
        terminal.wait_for(r"round [2-9], 2 of 2 cases open")
        deadline = time.monotonic() + LONG_S
        while len(computing(temporary)) < 2:
            assert time.monotonic() < deadline
            time.sleep(0.02)
        yield terminal


def computing(temporary: Path) -> list[int]:
    """The workers that have begun to import the framework."""
    pids = []
    for pid in workers(temporary):
        with contextlib.suppress(OSError):  # ended meanwhile
            if "numpy" in Path(f"/proc/{pid}/maps").read_text(encoding="utf-8"):
                pids.append(pid)
    return pids


def check_kept(home: Path, reason: str) -> None:
    """The report of a run that was stopped: everything measured so far."""
    document = only_report(home / "reports")
    run = document["run"]
    assert (run["complete"], run["aborted"], run["stop_reason"]) == (False, True, reason)
    assert run["rounds"] >= 2
    assert [len(comparison["samples"]) >= 2 for comparison in document["comparisons"]] == [True, True]
    assert run["incidents"] == []
    wait_until_no_workers(home / "temporary")


@pytest.mark.parametrize(
    "number",
    [signal.SIGTERM, pytest.param(signal.SIGINT, marks=pytest.mark.nightly)],  # test_entry.py has both
    ids=lambda number: number.name,
)
def test_a_signal_ends_it_with_a_report(running: OnTerminal, home: Path, number: signal.Signals) -> None:
    running.process.send_signal(number)
    outcome = running.end()
    assert outcome.code == 3, outcome.err
    assert f"not completed: stopped by {number.name}" in outcome.err
    assert "Traceback" not in outcome.err
    check_kept(home, f"stopped by {number.name}")
    header, *rows = outcome.out.splitlines()
    assert header.startswith("#verdict\t")
    lines = [line for line in rows if not line.startswith("#")]  # a busy machine has a line of its own
    assert [line.split("\t")[1] for line in lines] == ["exp_0", "exp_1"]
    assert any(line.startswith("# not complete") for line in rows)
    assert "\x1b" in outcome.err  # the live line was on the terminal, and on it alone
    assert "\x1b" not in outcome.out


def test_a_terminal_that_is_closed_ends_it_with_a_report(running: OnTerminal, home: Path) -> None:
    running.hang_up()
    assert running.end().code == 3
    check_kept(home, "stopped by SIGHUP")


def test_a_killed_harness_takes_even_hanging_workers_along(running: OnTerminal, home: Path) -> None:
    running.process.send_signal(signal.SIGSTOP)  # no round ends now
    while not (hanging := computing(home / "temporary")):
        running.process.send_signal(signal.SIGCONT)
        time.sleep(0.1)
        running.process.send_signal(signal.SIGSTOP)
    try:
        for pid in hanging:
            os.kill(pid, signal.SIGSTOP)  # it can't notice by itself that nobody speaks with it any more
        running.process.kill()
        assert running.end().code == -signal.SIGKILL
        wait_until_no_workers(home / "temporary")
    finally:
        for pid in workers(home / "temporary"):
            os.kill(pid, signal.SIGKILL)
    assert not list((home / "reports").rglob("report.json"))
