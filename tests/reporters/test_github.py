"""The GitHub reporter, heard by a runner that is made after GitHub's own: what it takes for commands, and what not."""

import errno
import re
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TextIO

import pytest
import report_samples as samples
from markdown_it import MarkdownIt
from test_alerts import SLOWER

from opduel.records import Cause, Comparison, Failure, Report, RunError, UsageError
from opduel.reporters import github
from opduel.reporters.github import MOST_SHOWN, OUTPUTS, SUMMARY_BYTES, GithubReporter, annotations
from opduel.reporters.local import SimpleLocalReporter
from opduel.reporters.simple_screen import SimpleScreenReporter

HOSTILE = (
    "::error::x",
    "\n::set-output name=verdict::done",
    "##[set-output name=verdict]done",
    "100%0A::warning::x, y: z",
    "a\r\n::add-mask::e",
    "::stop-commands::x",
    "opduel_end\nverdict<<x",
)


@dataclass
class Runner:
    """Takes commands from lines as actions/runner does (ActionCommandManager.cs, ActionCommand.cs): with ``::`` first
    or ``##[`` anywhere; after stop-commands none but that which goes on."""

    commands: list[tuple[str, dict[str, str], str]] = field(default_factory=list)
    output_lines: list[str] = field(default_factory=list)
    stopped: str = ""

    def read(self, text: str) -> None:
        for line in re.split(r"\r\n|\r|\n", text):
            self._read_line(line)

    def _read_line(self, line: str) -> None:
        match = re.match(r"\s*::([^ :]+)(?: (.*?))?::(.*)$", line) or re.search(
            r"##\[([^ \]]+)(?: ([^\]]*))?\](.*)$", line
        )
        if match is None:
            self.output_lines.append(line)
            return
        name, properties, data = match.groups()
        if self.stopped:
            self.stopped = "" if name == self.stopped else self.stopped
        elif name == "stop-commands":
            self.stopped = data
        else:
            pairs = dict(pair.partition("=")[::2] for pair in (properties or "").split(","))
            self.commands.append((name, {key: _plain(value) for key, value in pairs.items()}, _plain(data)))


def _plain(text: str) -> str:
    for code, char in (("%3A", ":"), ("%2C", ","), ("%0D", "\r"), ("%0A", "\n"), ("%25", "%")):
        text = text.replace(code, char)
    return text


class Step:
    """A step of a workflow, with its files."""

    def __init__(self, folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
        self.summary, self.output = folder / "summary", folder / "output"
        self.summary.touch()
        self.output.touch()
        self._capsys = capsys
        files = {"GITHUB_STEP_SUMMARY": str(self.summary), "GITHUB_OUTPUT": str(self.output)}
        self.reporter = GithubReporter({"GITHUB_ACTIONS": "true", **files})
        self.disk = SimpleLocalReporter(folder)
        self.reporter.meet([self.disk])

    def report(self, *reports: Report, culprits: tuple[str, ...] = ()) -> Runner:
        """Tell of the runs, beside a screen on the same stream; what the runner makes of it."""
        self.reporter.check()
        for report in reports:
            self.disk.report(report)
            SimpleScreenReporter().report(report)
            self.reporter.report_findings(report, culprits)
        self.reporter._go_on()
        runner = Runner()
        runner.read(self._capsys.readouterr().out)
        return runner

    def outputs(self) -> dict[str, str]:
        """As the runner reads the file."""
        text, values = self.output.read_text(), {}
        while text:
            name, _, remainder = text.partition("<<")
            end, _, remainder = remainder.partition("\n")
            values[name], _, text = remainder.partition(f"\n{end}\n")
        return values


@pytest.fixture
def step(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> Iterator[Step]:
    return Step(tmp_path, capsys)


def test_annotations_summary_and_outputs(step: Step, tmp_path: Path) -> None:
    report = samples.report([*samples.EVERY_VERDICT, SLOWER, samples.failed("old", Failure("control", "error", "no"))])
    runner = step.report(report)
    titles = [(name, properties["title"]) for name, properties, _ in runner.commands]
    assert titles == [
        ("error", "much slower regressed x12.3"),
        ("error", "nd.dot/forward regressed +8.3 %"),
        ("error", "slower regressed +5.3 %"),
        ("error", "broken fails on the treatment"),
        ("warning", "opduel"),
        ("warning", "old fails on the control"),
        ("notice", "faster improved -50.0 %"),
    ]
    messages = {properties["title"]: message for _, properties, message in runner.commands}
    slower_message = "time +8.3 % [+7.1, +9.4]: 123 us before, 134 us after; flagged again by a second measurement"
    assert messages["nd.dot/forward regressed +8.3 %"] == slower_message
    assert runner.stopped == ""
    assert step.outputs() == {
        "verdict": "regressed",
        "regressed": "4",
        "cases": "much slower\nnd.dot/forward\nslower\nbroken",
        "report": str(tmp_path / "report.json"),
    }
    assert tuple(step.outputs()) == OUTPUTS
    assert step.summary.read_text().startswith("## opduel: conv (mxnet)\n")
    assert "### regressed (3)" in step.summary.read_text()


def test_an_annotation_has_the_cause(step: Step) -> None:
    runner = step.report(samples.report([replace(SLOWER, cause=Cause("f is called twice"))]))
    ((_, _, message),) = runner.commands
    assert message.endswith("flagged again by a second measurement; cause: f is called twice")


def test_a_run_in_doubt_is_a_warning(step: Step) -> None:
    withheld = samples.comparison("a", "inconclusive", 1.3, held_back="regressed")
    runner = step.report(samples.report([withheld], validity=samples.validity("others were busy")))
    undecided, (name, _, message) = runner.commands
    assert undecided == ("warning", {"title": "opduel: not completed"}, "1 of 1 case undecided")
    assert name == "warning"
    assert message.startswith("this run can't be trusted: others were busy; 1 verdict was held back")
    assert step.outputs()["verdict"] == "incomplete"


def test_of_more_than_are_shown_the_last_says_how_many(step: Step) -> None:
    many = [samples.comparison(f"case{number:02}", "regressed", 1.1 + number / 100) for number in range(30)]
    titles = [properties["title"] for _, properties, _ in step.report(samples.report(many)).commands]
    assert len(titles) == MOST_SHOWN
    assert titles[0].startswith("case29 ")
    assert titles[-1] == "and 21 more"
    assert len(step.outputs()["cases"].splitlines()) == 30


@pytest.mark.parametrize("hostile", HOSTILE)
def test_whatever_things_are_called_nothing_but_our_annotations_is_a_command(step: Step, hostile: str) -> None:
    report = samples.report(
        [
            samples.comparison(hostile, "regressed", 2.0, note=hostile),
            samples.failed(f"{hostile} 2", Failure("treatment", "error", hostile, hostile)),
            samples.comparison("open", "inconclusive"),
        ],
        stopped=hostile,
        complete=False,
    )
    report = replace(report, control=replace(report.control, requested=hostile))
    runner = step.report(report)
    ours = [(name, message) for name, properties, message in runner.commands if "title" in properties]
    assert [name for name, _ in ours] == ["error", "error", "warning"]
    assert set(step.outputs()) == set(OUTPUTS)
    assert step.outputs()["verdict"] == "regressed"
    assert len(step.outputs()["cases"].splitlines()) == 2
    html = MarkdownIt("commonmark").enable("table").render(step.summary.read_text())
    assert "<a " not in html


def test_before_and_after_others_commands_are_taken(step: Step, capsys: pytest.CaptureFixture[str]) -> None:
    step.reporter.check()
    print("::error::of an operator")
    step.reporter._go_on()
    print("::notice::of the workflow")
    runner = Runner()
    runner.read(capsys.readouterr().out)
    assert runner.commands == [("notice", {"": ""}, "of the workflow")]


def test_others_commands_stay_untaken_where_ours_cannot_be_written(
    step: Step, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(stream: TextIO, text: str) -> None:
        if "title=" in text:
            raise OSError(errno.ENOSPC, "No space left on device")
        stream.write(text)

    monkeypatch.setattr(github, "write_text", full)
    step.reporter.check()
    with pytest.raises(OSError, match="No space left"):
        step.reporter.report(samples.report([SLOWER]))
    print("::error::of an operator")
    runner = Runner()
    runner.read(capsys.readouterr().out)
    assert runner.commands == []
    step.reporter._go_on()


def test_escapes_are_those_of_githubs_toolkit() -> None:
    (line,) = annotations("warning", [("100%: a, b\r\n", "50%: c, d\r\n")])
    assert line == "::warning title=100%25%3A a%2C b%0D%0A::50%25: c, d%0D%0A"


def big(cases: int, verdict: str = "unchanged") -> list[Comparison]:
    return [samples.comparison(f"{verdict}{number} {'x' * 80}", verdict) for number in range(cases)]  # type: ignore[arg-type]


def test_a_summary_keeps_to_githubs_limit_and_to_what_is_worst(step: Step) -> None:
    room = 100_000
    step.summary.write_text("x" * (SUMMARY_BYTES - room - 1) + "\n")
    report = samples.report([*big(900), *big(30, "inconclusive"), samples.comparison("slow", "regressed", 2.0)])
    step.report(report)
    text = step.summary.read_text()[SUMMARY_BYTES - room :]
    assert room * 0.95 < len(text.encode()) <= room
    assert "`slow`" in text
    assert "inconclusive29 " in text
    rows = len(re.findall(r"^\| `unchanged", text, re.MULTILINE))
    assert f"\nNot shown: {900 - rows} cases (report.json has them).\n" in text
    assert "<summary>unchanged (900)</summary>" in text
    assert text.count("<details>") == text.count("</details>") == 2


def test_a_summary_that_is_nearly_full_takes_what_fits(step: Step) -> None:
    step.summary.write_text("x" * (SUMMARY_BYTES - 10_000))
    step.report(samples.report(big(400)))
    with pytest.raises(RunError, match="the step's summary is full"):
        step.report(samples.report(big(400)))
    assert SUMMARY_BYTES - 10_000 < step.summary.stat().st_size <= SUMMARY_BYTES


def test_outputs_are_of_all_runs_together(step: Step) -> None:
    clean = samples.report([samples.comparison("a")], id="1")
    slow = samples.report([SLOWER], id="2")
    step.report(slow, clean, culprits=("first bad: abc Jane: <b>it</b>",))
    assert step.outputs()["verdict"] == "regressed"
    assert step.outputs()["cases"] == "nd.dot/forward"
    assert "- first bad: abc Jane: \\<b\\>it\\</b\\>\n" in step.summary.read_text()


def test_outside_of_actions_it_is_refused() -> None:
    for environment in ({}, {"GITHUB_ACTIONS": "false"}):
        with pytest.raises(UsageError, match="not a step of GitHub Actions"):
            GithubReporter(environment).check()


def test_a_file_that_cannot_be_written_is_a_failure(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    reporter = GithubReporter({"GITHUB_ACTIONS": "true", "GITHUB_OUTPUT": str(tmp_path)})
    with pytest.raises(Exception, match=r"GITHUB_OUTPUT .* cannot be written"):
        reporter.report(samples.report())


def test_outputs_that_cannot_be_written_cost_no_summary(tmp_path: Path) -> None:
    files = {"GITHUB_OUTPUT": str(tmp_path), "GITHUB_STEP_SUMMARY": str(tmp_path / "summary")}
    with pytest.raises(RunError, match=r"^GITHUB_OUTPUT [^;]* cannot be written [^;]*$"):
        GithubReporter({"GITHUB_ACTIONS": "true", **files}).report(samples.report())
    assert (tmp_path / "summary").read_text().startswith("## opduel")


def test_files_that_a_runner_does_not_give_are_said(caplog: pytest.LogCaptureFixture) -> None:
    reporter = GithubReporter({"GITHUB_ACTIONS": "true", "GITHUB_OUTPUT": "x"})
    reporter.check()
    reporter._go_on()
    assert caplog.messages == ["--github: GITHUB_STEP_SUMMARY is not set: nothing is written there"]
