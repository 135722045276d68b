"""The help of subcommands and scripts, from their parsers: the most used options, or all."""

import argparse

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
    if not COMMANDS[name].takes_run_options:
        return short_help(name)
    parser = merged_parser(name)
    if name not in SCRIPTS:
        parser.usage = "%(prog)s [OPTIONS]"
    return parser.format_help()


def short_help(name: str) -> str:
    """Return the help with the most used options."""
    command, parser = COMMANDS[name], merged_parser(name)
    parser.usage = f"%(prog)s {command.usage}"
    parser.description = f"{command.summary[:1].upper()}{command.summary[1:].removesuffix('.')}."
    if command.main_options is not None:
        for action in parser._actions:
            if action.dest not in ("help", *command.main_options.split()):
                action.help = argparse.SUPPRESS
        parser.epilog = f"All options: {parser.prog} --help-all"
    return parser.format_help()
