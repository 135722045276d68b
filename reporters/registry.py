"""All reporters, ours and those of other packages, and their command-line options."""

import argparse
import logging
import os
from collections.abc import Sequence
from functools import cache
from importlib.metadata import entry_points

from opduel.records import UsageError
from opduel.reporters.base import Reporter
from opduel.reporters.export import ExportReporter, HtmlReporter
from opduel.reporters.github import GithubReporter
from opduel.reporters.gitlab import GitlabReporter
from opduel.reporters.local import LocalReporter, SimpleLocalReporter
from opduel.reporters.notifier import UNVERIFIED, Notifier
from opduel.reporters.notify_command import NotifyCommand
from opduel.reporters.notify_webhook import NotifyWebhook
from opduel.reporters.remote import RemoteReporter
from opduel.reporters.screen import ScreenReporter
from opduel.reporters.simple_screen import JsonReporter, SimpleScreenReporter
from opduel.support.text import one_line

REPORTERS: tuple[type[Reporter], ...] = (
    ScreenReporter,
    SimpleScreenReporter,
    JsonReporter,
    LocalReporter,
    SimpleLocalReporter,
    HtmlReporter,
    ExportReporter,
    RemoteReporter,
    GithubReporter,
    GitlabReporter,
    NotifyCommand,
    NotifyWebhook,
)

GROUP = "opduel.reporters"  # the entry points of other packages
log = logging.getLogger(__name__)
ON_STANDARD_OUTPUT = (ScreenReporter, SimpleScreenReporter, JsonReporter)


@cache
def all_reporters() -> tuple[type[Reporter], ...]:
    """Return our reporters, and those of other installed packages. One that can't be loaded is left out, with a
    warning."""
    reporters = list(REPORTERS)
    for point in entry_points(group=GROUP):
        try:
            reporter = point.load()
            if not (isinstance(reporter, type) and issubclass(reporter, Reporter)):
                raise TypeError(f"{point.value} is not a subclass of Reporter")
            if reporter.option in {reporter.option for reporter in reporters}:
                raise ValueError(f"the option --{reporter.option} already exists")
        except Exception as error:  # whatever that package does when it is imported
            package = point.dist.name if point.dist else point.value
            words = f"not available ({one_line(str(error))}): repair the package {package}, or uninstall it"
            log.warning("reporter %s: %s", point.name, words)
        else:
            reporters.append(reporter)
    return tuple(reporters)


def add_reporter_options(parser: argparse.ArgumentParser) -> None:
    """Add every reporter's option to ``parser``."""
    group = parser.add_argument_group("reporters", "where results go; several may be given")
    for reporter in all_reporters():
        reporter.add_options(group)


def reporter_options() -> frozenset[str]:
    """Return the names of all reporters' options in the parsed namespace."""
    parser = argparse.ArgumentParser(add_help=False)
    add_reporter_options(parser)
    return frozenset(vars(parser.parse_args([])))


def chosen_reporters(options: argparse.Namespace, terminal: bool) -> list[Reporter]:
    """Return the reporters that ``options`` ask for, in the registry's order.

    If none of them writes to standard output, the screen reporter is added on a terminal; elsewhere the simple screen
    reporter is added if there would be none at all.

    Raises:
        UsageError: an option's argument is empty or wrong, two would write one file, or a switch has no effect.
    """
    chosen = [reporter for kind in all_reporters() for reporter in kind.from_options(options)]
    _check(chosen)
    if getattr(options, UNVERIFIED, False) and not any(isinstance(reporter, Notifier) for reporter in chosen):
        raise UsageError(f"--{UNVERIFIED}: goes with --notify_command or --notify_webhook: add one, or leave it out")
    if terminal and not any(isinstance(reporter, ON_STANDARD_OUTPUT) for reporter in chosen):
        chosen.insert(0, ScreenReporter())
    if all(isinstance(reporter, Notifier) for reporter in chosen):
        chosen.insert(0, SimpleScreenReporter())
    return chosen


def _check(reporters: Sequence[Reporter]) -> None:
    """Check that no reporter replaces what another one wrote, and that nothing else is printed beside JSON.

    Raises:
        UsageError: two options exclude each other.
    """
    paths: set[str] = set()
    for reporter in reporters:
        for file in reporter.files():
            place = os.path.realpath(file)
            if place in paths:
                raise UsageError(f"--{reporter.option}: {file} is given twice: the second would replace the first")
            paths.add(place)
    options = [reporter.option for reporter in reporters if isinstance(reporter, (*ON_STANDARD_OUTPUT, GithubReporter))]
    if JsonReporter.option in options and len(options) > 1:
        other = next(option for option in options if option != JsonReporter.option)
        raise UsageError(f"--{JsonReporter.option}: --{other} prints on standard output, too: leave one of the two out")
