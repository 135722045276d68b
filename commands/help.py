"""The help of subcommands and scripts, from their parsers: the most used options, or all."""

import argparse
import shutil
import textwrap
from collections.abc import Iterator

from opduel.commands.options import Parser
from opduel.commands.subcommands import COMMANDS, SCRIPTS
from opduel.support.command_names import named_for


def parsers_of(name: str) -> list[Parser]:
    """Return the parsers of the options of a subcommand, or of a script, which name commands as for its user."""
    with named_for(name):
        parsers = [make() for make in COMMANDS[name].parsers]
    for action in (action for parser in parsers for action in parser._actions):
        action.help = COMMANDS[name].own_help.get(action.dest, action.help)
    return parsers


def merged_parser(name: str) -> Parser:
    """Return one parser with all options of a subcommand, in its words; of two of one name, the driver's."""
    first, *further_parsers = parsers_of(name)
    first.prog = name if name in SCRIPTS else f"opduel {name}"
    for group in (group for parser in further_parsers for group in parser._action_groups):
        ours = first.add_argument_group(group.title, group.description)
        for action in group._group_actions:
            if not set(action.option_strings) & set(first._option_string_actions):
                ours._add_action(action)
    return first


def all_help(name: str) -> str:
    """Return the help with all options."""
    parser = merged_parser(name)
    if COMMANDS[name].takes_run_options and name not in SCRIPTS:
        parser.usage = "%(prog)s [OPTIONS]"
    return parser.format_help()


def short_help(name: str) -> str:
    """Return the help with the most used options, as wide as the terminal."""
    command, width = COMMANDS[name], max(40, min(shutil.get_terminal_size().columns, 120) - 2)
    program = name if name in SCRIPTS else f"opduel {name}"
    description = f"{command.summary[:1].upper()}{command.summary[1:].removesuffix('.')}."
    lines = [f"Usage: {program} {command.usage}", "", *textwrap.wrap(description, width), ""]
    parsers = parsers_of(name)
    for heading, entries in _entries_by_heading(parsers, command.main_options).items():
        lines.append(f"{heading[:1].upper()}{heading[1:]}:")
        for names, words in entries:
            lines += _option_lines(names, words, width)
        lines.append("")
    if command.main_options is None and parsers[0].epilog:
        lines += [*parsers[0].epilog.splitlines(), ""]
    if command.main_options is not None:
        lines.append(f"All options: {program} --help-all")
    return "\n".join(lines).rstrip() + "\n"


def _entries_by_heading(parsers: list[Parser], main_options: str | None) -> dict[str, list[tuple[str, str]]]:
    """Return the main options (None: all), each with its help, by the headings of their groups."""
    entries_by_heading: dict[str, list[tuple[str, str]]] = {}
    described = {"help"}
    for parser in parsers:
        for group in parser._action_groups:
            heading = "arguments" if group is parser._positionals else group.title or "options"
            for action in group._group_actions:
                is_shown = action.help != argparse.SUPPRESS
                is_listed = is_shown if main_options is None else action.dest in main_options.split()
                if is_listed and action.dest not in described:
                    described.add(action.dest)
                    entries_by_heading.setdefault(heading, []).extend(_entries(action, parser))
    return entries_by_heading


def _entries(action: argparse.Action, parser: Parser) -> Iterator[tuple[str, str]]:
    """Yield an option, or the subcommands of a subcommand, with their help."""
    if isinstance(action, argparse._SubParsersAction):
        yield from ((subcommand.dest, subcommand.help or "") for subcommand in action._choices_actions)
        return
    choices = "{" + ",".join(map(str, action.choices)) + "}" if action.choices else ""
    metavar = " ".join(action.metavar) if isinstance(action.metavar, tuple) else action.metavar
    value = "" if action.nargs == 0 else str(metavar or choices or action.dest.upper())
    yield f"{', '.join(action.option_strings)} {value}".strip(), parser._get_formatter()._expand_help(action)


def _option_lines(names: str, words: str, width: int) -> list[str]:
    """Return an option's names, and its help beside or below them."""
    indent = " " * 32
    text = textwrap.wrap(words, width, initial_indent=indent, subsequent_indent=indent, break_on_hyphens=False)
    beside = f"  {names}"
    if len(beside) < len(indent) - 1 and text:
        return [beside.ljust(len(indent)) + text[0].lstrip(), *text[1:]]
    return [beside, *text]
