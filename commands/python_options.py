"""The options of a run from the arguments of a Python function, each read by its option's own rules."""

import argparse
import json
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from opduel.commands.driver_options import DriverOptions, check_driver_options, driver_parser
from opduel.commands.harness_options import CommitOptions, HarnessOptions
from opduel.commands.options import Parser, harness_parser
from opduel.records import UsageError

_PLAIN = "give a text, a number, a path, or a list of these"


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
    parsed = parser.parse_args([])
    for option, value in arguments.items():
        name, action = names.get(option, option), parser._option_string_actions.get(f"--{option}")
        if action is None or action.default is argparse.SUPPRESS:
            raise UsageError(f"{name}: there is no such option: see opduel {command} --help-all")
        if value is not None and value is not False:
            setattr(parsed, action.dest, _read(action, name, value))
    return parsed


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


def _read(action: argparse.Action, name: str, value: Any) -> Any:
    """Return the value that a parser would have for an option; UsageError if the option doesn't take it."""
    if action.nargs == 0 or value is True:
        if action.nargs not in (0, "?") or value is not True:
            raise UsageError(f"{name}: {value!r}: give {'True or False' if action.nargs == 0 else 'a value'}")
        return True if action.const is None else action.const
    if isinstance(value, str | int | float | Path):
        values = [value]
    elif isinstance(value, Iterable) and not isinstance(value, bytes | Mapping):
        values = list(value)
    else:
        raise UsageError(f"{name}: {value!r}: {_PLAIN}")
    if isinstance(action, argparse._AppendAction):
        return [_read_one(action, name, each) for each in values] or None
    if len(values) != 1:
        raise UsageError(f"{name}: takes one value, not {len(values)}")
    return _read_one(action, name, values[0])


def _read_one(action: argparse.Action, name: str, value: Any) -> Any:
    if not isinstance(value, str | int | float | Path):
        raise UsageError(f"{name}: {value!r}: {_PLAIN}")
    text = str(value)
    if not text:
        raise UsageError(f"{name}: is empty: give a value, or leave it out")
    try:
        read = action.type(text) if callable(action.type) else text
    except (argparse.ArgumentTypeError, ValueError) as error:
        raise UsageError(f"{name}: {error}") from None
    if action.choices is not None and read not in action.choices:
        raise UsageError(f"{name}: {text!r}: choose one of {', '.join(map(str, action.choices))}")
    return read
