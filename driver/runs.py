"""Make runs once: journalled round by round, reported exactly once, and never lost."""

import hashlib
import logging
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from math import inf
from typing import Protocol

from opduel.driver.journal import RUN, Journal, Rounds
from opduel.records import FLAGGED, Build, Report, RunError, UsageError, Verdict
from opduel.records.reach import Reach
from opduel.support.outbox import Attempt, Entry
from opduel.support.text import duration, listed

TRIES = 3  # of a measurement that could not be trusted
BUDGETS = 3  # time budgets of one run, from its first test on, as long as a case that looks changed is not settled
BENCHMARK = "benchmark"  # the run type of a line's first run

log = logging.getLogger(__name__)


@dataclass(frozen=True)
class RunOrder:
    """One run to make, by its unique ``name``.

    ``log`` keeps its rounds; ``cases`` are ids, None for all of the spec. ``budgets`` is the number of time budgets
    that it may take over all starts; from the second one on only suspects are measured, unless somebody waits for the
    benchmark's verdicts (``is_awaited``). ``branch`` is the one that it is made for, if known; ``replicates`` the
    benchmark's report whose flagged ``cases`` are measured again. ``earlier``: the report of the start that ended when
    its time budget did, and from whose rounds this one goes on, with a time budget of its own. ``explains``: whether
    the causes of its changes are looked for; None: as usual. ``sought``: the findings that are followed by a search.
    ``first_bad``: the verdicts, by case, with which the treatment is the first bad commit.
    """

    name: str
    run_type: str
    control: Build
    treatment: Build
    log: Rounds
    cases: Sequence[str] | None = None
    branch: str | None = None
    replicates: Report | None = None
    budgets: int = 1
    is_awaited: bool = False
    explains: bool | None = None
    earlier: Report | None = None
    sought: frozenset[Verdict] = frozenset()
    first_bad: Mapping[str, Verdict] = field(default_factory=dict)

    @property
    def suspects_only(self) -> bool:
        """Whether only cases that look changed are measured beyond their first look."""
        return self.budgets > 1 and not (self.is_awaited and self.run_type == BENCHMARK)

    @property
    def seed(self) -> int:
        """The 32-bit seed of the run, which stays the same when it is resumed."""
        return int.from_bytes(hashlib.sha256(self.name.encode()).digest()[:4], "big")


class NotSettled(RunError):
    """A run's time budget ended before all suspects were settled. ``report`` is the interim one; the next pass
    continues the run."""

    def __init__(self, report: Report, text: str) -> None:
        super().__init__(text)
        self.report = report


class Harness(Protocol):
    """Measures and reports: the seam to the packages that the driver does not import."""

    def measure(self, order: RunOrder) -> Report:
        """Make the run, resuming after the rounds in its log."""

    def measure_ahead(self, order: RunOrder, rank: int, is_given_up: Callable[[], bool]) -> Report | None:
        """Make a run that will probably be ordered, on idle hosts; its log then has its rounds and its hosts' reports.

        Of several runs the one with the lowest ``rank`` goes first. Return None if the run can't be made ahead. Raise
        KeyboardInterrupt if it was given up.
        """

    def reaches(self, order: RunOrder) -> Sequence[Mapping[str, Reach]] | None:
        """Return what each case of the order runs in the control, and in the treatment; None if nobody records it."""

    def replicate(self, first: Report, second: Report) -> Report:
        """Return the first report, in which only cases that the second one replicates stay flagged or failed."""

    @property
    def hosts(self) -> int:
        """How many hosts measure at the same time."""

    def dump(self, report: Report) -> str:
        """Return the report as text."""

    def parse(self, text: str) -> Report:
        """Return the report that ``dump`` wrote. Raise UsageError if the text is none."""

    def deliver(self, report: Report) -> None:
        """Give the report to every reporter. Those that write files may get a report twice; they keep one copy."""


class Runs:
    """Makes runs by name; a finished one is answered from the journal, or measured on (``_goes_on``)."""

    def __init__(
        self,
        journal: Journal,
        harness: Harness,
        retry_after_s: float,
        sleep: Callable[[float], None] = time.sleep,
        repeats: bool = True,
        is_awaited: bool = False,
        budget_s: float | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """``retry_after_s`` is the pause, in seconds, before an untrusted run is repeated; unless one call ``repeats``
        it, the next one does. ``is_awaited``: somebody waits for what comes of it, and there is no next pass; then all
        runs together take no more than ``budget_s`` each, in seconds."""
        self._repeats = repeats
        self.is_awaited = is_awaited
        self._budget_s, self._clock = budget_s, clock
        self._count, self._earlier_s, self._began = 0, 0.0, 0.0  # of runs; what earlier ones took; this one's start
        self._journal = journal
        self.harness = harness
        self._retry_after_s = retry_after_s
        self._sleep = sleep

    def make(self, order: RunOrder) -> Report:
        """Return the run's report.

        A run is repeated, ``TRIES`` times in all, if a change or all verdicts were held back, or an A/A check found a
        difference. A run that leaves a suspect open gets another time budget at the next call, ``BUDGETS`` in all, and
        more as long as no case has reached its first look; a step of a search that is awaited gets it at once, if
        earlier runs left so much of theirs, and is answered as it is otherwise. A benchmark that is awaited gets
        another at each call, as long as its time was too short to decide all cases; but where a search follows one
        that it has found, the search begins.

        Raises:
            NotSettled: the run is to have another time budget; its rounds are kept and its report delivered.
            KeyboardInterrupt: a signal ended the run; its rounds are kept, and the next call resumes it.
            RunError: nothing could be measured, or a report could not be written.
        """
        self._count, self._began = self._count + 1, self._clock()
        try:
            return self._make(order)
        finally:
            self._earlier_s += self._clock() - self._began

    def _make(self, order: RunOrder) -> Report:
        for name in (order.name, *(f"{order.name}/try-{number}" for number in range(2, TRIES + 1))):
            finished_report = self._finished(name)
            latest = self._named(order, name).earlier
            if self._is_found(order, latest):
                finished_report = latest
            elif finished_report is not None and self._goes_on(name, finished_report):
                finished_report = None
            if finished_report is not None:
                log.info("%s", _describe_finished(order, finished_report))
            report = finished_report or self._measure(self._named(order, name), is_repeat=name != order.name)
            while report.run.continues and order.run_type == "regress" and self.is_awaited:
                spare = f" of {duration(round(self._budget_s))}, which earlier runs left" if self._budget_s else ""
                log.info("%s: another time budget%s", describe_open(report), spare)
                report = self._measure(self._named(order, name), is_repeat=False)
            self.deliver_all()
            if report.run.continues and not self._is_found(order, report):
                is_last = self.is_awaited or not self._repeats
                again = "repeat the command to measure on" if is_last else "the next pass continues"
                says_how = report.run.forecast is not None and report.run.forecast.further is not None
                raise NotSettled(report, describe_open(report) + ("" if says_how else f"; {again}"))
            is_trusted = not (report.withholds(*FLAGGED) or report.is_biased)
            if is_trusted or not (self._repeats or finished_report):
                break
        return report

    def measure_ahead(self, order: RunOrder, rank: int, is_given_up: Callable[[], bool]) -> Report | None:
        """Measure a run that will probably be made, so that ``make`` only has to report it.

        Of several runs the one with the lowest ``rank`` goes first. Return None if the run can't be measured ahead.
        KeyboardInterrupt: the run was given up; RunError: nothing could be measured.
        """
        if (report := self._finished(order.name)) is not None:
            return report
        log.info("measuring ahead: %s against %s", order.treatment.requested, order.control.requested)
        return self.harness.measure_ahead(self._named(order, order.name), rank, is_given_up)

    def _named(self, order: RunOrder, name: str) -> RunOrder:
        """Return the order under that name, as far as its run has come."""
        open_runs = self._journal.runs(f"{name}/open-")
        log_of_run = self._journal.rounds_of(name)
        budgets, earlier = 1 + len(open_runs), [self._finished(run) for run in (name, *open_runs)]
        latest = max((report for report in earlier if report), key=_budget_of, default=None)
        return replace(order, name=name, log=log_of_run, budgets=budgets, is_awaited=self.is_awaited, earlier=latest)

    def _is_found(self, order: RunOrder, report: Report | None) -> bool:
        """Tell whether a benchmark that somebody waits for has found what a search follows."""
        findings = {comparison.finding for comparison in report.comparisons} if report and self.is_awaited else set()
        return not order.sought.isdisjoint(findings)

    def _goes_on(self, name: str, report: Report) -> bool:
        """Tell whether a finished run is measured on: a benchmark that somebody waits for, whose time was too short to
        decide every case, and whose rounds are still there."""
        is_short = report.run.is_cut_short and report.run.resumable and not report.run.aborted
        may_go_on = self.is_awaited and report.configuration.run_type == BENCHMARK and is_short and _needs_time(report)
        return may_go_on and bool(self._journal.rounds_of(name).rounds())

    def _measure(self, order: RunOrder, is_repeat: bool) -> Report:
        name = order.name
        if is_repeat and not order.log.rounds():
            log.warning("the host was disturbed; repeating the run in %g s", self._retry_after_s)
            self._sleep(self._retry_after_s)
        try:
            report = self.harness.measure(order)
        except RunError:  # nothing was measured; with its failed rounds in the log the next start would fail at once
            self._journal.forget_run(name)
            raise
        if report.run.interrupted:
            again = "; repeat the command to measure on" if report.run.resumable else ""
            raise KeyboardInterrupt(f"{report.run.stop_reason}{again}")
        if report.run.aborted:  # kept and reported, but the next start repeats the run
            self._journal.finish_run(f"{name}/broken-{report.run.id}", self.harness.dump(report))
            self._journal.forget_run(name)
        elif report.is_open and self._gets_more(order, report):
            # The interim report gets an id of its own, because the run's last report has the run's id.
            record = replace(report.run, id=f"{report.run.id}-open-{order.budgets}", continues=True)
            report = replace(report, run=record)
            self._journal.finish_run(f"{name}/open-{order.budgets}", self.harness.dump(report))
        else:
            if report.is_open:
                text = f"{name}: {describe_open(report)}, after {order.budgets} time budgets; continuing"
                log.warning("%s", text)
                self._journal.note("not settled", text)
            if self._journal.report(name) is not None:  # delivered when the run had come less far
                report = replace(report, run=replace(report.run, id=f"{report.run.id}-on-{len(report.run.resumed)}"))
            self._journal.finish_run(name, self.harness.dump(report), keeps_rounds=self.is_awaited)
        return report

    def _gets_more(self, order: RunOrder, report: Report) -> bool:
        """Tell whether an open run gets another time budget: there are ``BUDGETS`` in all, not counting those in which
        no case reached its first look. To a step that is awaited earlier runs must have left it."""
        if self.is_awaited and order.run_type == "regress" and not self._has_spare_budget():
            return False
        names = [f"{order.name}/open-{number}" for number in range(1, order.budgets)]
        earlier = [earlier_report for name in names if (earlier_report := self._finished(name))]
        if not report.nothing_compared:
            return 1 + sum(not earlier_report.nothing_compared for earlier_report in earlier) < BUDGETS
        before = max((earlier_report.run.rounds or 0 for earlier_report in earlier), default=0)
        return (report.run.rounds or 0) > before or order.budgets < BUDGETS

    def _has_spare_budget(self) -> bool:
        """Tell whether all runs until now together have left a time budget; True where none limits them."""
        budget_s = self._budget_s or 0.0
        spent_s = self._earlier_s + self._clock() - self._began
        return not budget_s or spent_s + budget_s <= self._count * budget_s

    def reports(self, prefix: str) -> tuple[Report, ...]:
        """Return the reports of the finished runs whose names start with the prefix."""
        reports = map(self._finished, self._journal.runs(prefix))
        return tuple(report for report in reports if report is not None)

    def forget(self, prefix: str) -> None:
        """Forget all runs and facts whose names start with the prefix, so that they are made again."""
        for run in self._journal.runs(prefix):
            self._journal.forget_run(run)
        self._journal.forget_facts(prefix)

    def forget_begun(self, prefix: str) -> None:
        """Forget unfinished runs whose names start with the prefix."""
        for run in self._journal.runs(prefix):
            if self._journal.report(run) is None:
                self._journal.forget_run(run)

    def deliver_all(self) -> None:
        """Deliver the reports of all finished runs that were not delivered yet, in the order in which they finished."""

        def attempt(entry: Entry, _: bytes) -> Attempt:
            report = self._finished(entry.key)
            if report is not None:
                self.harness.deliver(report)
            return Attempt("delivered")

        outbox = self._journal.outbox
        for delivery in outbox.deliver(outbox.entries(RUN), attempt, longest_s=inf):
            log.debug("%s: %s", delivery.entry.key, delivery.state)

    def _finished(self, name: str) -> Report | None:
        """Return the report of a finished run; drop it if it can't be read, so that the run is made again."""
        text = self._journal.report(name)
        try:
            return None if text is None else self.harness.parse(text)
        except UsageError as error:
            self._journal.drop_report(name, str(error))
            return None


def _budget_of(report: Report) -> float:
    """Return the seconds of all time budgets that a run has had."""
    return report.configuration.time_budget or 0.0


def _needs_time(report: Report) -> bool:
    """Tell whether more rounds could decide a case that is open, or let a verdict stand that load held back."""
    return any(
        comparison.forecast is not None or (comparison.held_back is not None and not report.is_biased)
        for comparison in report.comparisons
        if comparison.verdict == "inconclusive" or comparison.suspected is not None
    )


def describe_open(report: Report) -> str:
    """Describe the cases for which a run's time budget was too short."""
    cases = [comparison.case for comparison in report.open_suspects]
    if not cases:
        return "the time budget ended before any case was tested"
    are = "is" if len(cases) == 1 else "are"
    return f"{listed(cases)} looked changed when the time budget ended, and {are} not settled"


def _describe_finished(order: RunOrder, report: Report) -> str:
    """Describe a run that is answered from the journal, and how to have it made again."""
    left_out = report.run.left_out
    if left_out is not None and len(left_out.cases) == left_out.total:
        return f"{order.control.requested}..{order.treatment.requested}: nothing that these cases run differs"
    completeness = f"not complete: {report.run.stop_reason}" if report.run.is_cut_short else "complete"
    return (
        f"{order.run_type} of {order.control.requested} and {order.treatment.requested}: was measured at "
        f"{report.run.started or 'an earlier time'} ({completeness}), and is not measured again: --again does that"
    )
