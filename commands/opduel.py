"""The command ``opduel``, also under the names of a checkout's scripts: which subcommand, and its help."""

import logging
import sys
from collections.abc import Sequence
from difflib import get_close_matches

from opduel import __version__
from opduel.commands import start as starting
from opduel.commands.entry import run_command
from opduel.commands.help import all_help, short_help
from opduel.commands.subcommands import COMMANDS, SUBCOMMANDS
from opduel.reporters.stream import print_result

REINSTALL = "uv tool install --reinstall opduel (or pip install --force-reinstall opduel)"
HELP = """Usage: opduel [-h] [-V] SUBCOMMAND [OPTIONS]

Find performance regressions: measure two builds of a package, a framework or a program against each other.

Subcommands:
{subcommands}
Options:
  -h, --help     show this help; after a subcommand, the help on that
  -V, --version  show the version

After a subcommand:
  -h, --help     show its most used options
  --help-all     show all its options
  -q, --quiet    show results, warnings and errors, but no progress
  -v, --verbose  show details, too

Settings are read from [tool.opduel] in pyproject.toml, or from opduel.toml, in this folder or one above it.
"""
_LEVELS = {"-q": logging.WARNING, "--quiet": logging.WARNING, "-v": logging.DEBUG, "--verbose": logging.DEBUG}


def start() -> None:
    """Run an installed opduel; never returns."""
    starting.stop_on_signals()
    starting.call_main(REINSTALL)


def main(arguments: Sequence[str] | None = None, script: str | None = None) -> int:
    """Run the command, called as ``opduel`` or as a ``script`` of the checkout (``harness.py``), and return its exit
    code: 0 done, 1 a regression, 2 wrong usage or input, 3 not completed."""
    words = list(sys.argv[1:] if arguments is None else arguments)
    if script is not None:
        return _run(script, words)
    if not words or words[0] in ("-h", "--help", "--help-all"):
        subcommands = "".join(f"  {name:<13}{command.summary}\n" for name, command in SUBCOMMANDS.items())
        text = HELP.format(subcommands=subcommands)
        if words:
            return starting.show(text)
        starting.say(text)
        return starting.USAGE
    if words[0] in ("-V", "--version"):
        return starting.show(f"opduel {__version__}\n")
    name, *remaining = words
    if name not in SUBCOMMANDS:
        matches = get_close_matches(name[:60], SUBCOMMANDS, 1)
        similar = f", did you mean {matches[0]}?" if matches else ""
        starting.say(f"opduel: error: {name[:60]!r} is not a subcommand{similar}; see opduel --help\n")
        return starting.USAGE
    return _run(name, remaining)


def _run(name: str, words: list[str]) -> int:
    """Run a subcommand, or a script, or show its help; returns the exit code."""
    command = COMMANDS[name]
    program = name if name not in SUBCOMMANDS else f"opduel {name}"
    if not command.parsers:  # the server has messages, and a help, of its own
        return command.run(program, _with_one_help(_without_levels(words)[0]))
    if name == "python":  # its options end at the build: all others are the script's
        level = logging.INFO
    else:
        words, level = _without_levels(words)
    if name == "fleet" and words[0:1] not in (["-h"], ["--help"], ["--help-all"]):
        words = _with_one_help(words)
    # Behind a first word, these have a help of their own.
    has_own_help = name in ("python", "fleet") or any(word.startswith("--spec_from") for word in words)
    asking = words[:1] if has_own_help else words

    def action() -> int:
        if "--help-all" in asking:
            print_result(all_help(name))
        elif {"-h", "--help"} & set(asking):
            print_result(short_help(name))
        else:
            return command.run(program, words)
        return 0

    return run_command(program, action, level)


def _with_one_help(words: Sequence[str]) -> list[str]:
    """Return the words for a parser that has one help, with all options."""
    return ["--help" if word == "--help-all" else word for word in words]


def _without_levels(words: Sequence[str]) -> tuple[list[str], int]:
    """Return the words without -q and -v, and the level of the messages that are shown."""
    levels = [_LEVELS[word] for word in words if word in _LEVELS]
    return [word for word in words if word not in _LEVELS], levels[-1] if levels else logging.INFO
