"""Progress on standard error: a live line on a terminal, a plain one now and then elsewhere."""

import contextlib
import logging
import time
from collections.abc import Callable
from typing import TextIO

from rich.console import Console
from rich.progress import BarColumn, TextColumn, TimeElapsedColumn
from rich.progress import Progress as Bar

from opduel.harness.schedule import Progress
from opduel.harness.single import SingleProgress
from opduel.reporters.stream import write_text

PLAIN_EVERY_S = 15.0
REDRAWN_A_SECOND = 1.0  # the redrawing thread runs beside what is measured


class ProgressDisplay:
    """Tells of a run's progress. A context manager: leaving it clears the live line.

    A stream that goes away in mid-run (a closed terminal, ``| head``) ends the telling, not the run.
    """

    def __init__(self, cases: int, stream: TextIO, clock: Callable[[], float] = time.monotonic) -> None:
        self._stream = stream
        self._clock = clock
        self._live = stream.isatty()
        self._quiet = logging.getLogger("opduel").level > logging.INFO  # asked for by --quiet
        self._printed_at = self._clock()
        self._bar = Bar(
            TextColumn("{task.description}"),
            BarColumn(bar_width=12),
            TimeElapsedColumn(),
            console=Console(file=stream),
            refresh_per_second=REDRAWN_A_SECOND,
            transient=True,
            redirect_stdout=False,  # what others print is their affair, and must work when the terminal is gone
            redirect_stderr=False,
            disable=not self._live or self._quiet,
        )
        self._task = self._bar.add_task("starting the first process pair", total=cases)

    def __enter__(self) -> "ProgressDisplay":
        with contextlib.suppress(OSError):
            self._bar.start()
        return self

    def __exit__(self, *_: object) -> None:
        with contextlib.suppress(OSError):
            self._bar.stop()

    def show(self, progress: Progress) -> None:
        """Tell of the latest round."""
        self._tell(describe(progress), progress.cases - progress.open_cases, progress.cases, progress.elapsed_s)

    def show_single(self, progress: SingleProgress) -> None:
        """Tell of the latest case of a single-build run."""
        text = f"round {progress.round} of {progress.rounds}, {progress.done} of {progress.cases} cases"
        self._tell(text, progress.done, progress.cases, progress.elapsed_s)

    def _tell(self, text: str, done: int, total: int, elapsed_s: float) -> None:
        with contextlib.suppress(OSError):
            self._bar.update(self._task, description=text, completed=done, total=total)
            if not self._live and not self._quiet and self._clock() - self._printed_at >= PLAIN_EVERY_S:
                self._printed_at = self._clock()
                write_text(self._stream, f"{text}, {minutes(elapsed_s)} elapsed\n")


def describe(progress: Progress) -> str:
    """Rounds, cases still open, and how long until more is known; short enough for 80 columns with bar and clock."""
    phase = "verify" if progress.verifying else "round"
    cases = f"{progress.open_cases} of {progress.cases} cases open"
    if progress.end_s is not None:
        return f"{phase} {progress.rounds}, {cases}, about {minutes(progress.end_s)} left"
    return f"{phase} {progress.rounds}, {cases}, next look in {minutes(progress.left_s)}"


def minutes(seconds: float) -> str:
    """``m:ss``."""
    return f"{int(seconds) // 60}:{int(seconds) % 60:02d}"
