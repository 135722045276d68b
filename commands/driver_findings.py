"""What repo_driver.py found: its exit code, and reports on the terminal, in the log, to notifiers and code hosts."""

import logging
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TextIO

from opduel.commands.driver_text import bisection_line, culprit_lines, plan_lines
from opduel.commands.entry import DONE, INCOMPLETE, PRINTED, REGRESSED, log
from opduel.commands.notifying import Notifications, verified_report
from opduel.commands.session import exit_code
from opduel.driver.outcome import Outcome
from opduel.driver.watch import Tally
from opduel.records import Commit, Report
from opduel.reporters import Reporter, catch_up_all
from opduel.reporters.base import FindingsReporter
from opduel.reporters.local import FolderReporter
from opduel.reporters.simple_screen import JsonReporter
from opduel.reporters.stream import discard, write_text
from opduel.support.text import printable_lines


class Teller:
    """Reports what the loop does and finds: on the terminal, in the log, to notifiers and code hosts."""

    def __init__(
        self,
        notifications: Notifications,
        reporters: Sequence[Reporter],
        ours: Sequence[Reporter],
        traced: bool,
        longest_s: float | None = None,
        show_again: Callable[[Report], None] = lambda _: None,
    ) -> None:
        """``traced``: of what regressed only what was confirmed did. ``longest_s``: of a comparison. ``show_again``
        prints a report that only an earlier start has printed."""
        self.regressed = False  # something that was found
        self._traced, self._longest_s, self._show_again = traced, longest_s, show_again
        self._notifications = notifications
        self._reporters = reporters
        self._prints_json = any(isinstance(reporter, JsonReporter) for reporter in reporters)
        self._findings = [
            reporter for reporter in (*reporters, *ours) if isinstance(reporter, FolderReporter | FindingsReporter)
        ]

    def begin_pass(self) -> None:
        """Tell first what earlier passes, or earlier starts, could not."""
        self._notifications.deliver()
        outcome = catch_up_all(self._reporters)
        for line in outcome.lines:
            log.info("%s", line)
        for line in outcome.failures:
            log.error("%s; the next run tries again", line)

    def say(self, lines: Sequence[str]) -> None:
        """Print lines, where they are in no document's way."""
        say(lines, sys.stderr if self._prints_json else sys.stdout)

    def begin_line(self, why: str, line: Sequence[Commit], strategy: str, branch: str | None) -> None:
        """Log what is about to be measured, and why."""
        bisection = [bisection_line(line, self._longest_s)] if self._traced and len(line) > 2 else []
        for text in [*plan_lines(why, line, strategy, branch), *bisection]:
            log.info("%s", text)

    def report_outcome(self, outcome: Outcome, document: Path | None, culprits: Sequence[str] | None = None) -> None:
        """Report what was found; ``document`` names the culprits, ``culprits`` says it in other words than usual."""
        has_regressed = code_of(outcome, self._traced) == REGRESSED
        self.regressed |= has_regressed
        self._show_again(outcome.verification or outcome.benchmark)  # the answer is what is read last
        lines = culprit_lines(outcome) if culprits is None else [*culprits]
        if outcome.verification is not None and not outcome.confirmed:
            lines.append("not confirmed: a second measurement did not find what the first one flagged")
        places = [] if document is None else [f"culprits: {document}"]
        if has_regressed and not self._traced:
            places.append("next: --regression measures again what regressed, and names the commit")
        for text in (*lines, *places):
            logging.getLogger(PRINTED).info("%s", text)
        self.say([*lines, *places])
        self._notifications.report_outcome(outcome, document)
        report = verified_report(outcome)
        for reporter in self._findings:
            try:
                if line := reporter.report_findings(report, lines):
                    self.say([line])
            except Exception as error:  # it costs nobody the next commit
                log.error("--%s failed: %s", reporter.option, error)


def code_of_pass(tally: Tally, traced: bool) -> int:
    """The exit code of one pass: a regression of any commit is one; else whatever could not be done."""
    codes = [code_of(outcome, traced) for _, outcome in tally.outcomes]
    if REGRESSED in codes:
        return REGRESSED
    return INCOMPLETE if tally.failures or INCOMPLETE in codes else DONE


def code_of(outcome: Outcome, traced: bool) -> int:
    """The exit code that one line came to; when regressions are traced, one that was not confirmed is none. A known
    culprit's regression is one for as long as it lasts."""
    reports = [report for report in (outcome.benchmark, outcome.verification) if report is not None]
    if not traced:
        return exit_code(outcome.benchmark)
    confirmed = {*outcome.confirmed, *(case for culprit in outcome.known_culprits for case in culprit.range.cases)}
    if any(
        comparison.case in confirmed and comparison.is_worse for report in reports for comparison in report.comparisons
    ):
        return REGRESSED
    return INCOMPLETE if outcome.unfinished or any(exit_code(report) == INCOMPLETE for report in reports) else DONE


def say(lines: Sequence[str], stream: TextIO | None = None) -> None:
    """To a stream, standard output unless given; where that can't be written it is logged, and stops nothing."""
    stream = stream or sys.stdout
    try:
        write_text(stream, "".join(f"{printable_lines(line)}\n" for line in lines))
    except OSError as error:
        discard(stream)
        name = "standard error" if stream is sys.stderr else "standard output"
        log.error("%s: can't be written (%s): what was found is in the log and in reports", name, error.strerror)
