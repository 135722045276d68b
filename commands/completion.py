"""opduel completion: a script by which a shell completes all subcommands and options."""

import argparse

import shtab

from opduel.commands.help import merged_parser
from opduel.commands.options import Parser
from opduel.commands.subcommands import SUBCOMMANDS
from opduel.reporters.stream import print_result

_FILE = {"bash": "_shtab_compgen_files", "zsh": "_files", "tcsh": "f", "fish": "(__fish_complete_path)"}
_FOLDER = {"bash": "_shtab_compgen_dirs", "zsh": "_files -/", "tcsh": "d", "fish": "(__fish_complete_directories)"}
_COMPLETION_BY_METAVAR = {
    **dict.fromkeys(("FILE", "REPORT", "BUILD", "SPEC", "PATH"), _FILE),
    **dict.fromkeys(("DIR", "FOLDER"), _FOLDER),
}


def print_completion(shell: str) -> int:
    """Print the script for a shell; return the exit code."""
    print_result(shtab.complete(_whole_parser(), shell))
    return 0


def _whole_parser() -> Parser:
    """Return one parser with all subcommands and all their options."""
    parser = Parser(prog="opduel")
    parser.options()("-V --version", "show the version")
    kinds = parser.add_subparsers()
    for name, command in SUBCOMMANDS.items():
        options = _server_parser(name) if name in ("serve", "server") else merged_parser(name)
        if options is None:
            kinds.add_parser(name, help=command.summary)
            continue
        subparser = kinds.add_parser(name, help=command.summary, parents=[options], add_help=False)
        add = subparser.options()
        add("-q --quiet", "show no progress")
        add("-v --verbose", "show details, too")
        if command.takes_run_options:
            add("--help-all", "show all options")
        for action in subparser._actions:
            if action.help != argparse.SUPPRESS:
                action.help = (action.help or "").replace("\n", " ")
            if completion := _COMPLETION_BY_METAVAR.get(str(action.metavar)):
                action.complete = completion  # type: ignore[attr-defined]
    return parser


def _server_parser(name: str) -> Parser | None:
    """Return the server's parser, or that of its ``serve``; None without the extra ``server``."""
    try:
        from opduel.server.command_line import server_parser
    except ImportError:
        return None
    parser = server_parser("opduel server")
    if name == "server":
        return parser
    kinds = next(action for action in parser._actions if isinstance(action, argparse._SubParsersAction))
    subparser: Parser = kinds.choices[name]
    return subparser
