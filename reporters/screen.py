"""The screen reporter: a run on one screen, the worst first; ``render`` puts header, table and footer together."""

import io
import os
import sys
from collections.abc import Mapping, Sequence
from typing import ClassVar, Self, TextIO

from rich.console import Console
from rich.text import Text

from opduel.records import Comparison, Report
from opduel.reporters.base import Reporter
from opduel.reporters.screen_breakdown import breakdown_lines
from opduel.reporters.screen_table import cases_lines
from opduel.reporters.screen_words import footer_lines, header_lines, validity_lines
from opduel.reporters.stream import write_text

NARROW = 80  # columns, wherever the output is no terminal
_NARROWEST = 76  # narrower terminals wrap
MOST_UNCHANGED = 40  # rows of unchanged cases; of more than that, none is shown


class ScreenReporter(Reporter):
    """Prints a table for people: coloured on a terminal only, and not there either when NO_COLOR is set."""

    option: ClassVar[str] = "screen_reporter"
    help: ClassVar[str] = "print a table on standard output, the worst first (the default on a terminal)"

    def __init__(
        self,
        stream: TextIO | None = None,
        width: int | None = None,
        colour: bool | None = None,
        most_unchanged: int = MOST_UNCHANGED,
    ) -> None:
        """Print to ``stream``, by default what ``sys.stdout`` is when reporting.

        ``width`` (columns) and ``colour`` are found out from the stream when None.
        """
        self.stream = stream
        self.width = width
        self.colour = colour
        self.most_unchanged = most_unchanged

    @classmethod
    def from_option(cls, value: str | None) -> Self:
        """The reporter for ``--screen_reporter``."""
        return cls()

    def report(self, report: Report) -> None:
        """Print the report; a pipe that closes early is no error."""
        stream = self.stream or sys.stdout
        width = terminal_width(stream) if self.width is None else self.width
        colour = wants_colour(stream, os.environ) if self.colour is None else self.colour
        write_text(stream, render(report, width, colour, self.most_unchanged))


def render(report: Report, width: int = NARROW, colour: bool = False, most_unchanged: int = MOST_UNCHANGED) -> str:
    """The report as lines of at most ``width`` columns (76 or more), with ANSI colours if ``colour``."""
    width = max(width, _NARROWEST)
    sink = io.StringIO()
    console = Console(
        file=sink,
        width=width,
        force_terminal=colour,
        color_system="standard" if colour else None,
        no_color=not colour,
        legacy_windows=False,
        markup=False,
        emoji=False,
        highlight=False,
    )
    hidden = report.count("unchanged") if report.count("unchanged") > most_unchanged else 0
    shown = [one for one in report.comparisons if not (hidden and one.verdict == "unchanged")]
    for line in [*header_lines(report, width), *validity_lines(report, width)]:
        console.print(line)
    if shown:
        console.print(Text(""), *_table(report, shown, width), sep="\n")
    if parts := breakdown_lines(report, width):
        console.print(*parts, sep="\n")
    console.print(Text(""))
    for line in footer_lines(report, hidden, width):
        console.print(line)
    return "".join(f"{line.rstrip()}\n" for line in sink.getvalue().splitlines())


def _table(report: Report, shown: Sequence[Comparison], width: int) -> list[Text]:
    return cases_lines(shown, report.configuration.alpha, width, report.host.roofline)


def wants_colour(stream: TextIO, environment: Mapping[str, str]) -> bool:
    """Whether ``stream`` is a terminal that can show colours, and NO_COLOR (no-color.org) isn't set."""
    return stream.isatty() and not environment.get("NO_COLOR") and environment.get("TERM") != "dumb"


def terminal_width(stream: TextIO) -> int:
    """The terminal's columns; 80 where ``stream`` is none or doesn't know."""
    try:
        return os.get_terminal_size(stream.fileno()).columns or NARROW
    except (OSError, ValueError):
        return NARROW
