"""Progress: a live line on a terminal that fits 80 columns, plain lines at intervals elsewhere."""

import io
import logging
import math
import os
import re
import select
from dataclasses import replace

import pytest
from rich.cells import cell_len

from opduel.commands.progress import (
    PLAIN_EVERY_S,
    ProgressDisplay,
    describe,
    describe_fleet,
    time_words,
)
from opduel.harness.measurement_plan import Progress


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
    assert describe(progress) == "verify 12, 2 of 3 cases open, next verdicts in 5 s"


def test_cases_that_are_measured_on_because_the_host_is_busy_are_not_done() -> None:
    progress = Progress(rounds=12, open_cases=2, cases=40, elapsed_s=1.0, left_s=0.0, end_s=5.0, measured_on=30)
    assert describe(progress) == "round 12, 2 of 40 cases open, 30 more (busy host)"
    assert describe(replace(progress, open_cases=0)) == "round 12, 0 of 40 cases open, 30 more (busy host)"
    longest = replace(progress, rounds=123, open_cases=200, cases=1000, measured_on=800, verifying=True)
    assert len(describe(longest)) <= 58  # so that bar and clock fit beside it
    finished_counts: list[int] = []
    with ProgressDisplay(40, io.StringIO()) as display:
        display._update = lambda text, finished, *_: finished_counts.append(finished)  # type: ignore[method-assign]
        display.show(progress)
    assert finished_counts == [8]


@pytest.mark.parametrize(
    ("left_s", "end_s", "budget_left_s", "words"),
    [
        (5.0, 65.0, math.inf, ["about 1 min left"]),
        (5.0, 15000.0, math.inf, ["about 5 h left"]),
        (5.0, 15000.0, 100.5, ["at most 1 min 40 s left"]),
        (5.0, 30.0, 100.0, ["less than a minute left"]),
        (5.0, 5.0, 4.0, ["at most 4 s left"]),
        (90.0, 0.0, math.inf, ["about 2 min left"]),  # it takes so long to the next look
        (90.0, None, 17.0, ["at most 17 s left"]),  # in which there are no verdicts
        (90.0, None, math.inf, ["next verdicts in 1 min 30 s"]),
        (0.4, None, math.inf, []),
        (0.4, 0.0, 0.4, []),
    ],
)
def test_how_long_it_takes_is_as_exact_as_it_is_known(
    left_s: float, end_s: float | None, budget_left_s: float, words: list[str]
) -> None:
    progress = Progress(12, 2, 3, 1.0, left_s, end_s=end_s, budget_left_s=budget_left_s)
    assert time_words(progress) == words
    assert describe(progress) == ", ".join(["round 12", "2 of 3 cases open", *words])
    assert describe(replace(progress, open_cases=0)) == "round 12, 0 of 3 cases open"


def test_elsewhere_a_line_at_intervals() -> None:
    stream = io.StringIO()
    clock = Clock()
    began = clock.now
    with ProgressDisplay(16, stream, clock) as display:
        for tenth in range(1, 401):  # 40 seconds, a round every tenth
            clock.now = began + tenth / 10
            display.show(at(tenth / 10, rounds=tenth))
    assert stream.getvalue().splitlines() == [
        "round 150, 3 of 16 cases open, next verdicts in 1 min 30 s, 15 s elapsed",
        "round 300, 3 of 16 cases open, next verdicts in 1 min 30 s, 30 s elapsed",
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
            screen_text = ""
            while (
                "round 1234, 5678 of 5999 cases open, next verdicts in 2 h" not in screen_text
            ):  # it comes in several pieces
                assert select.select([ours], [], [], 10)[0], screen_text
                screen_text += os.read(ours, 1 << 16).decode()
            assert "…" not in screen_text
            os.close(ours)


def screen(text: str) -> list[str]:
    """The lines that a terminal would show after this text, of the codes that the display uses."""
    lines, row = [""], 0
    for code in re.findall(r"\x1b\[[0-9;?]*[A-Za-z]|\r|\n|[^\x1b\r\n]+", text):
        if code == "\n":
            row += 1
            lines += [""] * (row + 1 - len(lines))
        elif code == "\x1b[1A":
            row -= 1
        elif code == "\x1b[2K":
            lines[row] = ""
        elif code[0] not in "\x1b\r":
            lines[row] += code
    return [line.rstrip() for line in lines]


def test_lines_of_the_log_stay_above_the_live_one(monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in (("TERM", "xterm"), ("COLUMNS", "80"), ("LINES", "24")):
        monkeypatch.setenv(name, value)
    ours, theirs = os.openpty()
    with os.fdopen(theirs, "w") as stream:
        handler = logging.StreamHandler(stream)
        root, log = logging.getLogger(), logging.getLogger("opduel.test")
        monkeypatch.setattr(root, "handlers", [handler])
        with ProgressDisplay(16, stream) as display:
            display.show(of_hosts(3))
            display._bar.refresh()
            for number in range(3):
                log.warning("fleet: host-%d: has gone [x]", number)
                display._bar.refresh()
        assert handler.stream is stream
        log.warning("the end")
        stream.flush()
        text = all_of(ours)
    os.close(ours)
    lines = [line for line in screen(text) if line]
    assert lines == [*(f"fleet: host-{number}: has gone [x]" for number in range(3)), "the end"]


def test_texts() -> None:
    assert describe(at(0, rounds=7)) == "round 7, 3 of 16 cases open, next verdicts in 1 min 30 s"
    assert cell_len(describe(at(0, rounds=9999))) < 60


def all_of(terminal: int) -> str:
    """What was written to it."""
    content = b""
    while select.select([terminal], [], [], 0.2)[0]:
        content += os.read(terminal, 1 << 16)
    return content.decode()


def of_hosts(hosts: int, still_open: int = 3) -> Progress:
    return Progress(rounds=9, open_cases=still_open, cases=16, elapsed_s=60.0, left_s=90.0, hosts=hosts)


def test_a_fleet_in_words() -> None:
    assert describe_fleet(of_hosts(2)) == "2 hosts, 3 of 16 cases open, about 2 min left"
    assert describe_fleet(of_hosts(1, 16)) == "1 host, 16 of 16 cases open"  # nothing is done from which it follows


def test_what_the_run_will_come_to_is_said_once(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO, "opduel")
    with ProgressDisplay(16, io.StringIO()) as display:
        for progress in (
            at(1.0),
            replace(at(2.0), outlook="about 5 s more"),
            replace(at(3.0), outlook="about 4 s more"),
        ):
            display.show(progress)
    assert [record.message for record in caplog.records] == ["about 5 s more"]
