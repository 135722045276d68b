"""docs/how-to/driver.md and nightly.md name only options of the driver, and their examples are good usage."""

import re
import shlex

import pytest
from command_line import ROOT

from opduel.commands.driver_options import driver_parser, parse_driver_options
from opduel.commands.options import harness_parser
from opduel.reporters import chosen_reporters
from opduel.reporters.local import LocalReporter
from opduel.reporters.screen import ScreenReporter

TEXT = (ROOT / "docs" / "how-to" / "driver.md").read_text(encoding="utf-8")
EXAMPLES = re.findall(r"^    python3 repo_driver\.py (.*)$", TEXT, flags=re.MULTILINE)
NIGHTLY_TEXT = (ROOT / "docs" / "how-to" / "nightly.md").read_text(encoding="utf-8")
# The cron line up to its redirection, the command for two branches, and the unit's.
NIGHTLY_EXAMPLES = re.findall(r"repo_driver\.py (--.*?)(?: >>.*)?$", NIGHTLY_TEXT, flags=re.MULTILINE)


@pytest.mark.parametrize("text", [TEXT, NIGHTLY_TEXT], ids=["driver", "nightly"])
def test_every_option_on_the_page_exists(text: str) -> None:
    parsers = (driver_parser(), harness_parser())
    options = {name for parser in parsers for action in parser._actions for name in action.option_strings}
    text = re.sub(r"`benchmarks/[^`]*`|systemctl .*", "", text)  # they have options of their own
    assert set(re.findall(r"(?<![\w-])--[a-z][\w-]*", text)) <= options


@pytest.mark.parametrize("example", [*EXAMPLES, *NIGHTLY_EXAMPLES])
def test_examples_are_good_usage(example: str) -> None:
    assert parse_driver_options(shlex.split(example)).harness.benchmark_file


@pytest.mark.parametrize("example", NIGHTLY_EXAMPLES)
def test_a_nightly_run_prints_the_table_of_verdicts_that_the_page_promises(example: str) -> None:
    reporters = chosen_reporters(parse_driver_options(shlex.split(example)).harness.reporting, terminal=False)
    assert {type(reporter) for reporter in reporters} == {ScreenReporter, LocalReporter}


def test_there_are_examples() -> None:
    assert len(EXAMPLES) >= 3
    assert len(NIGHTLY_EXAMPLES) == 3
