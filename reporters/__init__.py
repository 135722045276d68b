"""Reporters: steps that get the report of a run. They read records, and the comparator for statistics over runs.

docs/reference/report.md describes what they write.
"""

from opduel.reporters.base import Reporter as Reporter
from opduel.reporters.base import ReportOutcome as ReportOutcome
from opduel.reporters.base import catch_up_all as catch_up_all
from opduel.reporters.base import report_all as report_all
from opduel.reporters.document import read_report as read_report
from opduel.reporters.document import write_report as write_report
from opduel.reporters.registry import REPORTERS as REPORTERS
from opduel.reporters.registry import add_reporter_options as add_reporter_options
from opduel.reporters.registry import chosen_reporters as chosen_reporters
from opduel.reporters.registry import reporter_options as reporter_options
