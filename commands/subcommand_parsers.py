"""The parsers of the subcommands of ``opduel``: for parsing, for their help, and for shell completion."""

import argparse
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from opduel.commands.driver_options import driver_parser
from opduel.commands.in_build import python_parser
from opduel.commands.options import Parser, harness_parser
from opduel.commands.subcommand_names import SUBCOMMANDS
from opduel.records.measurement import SIDES
from opduel.reporters.formats import FORMATS, described
from opduel.support.command_names import named_for

# With settings in a project's file.
CONFIGURED = ("compare", "measure", "local", "drive", "bisect", "calibrate")
SHELLS = ("bash", "zsh", "fish", "tcsh", "powershell")
_OF_COMPARE = "Also --remote_reporter, --remote_access_token_file and --spool, as opduel compare has them"
_OF_DRIVER = ("local", "drive", "bisect", "repo_driver.py")
SCRIPTS = ("harness.py", "repo_driver.py", "run_bench.py")


def _small(name: str, epilog: str = "") -> Parser:
    """The parser of a subcommand with few options of its own."""
    summary = SUBCOMMANDS[name]
    return Parser(prog=f"opduel {name}", description=f"{summary[:1].upper()}{summary[1:]}.", epilog=epilog)


def list_parser() -> Parser:
    """``opduel list``."""
    parser = _small("list", "With options of opduel compare, such as -b SPEC: the cases that it would measure")
    parser.options()("pattern PATTERN", "a part of an id, an operator or a spec's name, or a pattern", nargs="?")
    return parser


def network_parser() -> Parser:
    """``opduel spec-from``; its network is a positional argument."""
    from opduel.commands.spec_from import spec_from_parser  # imports what few subcommands need

    parser = spec_from_parser(positional=True)
    parser.prog, parser.description = "opduel spec-from", "Write a spec of the operator calls of a network."
    parser.usage = "%(prog)s NETWORK [OPTIONS]"
    return parser


def conformance_parser() -> Parser:
    """``opduel conformance``."""
    from opduel.commands.conformance import conformance_parser as its_parser  # imports what few subcommands need

    return its_parser()


def convert_parser() -> Parser:
    """``opduel convert``."""
    parser = _small("convert")
    add = parser.options()
    add("report REPORT", "a report.json", type=Path)
    add("--to", f"the format. {described()}", choices=list(FORMATS), required=True)
    add("--side", "for a format that holds one side", choices=SIDES)
    add(
        "--output FILE",
        "where it is written (default: standard output); {side} in the name stands for control and treatment, {run} "
        "for the run's id",
    )
    return parser


def explain_parser() -> Parser:
    """``opduel explain``."""
    parser = _small("explain", "The run must have looked for causes: --explain all")
    add = parser.options()
    add("report REPORT", "a report.json", type=Path)
    add("case CASE", "the id of a case, or a part of it (default: one line for each case with a cause)", nargs="?")
    add("--json", "print what was found as JSON")
    return parser


def fleet_parser() -> Parser:
    """``opduel fleet``."""
    from opduel.commands.fleet import fleet_parser as its_parser  # imports what few subcommands need

    return its_parser()


def send_parser() -> Parser:
    """``opduel send``."""
    parser = _small("send", _OF_COMPARE)
    parser.options()("reports REPORT", "a report.json", type=Path, nargs="+")
    return parser


def flush_parser() -> Parser:
    """``opduel flush``."""
    from opduel.commands.sending import add_give_up  # imports what few subcommands need

    parser = _small("flush", _OF_COMPARE)
    parser.options()("--retry_refused", "also send reports that a server refused")
    add_give_up(parser.options())
    return parser


def completion_parser() -> Parser:
    """``opduel completion``."""
    parser = _small(
        "completion",
        "bash: opduel completion bash > ~/.local/share/bash-completion/completions/opduel\n"
        "fish: opduel completion fish > ~/.config/fish/completions/opduel.fish\n"
        "zsh:  opduel completion zsh > FOLDER/_opduel   (a folder of $fpath)",
    )
    parser.options()("shell", "your shell", choices=SHELLS)
    return parser


# Subcommands that have a parser of their own, with few options.
SMALL: Mapping[str, Callable[[], Parser]] = {
    "list": list_parser,
    "spec-from": network_parser,
    "conformance": conformance_parser,
    "convert": convert_parser,
    "explain": explain_parser,
    "fleet": fleet_parser,
    "send": send_parser,
    "flush": flush_parser,
    "python": lambda: python_parser("opduel python"),
    "completion": completion_parser,
}


def parsers_of(name: str) -> list[Parser]:
    """Return the parsers of the options of a subcommand, or of a script, which name commands as for its user."""
    with named_for(name):
        return _parsers_of(name)


def _parsers_of(name: str) -> list[Parser]:
    if name == "run_bench.py":
        from opduel.commands.run_bench import run_bench_parser  # imports what few subcommands need

        return [run_bench_parser()]
    if name in SMALL:
        return [SMALL[name]()]
    if name in ("serve", "server"):
        return [_server_parser(name)]
    return [driver_parser(), harness_parser()] if name in _OF_DRIVER else [harness_parser()]


def _server_parser(name: str) -> Parser:
    """The server's, or that of its ``serve``; needs the extra ``server``."""
    from opduel.server.command_line import server_parser

    parser = server_parser("opduel server")
    if name == "server":
        return parser
    kinds = next(action for action in parser._actions if isinstance(action, argparse._SubParsersAction))
    subparser: Parser = kinds.choices[name]
    return subparser


def merged_parser(name: str) -> Parser:
    """One parser with all options of a subcommand, in its words; of two of one name, the driver's."""
    first, *further_parsers = parsers_of(name)
    for group in (group for other in further_parsers for group in other._action_groups):
        ours = first.add_argument_group(group.title, group.description)
        for action in group._group_actions:
            if not set(action.option_strings) & set(first._option_string_actions):
                ours._add_action(action)
    return first


def whole_parser() -> argparse.ArgumentParser:
    """All subcommands and all their options in one parser, for completion."""
    parser = Parser(prog="opduel")
    parser.options()("-V --version", "show the version")
    kinds = parser.add_subparsers()
    for name, summary in SUBCOMMANDS.items():
        if name in ("serve", "server") and not _has_server():
            kinds.add_parser(name, help=summary)
            continue
        subparser = kinds.add_parser(name, help=summary, parents=[merged_parser(name)], add_help=False)
        add = subparser.options()
        add("-q --quiet", "show no progress")
        add("-v --verbose", "show details, too")
        if name in CONFIGURED:
            add("--help-all", "show all options")
        for action in subparser._actions:
            _prepare(action)
    return parser


def _has_server() -> bool:
    try:
        _server_parser("server")
    except ImportError:
        return False
    return True


def _prepare(action: argparse.Action) -> None:
    """Help on one line, and completion of paths."""
    if action.help != argparse.SUPPRESS:
        action.help = (action.help or "").replace("\n", " ")
    if action.metavar in ("FILE", "REPORT", "BUILD", "SPEC", "PATH"):
        action.complete = _COMPLETE_FILE  # type: ignore[attr-defined]
    elif action.metavar in ("DIR", "FOLDER"):
        action.complete = _COMPLETE_FOLDER  # type: ignore[attr-defined]


_COMPLETE_FILE = {"bash": "_shtab_compgen_files", "zsh": "_files", "tcsh": "f", "fish": "(__fish_complete_path)"}
_COMPLETE_FOLDER = {
    "bash": "_shtab_compgen_dirs",
    "zsh": "_files -/",
    "tcsh": "d",
    "fish": "(__fish_complete_directories)",
}


def described_options(name: str, dests: Sequence[str] | None) -> dict[str, Any]:
    """A subcommand's, or a script's, description and these of its options by group, for the short help; None: all."""
    groups: dict[str, list[dict[str, str]]] = {}
    described_dests: set[str] = set()
    parsers = parsers_of(name)
    for parser in parsers:
        for group in parser._action_groups:
            for action in group._group_actions:
                is_shown = action.dest not in ("help", "do") and action.help != argparse.SUPPRESS
                if (action.dest in dests if dests is not None else is_shown) and action.dest not in described_dests:
                    described_dests.add(action.dest)
                    heading = "arguments" if group is parser._positionals else group.title or "options"
                    groups.setdefault(heading, []).extend(_entries(action, parser, name))
    if missing := set(dests or ()) - described_dests:
        raise ValueError(f"{name} has no {', '.join(sorted(missing))}")
    first = parsers[0]
    summary = SUBCOMMANDS.get(name) or " ".join((first.description or "").split())
    epilog = (first.epilog or "") if name in SMALL else ""
    return {"description": f"{summary[:1].upper()}{summary[1:].removesuffix('.')}.", "groups": groups, "epilog": epilog}


def _entries(action: argparse.Action, parser: argparse.ArgumentParser, name: str) -> list[dict[str, str]]:
    """An option, or the subcommands of a subcommand, with their help."""
    if isinstance(action, argparse._SubParsersAction):
        return [{"names": subcommand.dest, "help": subcommand.help or ""} for subcommand in action._choices_actions]
    words = parser._get_formatter()._expand_help(action) if action.help else ""
    return [{"names": _names(action), "help": words}]


def _names(action: argparse.Action) -> str:
    """``-b, --benchmark_file SPEC``."""
    choices = "{" + ",".join(map(str, action.choices)) + "}" if action.choices else ""
    value = "" if action.nargs == 0 else str(action.metavar or choices or action.dest.upper())
    return f"{', '.join(action.option_strings)} {value}".strip()
