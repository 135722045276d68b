"""The remote reporter: posts the report to a results server, from a spool on disk, so that none is lost."""

import contextlib
import json
import logging
import os
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import ClassVar, Self

from opduel.records import Report, RunError, UsageError
from opduel.reporters.base import PartlyReportedError, Reporter
from opduel.reporters.document import to_bytes
from opduel.reporters.options import ReporterOptions
from opduel.reporters.remote.delivery import Sender
from opduel.reporters.remote.place import Place, is_open, origin, parse_place
from opduel.reporters.remote.spool import Spool, default_spool, endpoint_of, place_of
from opduel.reporters.remote.token import Token, find_token
from opduel.support.atomic import check_folder, user_path
from opduel.support.command_names import command_name
from opduel.support.outbox import Delivery

log = logging.getLogger(__name__)


class RemoteReporter(Reporter, option="remote_reporter"):
    """Posts the report to ``place``, and whatever else waits for the same endpoint."""

    whole_runs_only: ClassVar[bool] = True

    def __init__(self, place: Place, sender: Sender) -> None:
        """``sender`` has the token and the spool."""
        self.place = place
        self.sender = sender
        self._pages: dict[str, str] = {}  # by run

    @classmethod
    def from_options(cls, options: ReporterOptions) -> list[Self]:
        """Return a reporter for each place that the options name. Raises UsageError: a place or the token is invalid,
        there is a token and no place or several servers, or a server would get a run twice."""
        if not options.remote_reporter:
            reads = "://" in (options.prior_runs or "")  # from a server, with the token
            for name in ("spool",) if reads else ("remote_access_token", "remote_access_token_file", "spool"):
                if getattr(options, name) is not None:
                    raise UsageError(f"--{name}: goes with --{cls.option}: add that, or leave it out")
            return []
        places: dict[str, Place] = {}
        for place in map(parse_place, options.remote_reporter):
            if places.setdefault(place.endpoint, place) != place:
                other = places[place.endpoint].category
                raise UsageError(
                    f"--{cls.option} {place.endpoint}: a server keeps a run under one category: "
                    f"leave {place.category!r} or {other!r} out"
                )
        sender = sender_from(options, os.environ)
        if sender.token is not None and len(set(map(origin, places))) > 1:
            raise UsageError(
                f"--{cls.option}: a token ({sender.token.where}) is for one server, and these are several "
                f"({', '.join(places)}): leave others out, and send them the report with {command_name('send')}"
            )
        return [cls(place, sender) for place in places.values()]

    def check(self) -> None:
        """Check that the spool can be written, and warn of a token that others on the network path can read."""
        with contextlib.suppress(OSError):  # of which the next line tells
            self.sender.spool.prepare()
        check_folder(self.sender.spool.directory, "spool")
        warn_of_open_token(self.place.endpoint, self.sender.token)

    def report(self, report: Report) -> str:
        """Keep the report in the spool, send it and what else waits for this endpoint, and return what happened."""
        sender = self.sender
        self.keep(report)
        endpoint, folder = self.place.endpoint, sender.spool.directory
        outcomes = sender.deliver([endpoint])
        key = report.run.id, self.place
        own = next((outcome for outcome in outcomes if (outcome.entry.key, place_of(outcome.entry)) == key), None)
        if own is not None and own.page:
            self._pages[own.entry.key] = own.page
        if own is None or own.state == "sent":  # of which nothing is left, that another process has sent
            other_outcomes = [outcome for outcome in outcomes if outcome is not own]
            return f"sent: {endpoint} ({self.place.category}){_describe_others(other_outcomes)}"
        if own.state == "waiting":
            details = f"{own.reason}; {_waiting(outcomes)} in {folder}"
            later = f"the next run with this reporter sends what waits, and so does {command_name('flush')}"
            raise RunError(f"{endpoint}: {details}: {later}")
        if own.state == "refused":
            again = f"{command_name('flush')} --retry_refused sends it again"
            raise RunError(f"{endpoint} refuses the report: {own.reason}; it is kept in {folder}, and {again}")
        raise RunError(f"{endpoint}: nothing was sent, the report in the spool is {own.state}: {own.reason}")

    def page(self, report: Report) -> str | None:
        """Return the run's page on the server, if the server named one."""
        return self._pages.get(str(report.run.id))

    def catch_up(self) -> str | None:
        """Send what waits for this endpoint; reports that were refused before are not mentioned again."""
        endpoint, sender = self.place.endpoint, self.sender
        entries = [entry for entry in sender.spool.entries() if endpoint_of(entry.receiver) == endpoint]
        waiting = {entry.number for entry in entries if entry.state == "waiting"}
        if not waiting:
            return None
        outcomes = [outcome for outcome in sender.deliver([endpoint]) if outcome.entry.number in waiting]
        sent = sum(outcome.state == "sent" for outcome in outcomes)
        line = f"sent: {endpoint}: {sent} that waited" if sent else None
        unsent = next((outcome for outcome in outcomes if outcome.state != "sent"), None)
        if unsent is None:
            return line
        why = f"{endpoint}: {unsent.reason}; {len(outcomes) - sent} of {len(outcomes)} that waited could not be sent"
        raise PartlyReportedError(line, why) if line else RunError(why)

    def keep(self, report: Report) -> None:
        """Keep the report in the spool, to be sent with what waits there. Raises RunError: it can't be kept."""
        if not report.run.id:
            raise RunError("the report has no run id, which a server needs")
        try:
            self.sender.spool.keep(self.place, report.run.id, to_body(report, self.place.category))
        except OSError as error:
            raise RunError(f"--spool {self.sender.spool.directory}: cannot be written ({error.strerror})") from None


def sender_from(options: ReporterOptions, environment: Mapping[str, str]) -> Sender:
    """Return a sender with the token and the spool that the options name. Raises UsageError: the token is invalid, or
    its file can't be read."""
    token = find_token(options.remote_access_token, options.remote_access_token_file, environment)
    return Sender(Spool(user_path(options.spool, "--spool") if options.spool else default_spool()), token)


def warn_of_open_token(endpoint: str, token: Token | None) -> None:
    """Say that others can read the token on its way, if they can."""
    if token is not None and is_open(endpoint):
        log.warning("--remote_reporter %s: without https, anybody on the network path can read the token", endpoint)


def to_body(report: Report, category: str) -> bytes:
    """Return what is posted: the category and the report's document, with all numbers unchanged."""
    posted = {"category": category, "report": json.loads(to_bytes(report))}
    return json.dumps(posted, ensure_ascii=False, allow_nan=False, separators=(",", ":")).encode("utf-8")


def _waiting(outcomes: Sequence[Delivery]) -> str:
    count = sum(outcome.state == "waiting" for outcome in outcomes)
    return "1 report waits" if count == 1 else f"{count} reports wait"


def _describe_others(outcomes: Sequence[Delivery]) -> str:
    """Return what happened to the other reports, in half a line; empty if there are none."""
    count = Counter(outcome.state for outcome in outcomes)
    words = [f"; {count['sent']} that waited, too"] if count["sent"] else []
    words += [f"; {_waiting(outcomes)}"] if count["waiting"] else []
    words += [f"; {count['refused']} refused, see {command_name('flush')}"] if count["refused"] else []
    bad = [outcome for outcome in outcomes if outcome.state in ("damaged", "expired")]
    words += [f"; {bad[0].entry.key} is {bad[0].state}, see {command_name('flush')}"] if bad else []
    return "".join(words)
