"""The local reporter: every run's report.json in a folder of its own, by framework, spec, date and commits."""

import os
from collections.abc import Iterable
from datetime import UTC, datetime
from pathlib import Path
from typing import ClassVar

from opduel.records import Report, RunError, RunRecord
from opduel.records.atomic import path_part
from opduel.reporters.document import REPORT_NAME, write_report
from opduel.reporters.folder import FolderReporter, written_with_page


class LocalReporter(FolderReporter):
    """Writes DIR/<framework>/<platform>/<spec>/<YYYY>/<MM>/<DD>/<control>..<treatment>/<N>/report.json."""

    option: ClassVar[str] = "local_reporter"
    help: ClassVar[str] = (
        "save report.json in a folder of its own, below DIR by framework, platform, spec, date and commits"
    )

    def report(self, report: Report) -> str:
        """Write the report, and its page beside it, in a new folder and return its path as a line.

        Raises:
            RunError: the folder or the file could not be made.
            PartlyReportedError: the page could not.
        """
        parent = run_folder(self.directory, report)
        try:
            folder = _new_numbered_folder(parent)
            try:
                write_report(folder / REPORT_NAME, report)
            except BaseException:
                folder.rmdir()
                raise
        except OSError as error:
            raise RunError(
                f"cannot write below {parent} ({error.strerror}): give --{self.option} a folder that can be written"
            ) from error
        return written_with_page(folder / REPORT_NAME, report)

    def places(self, report: Report) -> Iterable[Path]:
        return run_folder(self.directory, report).glob(f"*/{REPORT_NAME}")


def run_folder(directory: Path, report: Report) -> Path:
    """The folder of all runs with the report's framework, platform, spec, date (UTC) and pair of builds."""
    names = [one or "unknown" for one in (report.run.framework, report.configuration.platform, report.run.spec)]
    builds = f"{path_part(report.control.requested)}..{path_part(report.treatment.requested)}"
    return directory.joinpath(*map(path_part, names), *_date_parts(report.run), builds)


def _date_parts(run: RunRecord) -> tuple[str, str, str]:
    """Year, month and day of the run's start, or of its end; zeros when it has neither."""
    for text in (run.started, run.finished):
        try:
            moment = datetime.fromisoformat(text or "")
        except ValueError:
            continue
        if moment.tzinfo is not None:
            moment = moment.astimezone(UTC)
        return f"{moment.year:04d}", f"{moment.month:02d}", f"{moment.day:02d}"
    return "0000", "00", "00"


def _new_numbered_folder(parent: Path) -> Path:
    """A new folder in ``parent``: the number after the highest there, from 0. No two callers get the same."""
    parent.mkdir(parents=True, exist_ok=True)
    taken = [int(name) for name in os.listdir(parent) if name.isascii() and name.isdigit()]
    number = max(taken, default=-1) + 1
    while True:
        try:
            (parent / str(number)).mkdir()
        except FileExistsError:
            number += 1
        else:
            return parent / str(number)
