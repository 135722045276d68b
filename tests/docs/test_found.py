"""docs/explanation/found.md: its commands are good usage, and every case of its specs has its issue there."""

import re
import shlex
from pathlib import Path

import pytest

from opduel.commands.case_selection import choose
from opduel.commands.driver_options import parse
from opduel.commands.options import harness_parser
from opduel.harness.specs import expand_cases, find_spec, load_spec

PAGE = (Path(__file__).resolve().parents[2] / "docs" / "explanation" / "found.md").read_text(encoding="utf-8")
COMMANDS = re.findall(r"^    python3 (harness|repo_driver)\.py (.*(?:\\\n.*)*)$", PAGE, flags=re.MULTILINE)
SPECS = ("found", "found_onnxruntime")


@pytest.mark.parametrize(("program", "line"), COMMANDS)
def test_commands_are_good_usage(program: str, line: str) -> None:
    arguments = shlex.split(line.replace("\\\n", " "))
    if program == "harness":
        options = harness_parser().parse_args(arguments)
        assert options.control != options.treatment
    else:
        both = parse(arguments)
        options = both.harness
        assert len(both.own.bisect_releases.split(",")) > 2
    assert choose(options, 0).cases


@pytest.mark.parametrize("name", SPECS)
def test_every_case_has_an_issue_on_the_page(name: str) -> None:
    for case in expand_cases(load_spec(find_spec(name))):
        number = re.match(r"[a-z]+(\d+)_", case.id)
        assert number, case.id
        assert f"#{number[1]}" in PAGE, case.id


def test_the_page_has_commands() -> None:
    assert {program for program, _ in COMMANDS} == {"harness", "repo_driver"}
