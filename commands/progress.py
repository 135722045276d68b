"""Progress on standard error: a live line on a terminal, a plain one now and then elsewhere."""

import time
from types import TracebackType
from typing import TextIO

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, SpinnerColumn, TextColumn
from rich.progress import Progress as Bar

from harness.schedule import Progress

PLAIN_EVERY_S = 15.0


class ProgressDisplay:
    """Tells of a run's progress. A context manager: leaving it clears the live line."""

    def __init__(self, cases: int, stream: TextIO) -> None:
        self._stream = stream
        self._live = stream.isatty()
        self._told = time.monotonic()
        self._bar = Bar(
            SpinnerColumn(),
            TextColumn("{task.description}"),
            BarColumn(bar_width=20),
            MofNCompleteColumn(),
            TextColumn("cases settled"),
            console=Console(file=stream),
            transient=True,
            disable=not self._live,
        )
        self._task = self._bar.add_task("starting the first process pair", total=cases)

    def __enter__(self) -> "ProgressDisplay":
        self._bar.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._bar.stop()

    def show(self, progress: Progress) -> None:
        """Tell of the latest round."""
        text = (
            f"round {progress.rounds}, {progress.open_cases} open, "
            f"{minutes(progress.elapsed_s)} gone, about {minutes(progress.left_s)} to the next decision"
        )
        settled = progress.cases - progress.open_cases
        self._bar.update(self._task, description=text, completed=settled)
        if not self._live and time.monotonic() - self._told >= PLAIN_EVERY_S:
            self._told = time.monotonic()
            print(f"{text}, {settled}/{progress.cases} cases settled", file=self._stream, flush=True)


def minutes(seconds: float) -> str:
    """``m:ss``."""
    return f"{int(seconds) // 60}:{int(seconds) % 60:02d}"
