"""The options of a run from the arguments of a Python function, each read by its option's own rules."""

import argparse
import json
from collections.abc import Mapping, Sequence
from typing import Any

from opduel.commands.driver_options import DriverOptions, check_driver_options, driver_parser
from opduel.commands.harness_options import CommitOptions, HarnessOptions
from opduel.commands.options import Parser, harness_parser
from opduel.commands.words import check_words, words_of_value
from opduel.records import UsageError


def options_of_arguments(
    arguments: Mapping[str, Any], names: Mapping[str, str], command: str = "compare"
) -> HarnessOptions:
    """Return the options of ``arguments``, by option; None and False are not given.

    ``names``: option -> what the function calls it, where that differs. ``command``: whose help lists all options.
    UsageError, which names the argument: there is no such option, or it doesn't take this value.
    """
    parser = harness_parser()
    return HarnessOptions.of(_parsed(parser, arguments, names, command), parser, names)


def local_options_of_arguments(arguments: Mapping[str, Any], names: Mapping[str, str]) -> DriverOptions:
    """Return the options of ``opduel local``, as `options_of_arguments` does."""
    parser = driver_parser()
    own = {name: value for name, value in arguments.items() if f"--{name}" in parser._option_string_actions}
    harness = {name: value for name, value in arguments.items() if name not in own}
    driver = CommitOptions.of(_parsed(parser, own, names, "local"))
    options = DriverOptions(driver, options_of_arguments({**harness, "exec_dir": own.get("exec_dir")}, names, "local"))
    check_driver_options(options)
    return options


def _parsed(parser: Parser, arguments: Mapping[str, Any], names: Mapping[str, str], command: str) -> argparse.Namespace:
    words: list[str] = []
    for option, value in arguments.items():
        name, action = names.get(option, option), parser._option_string_actions.get(f"--{option}")
        if action is None or action.default is argparse.SUPPRESS:
            raise UsageError(f"{name}: there is no such option: see opduel {command} --help-all")
        own_words = words_of_value(name, f"--{option}", action, value)
        check_words(name, own_words, parser)
        words += own_words
    return parser.parse_args(words)


def inputs_as_json(inputs: Mapping[str, Any] | Sequence[Mapping[str, Any]] | None) -> list[str] | None:
    """Return each of the inputs as JSON, None without. UsageError: they hold something else than plain data."""
    if inputs is None:
        return None
    try:
        return [json.dumps(dict(each)) for each in ([inputs] if isinstance(inputs, Mapping) else inputs)]
    except (TypeError, ValueError) as error:
        raise UsageError(f"inputs: {error}: give a dictionary of plain data, or a list of them") from None


def pairs(values: Mapping[str, Any]) -> list[str]:
    """Return ``name=value`` of each, as options take them."""
    return [f"{name}={value}" for name, value in values.items()]
