"""The JSON reporter: the whole report as JSON on standard output, for scripts."""

from typing import ClassVar

from opduel.records import Report
from opduel.reporters.base import Reporter
from opduel.reporters.document import to_bytes
from opduel.reporters.stream import print_result


class JsonReporter(Reporter):
    """Prints what report.json holds, and nothing else: docs/report.md describes it."""

    option: ClassVar[str] = "json"
    help: ClassVar[str] = "print the report as JSON on standard output, in place of the table"

    def report(self, report: Report) -> None:
        """Print the report.

        Raises:
            RunError: standard output can't be written.
        """
        print_result(to_bytes(report).decode("utf-8"), "give --local_reporter DIR to keep it as a file")
