"""Default arguments that the config keeps for each command. run_bench.py adds them to those of its command line.

The command line overrides them, as in AI-PEP. The config has them under ``arguments``, by command and option:

    {"arguments": {"harness.py": {"time_budget": 600}, "repo_driver.py": {"ab_testing": true, "repo_dir": "~/src"}}}
"""

import argparse
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from opduel.commands.config import ARGUMENTS, COMMANDS, config_path, read_config, write_config
from opduel.commands.driver_options import driver_parser
from opduel.commands.entry import log
from opduel.commands.harness_options import HarnessOptions
from opduel.commands.option_rules import AB_ONLY, SINGLE_ONLY, is_single
from opduel.commands.options import Parser, harness_parser
from opduel.commands.project import Setting
from opduel.commands.words import check_words, words_of_value
from opduel.records import UsageError
from opduel.reporters.options import OPTION_BY_NAME

HARNESS, DRIVER, CALIBRATE = COMMANDS
PARSERS: Mapping[str, Sequence[Callable[[], Parser]]] = {
    HARNESS: (harness_parser,),
    DRIVER: (driver_parser, harness_parser),
    CALIBRATE: (harness_parser,),
}
# What says what is measured differs from run to run and is not kept; nor is a token.
DESCRIBES_RUN = (
    *("benchmark_file", "operators", "category", "inputs", "int64_tensor", "bisect_releases", "packages"),
    *("suite", "bench", "network", "with_operators", "sample", "fuzz", "golden", "local"),
    *("statement", "setup", "regressed_types"),
)
NOT_KEPT = (
    *(*DESCRIBES_RUN, "higher_is_better", "fuzz_spec", "build_program"),
    *("single", "control", "treatment", "info", "commit", "base_commit", "remote_access_token"),
)


def with_defaults(command: str, arguments: Sequence[str], shared: Sequence[Setting] = ()) -> list[str]:
    """The arguments of a command with defaults before them, but for those that they give themselves.

    The config's defaults override ``shared``, a project's, of which the first for an option counts. A default that is
    for an A/B alone, or for one build alone, is left out where the other is measured. UsageError: a default is no
    option of the command, or has a bad value; names the file and the field.
    """
    path = config_path()
    value_by_name = read_config(path).get(ARGUMENTS, {}).get(command, {})
    settings = [
        Setting(path, f"{path}: {ARGUMENTS}.{command}.{name}", name, value) for name, value in value_by_name.items()
    ]
    if not settings and not shared:
        return list(arguments)
    actions = _actions(command)
    settled = _texts_by_option(command, arguments).keys() | _passed_over(command, arguments)
    words_by_file: dict[Path, list[str]] = {}
    for setting in (*settings, *shared):
        option = f"--{setting.name.lstrip('-')}"
        if option not in actions:
            if setting in shared and any(option in _actions(each) for each in PARSERS):
                continue  # another subcommand's
            raise UsageError(f"{setting.where}: {command} has no such option: correct it, or remove it")
        action = actions[option]
        written = words_of_value(setting.where, option, action, setting.value)
        check_words(setting.where, written, *(make() for make in PARSERS[command]))
        if action.dest not in settled:
            words_by_file.setdefault(setting.file, []).extend(written)
            settled.add(action.dest)
    for file, words in words_by_file.items():
        log.info("from %s: %s", file, ", ".join(word.partition("=")[0] for word in words))  # a value may be a secret
    return [*(word for words in words_by_file.values() for word in words), *arguments]


def store_defaults(command: str, arguments: Sequence[str]) -> None:
    """Keep the options of a command line as its defaults, in place of those that were kept before. UsageError: the
    config is no good; RunError: it can't be written."""
    path = config_path()
    value_by_option = {
        name: value for name, value in _texts_by_option(command, arguments).items() if name not in NOT_KEPT
    }
    config = read_config(path)
    write_config(path, {**config, ARGUMENTS: {**config.get(ARGUMENTS, {}), command: value_by_option}})
    log.info("defaults for %s kept in %s: %s", command, path, ", ".join(value_by_option) or "nothing")


def describes_run(command: str, arguments: Sequence[str]) -> bool:
    """Whether a command line says what is measured."""
    return not _texts_by_option(command, arguments).keys().isdisjoint(DESCRIBES_RUN)


def is_for_driver(arguments: Sequence[str]) -> bool:
    """Whether a command line has an option that repo_driver.py alone has."""
    own = set(driver_parser()._option_string_actions) - set(harness_parser()._option_string_actions)
    return any(word.partition("=")[0] in own for word in arguments)


def _actions(command: str) -> dict[str, argparse.Action]:
    """The command's options, by each of their names."""
    return {
        name: action for make in reversed(PARSERS[command]) for name, action in make()._option_string_actions.items()
    }


def _texts_by_option(command: str, words: Sequence[str]) -> dict[str, Any]:
    """Return the options of a command line as they are written: texts, lists of them, True where there is no value."""
    values: dict[str, Any] = {}
    for make in PARSERS[command]:
        parser = make()
        for action in parser._actions:
            action.default, action.type, action.choices = argparse.SUPPRESS, None, None
            action.const = True if action.nargs == "?" else action.const
        parsed, words = parser.parse_known_args(words)
        values |= vars(parsed)
    return values


def _passed_over(command: str, arguments: Sequence[str]) -> set[str]:
    """Options whose defaults don't go with what this command line measures."""
    if command != HARNESS:
        return set(SINGLE_ONLY)
    parser = harness_parser()
    parsed, _ = parser.parse_known_args(arguments)
    return {*AB_ONLY, *OPTION_BY_NAME} if is_single(HarnessOptions.of(parsed, parser)) else set(SINGLE_ONLY)
