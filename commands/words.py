"""The words of a command line: those of each option, and those without an option's name."""

import os
import re
import shlex
from collections.abc import Sequence

from opduel.commands.driver_options import driver_parser
from opduel.commands.options import Parser, harness_parser
from opduel.reporters.arguments import with_underscores

_VARIABLE = re.compile(r"[A-Za-z_]\w*=(?!=)")  # of --env, and no release


def options_and_others(words: Sequence[str], *parsers: Parser) -> tuple[list[list[str]], list[str]]:
    """Return the words of each option, with its value, and the other words."""
    actions = {name: action for parser in parsers for name, action in parser._option_string_actions.items()}
    options: list[list[str]] = []
    unnamed: list[str] = []
    remaining = list(words)
    while remaining:
        word = with_underscores(remaining.pop(0), actions)
        if word == "--":
            unnamed, remaining = [*unnamed, *remaining], []
        elif not word.startswith("-"):
            unnamed.append(word)
        else:
            arity = actions[word].nargs if word in actions else 0
            if arity == "?":
                arity = int(bool(remaining) and not remaining[0].startswith("-"))
            count = arity if isinstance(arity, int) else 1
            options.append([word, *remaining[:count]])
            del remaining[:count]
            while arity == "+" and remaining and _VARIABLE.match(remaining[0]):
                options[-1].append(remaining.pop(0))
    _join_suite(options, unnamed)
    return options, unnamed


def _join_suite(options: Sequence[list[str]], unnamed: list[str]) -> None:
    """Give ``--suite`` the further files of a shell's pattern, ``bench_*.py``, which are among the unnamed words."""
    for option in options:
        if option[0].partition("=")[0] == "--suite":
            files = [word for word in unnamed if word.endswith(".py") and os.path.isfile(word)]
            if files:
                first = option[1] if option[1:] else option[0].partition("=")[2]
                option[:] = ["--suite", shlex.join([first, *files])]
                unnamed[:] = [word for word in unnamed if word not in files]
            return


def with_statements(words: Sequence[str]) -> list[str]:
    """Return the words of ``opduel bisect``, in which each one without a name is a statement."""
    options, unnamed = options_and_others(words, driver_parser(), harness_parser())
    return [*(word for option in options for word in option), *(f"--statement={statement}" for statement in unnamed)]


def words_of_checkout(words: Sequence[str]) -> tuple[str, list[str]]:
    """Return the folder that the words of ``opduel local`` name, the current one if none does, and the options: each
    further word is a statement."""
    options, unnamed = options_and_others(words, driver_parser(), harness_parser())
    named = [option for option in options if option[0].partition("=")[0] == "--local"]
    folder = (named[-1][1:] or [named[-1][0].partition("=")[2]])[0] if named else ""
    if not named and unnamed and _is_folder(unnamed[0]):
        folder = unnamed.pop(0)
    option_words = [word for option in options if option not in named for word in option]
    return folder or ".", with_statements([*option_words, "--", *unnamed])


def _is_folder(word: str) -> bool:
    """Tell whether a word is a folder, or looks like one that isn't there, rather than like Python."""
    return os.path.isdir(word) or (os.sep in word and not re.search(r"[\s(\"']", word))
