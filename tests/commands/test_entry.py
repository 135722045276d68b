"""What every command shares: errors, signals, exit codes. Signals are real ones, sent to this very process."""

import errno
import logging
import os
import signal
import subprocess
import threading
import time
from collections.abc import Callable, Iterator

import pytest
from command_line import fresh_logging

from commands.entry import DONE, INCOMPLETE, STOPPING, patience, run_command
from records import RunError, UsageError
from reporters.arguments import Parser
from reporters.stream import print_result

NUMBERS = pytest.mark.parametrize("number", STOPPING, ids=lambda number: number.name)


def command(action: Callable[[], int]) -> int:
    with fresh_logging():
        return run_command("do.py", action)


@pytest.fixture(autouse=True)
def handlers() -> Iterator[None]:
    """Whatever a command does to signals, it undoes; and what the test does, here."""
    before = {number: signal.getsignal(number) for number in STOPPING}
    yield
    left = {number: signal.getsignal(number) for number in STOPPING}
    for number, handler in before.items():
        signal.signal(number, handler)
    assert left == before


def raising(error: Exception) -> Callable[[], int]:
    def action() -> int:
        raise error

    return action


@pytest.mark.parametrize(
    ("error", "code", "line"),
    [
        (UsageError("wrong: mend it"), 2, "do.py: error: wrong: mend it\n"),
        (RunError("no luck"), 3, "do.py: error: no luck\n"),
        (UsageError("a name\nin two lines"), 2, "do.py: error: a name in two lines\n"),
        (
            OSError(errno.ENOSPC, "No space left on device", "/tmp/x"),
            3,
            "do.py: error: /tmp/x: No space left on device: free some space, or name another folder for temporary "
            "files in TMPDIR\n",
        ),
    ],
)
def test_an_error_is_one_line_and_its_exit_code(
    error: Exception, code: int, line: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert command(raising(error)) == code
    assert capsys.readouterr() == ("", line)


def test_a_bug_is_told_and_is_no_regression(capsys: pytest.CaptureFixture[str]) -> None:
    assert command(raising(ZeroDivisionError("by\nzero"))) == INCOMPLETE
    assert capsys.readouterr().err == "do.py: internal error: ZeroDivisionError: by zero\n"


def test_what_cannot_be_printed_is_one_line_whenever_it_is_noticed(
    capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """At once, or when the command has ended: Python itself would say so in several lines, and with an exit code of its
    own."""

    def printing() -> int:
        print("so far so good")
        return DONE

    def helping() -> int:
        Parser(prog="do.py").parse_args(["--help"])
        raise AssertionError("went on")

    for action in (printing, helping, lambda: print_result("x" * 100_000) or DONE):
        with open("/dev/full", "w", encoding="utf-8") as full, monkeypatch.context() as patch:
            patch.setattr("sys.stdout", full)
            assert command(action) == INCOMPLETE
        said = capfd.readouterr().err
        assert said == "do.py: error: standard output: cannot be written (No space left on device)\n"


@NUMBERS
def test_a_signal_stops(number: signal.Signals, capsys: pytest.CaptureFixture[str]) -> None:
    def action() -> int:
        os.kill(os.getpid(), number)
        raise AssertionError("went on")

    assert command(action) == INCOMPLETE
    assert capsys.readouterr().err == f"do.py: stopped by {number.name}\n"


@NUMBERS
def test_an_ignored_signal_stays_ignored(number: signal.Signals) -> None:
    before = signal.signal(number, signal.SIG_IGN)

    def action() -> int:
        os.kill(os.getpid(), number)
        with patience():
            os.kill(os.getpid(), number)
        return DONE

    try:
        assert command(action) == DONE
        assert signal.getsignal(number) is signal.SIG_IGN
    finally:
        signal.signal(number, before)


def test_pressing_ctrl_c_twice_does_not_spoil_the_ending(capsys: pytest.CaptureFixture[str]) -> None:
    ended = []

    def action() -> int:
        try:
            os.kill(os.getpid(), signal.SIGINT)
        except KeyboardInterrupt:
            os.kill(os.getpid(), signal.SIGINT)
            ended.append("cleanly")
        return DONE

    assert command(action) == DONE
    assert ended == ["cleanly"]
    assert "once more" in capsys.readouterr().err


def test_pressing_it_three_times_stops_whatever_it_does() -> None:
    def action() -> int:
        try:
            os.kill(os.getpid(), signal.SIGINT)
        except KeyboardInterrupt:
            os.kill(os.getpid(), signal.SIGINT)
            os.kill(os.getpid(), signal.SIGINT)
        raise AssertionError("went on")

    assert command(action) == INCOMPLETE


def test_patience_lasts_for_one_signal_and_ends_with_its_block() -> None:
    events = []

    def action() -> int:
        with patience():
            os.kill(os.getpid(), signal.SIGTERM)
            events.append("written")
        with patience():
            os.kill(os.getpid(), signal.SIGTERM)
            events.append("written again")
        os.kill(os.getpid(), signal.SIGTERM)
        raise AssertionError("went on")

    assert command(action) == INCOMPLETE
    assert events == ["written", "written again"]


class Finalized:
    """Is signalled in its finalizer, where Python drops what is raised."""

    def __del__(self) -> None:
        os.kill(os.getpid(), signal.SIGTERM)


class SignalledLock:
    """logging's lock, which is held around a fork; a signal comes just when it is given back."""

    def __init__(self) -> None:
        self.lock, self.came = threading.RLock(), False

    def acquire(self) -> None:
        self.lock.acquire()

    def release(self) -> None:
        if not self.came:
            self.came = True
            os.kill(os.getpid(), signal.SIGTERM)
        self.lock.release()


def finalize() -> None:
    Finalized()


def fork() -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(logging, "_lock", lock := SignalledLock())
        subprocess.run(["true"], preexec_fn=os.getpid, check=True)
    assert lock.came
    taken = threading.Thread(target=lambda: held.append(lock.lock.acquire(blocking=False)))
    held: list[bool] = []
    taken.start()
    taken.join()
    assert held == [True], "nobody holds it"


@pytest.mark.parametrize("where", [finalize, fork])
def test_a_signal_where_exceptions_are_dropped_stops_a_moment_later(
    where: Callable[[], None], capsys: pytest.CaptureFixture[str]
) -> None:
    def action() -> int:
        where()
        time.sleep(60)
        return DONE

    assert command(action) == INCOMPLETE
    assert capsys.readouterr().err == "do.py: stopped by SIGTERM\n"
