"""The harness as the driver knows it: runs that can be resumed, and reports that are told once."""

import sys
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from commands.entry import log
from commands.measuring import Measuring, tell, warn_of_python
from commands.named_operators import refuse_unknown_operators
from commands.progress import ProgressDisplay
from driver.descriptor import info_document
from driver.runs import RunOrder
from harness.run import InterruptedRunError, RunRequest, run_ab, without_measuring
from records import Report
from reporters.document import from_text, to_bytes
from reporters.summary import distrust_line

IDENTICAL = "not measured: the two builds are byte-identical, library and Python code"


class JournalledHarness:
    """Measures what the driver orders, with the options of one command."""

    def __init__(self, measuring: Measuring) -> None:
        self._measuring = measuring

    def measure(self, order: RunOrder) -> Report:
        """Make the run, from its kept rounds on; two builds that are the same are not measured."""
        request = self._request(order)
        if order.control.digest == order.treatment.digest:
            log.info("%s and %s are byte-identical", order.control.requested, order.treatment.requested)
            return without_measuring(request, IDENTICAL)
        if not order.log.rounds():
            builds = [order.control, order.treatment]
            refuse_unknown_operators(self._measuring.options, request.cases, request.framework, builds)
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
        if report.run["broken"] and not report.run["interrupted"]:
            log.warning("not completed: %s", report.run["stopped"])
        if line := distrust_line(report):
            log.warning("%s", line)
        return report

    def dump(self, report: Report) -> str:
        """The report as JSON."""
        return to_bytes(report).decode()

    def parse(self, text: str) -> Report:
        """The report that ``dump`` wrote."""
        return from_text(text)

    def tell(self, report: Report) -> None:
        """Tell every reporter; one on disk that has the report keeps the one that it has."""
        tell(self._measuring.reporters, report, lambda reporter: reporter.kept(report))

    def _request(self, order: RunOrder) -> RunRequest:
        measuring = self._measuring
        request = measuring.request(order.control, order.treatment)
        labels: Mapping[str, Any] = {
            **measuring.labels,
            "run_type": order.run_type,
            "info": info_document(order.control, order.treatment),
        }
        seed = order.seed if measuring.options.seed is None else measuring.options.seed
        return replace(request, cases=self._cases(order.cases), seed=seed, labels=labels, log=order.log)

    def _cases(self, wanted: Sequence[str] | None) -> Sequence[Any]:
        cases = self._measuring.cases
        return cases if wanted is None else [case for case in cases if case.id in set(wanted)]
