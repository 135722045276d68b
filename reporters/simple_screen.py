"""The reporters that print for programs: a tab-separated line per case, or JSON. See docs/reference/report.md."""

import math
import sys
from collections.abc import Callable, Iterator
from operator import attrgetter
from typing import Any

from opduel.records import Comparison, Report
from opduel.reporters.base import Reporter
from opduel.reporters.document import to_bytes
from opduel.reporters.stream import print_result, write_text
from opduel.reporters.summary import caveats, notes
from opduel.reporters.text import escaped


def _own(*names: str) -> dict[str, Callable[[Comparison], Any]]:
    """Return columns with the names of a comparison's own fields."""
    return {name: attrgetter(name) for name in names}


COLUMNS: dict[str, Callable[[Comparison], Any]] = {
    **_own("verdict", "case", "operator", "direction", "metric", "unit", "ratio"),
    "ci_low": lambda comparison: comparison.ci and comparison.ci[0],
    "ci_high": lambda comparison: comparison.ci and comparison.ci[1],
    **_own("p_value", "q_value", "threshold", "mde", "control", "treatment", "rounds", "decided_on", "injected"),
    "failure_side": lambda comparison: comparison.failure and comparison.failure.side,
    "failure_kind": lambda comparison: comparison.failure and comparison.failure.kind,
    "failure_reason": lambda comparison: comparison.failure and comparison.failure.reason,
    **_own("note", "held_back"),
    "verified": lambda comparison: comparison.verification and comparison.verification.verdict,
    "verified_ratio": lambda comparison: comparison.verification and comparison.verification.ratio,
    **_own("confidence", "suspected"),
    "rounds_needed": lambda comparison: comparison.forecast and comparison.forecast.rounds,
    "seconds_needed": lambda comparison: comparison.forecast and comparison.forecast.seconds,
    **_own("host", "kind", "difference"),
    "difference_low": lambda comparison: comparison.difference_ci and comparison.difference_ci[0],
    "difference_high": lambda comparison: comparison.difference_ci and comparison.difference_ci[1],
}


class SimpleScreenReporter(Reporter, option="simple_screen_reporter"):
    """Prints every case with full precision, in the order in which the report has them."""

    def report(self, report: Report) -> None:
        """Print the report; a pipe that closes early is no error."""
        write_text(sys.stdout, "".join(f"{line}\n" for line in tab_separated(report)))


class JsonReporter(Reporter, option="json"):
    """Prints what report.json holds, and nothing else."""

    def report(self, report: Report) -> None:
        print_result(to_bytes(report).decode("utf-8"), "give --local_reporter DIR to keep it as a file")


def tab_separated(report: Report) -> Iterator[str]:
    """Yield a ``#`` line with the columns' names, a line per case, and ``#`` comments on the run."""
    yield "#" + "\t".join(COLUMNS)
    for comparison in report.comparisons:
        yield "\t".join(_field(value(comparison)) for value in COLUMNS.values())
    yield from (f"# {escaped(line)}" for line in (*caveats(report), *notes(report)))


def _field(value: Any) -> str:
    if value is None or (isinstance(value, float) and not math.isfinite(value)):
        return ""
    if isinstance(value, bool):
        return "true" if value else "false"
    return escaped(str(value))
