"""The reporters that a command line asks for."""

import os
from collections.abc import Sequence
from pkgutil import resolve_name

from opduel.records import UsageError
from opduel.reporters.base import Reporter
from opduel.reporters.notifier import Notifier
from opduel.reporters.options import OPTIONS, UNVERIFIED, ReporterOptions
from opduel.reporters.screen import ScreenReporter
from opduel.reporters.simple_screen import JsonReporter, SimpleScreenReporter

_ON_STANDARD_OUTPUT = (ScreenReporter, SimpleScreenReporter, JsonReporter)


def chosen_reporters(options: ReporterOptions, terminal: bool) -> list[Reporter]:
    """Return the reporters that ``options`` ask for, in the order of their options.

    The screen reporter is added on a terminal if none of them writes to standard output; elsewhere, if there would be
    none at all. Raises UsageError: an option's argument is empty or wrong, two would write one file, or a switch has no
    effect.
    """
    places = dict.fromkeys(option.reporter for option in OPTIONS if option.is_given(options))
    kinds = [resolve_name(f"opduel.reporters.{place}") for place in places]
    chosen = [reporter for kind in kinds for reporter in kind.from_options(options)]
    _check(chosen)
    if options.notify_unverified and not any(isinstance(reporter, Notifier) for reporter in chosen):
        raise UsageError(f"--{UNVERIFIED}: goes with --notify_command or --notify_webhook: add one, or leave it out")
    prints = any(isinstance(reporter, _ON_STANDARD_OUTPUT) for reporter in chosen)
    if (terminal and not prints) or all(isinstance(reporter, Notifier) for reporter in chosen):
        chosen.insert(0, ScreenReporter())
    return chosen


def _check(reporters: Sequence[Reporter]) -> None:
    """Check that no reporter replaces what another one wrote, and that nothing else is printed beside JSON. Raises
    UsageError: two options exclude each other."""
    paths: set[str] = set()
    for reporter in reporters:
        for file in reporter.files():
            place = os.path.realpath(file)
            if place in paths:
                raise UsageError(f"--{reporter.option}: {file} is given twice: the second would replace the first")
            paths.add(place)
    json = JsonReporter.option
    printing = [reporter.option for reporter in reporters if isinstance(reporter, _ON_STANDARD_OUTPUT)]
    printing += [reporter.option for reporter in reporters if reporter.option == "github"]
    if json in printing and len(printing) > 1:
        other = next(option for option in printing if option != json)
        raise UsageError(f"--{json}: --{other} prints on standard output, too: leave one of the two out")
