"""The generated pages have every option there is; usage.md names no other, and its examples are good usage."""

import argparse
import json
import re
import runpy
import shlex
from collections.abc import Iterator
from pathlib import Path

import pytest
from command_line import ROOT

from opduel.commands.calibrate import DEFAULT_BUDGET_S
from opduel.commands.case_selection import choose_cases
from opduel.commands.config import (
    ARGUMENTS,
    COMMANDS,
    QUESTIONS,
    UNASKED,
    config_path,
    default_reports,
    read_config,
    write_config,
)
from opduel.commands.defaults import is_for_driver, with_defaults
from opduel.commands.driver_options import driver_parser, parse_driver_options
from opduel.commands.entry import DONE, INCOMPLETE, REGRESSED, USAGE
from opduel.commands.launch import CALIBRATED_SPEC
from opduel.commands.listing import list_cases
from opduel.commands.options import harness_parser, read_options
from opduel.commands.progress import PLAIN_EVERY_S
from opduel.commands.run_bench import run_bench_parser
from opduel.commands.subcommand_parsers import convert_parser
from opduel.driver.builds import BuildCache
from opduel.frameworks import get_framework, run_environment
from opduel.harness.profiles import FILES, INDEX
from opduel.reporters.remote.spool import default_spool

TEXT = (ROOT / "docs" / "reference" / "usage.md").read_text(encoding="utf-8")
EXAMPLES = re.findall(r"^    python3 (harness|run_bench)\.py (.*)$", TEXT, flags=re.MULTILINE)


PAGES = runpy.run_path(str(ROOT / "docs" / "pages.py"))
PARSERS = PAGES["PARSERS"]
GENERATED = {
    name: PAGES["options_page"](parser()) for name, parser in PARSERS.items()
}  # the pages of the site, by name


def options(parser: argparse.ArgumentParser) -> Iterator[argparse.Action]:
    """Every option that the help lists."""
    return (action for action in parser._actions if action.help != argparse.SUPPRESS)


def rows(text: str = TEXT) -> dict[str, str]:
    """The tables' rows: first cell -> second."""
    return dict(re.findall(r"^\| (`.*?`) \| (.*) \|$", text, flags=re.MULTILINE))


def row_of(name: str, action: argparse.Action) -> str:
    """What the generated page of a command says of an option."""
    (meaning,) = (
        meaning for first, meaning in rows(GENERATED[name]).items() if names_in(first) & {*action.option_strings}
    )
    return meaning


def names_in(text: str) -> set[str]:
    return set(re.findall(r"(?<![\w-])--?[a-zA-Z][\w-]*", text))


@pytest.mark.parametrize("name", ["harness", "run_bench"])
def test_the_generated_page_has_every_option_in_help_and_no_other(name: str) -> None:
    actions = list(options(PARSERS[name]()))
    assert all(row_of(name, action) for action in actions)
    option_strings = {option for action in actions for option in action.option_strings}
    assert set().union(*map(names_in, rows(GENERATED[name]))) == option_strings


def test_every_option_that_the_page_names_exists() -> None:
    actions = [*options(harness_parser()), *options(run_bench_parser())]
    option_strings = {name for action in actions for name in action.option_strings}
    for parser in (driver_parser(), convert_parser()):  # to whose commands run_bench.py passes options on
        option_strings |= set(parser._option_string_actions)
    assert {name for name in names_in(TEXT) if name.startswith("--")} - {"--help"} <= option_strings


def test_the_page_links_to_every_generated_page_of_a_command() -> None:
    for name in ("harness", "run_bench", "spec_from", "repo_driver", "server"):
        assert f"](options/{name}.md)" in TEXT


def test_every_option_has_help() -> None:
    assert all(action.help for parser in (harness_parser(), run_bench_parser()) for action in options(parser))


def test_generated_pages_say_the_defaults() -> None:
    for action in options(harness_parser()):
        if action.default not in (None, False, 0.0, argparse.SUPPRESS) and action.dest != "run_type":
            meaning = row_of("harness", action)
            assert f"default: {action.default})" in meaning or f"({action.default}, the default)" in meaning


def test_generated_pages_say_the_choices() -> None:
    for action in options(harness_parser()):
        first = next(first for first in rows(GENERATED["harness"]) if names_in(first) & {*action.option_strings})
        for choice in action.choices or ():
            assert choice in first + row_of("harness", action)


@pytest.mark.parametrize(("command", "line"), EXAMPLES)
def test_examples_are_good_usage(command: str, line: str) -> None:
    arguments = shlex.split(re.split(r" 2>| \|", line)[0])
    if command == "run_bench":
        own, arguments = run_bench_parser().parse_known_args(arguments)
        if own.list is not None:
            assert list_cases(own.list, read_options(arguments) if arguments else None) == DONE
            return
        arguments = ["-b", CALIBRATED_SPEC, *arguments] if own.calibrate or own.keep_options else arguments
        if is_for_driver(arguments):
            parse_driver_options(arguments)
            return
    assert choose_cases(read_options(arguments), 0).cases


PROFILES = (ROOT / "docs" / "how-to" / "profiles.md").read_text(encoding="utf-8")
RECIPES = re.findall(r"^    .*python3 harness\.py (.*)$", PROFILES, flags=re.MULTILINE)


@pytest.mark.parametrize("line", RECIPES)
def test_the_recipes_for_profiles_are_good_usage(line: str) -> None:
    options = read_options(shlex.split(line))
    assert choose_cases(options, 0).cases
    if options.variables:
        run_environment(get_framework("mxnet"), 1, options.variables)


def test_the_page_on_profiles_names_every_file() -> None:
    assert len(RECIPES) >= 6
    for name in (*FILES, INDEX):
        assert f"{name}`" in PROFILES


def test_there_are_examples() -> None:
    assert {command for command, _ in EXAMPLES} == {"harness", "run_bench"}


def test_exit_codes_are_documented() -> None:
    codes = re.findall(r"^\| (\d) \|", TEXT, flags=re.MULTILINE)
    assert codes == [str(code) for code in (DONE, REGRESSED, USAGE, INCOMPLETE)]


def test_files_are_documented(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(home / "cache"))
    documented = rows()
    for variable, path in (
        ("config", config_path()),
        ("state", default_reports()),
        ("state", default_spool()),
        ("cache", BuildCache().directory),
    ):
        name = f"`$XDG_{variable.upper()}_HOME/{path.relative_to(home / variable)}"
        assert any(row.rstrip("`/") == name for row in documented)


def test_the_documented_config_is_a_good_one(tmp_path: Path) -> None:
    example = re.search(r"```json\n(.*?)```", TEXT, flags=re.DOTALL)
    assert example
    (tmp_path / "config.json").write_text(example[1])
    assert (
        set(read_config(tmp_path / "config.json")) == {*QUESTIONS, *UNASKED, ARGUMENTS} == set(json.loads(example[1]))
    )


def test_the_documented_default_arguments_are_good_ones(home: Path) -> None:
    example = re.search(r"```json\n(.*?)```", TEXT, flags=re.DOTALL)
    assert example
    write_config(config_path(), json.loads(example[1]))
    for command in COMMANDS:
        assert len(with_defaults(command, [])) >= len(json.loads(example[1])[ARGUMENTS][command])


def test_the_interval_of_plain_progress_is_documented() -> None:
    assert f"every {PLAIN_EVERY_S:g} seconds" in " ".join(TEXT.split())


def test_calibration_is_documented_as_it_is() -> None:
    section = " ".join(TEXT.split("## Calibrate this machine")[1].partition("\n## ")[0].split())
    assert f"The spec is `{CALIBRATED_SPEC}`, and the time {DEFAULT_BUDGET_S:g} s" in section
