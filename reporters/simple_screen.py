"""The simple screen reporter: one tab-separated line a case, for pipes. docs/reference/report.md has its columns."""

import math
import sys
from collections.abc import Callable, Iterator
from typing import Any, ClassVar, Self, TextIO

from opduel.records import Comparison, Report
from opduel.reporters.base import Reporter
from opduel.reporters.stream import write_text
from opduel.reporters.summary import injection, injection_line, open_lines, validity_line
from opduel.reporters.text import escaped

COLUMNS: dict[str, Callable[[Comparison], Any]] = {
    "verdict": lambda one: one.verdict,
    "case": lambda one: one.case,
    "operator": lambda one: one.operator,
    "direction": lambda one: one.direction,
    "metric": lambda one: one.metric,
    "unit": lambda one: one.unit,
    "ratio": lambda one: one.ratio,
    "ci_low": lambda one: one.ci and one.ci[0],
    "ci_high": lambda one: one.ci and one.ci[1],
    "p_value": lambda one: one.p_value,
    "q_value": lambda one: one.q_value,
    "threshold": lambda one: one.threshold,
    "mde": lambda one: one.mde,
    "control": lambda one: one.control,
    "treatment": lambda one: one.treatment,
    "rounds": lambda one: one.rounds,
    "decided_on": lambda one: one.decided_on,
    "injected": lambda one: one.injected,
    "failure_side": lambda one: one.failure and one.failure.side,
    "failure_kind": lambda one: one.failure and one.failure.kind,
    "failure_reason": lambda one: one.failure and one.failure.reason,
    "note": lambda one: one.note,
    "held_back": lambda one: one.held_back,
    "verified": lambda one: one.verification and one.verification.verdict,
    "verified_ratio": lambda one: one.verification and one.verification.ratio,
    "confidence": lambda one: one.confidence,
    "suspected": lambda one: one.suspected,
    "rounds_needed": lambda one: one.forecast and one.forecast.rounds,
    "seconds_needed": lambda one: one.forecast and one.forecast.seconds,
}


class SimpleScreenReporter(Reporter):
    """Prints every case with full precision, in the order in which the report has them."""

    option: ClassVar[str] = "simple_screen_reporter"
    help: ClassVar[str] = "print one tab-separated line per case on standard output, for pipes"

    def __init__(self, stream: TextIO | None = None) -> None:
        """Print to ``stream``, by default what ``sys.stdout`` is when reporting."""
        self.stream = stream

    @classmethod
    def from_option(cls, value: str | None) -> Self:
        """The reporter for ``--simple_screen_reporter``."""
        return cls()

    def report(self, report: Report) -> None:
        """Print the report; a pipe that closes early is no error."""
        write_text(self.stream or sys.stdout, "".join(f"{line}\n" for line in tab_separated(report)))


def tab_separated(report: Report) -> Iterator[str]:
    """The lines: a ``#`` with the columns' names, a line a case, ``#`` comments on the run as a whole."""
    yield "#" + "\t".join(COLUMNS)
    for comparison in report.comparisons:
        yield "\t".join(_field(value(comparison)) for value in COLUMNS.values())
    if line := validity_line(report):
        yield f"# {escaped(line)}"
    if report.run.is_cut_short:
        yield f"# not complete: {escaped(report.run.why_stopped)}"
    yield from (f"# {escaped(line)}" for line in open_lines(report))
    outcome = injection(report)
    if outcome is not None:
        yield f"# {injection_line(outcome)}"


def _field(value: Any) -> str:
    if value is None or (isinstance(value, float) and not math.isfinite(value)):
        return ""
    if isinstance(value, bool):
        return "true" if value else "false"
    return escaped(str(value))
