"""The parser of every command line, with errors on one line, and without empty values of options."""

import argparse
import sys
from collections.abc import Callable, Collection, Sequence
from difflib import get_close_matches
from typing import Any, NoReturn

from opduel.records import UsageError
from opduel.reporters.stream import print_result
from opduel.support.redaction import MASK
from opduel.support.text import LONGEST_QUOTE, clipped

MAY_BE_EMPTY = frozenset({"user_identifier"})  # it is empty in a script whose variable is not set

AddOption = Callable[..., None]


class Parser(argparse.ArgumentParser):
    """argparse, whose errors are our own one-line UsageError, and whose help fails when it can't be written."""

    def __init__(self, **settings: Any) -> None:
        super().__init__(**{"allow_abbrev": False, **settings})
        self.read_before: Collection[str] = ()  # options that another parser has taken out of the words

    def options(self, title: str | None = None) -> AddOption:
        """Return a function that adds an option to a group of this title, or to no group.

        ``add("-b --benchmark_file SPEC", "the spec", type=str)``: names and value as the help shows them, the help, and
        settings of ``add_argument``. An option without a value, choices or an action is a switch.
        """
        group = self if title is None else self.add_argument_group(title)

        def add(names: str, help: str, **settings: Any) -> None:
            words = names.split()
            if len(words) > 1 and not words[-1].startswith("-"):
                settings["metavar"] = words.pop()
            elif words[0].startswith("-") and not settings.keys() & {"choices", "action"}:
                settings["action"] = "store_true"
            group.add_argument(*words, help=help, **settings)

        return add

    def error(self, message: str) -> NoReturn:
        raise UsageError(f"{message}; see {self.prog} --help")

    def parse_args(  # type: ignore[override]
        self, args: Sequence[str] | None = None, namespace: Any = None
    ) -> argparse.Namespace:
        """Parse as argparse does, but don't repeat the value of an unknown option: it may be a password."""
        parsed, unknown = self.parse_known_args(args, namespace)
        if unknown:
            name = unknown[0].partition("=")[0]
            options = {*self._option_string_actions, *self.read_before}
            close = get_close_matches(name, sorted(options), 1, 0.75)
            hint = f" (did you mean {close[0]}?)" if close else ""
            self.error(f"unrecognized arguments: {' '.join(_names(unknown))}{hint}")
        return parsed

    def parse_known_args(  # type: ignore[override]
        self, args: Sequence[str] | None = None, namespace: Any = None
    ) -> tuple[argparse.Namespace, list[str]]:
        """Parse as argparse does. Raises UsageError: an option has an empty value, which happens when a script's
        variable is not set."""
        words = sys.argv[1:] if args is None else args
        words = [with_underscores(word, self._option_string_actions) for word in words]
        parsed, unknown = super().parse_known_args(words, namespace)
        for action in self._actions:
            value = getattr(parsed, action.dest, None)
            texts = value if isinstance(value, list) else [value]
            of_option = value == [] != action.default and action.option_strings
            lost = bool(of_option) or [] in texts  # argparse makes a list of "--option=--"
            if lost or ("" in texts and "" not in (action.default, action.const) and action.dest not in MAY_BE_EMPTY):
                name = "/".join(action.option_strings) or action.dest
                raise UsageError(f"{name}: is empty: give a value, or leave it out")
        return parsed, unknown

    def print_help(self, file: Any = None) -> None:
        """Print the help on standard output. Raises RunError: it can't be written."""
        if file is None:
            print_result(self.format_help())
        else:
            super().print_help(file)


def with_underscores(word: str, options: Collection[str]) -> str:
    """Return an option that is written with hyphens, ``--time-budget``, as the one that there is: ``--time_budget``."""
    name, equals, value = word.partition("=")
    other = f"--{name[2:].replace('-', '_')}"
    return f"{other}{equals}{value}" if name.startswith("--") and name not in options and other in options else word


def _names(words: Sequence[str]) -> list[str]:
    """Return unknown arguments without the values of options."""
    names, option = [], ""
    for word in words:
        if word.startswith("-"):
            option, equals, _ = word.partition("=")
            names.append(clipped(option, LONGEST_QUOTE) + (f"={MASK}" if equals else ""))
        else:
            names.append(MASK if option else clipped(word, LONGEST_QUOTE))
    return names
