"""docs/how-to/notifications.md names every variable and the limits, and its examples are good usage."""

import re
import shlex

import pytest
from command_line import ROOT

from opduel.commands.driver_options import driver_parser, parse_driver_options
from opduel.commands.options import harness_parser, read_options
from opduel.records import Build, Comparison, Failure, Report
from opduel.records.host_record import HostRecord
from opduel.records.run_record import RunRecord
from opduel.reporters.alert_text import variables
from opduel.reporters.alerts import alert_of
from opduel.reporters.http_request import PAUSES_S, USUAL
from opduel.reporters.notify_command import LONGEST_S
from opduel.reporters.options import WEBHOOK_VARIABLE

TEXT = (ROOT / "docs" / "how-to" / "notifications.md").read_text(encoding="utf-8")
EXAMPLES = re.findall(r"^    python3 (harness|repo_driver)\.py (.*)$", TEXT, flags=re.MULTILINE)
NOTHING = dict.fromkeys(("ratio", "ci", "p_value", "q_value", "mde", "control", "treatment", "decided_on"))


def test_every_variable_is_documented() -> None:
    build = Build("toy", "a", "release", "/python", "1", "3.11", "00")
    crash = Failure("treatment", "crash", "died")
    broken = Comparison(
        "a", "toy.a", "forward", "time", "ns", "failed", threshold=0.02, rounds=0, failure=crash, injected=False,
        **NOTHING,  # type: ignore[arg-type]
    )  # fmt: skip
    alert = alert_of(Report(RunRecord(), build, build, HostRecord(), (broken,)))
    assert alert is not None
    assert set(re.findall(r"`(OPDUEL_\w+)`", TEXT)) == {*variables(alert), WEBHOOK_VARIABLE}


def test_options_are_ours() -> None:
    option_strings = {
        name
        for parser in (harness_parser(), driver_parser())
        for action in parser._actions
        for name in action.option_strings
    }
    assert set(re.findall(r"(?<![\w-])--[a-z][\w-]*", TEXT)) <= option_strings


def test_limits_are_documented() -> None:
    assert f"for at most {LONGEST_S:g} s" in TEXT
    assert f"doesn't answer within {USUAL.silence_s:g} s" in TEXT
    assert len(PAUSES_S) + 1 == 3
    assert "is sent up to three times" in TEXT


@pytest.mark.parametrize(("command", "line"), EXAMPLES)
def test_examples_are_good_usage(command: str, line: str) -> None:
    arguments = shlex.split(line)
    options = read_options(arguments) if command == "harness" else parse_driver_options(arguments).harness
    assert options.reporting.notify_command or options.reporting.notify_webhook


def test_there_are_examples() -> None:
    assert {command for command, _ in EXAMPLES} == {"harness", "repo_driver"}
