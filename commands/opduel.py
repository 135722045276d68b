"""The command ``opduel``: which subcommand, and the short help. It loads a subcommand only when that is run."""

import re
import sys
from collections.abc import Sequence

from opduel import __version__
from opduel.commands import start as starting

# Name -> what it does, in the order in which the help shows them.
SUBCOMMANDS = {
    "compare": "measure two builds against each other",
    "measure": "measure one build alone",
    "local": "measure your own branch, before you open a pull request",
    "drive": "measure the commits of a repository, once or continuously",
    "bisect": "find the commit, or the release, that caused a change",
    "calibrate": "find out which changes this machine can detect",
    "list": "list all cases",
    "spec-from": "write a spec of the operator calls of a network",
    "conformance": "test whether a framework keeps what opduel relies on",
    "convert": "write a report in the format of another tool",
    "explain": "say why a case of a report changed",
    "send": "send reports on disk to a results server",
    "flush": "send the reports that wait for a results server",
    "fleet": "run the parts of a fleet of measuring hosts: worker, scheduler, certificates",
    "serve": "start the results server",
    "server": "manage the results server: migrate, token, alert, run",
    "python": "run Python in a build's environment, with opduel importable",
    "completion": "print a completion script for a shell",
}
# The scripts, which an installed opduel lacks, as messages name them, and what to call instead.
SCRIPTS = (
    (re.compile(r"run_bench\.py --(list|flush|send|convert|calibrate)\b"), r"opduel \1"),
    (re.compile(r"run_bench\.py --spec_from\b"), "opduel spec-from"),
    (re.compile(r"(?:python3 )?repo_driver\.py\b"), "opduel drive"),
    (re.compile(r"(?:python3 )?(?:harness|run_bench)\.py\b"), "opduel compare"),
    (re.compile(r"(?:\.venv/bin/)?python -m opduel\.server\b"), "opduel server"),
    (re.compile(r"run `make setup`(?: again)?"), "install opduel again"),
)
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
    given = list(sys.argv[1:] if arguments is None else arguments)
    if not given or given[0] in ("-h", "--help", "--help-all"):
        if given:
            return starting.show(USAGE + _listed() + OPTIONS)
        starting.say(USAGE + _listed() + OPTIONS)
        return starting.USAGE
    if given[0] in ("-V", "--version"):
        return starting.show(f"opduel {__version__}\n")
    name, *rest = given
    if name not in SUBCOMMANDS:
        starting.say(f"opduel: error: {name[:60]!r} is not a subcommand{_similar(name)}; see opduel --help\n")
        return starting.USAGE
    # Of these two, what follows a first word has its own help.
    asking = rest[:1] if name in ("server", "python") else rest
    if "-h" in asking or "--help" in asking:
        from opduel.commands.short_help import short_help  # needs no parser

        return starting.show(short_help(name))
    from opduel.commands.subcommands import run_subcommand  # takes a second: it loads what measures

    return run_subcommand(name, rest)


def _listed() -> str:
    lines = [f"  {name:<13}{summary}\n" for name, summary in SUBCOMMANDS.items()]
    return "Subcommands:\n" + "".join(lines)


def _similar(name: str) -> str:
    from difflib import get_close_matches

    found = get_close_matches(name[:60], SUBCOMMANDS, 1)
    return f", did you mean {found[0]}?" if found else ""


def with_subcommands(text: str, name: str) -> str:
    """A message or help text of the subcommand ``name``, with subcommands where it names the scripts."""
    text = re.sub(r"(?:harness|repo_driver|run_bench)\.py(?: --\w+)? --help", f"opduel {name} --help", text)
    text = re.sub(rf"(^|error: )--{name}: ", r"\1", text)  # the option of run_bench.py that it stands for
    for pattern, subcommand in SCRIPTS:
        text = pattern.sub(subcommand, text)
    return text
