"""Progress: a live line on a terminal that fits 80 columns, plain lines at intervals elsewhere."""

import io
import os
import select

import pytest
from rich.cells import cell_len

from opduel.commands.progress import PLAIN_EVERY_S, ProgressDisplay, describe, minutes
from opduel.harness.schedule import Progress


def at(seconds: float, rounds: int = 1) -> Progress:
    return Progress(rounds=rounds, open_cases=3, cases=16, elapsed_s=seconds, left_s=90.0)


class Clock:
    """A clock that stands still until it is moved."""

    def __init__(self) -> None:
        self.now = 1000.0

    def __call__(self) -> float:
        return self.now


def test_a_second_measurement_says_so_and_has_its_own_count() -> None:
    progress = Progress(rounds=12, open_cases=2, cases=3, elapsed_s=1.0, left_s=5.0, verifying=True)
    assert describe(progress) == "verify 12, 2 of 3 cases open, next look in 0:05"


def test_where_earlier_runs_tell_how_long_it_takes_it_says_so() -> None:
    progress = Progress(rounds=12, open_cases=2, cases=3, elapsed_s=1.0, left_s=5.0, end_s=65.0)
    assert describe(progress) == "round 12, 2 of 3 cases open, about 1:05 left"


def test_elsewhere_a_line_at_intervals() -> None:
    stream = io.StringIO()
    clock = Clock()
    began = clock.now
    with ProgressDisplay(16, stream, clock) as display:
        for tenth in range(1, 401):  # 40 seconds, a round every tenth
            clock.now = began + tenth / 10
            display.show(at(tenth / 10, rounds=tenth))
    assert stream.getvalue().splitlines() == [
        "round 150, 3 of 16 cases open, next look in 1:30, 0:15 elapsed",
        "round 300, 3 of 16 cases open, next look in 1:30, 0:30 elapsed",
    ]


def test_a_reader_that_went_away_does_not_end_the_run() -> None:
    clock = Clock()
    reading, writing = os.pipe()
    os.close(reading)
    with os.fdopen(writing, "w") as stream, ProgressDisplay(16, stream, clock) as display:
        for rounds in range(3):
            clock.now += PLAIN_EVERY_S
            display.show(at(0, rounds))


def test_a_full_disk_does_not_end_the_run() -> None:
    clock = Clock()
    with open("/dev/full", "w") as stream:
        with ProgressDisplay(16, stream, clock) as display:
            clock.now += PLAIN_EVERY_S
            display.show(at(0))
        with pytest.raises(OSError, match="No space"):  # it was really full; and what is left over is dropped
            stream.flush()
        os.dup2(os.open(os.devnull, os.O_WRONLY), stream.fileno())


@pytest.mark.parametrize("reads", [True, False])
def test_on_a_terminal_a_live_line_that_fits(reads: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setenv("COLUMNS", "80")
    ours, theirs = os.openpty()
    with os.fdopen(theirs, "w") as stream:
        display = ProgressDisplay(5999, stream)
        with display:
            display.show(Progress(rounds=1234, open_cases=5678, cases=5999, elapsed_s=7200.0, left_s=7200.0))
            display._bar.refresh()
            if not reads:
                os.close(ours)  # the terminal is closed: the run goes on
                display.show(at(0))
        if reads:
            shown = ""
            while "round 1234, 5678 of 5999 cases open, next look in 120:00" not in shown:  # it comes in several pieces
                assert select.select([ours], [], [], 10)[0], shown
                shown += os.read(ours, 1 << 16).decode()
            assert "…" not in shown
            os.close(ours)


def test_texts() -> None:
    assert describe(at(0, rounds=7)) == "round 7, 3 of 16 cases open, next look in 1:30"
    assert cell_len(describe(at(0, rounds=99999))) < 60
    assert [minutes(seconds) for seconds in (0, 59.9, 60, 3600)] == ["0:00", "0:59", "1:00", "60:00"]
