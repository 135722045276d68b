"""The formats that a report can be written in for others to read, by name."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Literal

from opduel.records import Report, UsageError
from opduel.records.measurement import Side
from opduel.reporters.html import to_html
from opduel.reporters.interchange.benchmark_json import to_bmf, to_github_action_benchmark
from opduel.reporters.interchange.benchstat import to_benchstat
from opduel.reporters.interchange.cases import Rendered
from opduel.reporters.interchange.junit import to_junit
from opduel.reporters.interchange.pyperf import to_pyperf
from opduel.reporters.interchange.speedscope import to_speedscope
from opduel.reporters.interchange.table import to_csv, to_csv_samples
from opduel.reporters.markdown import to_markdown


@dataclass(frozen=True)
class Format:
    """A way to write a report.

    ``help`` says in a few words who reads it.  ``sides`` says what a text holds: "both" sides; "one", so that a report
    is two texts; "either", both or one, as asked for.  ``write`` gets the side, None for both.
    """

    help: str
    write: Callable[[Report, Side | None], Rendered]
    sides: Literal["both", "either", "one"] = "both"


def _one_side(report: Report, side: Side | None) -> Rendered:
    if side is None:
        raise ValueError("a file of pyperf has one side: choose it")
    return to_pyperf(report, side)


FORMATS: Mapping[str, Format] = {
    "pyperf": Format("pyperf's JSON, one file per side", _one_side, "one"),
    "benchstat": Format("Go benchmark text, both sides or one", to_benchstat, "either"),
    "bmf": Format("Bencher Metric Format", lambda report, _: to_bmf(report)),
    "github-action-benchmark": Format(
        "its customSmallerIsBetter", lambda report, _: to_github_action_benchmark(report)
    ),
    "junit": Format("JUnit XML, one test per case", lambda report, _: to_junit(report)),
    "csv": Format("a line a case", lambda report, _: to_csv(report)),
    "csv-samples": Format("one line per process pair", lambda report, _: to_csv_samples(report)),
    "speedscope": Format("flame graphs of explained cases, for speedscope", to_speedscope, "either"),
    "html": Format("a page, in one file", lambda report, _: Rendered(to_html(report))),
    "md": Format("Markdown", lambda report, _: Rendered(to_markdown(report))),
}


def write_format(report: Report, to: str, side: Side | None, option: str) -> Rendered:
    """Return the report in the format ``to``; errors name ``option``.

    Raises:
        UsageError: the format needs a side, or takes none.
    """
    check_side(to, side is not None, option, "--side", "add --side control or --side treatment")
    return FORMATS[to].write(report, side)


def check_side(to: str, is_given: bool, option: str, word: str, fix: str) -> None:
    """Check that a side is given if the format ``to`` needs one, and not if it takes none.

    Raises:
        UsageError: the text names ``option``, and ends with ``fix``, or says to leave ``word`` out.
    """
    sides = FORMATS[to].sides
    if sides == "one" and not is_given:
        raise UsageError(f"{option}: a file of {to} has one side: {fix}")
    if sides == "both" and is_given:
        raise UsageError(f"{option}: a file of {to} has both sides: leave {word} out")


def described() -> str:
    """Return every format with its help, for a help text."""
    return "; ".join(f"{name}: {format.help}" for name, format in FORMATS.items())
