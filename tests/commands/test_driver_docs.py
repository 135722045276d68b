"""docs/how-to/driver.md has every option of the driver and no other, its defaults, and examples that are good usage."""

import argparse
import re
import shlex

import pytest
from command_line import ROOT

from opduel.commands.driver_options import driver_parser, parse
from opduel.commands.options import harness_parser
from opduel.reporters import chosen_reporters
from opduel.reporters.local import LocalReporter
from opduel.reporters.screen import ScreenReporter

TEXT = (ROOT / "docs" / "how-to" / "driver.md").read_text(encoding="utf-8")
OWN = TEXT.partition("\n## Coming from AI-PEP\n")[0]  # there are AI-PEP's, and what to use instead
EXAMPLES = re.findall(r"^    python3 repo_driver\.py (.*)$", TEXT, flags=re.MULTILINE)
NIGHTLY_TEXT = (ROOT / "docs" / "how-to" / "nightly.md").read_text(encoding="utf-8")
# The cron lines, for one branch and for two, up to their redirection, and the unit's.
NIGHTLY = re.findall(r"repo_driver\.py (.*?)(?: >>.*)?$", NIGHTLY_TEXT, flags=re.MULTILINE)
NIGHTLY = [line for line in NIGHTLY if line.startswith("--")]
ACTIONS = list(driver_parser()._actions)


def rows() -> dict[str, str]:
    """The tables' rows: first cell -> second."""
    return dict(re.findall(r"^\| (`-.*?`) \| (.*) \|$", OWN, flags=re.MULTILINE))


def cell(action: argparse.Action) -> str:
    """An option as the tables' first cells write it."""
    argument = "TYPE" if action.choices else action.metavar
    argument = f"[{argument}]" if action.nargs == "?" else argument
    return ", ".join(f"`{name} {argument}`" if action.nargs != 0 else f"`{name}`" for name in action.option_strings)


def test_the_tables_are_the_help() -> None:
    assert set(rows()) == {cell(action) for action in ACTIONS}


def test_no_other_option_is_named() -> None:
    known = {name for action in [*ACTIONS, *harness_parser()._actions] for name in action.option_strings}
    text = re.sub(r"`benchmarks/[^`]*`", "", OWN)  # which have options of their own
    assert set(re.findall(r"(?<![\w-])--[a-z][\w-]*", text)) <= known


@pytest.mark.parametrize("action", ACTIONS, ids=lambda action: action.dest)
def test_defaults_and_choices_are_documented(action: argparse.Action) -> None:
    words = rows()[cell(action)]
    if action.default not in (None, False, "", argparse.SUPPRESS):
        assert f"Default: {action.default}" in words
    assert all(f"`{choice}`" in words for choice in action.choices or ())


@pytest.mark.parametrize("example", [*EXAMPLES, *NIGHTLY])
def test_examples_are_good_usage(example: str) -> None:
    assert parse(shlex.split(example)).harness.benchmark_file


@pytest.mark.parametrize("example", NIGHTLY)
def test_a_nightly_run_prints_the_table_of_verdicts_that_the_page_promises(example: str) -> None:
    chosen = chosen_reporters(parse(shlex.split(example)).harness, terminal=False)
    assert {type(one) for one in chosen} == {ScreenReporter, LocalReporter}


def test_there_are_examples() -> None:
    assert len(EXAMPLES) >= 3
    assert len(NIGHTLY) == 3
