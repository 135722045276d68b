"""Reporters: steps that get the report of a run. They read records, and the comparator for statistics over runs.

docs/reference/report.md describes what they write. Each name here is loaded when it is first used.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from opduel.reporters.base import Reporter as Reporter
    from opduel.reporters.base import ReportOutcome as ReportOutcome
    from opduel.reporters.base import catch_up_all as catch_up_all
    from opduel.reporters.base import report_all as report_all
    from opduel.reporters.document import read_report as read_report
    from opduel.reporters.document import write_report as write_report
    from opduel.reporters.options import add_reporter_options as add_reporter_options
    from opduel.reporters.registry import chosen_reporters as chosen_reporters

_NAMES_BY_MODULE = {
    "base": {"Reporter", "ReportOutcome", "catch_up_all", "report_all"},
    "document": {"read_report", "write_report"},
    "options": {"add_reporter_options"},
    "registry": {"chosen_reporters"},
}


def __getattr__(name: str) -> Any:
    for module, names in _NAMES_BY_MODULE.items():
        if name in names:
            return getattr(import_module(f"{__name__}.{module}"), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
