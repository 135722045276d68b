"""The command ``opduel``: which subcommand, and the short help. It loads a subcommand only when that is run."""

import sys
from collections.abc import Sequence

from opduel import __version__
from opduel.commands import start as starting
from opduel.commands.subcommand_names import SUBCOMMANDS

REINSTALL = "uv tool install --reinstall opduel (or pip install --force-reinstall opduel)"
USAGE = """Usage: opduel [-h] [-V] SUBCOMMAND [OPTIONS]

Find performance regressions: measure two builds of a framework against each other.

"""
OPTIONS = """
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


def start() -> None:
    """The entry point of an installed opduel; never returns."""
    starting.stop_on_signals()
    starting.call_main("opduel.commands.opduel", REINSTALL)


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command; returns its exit code: 0 done, 1 a regression, 2 wrong usage or input, 3 not completed."""
    words = list(sys.argv[1:] if arguments is None else arguments)
    if not words or words[0] in ("-h", "--help", "--help-all"):
        if words:
            return starting.show(USAGE + _listed() + OPTIONS)
        starting.say(USAGE + _listed() + OPTIONS)
        return starting.USAGE
    if words[0] in ("-V", "--version"):
        return starting.show(f"opduel {__version__}\n")
    name, *remaining = words
    if name not in SUBCOMMANDS:
        starting.say(f"opduel: error: {name[:60]!r} is not a subcommand{_similar(name)}; see opduel --help\n")
        return starting.USAGE
    # Of these two, what follows a first word has its own help.
    asking = remaining[:1] if name in ("server", "python") else remaining
    if "-h" in asking or "--help" in asking:
        from opduel.commands.short_help import short_help  # needs no parser

        return starting.show(short_help(name))
    from opduel.commands.subcommands import run_subcommand  # takes a second: it loads what measures

    return run_subcommand(name, remaining)


def _listed() -> str:
    lines = [f"  {name:<13}{summary}\n" for name, summary in SUBCOMMANDS.items()]
    return "Subcommands:\n" + "".join(lines)


def _similar(name: str) -> str:
    from difflib import get_close_matches

    matches = get_close_matches(name[:60], SUBCOMMANDS, 1)
    return f", did you mean {matches[0]}?" if matches else ""
