"""The GitHub reporter: in GitHub Actions, a summary of the step, annotations, and outputs for later steps.

docs.github.com/actions/reference/workflow-commands-for-github-actions; escapes as in actions/toolkit's command.ts.
"""

import atexit
import json
import logging
import os
import re
import secrets
import sys
from collections.abc import Mapping, Sequence
from contextlib import suppress
from itertools import chain, starmap
from pathlib import Path
from typing import Literal

from opduel.records import Comparison, Report, RunError
from opduel.reporters.alerts import is_confirmed
from opduel.reporters.base import FindingsReporter
from opduel.reporters.changes import change_text, effect_text
from opduel.reporters.kept_comment import CommentServer, KeptComment, check_place, keep_comment
from opduel.reporters.markdown import summary
from opduel.reporters.notifier import places_of
from opduel.reporters.stream import write_text
from opduel.reporters.summary import Conclusion, caveats, conclusion, worst_first
from opduel.reporters.text import printable, shorten
from opduel.reporters.units import human_value
from opduel.support.files import UnreadableError, read_text
from opduel.support.text import counted

Kind = Literal["error", "warning", "notice"]
MOST_SHOWN = 10  # annotations of a kind that GitHub shows of one step
SUMMARY_BYTES = 1024 * 1024  # of all that one step writes to its summary; with more, GitHub shows nothing of it
OUTPUTS = ("verdict", "regressed", "cases", "report")
_TOKENS = ("GITHUB_TOKEN", "GH_TOKEN")
_OUTPUT, _SUMMARY = "GITHUB_OUTPUT", "GITHUB_STEP_SUMMARY"
_WORST: tuple[Conclusion, ...] = ("regressed", "incomplete", "done")
_LONGEST_TITLE = 200  # cells
_LONGEST_MESSAGE = 1000
_SPARE = 1024  # bytes of the summary left free
_LONGEST_EVENT = 16 * 1024**2  # bytes

# docs.github.com/rest/issues/comments: a pull request's comments are those of the issue of its number.
_SERVER = CommentServer(
    name="GitHub",
    without_comment="the pull request has no comment of this run",
    run_name="The workflow's run",
    rewrites="PATCH",
    fixes={
        401: "the token is not valid",
        403: "give the job `permissions: pull-requests: write`; runs for forks have no such token",
        404: "the token may not see this repository",
    },
)
log = logging.getLogger(__name__)


class GithubReporter(FindingsReporter, option="github"):
    """Writes for the runner of GitHub Actions, or a similar one.

    From ``check`` on the runner ignores workflow commands in what this process prints, such as in names of operators
    and commits. Only the reporter's own commands are let through, and at the end all commands again.
    """

    def __init__(self, environment: Mapping[str, str] | None = None) -> None:
        """``environment``: that of the step, by default this process's own."""
        self._environment = os.environ if environment is None else environment
        self._resume = ""
        # of all runs of this process
        self._conclusions: list[Conclusion] = []
        self._worse: list[str] = []
        self._places: list[str] = []

    def check(self) -> None:
        """Check that this is a step of a workflow; from now on nothing printed is taken for a command. Raises
        UsageError: it is none."""
        check_place(self._environment, "GITHUB_ACTIONS", "a step of GitHub Actions", self.option)
        for name in (_OUTPUT, _SUMMARY):
            if not self._environment.get(name):
                log.warning("--%s: %s is not set: nothing is written there", self.option, name)
        self._stop()
        atexit.register(self._go_on)

    def report_findings(self, report: Report, culprits: Sequence[str]) -> None:
        """Report the run; ``culprits`` are lines for the head of the summary. Outputs are of all runs together. Raises
        RunError: the summary or the outputs could not be written."""
        self._conclusions.append(conclusion(report))
        worse = [comparison for comparison in worst_first(report.comparisons) if comparison.is_worse]
        self._worse += [printable(comparison.case) for comparison in worse]
        self._places += places_of(self.other_reporters, report)[:1]
        lines = chain.from_iterable(starmap(annotations, _annotations_by_kind(report).items()))
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
                    text = self._outputs() if variable == _OUTPUT else _step_summary(report, culprits, room)
                    _append(Path(path), variable, text)
            except RunError as error:
                problems.append(str(error))
        keep_comment(pull_request_of(self._environment), report, culprits, self.option)
        if problems:
            raise RunError("; ".join(problems))

    def _outputs(self) -> str:
        """Return the step's outputs, delimited by random words so that values can contain anything."""
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


def _annotations_by_kind(report: Report) -> dict[Kind, list[tuple[str, str]]]:
    """Return the annotations' titles and messages, the worst first, by kind."""
    ordered = worst_first(report.comparisons)
    failed = [comparison for comparison in ordered if comparison.failure is not None and not comparison.is_worse]
    return {
        "error": [_title_and_message(comparison) for comparison in ordered if comparison.is_worse],
        "warning": [
            *_undecided(report),
            *(("opduel", _short(doubt, _LONGEST_MESSAGE)) for doubt in caveats(report)),
            *map(_title_and_message, failed),
        ],
        "notice": [_title_and_message(comparison) for comparison in ordered if comparison.verdict == "improved"],
    }


def _undecided(report: Report) -> list[tuple[str, str]]:
    """Return how many cases a run that isn't complete left undecided; nothing of another run."""
    count = report.count("inconclusive")
    if not count or conclusion(report) != "incomplete":
        return []
    return [("opduel: not completed", f"{count} of {counted(len(report.comparisons), 'case')} undecided")]


def _title_and_message(comparison: Comparison) -> tuple[str, str]:
    """Return the title and message of a case's annotation."""
    if comparison.failure is not None:
        side = comparison.failure.side
        side_words = f"fails on {side}" if side == "both" else f"fails on the {side}"
        reason = _short(f"{comparison.failure.kind}: {comparison.failure.reason}", _LONGEST_MESSAGE)
        return f"{_short(comparison.case, _LONGEST_TITLE)} {side_words}", reason
    change = f"{comparison.verdict} {change_text(comparison, comparison.unit)}"
    before, after = (human_value(value, comparison.unit) for value in (comparison.control, comparison.treatment))
    again = "; flagged again by a second measurement" if is_confirmed(comparison) else ""
    effect = effect_text(comparison, comparison.unit)
    message = f"{comparison.metric} {effect}: {before} before, {after} after{again}"
    cause = _short(f"; {comparison.cause.words}", _LONGEST_MESSAGE) if comparison.cause else ""
    return f"{_short(comparison.case, _LONGEST_TITLE)} {change}", message + cause


def _step_summary(report: Report, culprits: Sequence[str], room: int) -> str:
    text = summary(report, culprits, room, _size)
    if _size(text) > room:
        raise RunError("the step's summary is full: this run is not in it; report it in another step")
    return f"{text}\n"


def _size(text: str) -> int:
    return len(text.encode("utf-8", "backslashreplace")) + 1


def _short(text: str, longest: int) -> str:
    return shorten(printable(text), longest)


def annotations(kind: Kind, titled_messages: Sequence[tuple[str, str]]) -> list[str]:
    """Return annotations as workflow commands, with one that counts those that GitHub would not show."""
    visible = list(titled_messages)
    if len(visible) > MOST_SHOWN:
        hidden = len(visible) - (MOST_SHOWN - 1)
        visible[MOST_SHOWN - 1 :] = [(f"and {hidden} more", "the step's summary and the report have them")]
    return [f"::{kind} title={_property(title)}::{_data(message)}" for title, message in visible]


def _summary_room(path: Path) -> int:
    """Return the bytes that the step's summary has room for."""
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


def pull_request_of(environment: Mapping[str, str]) -> KeptComment | str:
    """Return the comment on the pull request that a workflow runs for, by the variables of its step, or one line that
    says why there can't be one; the line is empty outside of a pull request."""
    number = _pull_request_number(environment)
    if number is None:
        return ""
    token = next((value for name in _TOKENS if (value := environment.get(name, "").strip())), "")
    if not token:
        return "no comment on the pull request: set GITHUB_TOKEN: ${{ github.token }} in the step's env for one"
    repository = environment.get("GITHUB_REPOSITORY", "")
    if not re.fullmatch(r"(?!\.+/)[\w.-]+/(?!\.+$)[\w.-]+", repository, re.ASCII):
        return "no comment on the pull request: GITHUB_REPOSITORY is not OWNER/NAME"
    api = environment.get("GITHUB_API_URL") or "https://api.github.com"
    server, run = environment.get("GITHUB_SERVER_URL"), environment.get("GITHUB_RUN_ID")
    page = f"{server}/{repository}/actions/runs/{run}" if server and run else ""
    issues = f"{api.rstrip('/')}/repos/{repository}/issues"
    return KeptComment(
        server=_SERVER,
        comments=f"{issues}/{number}/comments",
        each=f"{issues}/comments",
        headers={
            "Accept": "application/vnd.github+json",
            "Authorization": f"Bearer {token}",
            "X-GitHub-Api-Version": "2022-11-28",
        },
        token=token,
        key="/".join(environment.get(name, "") for name in ("GITHUB_WORKFLOW", "GITHUB_JOB")),
        run=page,
    )


def _pull_request_number(environment: Mapping[str, str]) -> int | None:
    """Return the pull request's number, from the event or else from the ref."""
    if path := environment.get("GITHUB_EVENT_PATH"):
        try:
            event = json.loads(read_text(Path(path), _LONGEST_EVENT))
            number = event["pull_request"]["number"]
            if isinstance(number, int) and number > 0:
                return number
        except (UnreadableError, ValueError, KeyError, TypeError):
            pass
    match = re.fullmatch(r"refs/pull/([1-9]\d{0,9})/(?:merge|head)", environment.get("GITHUB_REF", ""))
    return int(match[1]) if match else None
