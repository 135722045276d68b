"""The reporters there are, and their command-line options."""

import argparse

from records import UsageError
from reporters.base import Reporter
from reporters.local import LocalReporter
from reporters.screen import ScreenReporter
from reporters.simple_local import SimpleLocalReporter
from reporters.simple_screen import SimpleScreenReporter

REPORTERS: tuple[type[Reporter], ...] = (
    ScreenReporter,
    SimpleScreenReporter,
    LocalReporter,
    SimpleLocalReporter,
)


def add_reporter_options(parser: argparse.ArgumentParser) -> None:
    """Add every reporter's option to ``parser``."""
    group = parser.add_argument_group("reporters", "who is told; several may be given")
    for reporter in REPORTERS:
        if reporter.metavar is None:
            group.add_argument(f"--{reporter.option}", action="store_true", help=reporter.help)
        else:
            group.add_argument(f"--{reporter.option}", metavar=reporter.metavar, help=reporter.help)


def chosen_reporters(options: argparse.Namespace, terminal: bool) -> list[Reporter]:
    """The reporters that ``options`` ask for, in the registry's order.

    When none that writes to standard output was asked for, the screen reporter is added on a terminal; elsewhere
    the simple screen reporter is, if there would be none at all: no run ends without a word.

    Raises:
        UsageError: an option's argument is empty.
    """
    chosen = [
        _from_option(kind, options) for kind in REPORTERS if getattr(options, kind.option, None) not in (None, False)
    ]
    if terminal and not any(isinstance(one, ScreenReporter | SimpleScreenReporter) for one in chosen):
        chosen.insert(0, ScreenReporter())
    return chosen or [SimpleScreenReporter()]


def _from_option(kind: type[Reporter], options: argparse.Namespace) -> Reporter:
    value = getattr(options, kind.option)
    if kind.metavar is None:
        return kind.from_option(None)
    if not str(value).strip():
        raise UsageError(f"--{kind.option} needs a {kind.metavar}, and got an empty one")
    return kind.from_option(str(value))
