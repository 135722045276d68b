"""What every command shares: errors, signals, exit codes. Signals are real ones, sent to this very process."""

import contextlib
import errno
import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from command_line import fresh_logging
from pydantic import TypeAdapter, ValidationError

from opduel.commands.entry import DONE, INCOMPLETE, STOPPING, USAGE, log, patience, run_command
from opduel.records import RunError, UsageError
from opduel.reporters.arguments import Parser
from opduel.reporters.stream import print_result

NUMBERS = pytest.mark.parametrize("number", STOPPING, ids=lambda number: number.name)


def command(action: Callable[[], int]) -> int:
    with fresh_logging():
        return run_command("do.py", action)


@pytest.fixture(autouse=True)
def handlers() -> Iterator[None]:
    """Whatever a command does to signals, it undoes; and what the test does, here."""
    handled = (*STOPPING, signal.SIGALRM)
    before = {number: signal.getsignal(number) for number in handled}
    yield
    after = {number: signal.getsignal(number) for number in handled}
    for number, handler in before.items():
        signal.signal(number, handler)
    assert after == before


def raising(error: Exception) -> Callable[[], int]:
    def action() -> int:
        raise error

    return action


@pytest.mark.parametrize(
    ("error", "code", "line"),
    [
        (UsageError("wrong: fix it"), 2, "do.py: error: wrong: fix it\n"),
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


def test_a_bug_is_reported_and_is_no_regression(capsys: pytest.CaptureFixture[str]) -> None:
    assert command(raising(ZeroDivisionError("by\nzero"))) == INCOMPLETE
    assert capsys.readouterr().err == "do.py: internal error: ZeroDivisionError: by zero\n"


def test_a_path_that_no_system_takes_is_wrong_usage(capsys: pytest.CaptureFixture[str]) -> None:
    assert command(lambda: int(Path("x" * 300).is_dir())) == USAGE
    assert re.fullmatch(r"do\.py: error: x+\.\.\.x+: File name too long: give another path\n", capsys.readouterr().err)


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
        errors = capfd.readouterr().err
        assert errors == "do.py: error: standard output: cannot be written (No space left on device)\n"


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
    endings = []

    def action() -> int:
        try:
            os.kill(os.getpid(), signal.SIGINT)
        except KeyboardInterrupt:
            os.kill(os.getpid(), signal.SIGINT)
            endings.append("cleanly")
        return DONE

    assert command(action) == DONE
    assert endings == ["cleanly"]
    assert "stopping: the report is being written" in capsys.readouterr().err


def test_pressing_it_three_times_stops_whatever_it_does() -> None:
    def action() -> int:
        try:
            os.kill(os.getpid(), signal.SIGINT)
        except KeyboardInterrupt:
            os.kill(os.getpid(), signal.SIGINT)
            os.kill(os.getpid(), signal.SIGINT)
        raise AssertionError("went on")

    assert command(action) == INCOMPLETE


class Odd:
    """A value that gets a signal while pydantic asks whether it is a mapping."""

    @property
    def __class__(self) -> type:
        os.kill(os.getpid(), signal.SIGTERM)
        return int


def refusing() -> int:
    """Go on with what pydantic makes of that: good input is wrong."""
    try:
        TypeAdapter(dict[str, int]).validate_python(Odd())
    except ValidationError as error:
        raise UsageError(f"spec.json: {error.errors()[0]['msg']}: give a mapping") from None
    raise AssertionError("went on")


def test_a_signal_that_a_validation_swallows_is_no_wrong_input(capsys: pytest.CaptureFixture[str]) -> None:
    assert command(refusing) == INCOMPLETE
    assert capsys.readouterr().err == "do.py: stopped by SIGTERM\n"


def test_a_signal_that_is_swallowed_stops_a_moment_later(capsys: pytest.CaptureFixture[str]) -> None:
    """Twice: in a validation, and in a finalizer while the command goes on; without it, it would go on for ever."""

    class Finalized:
        def __del__(self) -> None:
            deadline = time.monotonic() + 10
            while time.monotonic() < deadline:
                pass

    def action() -> int:
        with contextlib.suppress(UsageError):
            refusing()
        Finalized()
        time.sleep(60)
        raise AssertionError("went on")

    assert command(action) == INCOMPLETE
    assert capsys.readouterr().err == "do.py: stopped by SIGTERM\n"


def test_other_exceptions_that_nobody_can_catch_are_reported_as_ever(capsys: pytest.CaptureFixture[str]) -> None:
    class Broken:
        def __del__(self) -> None:
            raise ValueError("in a finalizer")

    def action() -> int:
        Broken()
        return DONE

    hook = sys.unraisablehook
    sys.unraisablehook = sys.__unraisablehook__
    try:
        assert command(action) == DONE
    finally:
        sys.unraisablehook = hook
    assert "in a finalizer" in capsys.readouterr().err


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


def waits() -> int:
    """What no signal ends is noticed, and does not hang."""
    time.sleep(30)
    raise AssertionError("went on")


@NUMBERS
def test_a_signal_where_python_drops_exceptions_is_not_lost(
    number: signal.Signals, capsys: pytest.CaptureFixture[str]
) -> None:
    class Dying:
        def __del__(self) -> None:
            os.kill(os.getpid(), number)
            [None for _ in range(2)]  # at the latest here it is noticed, and the exception goes nowhere

    def action() -> int:
        Dying()
        return waits()

    assert command(action) == INCOMPLETE
    assert capsys.readouterr().err == f"do.py: stopped by {number.name}\n"


def test_a_signal_while_a_process_is_forked_stops_afterwards_and_leaves_no_lock_held() -> None:
    """`logging` takes its lock before a fork and gives it back after it: an exception between the two would keep it."""
    script = """
import os, signal, subprocess, sys, threading
finished = []
def hook():
    os.kill(os.getpid(), signal.SIGTERM)
    finished.append([None for _ in range(2)])
os.register_at_fork(after_in_parent=hook)
from opduel.commands.entry import run_command
def action():
    try:
        subprocess.run(["sleep", "30"], preexec_fn=lambda: None)
    finally:
        assert len(finished) == 1
    return 0
sys.exit(run_command("do.py", action))
"""
    root = Path(__file__).resolve().parent.parent.parent
    process = subprocess.run([sys.executable, "-c", script], cwd=root, capture_output=True, text=True, check=False)
    assert (process.returncode, process.stderr) == (INCOMPLETE, "do.py: stopped by SIGTERM\n")


def test_a_signal_while_a_report_is_written_stops_what_would_follow(capsys: pytest.CaptureFixture[str]) -> None:
    events = []

    def action() -> int:
        with patience(stops_after=True):
            os.kill(os.getpid(), signal.SIGTERM)
            events.append("written")
        return waits()

    assert command(action) == INCOMPLETE
    assert events == ["written"]
    assert capsys.readouterr().err.endswith("do.py: stopped by SIGTERM\n")


def test_a_path_moves_no_cursor(capsys: pytest.CaptureFixture[str]) -> None:
    def telling() -> int:
        log.info("kept in %s", Path("a\x1b[31m\nb"))
        log.info("one\ntwo\r")
        return DONE

    assert command(telling) == DONE
    assert capsys.readouterr().err == "do.py: kept in a\\x1b[31m\\x0ab\ndo.py: one\ntwo\n"
