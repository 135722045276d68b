"""Progress on standard error: a live line on a terminal; elsewhere a plain line now and then."""

import contextlib
import logging
import time
from collections.abc import Callable
from typing import TextIO, cast

from rich.console import Console
from rich.file_proxy import FileProxy
from rich.progress import BarColumn, TextColumn, TimeElapsedColumn
from rich.progress import Progress as Bar

from opduel.harness.measurement_plan import Progress
from opduel.harness.other_runs.single import SingleProgress
from opduel.reporters.stream import write_text
from opduel.support.text import counted, duration, rough_duration

PLAIN_EVERY_S = 15.0
REDRAWN_A_SECOND = 1.0  # the redrawing thread runs beside what is measured

log = logging.getLogger(__name__)


class ProgressDisplay:
    """Shows a run's progress. A context manager: leaving it clears the live line.

    A stream that goes away in mid-run (a closed terminal, ``| head``) ends the display, not the run.
    """

    def __init__(self, cases: int, stream: TextIO, clock: Callable[[], float] = time.monotonic) -> None:
        self._stream = stream
        self._clock = clock
        self._live = stream.isatty()
        self._quiet = logging.getLogger("opduel").level > logging.INFO  # asked for by --quiet
        self._printed_at = self._clock()
        self._outlook_told = False
        self._bar = Bar(
            TextColumn("{task.description}", markup=False),
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
        self._handlers: list[logging.StreamHandler[TextIO]] = []  # whose lines are printed above the live ones

    def __enter__(self) -> "ProgressDisplay":
        with contextlib.suppress(OSError):
            self._bar.start()
        if self._live and not self._quiet:
            for handler in logging.getLogger().handlers:
                if isinstance(handler, logging.StreamHandler) and handler.stream is self._stream:
                    self._handlers.append(handler)
                    _write_to(handler, cast("TextIO", FileProxy(self._bar.console, self._stream)))
        return self

    def __exit__(self, *_: object) -> None:
        with contextlib.suppress(OSError):
            self._bar.stop()
        for handler in self._handlers:
            _write_to(handler, self._stream)
        self._handlers.clear()

    def show(self, progress: Progress) -> None:
        """Tell of the latest round, and of what the run is likely to come to as soon as that is known."""
        if progress.outlook and not self._outlook_told:
            self._outlook_told = True
            log.info("%s", progress.outlook)
        finished = progress.cases - progress.open_cases - progress.measured_on
        text = describe(progress) if progress.hosts is None else describe_fleet(progress)
        self._update(text, finished, progress.cases, progress.elapsed_s)

    def show_single(self, progress: SingleProgress) -> None:
        """Tell of the latest case of a single-build run."""
        cases = f"{progress.cases_done} of {counted(progress.cases, 'case')}"
        text = f"round {progress.round} of {progress.rounds}, {cases}"
        self._update(text, progress.cases_done, progress.cases, progress.elapsed_s)

    def _update(self, text: str, finished: int, total: int, elapsed_s: float) -> None:
        with contextlib.suppress(OSError):
            self._bar.update(self._task, description=text, completed=finished, total=total)
            if not self._live and not self._quiet and self._clock() - self._printed_at >= PLAIN_EVERY_S:
                self._printed_at = self._clock()
                write_text(self._stream, f"{text}, {duration(int(elapsed_s))} elapsed\n")


def _write_to(handler: "logging.StreamHandler[TextIO]", stream: TextIO) -> None:
    with contextlib.suppress(OSError):
        handler.flush()
    handler.stream = stream


def describe(progress: Progress) -> str:
    """Rounds, cases still open, and how long until more is known, or how many decided ones are measured on; in 80
    columns with bar and clock."""
    words = [f"{'verify' if progress.verifying else 'round'} {progress.rounds}"]
    words.append(f"{progress.open_cases} of {counted(progress.cases, 'case')} open")
    if progress.measured_on:
        words.append(f"{progress.measured_on} more (busy host)")
    elif progress.open_cases:
        words += time_words(progress)
    return ", ".join(words)


def time_words(progress: Progress) -> list[str]:
    """Return how long it takes until more is known, or what is left of the time budget where that ends first; nothing
    where it is a moment."""
    expected_s = progress.left_s if progress.end_s is None else max(progress.end_s, progress.left_s)
    if min(expected_s, progress.budget_left_s) < 1:
        return []
    if progress.budget_left_s <= expected_s:
        return [f"at most {duration(int(progress.budget_left_s))} left"]
    is_known = progress.end_s is not None
    return [f"{rough_duration(expected_s)} left" if is_known else f"next verdicts in {duration(int(expected_s))}"]


def describe_fleet(progress: Progress) -> str:
    """Hosts, cases still open, and roughly how long it takes if the others take as long as those before."""
    hosts = counted(progress.hosts or 0, "host")
    cases = f"{progress.open_cases} of {counted(progress.cases, 'case')} open"
    if progress.open_cases in (0, progress.cases):
        return f"{hosts}, {cases}"
    return f"{hosts}, {cases}, {rough_duration(progress.left_s)} left"
