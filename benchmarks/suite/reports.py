"""The report of a run of 4,000 cases: written, read back, and shown."""

from dataclasses import replace

from opduel.records import Build, Report
from opduel.records.host_record import HostRecord
from opduel.records.run_record import RunRecord
from opduel.reporters.document import from_text, to_bytes
from opduel.reporters.html.page import to_html
from opduel.reporters.screen import render

from .simulated_run import simulated_run

COPIES = 40  # of 100 cases, which are analysed in a fortieth of the time


def simulated_report() -> Report:
    """Return a report of 4,000 cases."""
    run = simulated_run(100)
    comparisons = run.comparisons()
    return Report(
        RunRecord(id="simulated", framework="toy", alpha=0.05, complete=True),
        *(Build("toy", version, "interpreter", "/usr/bin/python3", version, "3.11", version) for version in ("1", "2")),
        HostRecord(cpu_model="a processor", logical_cpus=2),
        [replace(old, case=f"{copy}_{old.case}") for copy in range(COPIES) for old in comparisons],
        cases=[replace(case, id=f"{copy}_{case.id}") for copy in range(COPIES) for case in run.cases],
    )


REPORT = simulated_report()
TEXT = to_bytes(REPORT).decode()


def time_write_4000_cases() -> None:
    to_bytes(REPORT)


def time_read_4000_cases() -> None:
    from_text(TEXT)


def time_page_of_4000_cases() -> None:
    to_html(REPORT)


def time_screen_of_4000_cases() -> None:
    render(REPORT)
