"""The formats that a report can be written in for others to read, by name. What writes one is loaded when it does."""

from collections.abc import Mapping
from dataclasses import dataclass
from pkgutil import resolve_name
from typing import TYPE_CHECKING, Literal

from opduel.support.errors import UsageError

if TYPE_CHECKING:
    from opduel.records import Report
    from opduel.records.measurement import Side


@dataclass(frozen=True)
class Rendered:
    """A report in some format. ``left_out`` says in words which cases the format can't hold; empty if it holds all."""

    text: str
    left_out: str = ""


@dataclass(frozen=True)
class Format:
    """A way to write a report.

    ``writer`` is the function that does, below ``opduel.reporters``; ``help`` says in a few words who reads it.
    ``sides`` says what a text holds: "both" sides; "one", so that a report is two texts; "either", both or one, as
    asked for.
    """

    writer: str
    help: str
    sides: Literal["both", "either", "one"] = "both"

    def write(self, report: "Report", side: "Side | None") -> Rendered:
        """Return the report, or one side of it, in this format."""
        writer = resolve_name(f"opduel.reporters.{self.writer}")
        text = writer(report) if self.sides == "both" else writer(report, side)
        return text if isinstance(text, Rendered) else Rendered(text)


FORMATS: Mapping[str, Format] = {
    "pyperf": Format("interchange.pyperf:to_pyperf", "pyperf's JSON, one file per side", "one"),
    "benchstat": Format("interchange.benchstat:to_benchstat", "Go benchmark text, both sides or one", "either"),
    "bmf": Format("interchange.benchmark_json:to_bmf", "Bencher Metric Format"),
    "github-action-benchmark": Format(
        "interchange.benchmark_json:to_github_action_benchmark", "its customSmallerIsBetter"
    ),
    "hyperfine": Format("interchange.hyperfine:to_hyperfine", "the JSON of its --export-json"),
    "junit": Format("interchange.junit:to_junit", "JUnit XML, one test per case"),
    "csv": Format("interchange.table:to_csv", "a line a case"),
    "csv-samples": Format("interchange.table:to_csv_samples", "one line per process pair"),
    "speedscope": Format(
        "interchange.speedscope:to_speedscope", "flame graphs of explained cases, for speedscope", "either"
    ),
    "html": Format("html.page:to_html", "a page, in one file"),
    "md": Format("markdown:to_markdown", "Markdown"),
}


def write_format(report: "Report", to: str, side: "Side | None", option: str) -> Rendered:
    """Return the report in the format ``to``; errors name ``option``. Raises UsageError: the format needs a side, or
    takes none."""
    check_side(to, side is not None, option, "--side", "add --side control or --side treatment")
    return FORMATS[to].write(report, side)


def check_side(to: str, is_given: bool, option: str, word: str, fix: str) -> None:
    """Check that a side is given if the format ``to`` needs one, and not if it takes none. Raises UsageError: the text
    names ``option``, and ends with ``fix``, or says to leave ``word`` out."""
    sides = FORMATS[to].sides
    if sides == "one" and not is_given:
        raise UsageError(f"{option}: a file of {to} has one side: {fix}")
    if sides == "both" and is_given:
        raise UsageError(f"{option}: a file of {to} has both sides: leave {word} out")


def described() -> str:
    """Return every format with its help, for a help text."""
    return "; ".join(f"{name}: {format.help}" for name, format in FORMATS.items())
