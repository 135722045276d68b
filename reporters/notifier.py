"""The base of the notifiers, which notify only of runs in which something confirmed got worse."""

from abc import abstractmethod
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import replace
from typing import ClassVar, Self

from opduel.records import Report
from opduel.reporters.alert_text import headline
from opduel.reporters.alerts import Alert, alert_of, worth_alerting
from opduel.reporters.base import Reporter
from opduel.reporters.options import UNVERIFIED, ReporterOptions


class Notifier(Reporter):
    """Sends an alert somewhere; a run without one sends nothing."""

    whole_runs_only: ClassVar[bool] = True
    unverified = False  # whether regressions that were measured only once are reported, too

    @classmethod
    def from_options(cls, options: ReporterOptions) -> list[Self]:
        """Return the notifiers, as every reporter does; read ``--notify_unverified``, too."""
        notifiers = super().from_options(options)
        for notifier in notifiers:
            notifier.unverified = options.notify_unverified
        return notifiers

    def report(self, report: Report) -> str | None:
        """Send the run's alarm, if there is one; return a line that says so."""
        alert = alert_of(report, self.unverified)
        if alert is not None:
            places, pages = places_of(self.other_reporters, report), pages_of(self.other_reporters, report)
            self.send(replace(alert, places=tuple(places), pages=tuple(pages)))
            return f"notified (--{self.option}): {headline(alert)}"
        measured_once = len(worth_alerting(report, unverified=True))
        if measured_once:
            fix = f"add --verify, or --{UNVERIFIED}"
            return f"not notified (--{self.option}): {measured_once} regressed, not verified: {fix}"
        return None

    @abstractmethod
    def send(self, alert: Alert) -> None:
        """Send it. Raises RunError: it could not be sent; the text has no secret in it."""


def pages_of(reporters: Sequence[Reporter], report: Report) -> list[str]:
    """Return the addresses of pages that show the report, from all reporters that delivered it."""
    return list(dict.fromkeys(page for reporter in reporters if (page := reporter.page(report))))


def places_of(reporters: Sequence[Reporter], report: Report) -> list[str]:
    """Return the paths and addresses of the report, from all reporters that delivered it."""
    places = []
    for reporter in reporters:
        with suppress(OSError):  # a folder that has gone costs nobody a notification
            places.append(reporter.where(report))
    return list(dict.fromkeys(place for place in places if place))
