"""Reporters: steps that get the report of a run. They read records, and the comparator for statistics over runs.

docs/reference/report.md describes what they write.
"""

from opduel.reporters.base import Reporter, ReportOutcome, catch_up_all, report_all
from opduel.reporters.document import read_report, write_report
from opduel.reporters.registry import (
    REPORTERS,
    add_reporter_options,
    chosen_reporters,
    reporter_options,
)

__all__ = [
    "REPORTERS",
    "ReportOutcome",
    "Reporter",
    "add_reporter_options",
    "catch_up_all",
    "chosen_reporters",
    "read_report",
    "report_all",
    "reporter_options",
    "write_report",
]
