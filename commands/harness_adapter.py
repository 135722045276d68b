"""The harness as the driver knows it: runs that can be resumed, and reports that are delivered once."""

import logging
import sys
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from copy import copy
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from opduel.commands.builds import warn_of_python
from opduel.commands.entry import log
from opduel.commands.fleet import count_hosts, measurer
from opduel.commands.named_operators import refuse_failing_lines, refuse_unknown_operators
from opduel.commands.progress import ProgressDisplay
from opduel.commands.reached_cases import NotMeasured, leave_out, record_reaches
from opduel.commands.session import (
    Session,
    callgrind_folder,
    deliver_report,
    discover_cases,
    log_forecast,
    warn_of_report,
)
from opduel.commands.suite_selection import SuiteSelection
from opduel.comparator import plan_looks, replicate_report
from opduel.driver.descriptor import info_document
from opduel.driver.runs import RunOrder
from opduel.frameworks.roles import PackageBuilds
from opduel.harness.checkpoint import count_rounds
from opduel.harness.measurement_plan import FirstMeasurement, Progress
from opduel.harness.planning.aa_selection import usual_count
from opduel.harness.run import InterruptedRunError
from opduel.harness.run_recording import without_measuring
from opduel.harness.run_request import FindCauses, RunRequest
from opduel.harness.verification import first_measurement_of
from opduel.records import DEFAULT_METRIC, Case, Comparison, Report, UsageError, split_kind
from opduel.records.reach import Reach
from opduel.reporters.document import from_text, to_bytes
from opduel.reporters.screen import ScreenReporter
from opduel.reporters.simple_screen import SimpleScreenReporter
from opduel.support.text import counted, duration, listed

STEP = "regress"  # the run type of a search's steps
IDENTICAL = "not measured: the two builds are byte-identical, library and Python code"
NOT_REACHED = "not measured: the change can't reach it"


@dataclass(frozen=True)
class _SaysFirstBad:
    """Finds causes as ``find_causes`` does, but first logs the commit whose causes they are."""

    order: RunOrder
    find_causes: FindCauses

    def __call__(self, comparisons: Sequence[Comparison], *arguments: Any) -> list[Comparison]:
        build, first_bad = self.order.treatment, self.order.first_bad.items()
        cases = [comparison.case for comparison in comparisons if (comparison.case, comparison.finding) in first_bad]
        if cases:
            log.info("first bad: %s (%s)", build.commit.words if build.commit else build.requested, listed(cases))
        return self.find_causes(comparisons, *arguments)


class HarnessAdapter:
    """Measures what the driver orders, with the options of one command."""

    def __init__(
        self,
        session: Session,
        suite: SuiteSelection | None = None,
        reached_only: bool = False,
        all_cases: bool = False,
    ) -> None:
        """``suite``: what is measured, if it is no spec; its cases are known when two builds are there. A search leaves
        out the cases that the difference between two builds of a package can't reach, and its benchmark, too, if
        ``reached_only``; none with ``all_cases``."""
        can_record = isinstance(session.framework.builds, PackageBuilds) and not all_cases
        self._reached_only, self._reached_steps = can_record and reached_only, can_record and not session.options.fleet
        self._suite = suite
        self._measuring = session
        self._session = session
        measurer(session.options)  # what is wrong with its options is said before anything is built
        self.delivered: set[str] = set()  # ids of the reports delivered by this process
        # The last run's id, and its folder of callgrind's files until it is delivered.
        self._explained: tuple[str, Path | None] = "", None
        self._keeps = ExitStack()  # that folder

    replicate, parse = staticmethod(replicate_report), staticmethod(from_text)  # as ``driver.runs.Harness`` has them

    @property
    def hosts(self) -> int:
        """How many hosts measure at the same time."""
        return count_hosts(self._session.options)

    def measure_ahead(self, order: RunOrder, rank: int, is_given_up: Callable[[], bool]) -> Report | None:
        """Make a run that will probably be ordered; None if that takes no measuring."""
        if order.control.digest == order.treatment.digest:
            return None

        def hear(_: Progress) -> None:
            if is_given_up():
                raise KeyboardInterrupt("given up")

        other = copy(self)  # its cases are those of these builds
        other._choose_cases(order)
        if self._suite is not None:
            order = other._of_suite(self._suite.another(), order)
        request = other._request(order)
        # Once there are rounds, ``measure`` doesn't look.
        if order.cases is None and not order.log.rounds() and self._suite is None:
            other._look_for_operators(request, order)
        measure = measurer(self._session.options, rank, other._measuring.choice.suite)
        report = measure(request, hear)
        return None if report.run.interrupted else report

    def _choose_cases(self, order: RunOrder) -> None:
        self._measuring = self._session
        if order.control.digest != order.treatment.digest:
            cases = discover_cases(self._session, order.control, order.treatment)
            self._measuring = replace(self._session, cases=cases)

    def measure(self, order: RunOrder) -> Report:
        """Make the run, from its kept rounds on; two builds that are the same are not measured."""
        self._choose_cases(order)
        if self._suite is not None:
            order = self._of_suite(self._suite, order)
        request = self._request(order)
        if order.control.digest == order.treatment.digest:
            log.info("%s and %s are byte-identical", order.control.requested, order.treatment.requested)
            return without_measuring(request, IDENTICAL)
        if not order.log.rounds() and self._suite is None:
            self._look_for_operators(request, order)
        if self._reached_steps if order.run_type == STEP else self._reached_only and order.cases is None:
            cases, request = request.cases, self._reached(request, order)
            if not request.cases:
                if order.run_type != STEP and self._session.options.statement:
                    _warn_of_lines(request)
                return without_measuring(replace(request, cases=cases), NOT_REACHED)
        warn_of_python(order.control, order.treatment)
        rounds = count_rounds(order.log)
        again = f", resuming after {counted(rounds, 'round')}" if rounds else ""
        names = order.control.requested, order.treatment.requested
        count = counted(len(request.cases), "case")
        budget_s = request.configuration.time_budget
        limit = "" if budget_s is None else f", in at most {duration(round(budget_s / order.budgets))}"
        log.info("%s: %s, %s against %s%s%s", order.run_type, count, *names, again, limit)
        log_forecast(request)
        report = self._run(request)
        if not report.run.interrupted:  # whatever the signal ends logs it
            warn_of_report(report, self._measuring.reporters)
        return report

    def reaches(self, order: RunOrder) -> tuple[Mapping[str, Reach], Mapping[str, Reach]] | None:
        """What each case of the order runs in the control, and in the treatment; None if nobody records it."""
        if not self._reached_steps:
            return None
        self._choose_cases(order)
        if self._suite is not None:
            order = self._of_suite(self._suite, order)
        return record_reaches(self._request(order))

    def _reached(self, request: RunRequest, order: RunOrder) -> RunRequest:
        """The request without the cases that the builds' difference can't reach, with a record of them, and with the
        failures of those that neither build runs."""
        is_step = order.cases is not None
        not_measured = None
        if order.earlier is None:
            not_measured = leave_out(request, logging.DEBUG if is_step else logging.INFO)
        elif order.earlier.run.left_out:  # what this start records may be more: rounds of other cases can't be used
            failures = {
                comparison.case: comparison.failure
                for comparison in order.earlier.comparisons
                if comparison.failure and comparison.failure.side == "both"
            }
            not_measured = NotMeasured(order.earlier.run.left_out, failures)
        if not_measured is None:
            return request
        left_out, request = not_measured.left_out, not_measured.without(request)
        if is_step and left_out.cases:
            is_all = len(left_out.cases) == left_out.total
            cases = "these cases" if is_all else f"{len(left_out.cases)} of {left_out.total} cases"
            log.info("%s..%s: nothing that %s run differs", order.control.requested, order.treatment.requested, cases)
        return replace(request, labels=replace(request.labels, left_out=left_out))

    def _run(self, request: RunRequest) -> Report:
        """The run's report; callgrind's files of its cases are kept until it is delivered."""
        self._forget_callgrind()
        with ExitStack() as stack:
            callgrind = stack.enter_context(callgrind_folder())
            with ProgressDisplay(len(request.cases), sys.stderr) as display:
                try:
                    measure = measurer(self._session.options, suite=self._measuring.choice.suite)
                    report = measure(replace(request, callgrind=callgrind), display.show)
                except InterruptedRunError as error:
                    raise KeyboardInterrupt(str(error)) from None
            self._explained, self._keeps = (str(report.run.id), callgrind), stack.pop_all()
        return report

    def _forget_callgrind(self) -> None:
        self._explained = "", None
        self._keeps.close()

    def _of_suite(self, suite: SuiteSelection, order: RunOrder) -> RunOrder:
        """The order with builds that know where their copy of the suite is; from now on its cases are measured."""
        suite.renew()
        sides = suite.on_sides({"control": order.control, "treatment": order.treatment})
        session = self._session
        choice = suite.choose(sides, session.seed)
        labels = replace(session.labels, suite=choice.suite_record)
        framework = choice.framework or session.framework
        self._measuring = replace(session, framework=framework, choice=choice, cases=choice.cases, labels=labels)
        return replace(order, control=sides["control"], treatment=sides["treatment"])

    def _look_for_operators(self, request: RunRequest, order: RunOrder) -> None:
        """Refuse operators of the command line that neither build has, and lines of Python that fail. For operators
        of a spec, which is measured on many commits, a line in the log: the other cases are measured, and the case says
        what is wrong. UsageError: neither build has one."""
        session, builds = self._measuring, [order.control, order.treatment]
        if order.cases is None:
            refuse_failing_lines(session.options, session.cases, request.framework, builds)
        refuse_unknown_operators(session.options, request.cases, request.framework, builds)
        try:
            refuse_unknown_operators(session.options, request.cases, request.framework, builds, session.choice.path)
        except UsageError as error:
            log.warning("%s; its cases fail, the others are measured", error)

    def dump(self, report: Report) -> str:
        """The report as JSON."""
        return to_bytes(report).decode()

    def deliver(self, report: Report) -> None:
        """Deliver to every reporter; one on disk that has the report keeps it. A run that continues is not delivered to
        reporters that want whole runs."""
        self.delivered.add(str(report.run.id))
        reporters = self._measuring.reporters
        if report.configuration.run_type == STEP:
            reporters = [
                reporter.briefly() if isinstance(reporter, ScreenReporter) else reporter for reporter in reporters
            ]
        if report.run.continues:
            reporters = [reporter for reporter in reporters if not reporter.whole_runs_only]
        # A report of a run that continues has an id that begins with the run's.
        run_id, folder = self._explained
        callgrind = folder if str(report.run.id).startswith(run_id) else None
        deliver_report(
            reporters, report, lambda reporter: reporter.saved_path(report), more_follows=True, callgrind=callgrind
        )
        if callgrind is not None:
            self._forget_callgrind()

    def show_again(self, report: Report) -> None:
        """Print a report that was delivered before this process began."""
        if str(report.run.id) not in self.delivered:
            self.delivered.add(str(report.run.id))
            for reporter in self._measuring.reporters:
                if isinstance(reporter, ScreenReporter | SimpleScreenReporter):
                    reporter.report(report)

    def _request(self, order: RunOrder) -> RunRequest:
        session = self._measuring
        request = session.request(order.control, order.treatment)
        draws_by_other_seed = session.choice.draws and session.seed != self._seed_of(order)
        earlier_budget = order.earlier.configuration.time_budget if order.earlier else None
        labels = replace(
            session.labels,
            earlier_budget=earlier_budget,
            info=info_document(order.control, order.treatment),
            branch=order.branch,
            spec_seed=session.seed if draws_by_other_seed else None,
            replicates=order.replicates.run.id if order.replicates else None,
        )
        cases = self._cases(order.cases)
        budget, explain = request.configuration.time_budget, request.configuration.explain
        if explain == "confirmed" and order.explains is not None:
            explain = "all" if order.explains else "none"
        request = request.configured(
            run_type=order.run_type,
            time_budget=None if budget is None else (earlier_budget or 0.0) + budget,
            explain=explain,
        )
        find_causes = request.find_causes
        if order.first_bad and find_causes and not session.options.fleet:
            find_causes = _SaysFirstBad(order, find_causes)
        return replace(
            request,
            cases=cases,
            seed=self._seed_of(order),
            find_causes=find_causes,
            labels=labels,
            log=order.log,
            suspects_only=order.suspects_only,
            is_awaited=order.is_awaited,
            first_measurement=None if order.replicates is None else self._take_over(order.replicates, cases, request),
        )

    def _seed_of(self, order: RunOrder) -> int:
        """That which was asked for, or the run's own."""
        seed = self._measuring.options.seed
        return order.seed if seed is None else int(seed)

    def _take_over(self, report: Report, again: Sequence[Case], request: RunRequest) -> FirstMeasurement:
        """What the replication of these cases takes over from the report of the benchmark."""
        timed = sum(case.metric == DEFAULT_METRIC for case in again)
        sentinels = request.configuration.sentinels
        aa_cases = usual_count(timed) if sentinels is None else sentinels
        ids = [case.id for case in again]
        looks = plan_looks(request.max_rounds)

        def taken_over(cases: Sequence[Case]) -> FirstMeasurement:
            return first_measurement_of(report, cases, looks, ids, aa_cases)

        kinds = dict.fromkeys(case.kind for case in again if case.kind is not None)
        if not kinds:
            return taken_over(report.cases if report.run.left_out else self._measuring.cases)
        by_kind = {kind: taken_over([case for case in report.cases if case.kind == kind]) for kind in kinds}
        return replace(taken_over(report.cases), by_kind=by_kind)

    def _cases(self, case_ids: Sequence[str] | None) -> Sequence[Case]:
        """The session's cases, or those of them with these ids: which may be on one kind of host alone."""
        cases = self._measuring.cases
        if case_ids is None:
            return cases
        kinds: dict[str, list[str]] = {}  # a case's id -> the kinds of host that it is wanted on
        ids, ids_of_session = set(case_ids), {case.id for case in cases}  # which may have an "@" of their own
        for kind, case_id in (split_kind(id) for id in case_ids if id not in ids_of_session):
            kinds.setdefault(case_id, []).extend([kind] if kind else [])
        return [
            selected
            for case in cases
            for selected in ([case] if case.id in ids else [case.of_kind(kind) for kind in kinds.get(case.id, ())])
        ]


def _warn_of_lines(request: RunRequest) -> None:
    """Say that lines of Python run nothing of what changed, as far as there is a change that is executed."""
    left_out = request.labels.left_out
    if left_out and left_out.changed:
        log.warning(
            "nothing was measured, as no line runs what changed: %s: measure a line that does", listed(left_out.changed)
        )
