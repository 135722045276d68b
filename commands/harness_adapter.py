"""The harness as the driver knows it: runs that can be resumed, and reports that are delivered once."""

import sys
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from opduel.commands.entry import log
from opduel.commands.named_operators import refuse_unknown_operators
from opduel.commands.progress import ProgressDisplay
from opduel.commands.session import Session, tell, warn_of_python, warn_of_report
from opduel.driver.descriptor import info_document
from opduel.driver.runs import RunOrder
from opduel.harness.run import InterruptedRunError, RunRequest, run_ab, without_measuring
from opduel.records import Build, Report, UsageError
from opduel.reporters.document import from_text, to_bytes
from opduel.reporters.screen import ScreenReporter
from opduel.reporters.simple_screen import SimpleScreenReporter

IDENTICAL = "not measured: the two builds are byte-identical, library and Python code"


class HarnessAdapter:
    """Measures what the driver orders, with the options of one command."""

    def __init__(self, session: Session) -> None:
        self._measuring = session
        self.delivered: set[str] = set()  # ids of the reports delivered by this process

    def measure(self, order: RunOrder) -> Report:
        """Make the run, from its kept rounds on; two builds that are the same are not measured."""
        request = self._request(order)
        if order.control.digest == order.treatment.digest:
            log.info("%s and %s are byte-identical", order.control.requested, order.treatment.requested)
            return without_measuring(request, IDENTICAL)
        if not order.log.rounds():
            builds = [order.control, order.treatment]
            self._look_for_operators(request, builds)
        warn_of_python(order.control, order.treatment)
        kept = len(order.log.rounds())
        again = f", going on after {kept} rounds" if kept else ""
        names = order.control.requested, order.treatment.requested
        log.info("%s: %d cases, %s against %s%s", order.run_type, len(request.cases), *names, again)
        with ProgressDisplay(len(request.cases), sys.stderr) as display:
            try:
                report = run_ab(request, display.show)
            except InterruptedRunError as error:
                raise KeyboardInterrupt(str(error)) from None
        if not report.run["interrupted"]:  # whatever the signal ends logs it
            warn_of_report(report)
        return report

    def _look_for_operators(self, request: RunRequest, builds: Sequence[Build]) -> None:
        """Refuse operators of the command line that neither build has. For those of a spec, which is measured on many
        commits, a line in the log: the other cases are measured, and the case says what is wrong.

        Raises:
            UsageError: neither build has one.
        """
        session = self._measuring
        refuse_unknown_operators(session.options, request.cases, request.framework, builds)
        try:
            refuse_unknown_operators(session.options, request.cases, request.framework, builds, session.choice.path)
        except UsageError as error:
            log.warning("%s; its cases fail, the others are measured", error)

    def dump(self, report: Report) -> str:
        """The report as JSON."""
        return to_bytes(report).decode()

    def parse(self, text: str) -> Report:
        """The report that ``dump`` wrote."""
        return from_text(text)

    def tell(self, report: Report) -> None:
        """Deliver to every reporter; one on disk that has the report keeps it. A run that continues is not delivered to
        reporters that want whole runs."""
        self.delivered.add(str(report.run["id"]))
        reporters = self._measuring.reporters
        if report.run.get("continues"):
            reporters = [one for one in reporters if not one.whole_runs_only]
        tell(reporters, report, lambda reporter: reporter.kept(report), more_follows=True)

    def show_again(self, report: Report) -> None:
        """Print a report that was delivered before this process began."""
        if str(report.run["id"]) not in self.delivered:
            for one in self._measuring.reporters:
                if isinstance(one, ScreenReporter | SimpleScreenReporter):
                    one.report(report)

    def _request(self, order: RunOrder) -> RunRequest:
        session = self._measuring
        request = session.request(order.control, order.treatment)
        labels: Mapping[str, Any] = {
            **session.labels,
            "info": info_document(order.control, order.treatment),
            "branch": order.branch,
        }
        seed = order.seed if session.options.seed is None else session.options.seed
        budget = request.configuration.time_budget
        request = request.configured(
            run_type=order.run_type, time_budget=None if budget is None else budget * order.budgets
        )
        return replace(
            request,
            cases=self._cases(order.cases),
            seed=seed,
            labels=labels,
            log=order.log,
            suspects_only=order.budgets > 1,
        )

    def _cases(self, wanted: Sequence[str] | None) -> Sequence[Any]:
        cases = self._measuring.cases
        return cases if wanted is None else [case for case in cases if case.id in set(wanted)]
