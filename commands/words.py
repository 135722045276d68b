"""The words of a command line: those of each option, and those without an option's name."""

import argparse
import os
import re
import shlex
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from opduel.commands.driver_options import driver_parser
from opduel.commands.options import Parser, harness_parser
from opduel.records import UsageError
from opduel.reporters.arguments import with_underscores
from opduel.support.project_file import top_of_checkout

_COMMIT = re.compile(r"[\w./~^@-]+")  # its name, or that of a branch or a tag
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


def words_of_value(name: str, option: str, action: argparse.Action, value: Any) -> list[str]:
    """Return the words that give an option a value of a settings file or of a Python function; none for false and null.
    UsageError, which begins with ``name``: the option takes no such value."""
    if value is None or value is False:
        return []
    if value is True:
        if action.nargs not in (0, "?"):
            raise UsageError(f"{name}: is true, and takes a value: give one")
        return [option]
    if action.nargs == 0:
        raise UsageError(f"{name}: takes no value: give true or false")
    is_list = isinstance(value, Iterable) and not isinstance(value, str | bytes | Mapping)
    values = list(value) if is_list else [value]
    if len(values) > 1 and not isinstance(action, argparse._AppendAction):
        raise UsageError(f"{name}: takes one value: give one")
    if not all(isinstance(item, str | int | float | Path) and not isinstance(item, bool) for item in values):
        raise UsageError(f"{name}: give a text, a number, true, false, or a list of texts")
    return [f"{option}={item}" for item in values]


def check_words(name: str, words: Sequence[str], *parsers: Parser) -> None:
    """Raise UsageError, which begins with ``name``, unless one of the parsers after the other takes these words."""
    remaining = list(words)
    for parser in parsers:
        try:
            _, remaining = parser.parse_known_args(remaining)
        except UsageError as error:
            why = re.sub(r"^(argument )?-\S+: ", "", str(error)).removesuffix(f"; see {parser.prog} --help")
            raise UsageError(f"{name}: {why}") from None


def words_of_bisection(words: Sequence[str]) -> list[str]:
    """Return the words of ``opduel bisect``: of those without a name the first two may be the good and the bad commit
    (HEAD, if there is one alone) of the checkout that holds this folder, and each further one is a statement.
    UsageError: there is no checkout."""
    options, unnamed = options_and_others(words, driver_parser(), harness_parser())
    names = {option[0].partition("=")[0] for option in options}
    added: list[str] = []
    if not names & {"--packages", "--bisect_releases"}:
        open_names = [name for name in ("--base_commit", "--commit") if name not in names]
        while open_names and unnamed and _COMMIT.fullmatch(unnamed[0]):
            added.append(f"{open_names.pop(0)}={unnamed.pop(0)}")
        if added and open_names == ["--commit"]:
            added.append("--commit=HEAD")
        if added and not names & {"--repo_dir", "--remote_repository"}:
            if (top := top_of_checkout(Path.cwd())) is None:
                raise UsageError(
                    f"{added[0].partition('=')[2]}: no checkout holds this folder: call it in one, or add --repo_dir"
                )
            added.append(f"--repo_dir={top}")
    return [*added, *_as_statements(options, unnamed)]


def words_of_checkout(words: Sequence[str]) -> tuple[str, list[str]]:
    """Return the folder that the words of ``opduel local`` name, the current one if none does, and the options: each
    further word is a statement. UsageError: a file stands where a folder may."""
    options, unnamed = options_and_others(words, driver_parser(), harness_parser())
    named = [option for option in options if option[0].partition("=")[0] == "--local"]
    folder = (named[-1][1:] or [named[-1][0].partition("=")[2]])[0] if named else ""
    if not named and unnamed and _is_folder(unnamed[0]):
        folder = unnamed.pop(0)
    if os.path.isfile(folder):
        raise UsageError(f"{folder}: is a file, and no line of Python: to measure its tests, write --suite {folder}")
    return folder or ".", _as_statements([option for option in options if option not in named], unnamed)


def words_of_init(words: Sequence[str], parser: Parser) -> list[str]:
    """Return the words of ``opduel init``, in which each one without a name is a statement, but for a folder that comes
    first."""
    options, unnamed = options_and_others(words, parser)
    is_folder = bool(unnamed) and (os.path.isdir(unnamed[0]) or not re.search(r"[\s(\"'\[=]", unnamed[0]))
    return [*_as_statements(options, unnamed[is_folder:]), *unnamed[:is_folder]]


def _as_statements(options: Sequence[Sequence[str]], unnamed: Sequence[str]) -> list[str]:
    return [*(word for option in options for word in option), *(f"--statement={line}" for line in unnamed)]


def _is_folder(word: str) -> bool:
    """Tell whether a word is a folder, or looks like one that isn't there, rather than like Python."""
    return os.path.isdir(word) or (os.sep in word and not re.search(r"[\s(\"']", word))
