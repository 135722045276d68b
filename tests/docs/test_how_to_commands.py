"""The how-to guides' commands are good usage, and their specs are valid."""

import json
import re
import shlex
from pathlib import Path

import pytest

from opduel.commands.driver_options import parse_driver_options as parse_driver
from opduel.commands.options import read_options
from opduel.harness.specs import validate

PAGES = {
    path.name: path.read_text(encoding="utf-8").replace("\\\n", "")
    for path in sorted((Path(__file__).resolve().parents[2] / "docs" / "how-to").glob("*.md"))
}
COMMAND = re.compile(r"^(?: {4})?python3 (harness|repo_driver)\.py (.*?)(?: [|>#] ?.*| 2>.*)?$", re.MULTILINE)
COMMANDS = [(page, *command) for page, text in PAGES.items() for command in COMMAND.findall(text)]
SPECS = [
    (page, block)
    for page, text in PAGES.items()
    for block in re.findall(r"^```json\n(\{\n  \"framework\".*?)^```", text, flags=re.MULTILINE | re.DOTALL)
]
PARSERS = {"harness": read_options, "repo_driver": parse_driver}


def test_there_are_commands_and_specs() -> None:
    assert {script for _, script, _ in COMMANDS} == set(PARSERS)
    assert len({page for page, _, _ in COMMANDS}) > 10
    assert len(SPECS) > 5


@pytest.mark.parametrize(("page", "script", "arguments"), COMMANDS)
def test_a_command_is_good_usage(page: str, script: str, arguments: str) -> None:
    PARSERS[script](shlex.split(arguments))


@pytest.mark.parametrize(("page", "block"), SPECS)
def test_a_spec_is_valid(page: str, block: str) -> None:
    assert validate(json.loads(block)).tests
