"""Notifiers and the GitHub reporter through harness.py: what they receive, and what is kept of their options."""

import atexit
import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
from command_line import SAME_BUILD, Outcome, only_report
from made_reports import Measuring, comparison

from opduel.records import Verification

Run = Callable[..., Outcome]
MINIMAL = ("-b", "smoke", *SAME_BUILD)
SLOWER = replace(comparison("regressed"), verification=Verification("regressed", "regressed", ratio=1.24))


@pytest.fixture(autouse=True)
def one_is_slower(measuring: Measuring, monkeypatch: pytest.MonkeyPatch) -> None:
    measuring.give(SLOWER, comparison("unchanged", number=1))
    for name in ("GITHUB_ACTIONS", "GITHUB_STEP_SUMMARY", "GITHUB_OUTPUT", "GITLAB_CI"):
        monkeypatch.delenv(name, raising=False)


def test_a_command_learns_where_the_report_is(run: Run, home: Path) -> None:
    notified = home / "notified"
    outcome = run(*MINIMAL, "--verify", "--notify_command", f"tee {notified}")
    assert outcome.code == 1, outcome.err
    assert "\nregressed (1)\n" in outcome.out  # a notifier is no screen
    assert "notified (--notify_command): 1 case regressed" in outcome.out
    lines = notified.read_text().splitlines()
    assert "  exp_0/forward  +25.0 % [+20.0, +30.0]  (again +24.0 %)" in lines
    (place,) = [line.removeprefix("report     ") for line in lines if line.startswith("report ")]
    assert json.loads(Path(place).read_text())["run"]["id"] == "made"


@pytest.mark.parametrize(
    "form", [("--notify_webhook", "https://h.example/{}"), ("--notify_webhook=https://h.example/{}",)]
)
def test_the_address_of_a_webhook_is_kept_nowhere(
    run: Run, home: Path, measuring: Measuring, form: tuple[str, ...]
) -> None:
    measuring.give(comparison("unchanged"))
    outcome = run(*MINIMAL, *(word.format("hunter2") for word in form))
    assert outcome.code == 0, outcome.err
    assert "***" in " ".join(only_report(home / "state")["run"]["command"])
    assert not [path for path in home.rglob("*") if path.is_file() and b"hunter2" in path.read_bytes()]
    assert "hunter2" not in outcome.out + outcome.err


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--github"], "--github: this is not a step of GitHub Actions"),
        (["--gitlab"], "--gitlab: this is not a job of GitLab CI"),
        (["--notify_webhook", "hunter2"], "--notify_webhook: not an http(s) address"),
        (["--notify_command", "no/such/program x"], "no/such/program is not an executable program"),
        (["--notify_command", ""], "--notify_command: is empty"),
        (["--notify_command", " "], "--notify_command needs a COMMAND"),
    ],
)
def test_wrong_usage_is_said_before_anything_is_measured(
    run: Run, measuring: Measuring, options: list[str], message: str
) -> None:
    line = run(*MINIMAL, *options).error_line()
    assert message in line
    assert "hunter2" not in line
    assert measuring.requests == []


def test_in_a_step_of_github_actions(
    run: Run, home: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    at_exit: list[Callable[[], None]] = []
    monkeypatch.setattr(atexit, "register", at_exit.append)
    monkeypatch.setenv("GITHUB_ACTIONS", "true")
    for name in ("GITHUB_STEP_SUMMARY", "GITHUB_OUTPUT"):
        monkeypatch.setenv(name, str(home / name))
    outcome = run(*MINIMAL, "--github", "--screen_reporter", "--local_reporter", str(home / "reports"))
    assert outcome.code == 1, outcome.err
    lines = outcome.out.splitlines()
    assert lines[0].startswith("::stop-commands::")
    assert "::error title=exp_0/forward regressed +25.0 %25::" in outcome.out
    (path,) = (home / "reports").rglob("report.json")
    assert f"\n{path}\n" in (home / "GITHUB_OUTPUT").read_text()
    assert "### regressed (1)" in (home / "GITHUB_STEP_SUMMARY").read_text()
    (end,) = at_exit
    end()
    assert capsys.readouterr().out == lines[-1].replace("stop-commands::", "") + "::\n"
