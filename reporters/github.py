"""The GitHub reporter: in GitHub Actions, a summary of the step, annotations, and outputs for later steps."""

import atexit
import logging
import os
import sys
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar, Self

from opduel.records import Comparison, Report, RunError, UsageError
from opduel.reporters.alerts import is_confirmed
from opduel.reporters.base import Reporter
from opduel.reporters.github_commands import Kind, add_summary, annotations, set_outputs, stop_commands, summary_room
from opduel.reporters.markdown import cell, to_markdown
from opduel.reporters.notifier import places_of
from opduel.reporters.stream import write_text
from opduel.reporters.summary import Conclusion, conclusion, open_lines, validity_line, worst_first
from opduel.reporters.text import printable, shorten
from opduel.reporters.units import human_change, human_interval, human_value

OUTPUTS = ("verdict", "regressed", "cases", "report")
_OUTPUT, _SUMMARY = "GITHUB_OUTPUT", "GITHUB_STEP_SUMMARY"
_WORST: tuple[Conclusion, ...] = ("regressed", "incomplete", "done")
_LONGEST_TITLE = 200  # cells
_LONGEST_MESSAGE = 1000
_SPARE = 1024  # bytes of the summary left free

log = logging.getLogger(__name__)


@dataclass(frozen=True)
class _Reported:
    """What is kept of a run for the outputs."""

    conclusion: Conclusion
    worse: tuple[str, ...]
    places: tuple[str, ...]


class GithubReporter(Reporter):
    """Speaks to the runner of GitHub Actions, or of one that is like it.

    From ``check`` on nothing that this process prints is taken for a command of the workflow, whatever operators and
    commits are called; its own commands are let through, and at its end all others again.
    """

    option: ClassVar[str] = "github"
    help: ClassVar[str] = "in GitHub Actions: a summary of the step, annotations, and outputs for later steps"

    def __init__(self, environment: Mapping[str, str] | None = None) -> None:
        """``environment``: that of the step, by default this process's own."""
        self._environment = os.environ if environment is None else environment
        self._others: Sequence[Reporter] = ()
        self._resume = ""
        self._reported: list[_Reported] = []  # of all runs of this process

    @classmethod
    def from_option(cls, value: str | None) -> Self:
        """The reporter for ``--github``."""
        return cls()

    def check(self) -> None:
        """See that this is a step of a workflow; from now on nothing printed is taken for a command.

        Raises:
            UsageError: it is none.
        """
        if self._environment.get("GITHUB_ACTIONS") != "true":
            raise UsageError(
                f"--{self.option}: this is not a step of GitHub Actions (GITHUB_ACTIONS is not true): leave it out, or "
                "use run_bench.py --convert REPORT --to md"
            )
        for name in (_OUTPUT, _SUMMARY):
            if not self._environment.get(name):
                log.warning("--%s: %s is not set: nothing is written there", self.option, name)
        self._stop()
        atexit.register(self._go_on)

    def meet(self, others: Sequence[Reporter]) -> None:
        """Know those who can say where the report lies."""
        self._others = others

    def report(self, report: Report) -> None:
        """Tell of the run.

        Raises:
            RunError: the summary or the outputs could not be written.
        """
        self.tell(report, [])

    def tell(self, report: Report, culprits: Sequence[str]) -> None:
        """Tell of the run; ``culprits`` are lines for the head of the summary. Outputs are of all runs together.

        Raises:
            RunError: the summary or the outputs could not be written.
        """
        worse = tuple(printable(one.case) for one in worst_first(report.comparisons) if one.is_worse)
        self._reported.append(_Reported(conclusion(report), worse, tuple(places_of(self._others, report)[:1])))
        lines = [line for kind, wanted in _wanted(report).items() for line in annotations(kind, wanted)]
        self._go_on()
        try:
            write_text(sys.stdout, "".join(f"{line}\n" for line in lines))
        finally:
            self._stop()
        problems = []
        for write in (self._write_outputs, lambda: self._add_summary(report, culprits)):
            try:
                write()
            except RunError as error:
                problems.append(str(error))
        if problems:
            raise RunError("; ".join(problems))

    def _write_outputs(self) -> None:
        if path := self._environment.get(_OUTPUT):
            set_outputs(Path(path), self._outputs())

    def _add_summary(self, report: Report, culprits: Sequence[str]) -> None:
        if path := self._environment.get(_SUMMARY):
            add_summary(Path(path), _summary(report, culprits, summary_room(Path(path)) - _SPARE))

    def _outputs(self) -> dict[str, str]:
        worse = [case for one in self._reported for case in one.worse]
        return {
            "verdict": min((one.conclusion for one in self._reported), key=_WORST.index),
            "regressed": str(len(worse)),
            "cases": "\n".join(worse),
            "report": "\n".join(place for one in self._reported for place in one.places),
        }

    def _stop(self) -> None:
        stop, self._resume = stop_commands()
        write_text(sys.stdout, f"{stop}\n")

    def _go_on(self) -> None:
        if not self._resume:
            return
        with suppress(OSError, ValueError):  # at the end of the process its output may be closed
            sys.stderr.flush()
            write_text(sys.stdout, f"{self._resume}\n")
        self._resume = ""


def _wanted(report: Report) -> dict[Kind, list[tuple[str, str]]]:
    """By kind, the annotations' titles and messages, the worst first."""
    ordered = worst_first(report.comparisons)
    doubts = [validity_line(report)]
    if report.run.is_cut_short:
        doubts.append(f"not complete: {report.run.why_stopped}")
    doubts += open_lines(report)
    failed = [one for one in ordered if one.failure is not None and not one.is_worse]
    return {
        "error": [_words(one) for one in ordered if one.is_worse],
        "warning": [
            *(("opduel", _short(doubt, _LONGEST_MESSAGE)) for doubt in doubts if doubt),
            *map(_words, failed),
        ],
        "notice": [_words(one) for one in ordered if one.verdict == "improved"],
    }


def _words(one: Comparison) -> tuple[str, str]:
    """Title and message."""
    if one.failure is not None:
        what = f"fails on {one.failure.side}" if one.failure.side == "both" else f"fails on the {one.failure.side}"
        reason = _short(f"{one.failure.kind}: {one.failure.reason}", _LONGEST_MESSAGE)
        return f"{_short(one.case, _LONGEST_TITLE)} {what}", reason
    change = f"{one.verdict} {human_change(one.ratio)}"
    times = f"{human_value(one.control, one.unit)} before, {human_value(one.treatment, one.unit)} after"
    again = "; flagged again by a second measurement" if is_confirmed(one) else ""
    message = f"{one.metric} {human_change(one.ratio)} {human_interval(one.ci)}: {times}{again}"
    return f"{_short(one.case, _LONGEST_TITLE)} {change}", message


def _summary(report: Report, culprits: Sequence[str], room: int) -> str:
    """The summary in at most ``room`` bytes: with less of what is least important where that is needed.

    Raises:
        RunError: not even the least has room.
    """
    spec = f"{report.run.spec} ({report.run.framework})"
    head = [f"## opduel: {cell(spec)}", "", *(f"- {cell(line)}" for line in culprits), ""]
    start = "\n".join(head) + "\n"
    whole = start + to_markdown(report)
    if _size(whole) <= room:
        return whole + "\n"
    fits, too_many = 0, len(report.comparisons)
    while too_many - fits > 1:
        middle = (fits + too_many) // 2
        if _size(start + to_markdown(report, middle)) <= room:
            fits = middle
        else:
            too_many = middle
    text = start + to_markdown(report, fits) + "\n"
    if _size(text) > room:
        raise RunError("the step's summary is full: this run is not in it; report it in another step")
    return text


def _size(text: str) -> int:
    return len(text.encode("utf-8", "backslashreplace")) + 1


def _short(text: str, longest: int) -> str:
    return shorten(printable(text), longest)
