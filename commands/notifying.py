"""Notifications of repo_driver.py: each culprit once, kept in the journal until it is delivered."""

import hashlib
import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from pydantic import TypeAdapter

from opduel.commands.driver_text import revision_line
from opduel.commands.entry import log
from opduel.comparator import replicate_report
from opduel.driver.culprit_code import changed_code_lines
from opduel.driver.journal import NOTICE, Journal
from opduel.driver.outcome import Culprit, Outcome
from opduel.records import Comparison, OpduelError, Report
from opduel.reporters import Reporter
from opduel.reporters.alerts import (
    Alert,
    Cause,
    Finding,
    alert_of,
    cause_of,
    finding_of,
    make_alert,
    side_words,
    worth_alerting,
)
from opduel.reporters.notifier import Notifier, pages_of, places_of
from opduel.reporters.summary import worst_first
from opduel.reporters.text import printable
from opduel.support.outbox import Attempt, Entry

TRACED = (
    "confirmed by a second measurement on fresh processes, and traced by bisection; the figures are each commit's own"
)
UNTRACED = "confirmed by a second measurement on fresh processes, but traced to no commit"
_ADAPTER: TypeAdapter[Alert] = TypeAdapter(Alert)


class Notifications:
    """Everything that the driver finds, sent by every notifier: once, even if this process is killed in between."""

    def __init__(self, journal: Journal, reporters: Sequence[Reporter], notifiers: Sequence[Reporter]) -> None:
        """``reporters`` say where reports lie; of ``notifiers`` those are used that are some."""
        self._journal = journal
        self._reporters = reporters
        self._notifiers: dict[str, Notifier] = {}
        for reporter in notifiers:
            if isinstance(reporter, Notifier):  # its name in the journal: the same whatever others there are
                before = sum(name.startswith(f"{reporter.option} ") for name in self._notifiers)
                self._notifiers[f"{reporter.option} {before}"] = reporter

    def report_outcome(self, outcome: Outcome, document: Path | None) -> None:
        """Send what is new in ``outcome``; ``document`` names the culprits."""
        if not self._notifiers:
            return
        unverified = any(notifier.unverified for notifier in self._notifiers.values())
        alert = self._without_reported(alert_of_outcome(outcome, unverified))
        if alert is not None:
            decisive = outcome.verification or outcome.benchmark
            places = [*places_of(self._reporters, decisive), *([str(document)] if document else [])]
            pages = pages_of(self._reporters, decisive)
            text = _ADAPTER.dump_json(replace(alert, places=tuple(places), pages=tuple(pages))).decode()
            keys = [key for cause in alert.causes for key in _keys(cause)]
            self._journal.queue_notice(alert.id, list(self._notifiers), text, keys)
        self.deliver()

    def queue(self, alert: Alert, reported: Sequence[str], removed: Sequence[str] = ()) -> None:
        """Send an alert about the driver itself; facts are kept and removed as by ``Journal.queue_notice``, also where
        nobody is to be notified."""
        text = _ADAPTER.dump_json(alert).decode()
        self._journal.queue_notice(alert.id, list(self._notifiers), text, reported, removed)
        self.deliver()

    def send_now(self, alert: Alert) -> None:
        """Send an alert without the journal; what can't be sent is logged, and lost."""
        for notifier in self._notifiers.values():
            if reason := _why_not_sent(notifier, alert):
                log.error("--%s failed: %s", notifier.option, reason)

    def deliver(self) -> None:
        """Send all that is waiting. What can't be sent is said, and tried again at the next pass."""

        def attempt(entry: Entry, payload: bytes) -> Attempt:
            try:
                alert = _ADAPTER.validate_json(payload)
            except ValueError as error:
                return Attempt("damaged", " ".join(str(error).split())[:200])
            reason = _why_not_sent(self._notifiers[entry.receiver], alert)
            return Attempt("failed" if reason else "delivered", reason)

        outbox = self._journal.outbox
        entries = [entry for entry in outbox.entries(NOTICE) if entry.receiver in self._notifiers]
        failed: set[str] = set()  # receivers that this was logged of
        for delivery in outbox.deliver(entries, attempt, remember=True):
            option = self._notifiers[delivery.entry.receiver].option
            if delivery.state == "damaged":
                self._journal.drop_notice(delivery.entry, delivery.reason)
            elif delivery.state == "sent":
                log.info("notified (--%s)", option)
            elif delivery.state == "expired":
                self._log_failure(f"--{option} failed: {delivery.reason}")
            elif delivery.entry.receiver not in failed:
                failed.add(delivery.entry.receiver)
                self._log_failure(f"--{option} failed: {delivery.reason}; the next run tries again")

    def _without_reported(self, alert: Alert | None) -> Alert | None:
        """The alert without what was reported before; None if nothing is left. Its id stands for what it reports."""
        if alert is None:
            return None
        causes = []
        for cause in alert.causes:
            facts = [(finding, self._journal.get_fact(_key(cause, finding))) for finding in cause.findings]
            if new_findings := [finding for finding, reported in facts if reported is None]:
                causes.append(cause_of(cause.key, cause.since, new_findings, cause.code))
        if not causes:
            return None
        digest = hashlib.sha256("\0".join(key for cause in causes for key in _keys(cause)).encode()).hexdigest()
        return replace(alert, id=digest[:16], causes=tuple(causes))

    def _log_failure(self, text: str) -> None:
        log.error("%s", text)
        self._journal.note("notification failed", text)


def alert_of_outcome(outcome: Outcome, unverified: bool = False) -> Alert | None:
    """The alert that one line gives: by culprit, where bisection was asked for and something confirmed."""
    report = verified_report(outcome)
    if outcome.culprits is None and not outcome.known_culprits:
        return alert_of(report, unverified)
    causes = list(_causes(outcome, report))
    sure = TRACED if outcome.culprits or outcome.known_culprits else UNTRACED
    return make_alert(report, causes, sure) if causes else None


def verified_report(outcome: Outcome) -> Report:
    """The benchmark, of which only what the verification found again stays flagged."""
    if outcome.verification is None:
        return outcome.benchmark
    return replicate_report(outcome.benchmark, outcome.verification)


def _causes(outcome: Outcome, report: Report) -> Iterator[Cause]:
    """Each culprit with the cases that it made worse, known ones first, then what was traced to none."""
    sure = {*outcome.confirmed, *(case for culprit in outcome.known_culprits for case in culprit.range.cases)}
    worse = {
        comparison.case: comparison
        for comparison in worst_first(report.comparisons)
        if comparison.is_worse and comparison.case in sure
    }
    worse |= {comparison.case: comparison for comparison in worth_alerting(report)}
    traced: set[str] = set()
    for guilty in (*outcome.known_culprits, *(outcome.culprits or ())):
        findings = [_finding(guilty, case, worse) for case in guilty.range.cases if case in worse]
        traced |= {finding.case for finding in findings}
        if findings:
            code = () if guilty.code is None else changed_code_lines(guilty.code)
            yield cause_of(_name_of(guilty), _since(guilty), findings, tuple(code))
    untraced = [finding_of(comparison) for case, comparison in worse.items() if case not in traced]
    if untraced:
        sides = side_words(report.control), side_words(report.treatment)
        key = f"{report.control.requested}..{report.treatment.requested}"
        yield cause_of(key, f"between {sides[0]} and {sides[1]} (traced to no commit)", untraced)


def _finding(guilty: Culprit, case: str, worse: Mapping[str, Comparison]) -> Finding:
    """With the figures of the culprit's own A/B."""
    change, finding = guilty.range.cases[case].change, replace(finding_of(worse[case]), again=None, q_value=None)
    if change is None:
        return finding
    return replace(finding, ratio=math.exp(change.estimate), ci=(math.exp(change.low), math.exp(change.high)))


def _name_of(guilty: Culprit) -> str:
    """The same for the same culprit, whatever line it was found in."""
    first, last = guilty.revisions[0], guilty.revisions[-1]
    return last.name if guilty.range.is_named else f"{first.name}..{last.name}"


def _since(guilty: Culprit) -> str:
    first, last = guilty.revisions[0], guilty.revisions[-1]
    if guilty.range.is_named:
        return f"since {printable(revision_line(last))}"
    return f"since one of {len(guilty.revisions) - 1} after {first.name} up to {printable(revision_line(last))}"


def _keys(cause: Cause) -> list[str]:
    return [_key(cause, finding) for finding in cause.findings]


def _key(cause: Cause, finding: Finding) -> str:
    """The name of the fact that this was reported."""
    return f"notified/{cause.key}/{finding.case}/{'broken' if finding.broken else 'regressed'}"


def _why_not_sent(notifier: Notifier, alert: Alert) -> str:
    """Empty if it was."""
    try:
        notifier.send(alert)
    except OpduelError as error:
        return str(error)
    except Exception as error:  # a notifier that is broken stops nothing else
        return type(error).__name__
    return ""
