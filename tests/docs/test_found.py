"""docs/explanation/found.md: each command that it shows is good usage, and names cases of the specs that come with it."""

import re
import shlex
from pathlib import Path

import pytest

from opduel.commands.case_selection import choose
from opduel.commands.driver_options import parse
from opduel.commands.options import harness_parser
from opduel.harness.specs import expand_cases, find_spec, load_spec, select_cases

PAGE = (Path(__file__).resolve().parents[2] / "docs" / "explanation" / "found.md").read_text(encoding="utf-8")
COMMANDS = re.findall(r"^    python3 (harness|repo_driver)\.py (.*(?:\\\n.*)*)$", PAGE, flags=re.MULTILINE)
SPECS = ("found", "found_onnxruntime")


@pytest.mark.parametrize(("program", "line"), COMMANDS)
def test_commands_are_good_usage(program: str, line: str) -> None:
    arguments = shlex.split(line.replace("\\\n", " "))
    if program == "harness":
        options = harness_parser().parse_args(arguments)
        assert choose(options, 0).cases
        assert options.control != options.treatment
    else:
        options = parse(arguments)
        assert len(options.bisect_releases) > 2
        assert select_cases(expand_cases(load_spec(find_spec(options.benchmark_file))), options.operators)


@pytest.mark.parametrize("name", SPECS)
def test_every_case_has_an_issue_on_the_page(name: str) -> None:
    for case in expand_cases(load_spec(find_spec(name))):
        number = re.match(r"[a-z]+(\d+)_", case.id)
        assert number, case.id
        assert f"#{number[1]}" in PAGE, case.id


def test_the_page_has_commands() -> None:
    assert {program for program, _ in COMMANDS} == {"harness", "repo_driver"}
