"""The GitHub reporter: in GitHub Actions, a summary of the step, annotations, and outputs for later steps.

docs.github.com/actions/reference/workflow-commands-for-github-actions; escapes as in actions/toolkit's command.ts.
"""

import atexit
import logging
import os
import secrets
import sys
from bisect import bisect_right
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import ClassVar, Literal

from opduel.records import Comparison, Report, RunError, UsageError
from opduel.reporters.alerts import is_confirmed
from opduel.reporters.base import FindingsReporter
from opduel.reporters.kept_comment import keep_comment
from opduel.reporters.markdown import cell, to_markdown
from opduel.reporters.notifier import places_of
from opduel.reporters.pull_request import pull_request_of
from opduel.reporters.stream import write_text
from opduel.reporters.summary import Conclusion, caveats, conclusion, worst_first
from opduel.reporters.text import printable, shorten
from opduel.reporters.units import human_change, human_interval, human_value

Kind = Literal["error", "warning", "notice"]
MOST_SHOWN = 10  # annotations of a kind that GitHub shows of one step
SUMMARY_BYTES = 1024 * 1024  # of all that one step writes to its summary; with more, GitHub shows nothing of it
OUTPUTS = ("verdict", "regressed", "cases", "report")
_OUTPUT, _SUMMARY = "GITHUB_OUTPUT", "GITHUB_STEP_SUMMARY"
_WORST: tuple[Conclusion, ...] = ("regressed", "incomplete", "done")
_LONGEST_TITLE = 200  # cells
_LONGEST_MESSAGE = 1000
_SPARE = 1024  # bytes of the summary left free

log = logging.getLogger(__name__)


class GithubReporter(FindingsReporter):
    """Speaks to the runner of GitHub Actions, or of one that is like it.

    From ``check`` on nothing that this process prints is taken for a command of the workflow, whatever operators and
    commits are called; its own commands are let through, and at its end all others again.
    """

    option: ClassVar[str] = "github"
    help: ClassVar[str] = (
        "in GitHub Actions: a summary of the step, annotations, outputs for later steps; and, with GITHUB_TOKEN in the "
        "environment, a comment on the pull request, kept up to date"
    )

    def __init__(self, environment: Mapping[str, str] | None = None) -> None:
        """``environment``: that of the step, by default this process's own."""
        self._environment = os.environ if environment is None else environment
        self._resume = ""
        # Of all runs of this process:
        self._conclusions: list[Conclusion] = []
        self._worse: list[str] = []
        self._places: list[str] = []

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

    def tell(self, report: Report, culprits: Sequence[str]) -> None:
        """Tell of the run; ``culprits`` are lines for the head of the summary. Outputs are of all runs together.

        Raises:
            RunError: the summary or the outputs could not be written.
        """
        self._conclusions.append(conclusion(report))
        self._worse += [printable(one.case) for one in worst_first(report.comparisons) if one.is_worse]
        self._places += places_of(self.others, report)[:1]
        lines = [line for kind, wanted in _wanted(report).items() for line in annotations(kind, wanted)]
        self._go_on()
        try:
            write_text(sys.stdout, "".join(f"{line}\n" for line in lines))
        finally:
            self._stop()
        problems = []
        for variable in (_OUTPUT, _SUMMARY):
            try:
                if path := self._environment.get(variable):
                    room = _summary_room(Path(path)) - _SPARE
                    text = self._outputs() if variable == _OUTPUT else _summary(report, culprits, room)
                    _append(Path(path), variable, text)
            except RunError as error:
                problems.append(str(error))
        keep_comment(pull_request_of(self._environment), report, culprits, self.option)
        if problems:
            raise RunError("; ".join(problems))

    def _outputs(self) -> str:
        """The step's outputs, whatever their values hold."""
        verdict = min(self._conclusions, key=_WORST.index)
        values = (verdict, str(len(self._worse)), "\n".join(self._worse), "\n".join(self._places))
        lines = ""
        for name, value in zip(OUTPUTS, values, strict=True):
            end = f"opduel_{secrets.token_hex(16)}"
            lines += f"{name}<<{end}\n{value}\n{end}\n"
        return lines

    def _stop(self) -> None:
        token = f"opduel-{secrets.token_hex(16)}"  # no line is taken for a command until it is repeated
        self._resume = f"::{token}::"
        write_text(sys.stdout, f"::stop-commands::{token}\n")

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
    failed = [one for one in ordered if one.failure is not None and not one.is_worse]
    return {
        "error": [_words(one) for one in ordered if one.is_worse],
        "warning": [*(("opduel", _short(doubt, _LONGEST_MESSAGE)) for doubt in caveats(report)), *map(_words, failed)],
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
    cause = _short(f"; cause: {one.cause.sentence}", _LONGEST_MESSAGE) if one.cause else ""
    return f"{_short(one.case, _LONGEST_TITLE)} {change}", message + cause


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
    some = range(1, len(report.comparisons))
    fits = bisect_right(some, room, key=lambda most: _size(start + to_markdown(report, most)))
    text = start + to_markdown(report, fits) + "\n"
    if _size(text) > room:
        raise RunError("the step's summary is full: this run is not in it; report it in another step")
    return text


def _size(text: str) -> int:
    return len(text.encode("utf-8", "backslashreplace")) + 1


def _short(text: str, longest: int) -> str:
    return shorten(printable(text), longest)


def annotations(kind: Kind, wanted: Sequence[tuple[str, str]]) -> list[str]:
    """Titles and messages, the most important first, as lines; one says how many would not be shown."""
    told = list(wanted)
    if len(told) > MOST_SHOWN:
        left = len(told) - (MOST_SHOWN - 1)
        told = [*told[: MOST_SHOWN - 1], (f"and {left} more", "the step's summary and the report have them")]
    return [f"::{kind} title={_property(title)}::{_data(message)}" for title, message in told]


def _summary_room(path: Path) -> int:
    """Bytes that the step's summary still has room for."""
    try:
        return max(0, SUMMARY_BYTES - path.stat().st_size)
    except OSError:
        return SUMMARY_BYTES


def _append(path: Path, variable: str, text: str) -> None:
    try:
        with path.open("ab") as file:
            file.write(text.encode("utf-8", "backslashreplace"))
    except OSError as error:
        raise RunError(f"{variable} {path}: cannot be written ({error.strerror})") from None


def _data(text: str) -> str:
    return text.replace("%", "%25").replace("\r", "%0D").replace("\n", "%0A")


def _property(text: str) -> str:
    return _data(text).replace(":", "%3A").replace(",", "%2C")
