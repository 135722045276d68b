"""The screen reporter: a run on one screen, the worst first; ``render`` puts header, table and footer together."""

import io
import os
import sys
from collections.abc import Mapping, Sequence
from typing import Literal, TextIO

from rich.console import Console
from rich.text import Text

from opduel.records import Comparison, Failure, Report
from opduel.reporters.base import Reporter
from opduel.reporters.kinds import kinds_text
from opduel.reporters.run_text import (
    build_text,
    differences_text,
    disturbance_text,
    effort_text,
    failure_text,
    frameworks_text,
    host_text,
    hosts_text,
    incidents,
    platform_text,
    roofline_words,
    suite_text,
)
from opduel.reporters.screen_table import breakdown_lines, cases_lines, kinds_lines
from opduel.reporters.stream import write_text
from opduel.reporters.summary import (
    VerdictCount,
    next_line,
    notes,
    suite_line,
    unsettled_lines,
    validity_line,
    verdict_counts,
    why_incomplete,
    worst_first,
)
from opduel.reporters.text import fold, printable, shorten
from opduel.reporters.units import human_changes
from opduel.support.output import key_line
from opduel.support.text import listed

NARROW = 80  # columns, wherever the output is no terminal
_NARROWEST = 76  # narrower terminals wrap
_RUN_TYPES = {  # of the driver, beside the benchmark that comes first
    "verify": "the second measurement, on fresh processes, of what changed",
    "regress": "a step of the search for the culprit",
}
_LABEL = 11  # columns of what stands before a line of the header
_HEADER_LINES = 3  # of each of these; what doesn't fit loses its middle, which report.json has
_MOST_BRIEF = 5  # cases
_MOST_DETAILS = 20  # failures, and incidents, that are listed
_SETTLED = ("not_worse", "unchanged")
_MOST_SETTLED = 40  # rows of cases that are unchanged, or not slower; if there are more, none is shown


class ScreenReporter(Reporter, option="screen_reporter"):
    """Prints a table for people: coloured on a terminal only, and not there either when NO_COLOR is set."""

    def __init__(self, stream: TextIO | None = None, colour: bool | None = None, is_brief: bool = False) -> None:
        """Print to ``stream``, by default what ``sys.stdout`` is then; ``colour`` depends on it, too, if not given.
        ``is_brief``: print the verdicts alone, in a line or two."""
        self.stream = stream
        self.colour = colour
        self.is_brief = is_brief

    def briefly(self) -> "ScreenReporter":
        """Return one that prints the verdicts alone, to the same place."""
        return ScreenReporter(self.stream, self.colour, is_brief=True)

    def report(self, report: Report) -> None:
        """Print the report; a pipe that closes early is no error."""
        stream = self.stream or sys.stdout
        colour = wants_colour(stream, os.environ) if self.colour is None else self.colour
        write_text(stream, render(report, terminal_width(stream), colour, self.is_brief))


def render(report: Report, width: int = NARROW, colour: bool = False, is_brief: bool = False) -> str:
    """Return the report as lines of at most ``width`` columns (76 or more), but for words and case ids that are longer,
    with ANSI colours if ``colour``; if it ``is_brief``, the builds and verdicts alone, and why to doubt them."""
    width = max(width, _NARROWEST)
    sink = io.StringIO()
    system: Literal["standard"] | None = "standard" if colour else None
    console = Console(file=sink, width=width, force_terminal=colour, color_system=system, no_color=not colour)
    if is_brief:
        console.print(*_brief_lines(report, width), sep="\n", soft_wrap=True)
        return sink.getvalue()
    counts = verdict_counts(report.comparisons)
    hidden = {group.words: group for group in counts if group.verdict in _SETTLED and group.count > _MOST_SETTLED}
    comparisons = [comparison for comparison in report.comparisons if comparison.verdict_words not in hidden]
    lines = [*_header_lines(report, width), *_warning(validity_line(report), width)]
    if comparisons:
        lines += [Text(""), *cases_lines(report, comparisons, width)]
    lines += [*kinds_lines(report, width), *breakdown_lines(report, width), Text("")]
    lines += _footer_lines(report, counts, list(hidden.values()), width)
    console.print(*lines, sep="\n", soft_wrap=True)
    return "".join(f"{line.rstrip()}\n" for line in sink.getvalue().splitlines())


def _brief_lines(report: Report, width: int) -> list[Text]:
    """Return both builds with the verdicts of the first cases, and why to doubt them."""
    comparisons = worst_first(report.comparisons)
    verdicts = [f"{comparison.case} {_brief_verdict(comparison)}" for comparison in comparisons[:_MOST_BRIEF]]
    more = [f"{len(comparisons) - _MOST_BRIEF} more"] if len(comparisons) > _MOST_BRIEF else []
    names = f"{report.control.name}..{report.treatment.name}"
    lines = _folded(printable(f"{names}: {'; '.join([*verdicts, *more])}"), width)
    why = why_incomplete(report)
    for line in (validity_line(report), why and f"NOT COMPLETE: {why}", *unsettled_lines(report, with_names=False)):
        lines += _warning(line, width)
    return lines


def _brief_verdict(comparison: Comparison) -> str:
    """Return the verdict with its interval, or with why there is none."""
    why = comparison.failure.reason if comparison.failure else comparison.note
    change = " ".join(human_changes(comparison.ratio, comparison.ci)) if comparison.ratio else why
    return ", ".join(filter(None, (comparison.verdict_words, change)))


def _header_lines(report: Report, width: int) -> list[Text]:
    """Return the builds, the host and the spec."""
    run = report.run
    spec = " ".join(filter(None, (run.spec, run.framework, platform_text(report), suite_text(run.suite))))
    lines = [
        ("run", _RUN_TYPES.get(report.configuration.run_type, "")),
        ("suite" if run.suite else "spec", spec or "-"),
        ("control", build_text(report.control)),
        ("treatment", build_text(report.treatment)),
        ("verdicts", frameworks_text(report.control, report.treatment)),
        ("differ", differences_text(report.control, report.treatment)),
        ("host", host_text(report.host)),
        ("fleet", hosts_text(report)),
        ("kinds", kinds_text(report)),
        ("roofline", roofline_words(report.host.roofline)),
        ("busy host", disturbance_text(report)),
    ]
    room = width - _LABEL
    return [
        Text(f"{label if place == 0 else '':<{_LABEL}}{piece}")
        for label, words in lines
        if words
        for place, piece in enumerate(fold(shorten(printable(words), _HEADER_LINES * room), room))
    ]


def _warning(line: str, width: int) -> list[Text]:
    """Return ``line`` as a sentence, folded; nothing for an empty line."""
    return _folded(printable(line[:1].upper() + line[1:]), width, "bold yellow") if line else []


def _footer_lines(
    report: Report, counts: Sequence[VerdictCount], hidden: Sequence[VerdictCount], width: int
) -> list[Text]:
    """Return the counts, what the table left out, failures, incidents, whether the run is complete, notes, and
    what to do next."""
    lines = _folded(", ".join(f"{count.count} {count.words}" for count in counts), width)
    lines += _folded(effort_text(report), width)
    if hidden:
        groups = " and ".join(f"the {group.count} {group.words}" for group in hidden)
        lines += _folded(f"not shown: {groups} (--tsv and report.json have them)", width)
    failed = [(case.case, case.failure, "") for case in worst_first(report.comparisons) if case.failure is not None]
    lines += _failures("failures", failed, width) + _failures("incidents", incidents(report), width)
    if why := why_incomplete(report):
        lines += _warning(f"NOT COMPLETE: {why}", width)
    for line in (suite_line(report), *unsettled_lines(report, with_names=False)):
        lines += _warning(line, width)
    for line in filter(None, (*notes(report), next_line(report))):
        lines += _folded(printable(line), width)
    return lines


def _failures(title: str, failures: Sequence[tuple[str, Failure, str]], width: int) -> list[Text]:
    """Return failures or incidents, as ``run_text.incidents`` has them, under their title; those that are alike once,
    with the first of the places where they happened."""
    places: dict[tuple[str, str, str], list[str]] = {}
    for where, failure, consequence in failures:
        tail = key_line(failure.output_tail)
        known_tail = "" if tail in failure.reason else tail
        places.setdefault((failure_text(failure), known_tail, consequence), []).append(where)
    lines = [f"{title}:"] if failures else []
    for (words, tail, consequence), wheres in list(places.items())[:_MOST_DETAILS]:
        is_one = len(wheres) == 1
        lines.append(f"  {wheres[0]}: {words}" if is_one else f"  {len(wheres)} {title}: {words}")
        lines += [] if is_one else [f"    {listed(wheres)}"]
        lines += [f"    output tail: {tail}"] if tail else []
        lines += [f"    then: {consequence}"] if consequence else []
    if hidden := sum(map(len, list(places.values())[_MOST_DETAILS:])):
        lines.append(f"  not shown: {hidden} more {title} (report.json has them)")
    return [piece for line in lines for piece in _folded(printable(line), width)]


def _folded(text: str, width: int, style: str = "") -> list[Text]:
    """Return ``text`` folded to ``width``, with later lines indented, and the middle of more than six lines left
    out."""
    indent = " " * (len(text) - len(text.lstrip()) + 2)
    pieces = fold(shorten(text.strip(), 6 * (width - len(indent))), width - len(indent))
    first = f"{indent[2:]}{pieces[0]}"
    return [Text(line, style=style) for line in [first, *(f"{indent}{piece}" for piece in pieces[1:])]]


def wants_colour(stream: TextIO, environment: Mapping[str, str]) -> bool:
    """Return whether ``stream`` is a terminal that can show colours, and NO_COLOR (no-color.org) isn't set."""
    return stream.isatty() and not environment.get("NO_COLOR") and environment.get("TERM") != "dumb"


def terminal_width(stream: TextIO) -> int:
    """Return the terminal's columns; 80 if ``stream`` is not a terminal or doesn't know."""
    try:
        return os.get_terminal_size(stream.fileno()).columns or NARROW
    except (OSError, ValueError):
        return NARROW
