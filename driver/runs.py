"""Runs that are made once: journalled round by round, reported exactly once, and never lost."""

import hashlib
import logging
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from itertools import count
from math import inf
from typing import Protocol

from opduel.driver.journal import RUN, Journal, Rounds
from opduel.records import FLAGGED, Build, Report, RunError, RunRecord, UsageError
from opduel.records.outbox import Attempt, Entry

TRIES = 3  # of a measurement that could not be trusted
BUDGETS = 3  # time budgets of one run, from its first test on, as long as a case that looks changed is not settled
MOST_NAMED = 5

log = logging.getLogger(__name__)


@dataclass(frozen=True)
class RunOrder:
    """One run to make. ``cases``: ids, None for all of the spec; ``log``: where its rounds are kept. ``budgets``: how
    many time budgets it may take, all starts together; from the second one on suspects alone are measured. ``branch``:
    the one that it is made for, if that is known. ``replicates``: the report of the benchmark of both builds whose
    flagged ``cases`` are measured again."""

    control: Build
    treatment: Build
    cases: Sequence[str] | None
    run_type: str
    seed: int
    log: Rounds
    budgets: int = 1
    branch: str | None = None
    replicates: Report | None = None


class NotSettled(RunError):
    """A run's time budget ended before a case that looks changed was settled. ``report`` is what there is of it; the
    next pass measures on."""

    def __init__(self, report: Report, text: str) -> None:
        super().__init__(text)
        self.report = report


class Harness(Protocol):
    """What measures and what reports: packages that the driver does not import."""

    def measure(self, order: RunOrder) -> Report:
        """Make the run, from its kept rounds on."""

    def measure_ahead(self, order: RunOrder, rank: int, is_given_up: Callable[[], bool]) -> Report | None:
        """Make a run that will probably be ordered, on hosts that have nothing else to do: its rounds and reports of
        hosts are in its log then. Of several the one with the lowest ``rank`` goes first. None if it is not made.
        Raises KeyboardInterrupt: it was given up."""

    def replicate(self, first: Report, second: Report) -> Report:
        """The first report, of which only what the second one replicates stays flagged or failed."""

    @property
    def hosts(self) -> int:
        """How many hosts measure at the same time."""

    def dump(self, report: Report) -> str:
        """The report as a text."""

    def parse(self, text: str) -> Report:
        """The report that ``dump`` wrote; UsageError if it is none."""

    def tell(self, report: Report) -> None:
        """Tell every reporter; those on disk take a report that they have already, without a second copy."""


class Runs:
    """Makes runs by name: one that was finished is answered from the journal."""

    def __init__(
        self,
        journal: Journal,
        harness: Harness,
        retry_after_s: float,
        sleep: Callable[[float], None] = time.sleep,
    ) -> None:
        """``retry_after_s``: the pause before a run that could not be trusted is made again."""
        self._journal = journal
        self._harness = harness
        self._retry_after_s = retry_after_s
        self._sleep = sleep

    def make(
        self,
        name: str,
        run_type: str,
        control: Build,
        treatment: Build,
        cases: Sequence[str] | None = None,
        branch: str | None = None,
        replicates: Report | None = None,
    ) -> Report:
        """The run's report. One of which a change, or all verdicts, were held back, or whose A/A checks found a
        difference, is made again, ``TRIES`` times in all. One that leaves a case open that looks changed gets another
        time budget at the next call, ``BUDGETS`` in all, and more as long as no case has come to its first test.

        Raises:
            NotSettled: it is to have another time budget; what was measured is kept and told.
            KeyboardInterrupt: a signal ended it; what was measured is kept, and the same run goes on from there.
            RunError: nothing could be measured, or a report could not be written.
        """
        for attempt in count(1):
            one = name if attempt == 1 else f"{name}/try-{attempt}"
            order = self._order(one, run_type, control, treatment, cases, branch, replicates)
            kept = self._finished(one)
            if kept is not None:
                log.info("%s", _measured_before(order, kept))
            report = kept or self._measure(one, attempt, order)
            self.deliver_all()
            if report.run.continues:
                raise NotSettled(report, f"{open_words(report)}; the next pass continues")
            if attempt == TRIES or not (report.withholds(*FLAGGED) or report.is_biased):
                return report
        raise AssertionError("count() has no end")

    def measure_ahead(
        self,
        name: str,
        run_type: str,
        control: Build,
        treatment: Build,
        cases: Sequence[str] | None,
        branch: str | None,
        rank: int,
        is_given_up: Callable[[], bool],
    ) -> Report | None:
        """Measure what ``make`` will probably be asked for, so that it has only to be reported then; of several runs
        the one with the lowest ``rank`` goes first.

        Returns None if that can't be measured ahead. Raises KeyboardInterrupt: it was given up. RunError: as ``make``.
        """
        if (kept := self._finished(name)) is not None:
            return kept
        order = self._order(name, run_type, control, treatment, cases, branch, None)
        return self._harness.measure_ahead(order, rank, is_given_up)

    @property
    def hosts(self) -> int:
        """How many hosts measure at the same time."""
        return self._harness.hosts

    def _order(
        self,
        name: str,
        run_type: str,
        control: Build,
        treatment: Build,
        cases: Sequence[str] | None,
        branch: str | None,
        replicates: Report | None,
    ) -> RunOrder:
        budgets = 1 + len(self._journal.runs(f"{name}/open-"))
        rounds = self._journal.rounds_of(name)
        return RunOrder(control, treatment, cases, run_type, _seed(name), rounds, budgets, branch, replicates)

    def _measure(self, name: str, attempt: int, order: RunOrder) -> Report:
        if attempt > 1 and not order.log.rounds():
            log.warning("the host was disturbed; repeating the run in %g s", self._retry_after_s)
            self._sleep(self._retry_after_s)
        try:
            report = self._harness.measure(order)
        except RunError:  # nothing was measured; with the rounds that led there the next start would give up as soon
            self._journal.forget_run(name)
            raise
        if report.run.interrupted:
            raise KeyboardInterrupt(str(report.run.stop_reason))
        if report.run.aborted:  # kept and told, but the next start repeats the run
            self._journal.finish_run(f"{name}/broken-{report.run.id}", self._harness.dump(report))
            self._journal.forget_run(name)
        elif report.is_open and self._gets_more(name, report, order.budgets):
            # Reported under an id of its own, for the run's own is that of its last report.
            record = RunRecord(report.run, id=f"{report.run.id}-open-{order.budgets}", continues=True)
            report = replace(report, run=record)
            self._journal.finish_run(f"{name}/open-{order.budgets}", self._harness.dump(report))
        else:
            if report.is_open:
                text = f"{name}: {open_words(report)}, after {order.budgets} time budgets; continuing"
                log.warning("%s", text)
                self._journal.note("not settled", text)
            self._journal.finish_run(name, self._harness.dump(report))
        return report

    def _gets_more(self, name: str, report: Report, budgets: int) -> bool:
        """Whether an open run gets another time budget, after so many: ``BUDGETS`` in all, but those whose rounds only
        led towards the first test of a case don't count."""
        earlier = [one for number in range(1, budgets) if (one := self._finished(f"{name}/open-{number}"))]
        before = max((one.run.rounds or 0 for one in earlier), default=0)
        if report.nothing_compared and (report.run.rounds or 0) > before:
            return True
        counted = budgets if report.nothing_compared else 1 + sum(not one.nothing_compared for one in earlier)
        return counted < BUDGETS

    def replicate(self, first: Report, second: Report) -> Report:
        """The first report, of which only what the second one replicates stays flagged or failed."""
        return self._harness.replicate(first, second)

    def reports(self, prefix: str) -> tuple[Report, ...]:
        """The reports of the finished runs whose names begin so."""
        reports = map(self._finished, self._journal.runs(prefix))
        return tuple(report for report in reports if report is not None)

    def forget(self, prefix: str) -> None:
        """Let all go whose names begin so: runs, finished or begun, will be made again, and facts asked for again."""
        for run in self._journal.runs(prefix):
            self._journal.forget_run(run)
        self._journal.forget_facts(prefix)

    def forget_begun(self, prefix: str) -> None:
        """Let those go whose names begin so and that were begun, but never finished."""
        for run in self._journal.runs(prefix):
            if self._journal.report(run) is None:
                self._journal.forget_run(run)

    def deliver_all(self) -> None:
        """Tell of every finished run that was not told yet, in the order in which they were finished."""

        def attempt(entry: Entry, _: bytes) -> Attempt:
            report = self._finished(entry.key)
            if report is not None:
                self._harness.tell(report)
            return Attempt("delivered")

        outbox = self._journal.outbox
        for delivery in outbox.deliver(outbox.entries(RUN), attempt, longest_s=inf):
            log.debug("%s: %s", delivery.entry.key, delivery.state)

    def _finished(self, name: str) -> Report | None:
        """The report of a run that was finished; one that can't be read is put aside, and the run is made again."""
        text = self._journal.report(name)
        try:
            return None if text is None else self._harness.parse(text)
        except UsageError as error:
            self._journal.put_aside_report(name, str(error))
            return None


def open_words(report: Report) -> str:
    """What a run's time budget was too short for."""
    cases = [one.case for one in report.open_suspects]
    if not cases:
        return "the time budget ended before any case was tested"
    more = f" and {len(cases) - MOST_NAMED} more" if len(cases) > MOST_NAMED else ""
    return f"{', '.join(cases[:MOST_NAMED])}{more} looked changed when the time budget ended, and is not settled"


def _measured_before(order: RunOrder, report: Report) -> str:
    """That a run is answered from the journal, whether it was complete then, and how to have it made again."""
    whole = f"not complete: {report.run.stop_reason}" if report.run.is_cut_short else "complete"
    return (
        f"{order.run_type} of {order.control.requested} and {order.treatment.requested}: was measured at "
        f"{report.run.started or 'an earlier time'} ({whole}), and is not measured again: --again does that"
    )


def _seed(name: str) -> int:
    """Of 32 bits: the same for a run that is resumed, another for every run."""
    return int.from_bytes(hashlib.sha256(name.encode()).digest()[:4], "big")
