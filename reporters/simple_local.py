"""The simple local reporter: always the same report.json, the one before it kept under its run's id."""

import contextlib
import fcntl
import os
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from itertools import chain, count
from pathlib import Path
from typing import ClassVar

from opduel.records import Report, RunError, UsageError
from opduel.records.atomic import path_part, write_atomically
from opduel.reporters.document import REPORT_NAME, read_report, to_bytes
from opduel.reporters.folder import FolderReporter, written_with_page


class SimpleLocalReporter(FolderReporter):
    """Writes DIR/report.json, or DIR/<user_identifier>/report.json when the run has a user identifier."""

    option: ClassVar[str] = "simple_local_reporter"
    help: ClassVar[str] = (
        "save DIR/report.json (DIR/<user_identifier>/report.json if one is given); an older one is kept beside it"
    )

    def report(self, report: Report) -> str:
        """Write the report, and its page beside it, and return its path as a line.

        An earlier one becomes ``report-<its run id>.json``, and its page ``report-<its run id>.html``.

        Raises:
            RunError: the folder or the file could not be made.
            PartlyReportedError: the page could not.
        """
        folder = self._folder(report)
        path = folder / REPORT_NAME
        try:
            folder.mkdir(parents=True, exist_ok=True)
            with _locked(folder):
                write_atomically(path, to_bytes(report), before_replace=lambda _: _keep(path))
                told = written_with_page(path, report)
        except OSError as error:
            raise RunError(
                f"cannot write {path} ({error.strerror}): give --{self.option} a folder that can be written"
            ) from error
        return told

    def places(self, report: Report) -> Iterable[Path]:
        return self._folder(report).glob("report*.json")

    def _folder(self, report: Report) -> Path:
        identifier = report.configuration.user_identifier
        return self.directory / path_part(identifier) if identifier else self.directory


@contextmanager
def _locked(folder: Path) -> Iterator[None]:
    """One writer in ``folder`` at a time: between keeping the old report and replacing it comes no third."""
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX)
        yield
    finally:
        os.close(descriptor)


def _keep(path: Path) -> None:
    """Give the report at ``path`` a second name, of its own run, that no other file has; its page goes along.

    A page without a report is somebody else's, and is kept in the same way.
    """
    page = path.with_suffix(".html")
    if not path.exists():
        if page.exists():
            page.rename(next(one for one in _names(page, "report-unknown") if not one.exists()))
        return
    stem = f"report-{path_part(_run_id(path))}"
    for kept in _names(path, stem):
        try:
            os.link(path, kept)
        except FileExistsError:
            continue
        with contextlib.suppress(OSError):  # a page costs no report
            page.replace(kept.with_suffix(".html"))
        return


def _names(path: Path, stem: str) -> Iterator[Path]:
    """Names beside ``path`` that begin with ``stem``, without end."""
    return (path.with_name(f"{stem}{suffix}{path.suffix}") for suffix in chain([""], (f"-{n}" for n in count(1))))


def _run_id(path: Path) -> str:
    """The run id in the report at ``path``; "unknown" when it has none or can't be read."""
    try:
        return read_report(path).run.id or "unknown"
    except UsageError:
        return "unknown"
