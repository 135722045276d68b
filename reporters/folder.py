"""What the reporters that write to a folder have in common."""

from abc import abstractmethod
from collections.abc import Iterable
from pathlib import Path
from typing import ClassVar, Self

from opduel.records import Report, UsageError
from opduel.records.atomic import check_folder, user_path
from opduel.reporters.base import PartlyReportedError, Reporter
from opduel.reporters.document import read_report
from opduel.reporters.html import write_page


class FolderReporter(Reporter):
    """Keeps reports on disk, in or below a folder that is made when it is not there."""

    metavar: ClassVar[str | None] = "DIR"

    def __init__(self, directory: Path) -> None:
        """Write in or below ``directory``."""
        self.directory = directory

    @classmethod
    def from_option(cls, value: str | None) -> Self:
        """The reporter for ``--<option> DIR``."""
        return cls(user_path(value or ".", f"--{cls.option}"))

    def check(self) -> None:
        """See that the folder can be written.

        Raises:
            UsageError: it can't.
        """
        check_folder(self.directory, self.option)

    def kept(self, report: Report) -> Path | None:
        """Where this very run's report lies already, if it does: whoever tells twice can ask before.

        The newest files are looked into first.
        """
        newest_first = sorted(self.places(report), key=_modified, reverse=True)
        return next((path for path in newest_first if _run_id(path) == report.run.id), None)

    @abstractmethod
    def places(self, report: Report) -> Iterable[Path]:
        """Where the report would lie, had it been written before."""

    def where(self, report: Report) -> str | None:
        """The path of this very run's report, if it lies in its place."""
        path = self.kept(report)
        return None if path is None else str(path.absolute())


def written_with_page(path: Path, report: Report) -> str:
    """Write the page of the report that lies at ``path`` beside it; returns the line that says where the report is.

    Raises:
        PartlyReportedError: the page could not be made or written. The report is there all the same.
    """
    line, page = f"report: {path}", path.with_suffix(".html")
    try:
        write_page(page, report)
    except Exception as error:
        reason = error.strerror if isinstance(error, OSError) else f"{type(error).__name__}: {error}"
        raise PartlyReportedError(
            line, f"cannot write {page} ({reason}); {path} is there, and has everything"
        ) from error
    return line


def _run_id(path: Path) -> object:
    try:
        return read_report(path).run.id
    except UsageError:
        return None


def _modified(path: Path) -> float:
    """Seconds since 1970; 0 for a file that has gone."""
    try:
        return path.stat().st_mtime
    except OSError:
        return 0.0
