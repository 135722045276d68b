"""The reporters that keep report.json on disk: each run's in a folder of its own, or the newest in the same place."""

import fcntl
import os
import secrets
import shutil
from abc import abstractmethod
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from datetime import UTC, datetime
from itertools import chain, count
from pathlib import Path
from typing import Self

from opduel.records import Report, RunRecord, UsageError
from opduel.reporters.base import PartlyReportedError, Reporter, ReportOutcome, deliver_all, writing
from opduel.reporters.document import REPORT_NAME, read_report, to_bytes, write_report
from opduel.reporters.html import write_page
from opduel.reporters.interchange.speedscope import has_frames, to_speedscope
from opduel.support.atomic import check_folder, path_part, user_path, write_atomically
from opduel.support.text import printable

PAGE, FLAMES, CALLGRIND = ".html", ".speedscope.json", ".callgrind"
BESIDE = (PAGE, FLAMES, CALLGRIND)  # suffixes of what lies beside a report; the last one is a folder


class FolderReporter(Reporter):
    """Keeps reports on disk, in or below a folder that is created if it is missing.

    If only a report's page could not be written, the report is partly reported.
    """

    def __init__(self, directory: Path) -> None:
        """Write in or below ``directory``."""
        self.directory = directory

    @classmethod
    def from_option(cls, value: str | None) -> Self:
        return cls(user_path(value or ".", f"--{cls.option}"))

    def check(self) -> None:
        check_folder(self.directory, self.option)

    def saved_path(self, report: Report) -> Path | None:
        """Return the path of this run's report if it was written before; the newest files are read first."""
        newest_first = sorted(self.places(report), key=_modified, reverse=True)
        return next((path for path in newest_first if _run_id(path) == report.run.id), None)

    @abstractmethod
    def report(self, report: Report, callgrind: Path | None = None) -> str:
        """Write the report and the files beside it, and return its path as a line. ``callgrind``: a folder with
        callgrind's files of explained cases, which is copied if it exists."""

    def report_findings(self, report: Report, culprits: Sequence[str]) -> str | None:
        """Write the page of a report again, with what a search found; return its path as a line, or None if the report
        is not here. Raises RunError: it can't be written."""
        path = self.saved_path(report) if culprits else None
        if path is None:
            return None
        page = path.with_suffix(PAGE)
        with writing(page, f"--{self.option} a folder that can be written"):
            write_page(page, report, culprits)
        return f"page: {printable(str(page))}"

    @abstractmethod
    def places(self, report: Report) -> Iterable[Path]:
        """Return the paths at which the report may be if it was written before."""

    def where(self, report: Report) -> str | None:
        path = self.saved_path(report)
        return None if path is None else str(path.absolute())


class LocalReporter(FolderReporter, option="local_reporter"):
    """Writes DIR/<framework>/<platform>/<spec>/<YYYY>/<MM>/<DD>/<control>..<treatment>/<N>/report.json."""

    def report(self, report: Report, callgrind: Path | None = None) -> str:
        """Write into a new folder."""
        parent = run_folder(self.directory, report)
        with writing(f"below {parent}", f"--{self.option} a folder that can be written"):
            folder = _new_numbered_folder(parent)
            try:
                write_report(folder / REPORT_NAME, report)
            except BaseException:
                folder.rmdir()
                raise
        return _write_beside(folder / REPORT_NAME, report, callgrind)

    def places(self, report: Report) -> Iterable[Path]:
        return run_folder(self.directory, report).glob(f"*/{REPORT_NAME}")


class SimpleLocalReporter(FolderReporter, option="simple_local_reporter"):
    """Writes DIR/report.json, or DIR/<user_identifier>/report.json when the run has a user identifier."""

    def report(self, report: Report, callgrind: Path | None = None) -> str:
        """Write the report; an earlier one becomes ``report-<its run id>.json``, its page ``report-<its run id>.html``,
        and so on."""
        path = self._folder(report) / REPORT_NAME
        with writing(path, f"--{self.option} a folder that can be written"):
            path.parent.mkdir(parents=True, exist_ok=True)
            with _locked(path.parent):
                write_atomically(path, to_bytes(report), before_replace=lambda _: _keep_earlier_report(path))
                return _write_beside(path, report, callgrind)

    def places(self, report: Report) -> Iterable[Path]:
        return self._folder(report).glob("report*.json")

    def _folder(self, report: Report) -> Path:
        identifier = report.configuration.user_identifier
        return self.directory / path_part(identifier) if identifier else self.directory


def report_on_disk(reporters: Iterable[FolderReporter], report: Report, callgrind: Path | None = None) -> ReportOutcome:
    """Deliver to every one of them, with callgrind's files of the run, if there are any; as ``report_all``."""
    return deliver_all(reporters, lambda reporter: reporter.report(report, callgrind))


def run_folder(directory: Path, report: Report) -> Path:
    """Return the folder of all runs with the report's framework, platform, spec, date (UTC) and pair of builds."""
    names = [name or "unknown" for name in (report.run.framework, report.configuration.platform, report.run.spec)]
    builds = f"{path_part(report.control.requested)}..{path_part(report.treatment.requested)}"
    return directory.joinpath(*map(path_part, names), _date_folder(report.run), builds)


def _date_folder(run: RunRecord) -> str:
    """Return ``2024/02/29``, the day on which the run started, or ended; zeros when neither is known."""
    for text in (run.started, run.finished):
        try:
            moment = datetime.fromisoformat(text or "")
        except ValueError:
            continue
        if moment.tzinfo is not None:
            moment = moment.astimezone(UTC)
        return f"{moment.year:04d}/{moment.month:02d}/{moment.day:02d}"
    return "0000/00/00"


def _new_numbered_folder(parent: Path) -> Path:
    """Create a folder in ``parent``, numbered after the highest number there, from 0, and return it. No two callers
    get the same."""
    parent.mkdir(parents=True, exist_ok=True)
    numbers = [int(name) for name in os.listdir(parent) if name.isascii() and name.isdigit()]
    for number in count(max(numbers, default=-1) + 1):
        with suppress(FileExistsError):
            (parent / str(number)).mkdir()
            break
    return parent / str(number)


def _write_beside(path: Path, report: Report, callgrind: Path | None) -> str:
    """Write the page of the report that lies at ``path`` beside it, the flame graphs of its causes for speedscope, and
    callgrind's files of them; returns the line that says where the report is. Raises PartlyReportedError: one of these
    could not be made or written. The report is there all the same."""
    line, written = f"report: {printable(str(path))}", path.with_suffix(PAGE)
    try:
        write_page(written, report)
        if any(map(has_frames, report.comparisons)):
            written = path.with_suffix(FLAMES)
            write_atomically(written, to_speedscope(report).text.encode())
        if callgrind is not None and callgrind.is_dir() and any(comparison.cause for comparison in report.comparisons):
            written = path.with_suffix(CALLGRIND)
            _copy_folder(callgrind, written)
    except Exception as error:
        reason = _reason(error)
        why = f"cannot write {written} ({reason}); {path} is there, and has everything"
        raise PartlyReportedError(line, why) from error
    return line


def _reason(error: Exception) -> str:
    if isinstance(error, shutil.Error):  # of each file: from where, to where, and why
        return str(error.args[0][0][2])
    return str(error.strerror) if isinstance(error, OSError) else f"{type(error).__name__}: {error}"


def _copy_folder(source: Path, place: Path) -> None:
    """Copy a folder completely or not at all. Raises OSError: it can't be copied, or ``place`` exists."""
    aside = place.with_name(f".{place.name}.{secrets.token_hex(8)}.tmp")
    try:
        shutil.copytree(source, aside)
        aside.rename(place)
    except BaseException:
        shutil.rmtree(aside, ignore_errors=True)
        raise


@contextmanager
def _locked(folder: Path) -> Iterator[None]:
    """Lock ``folder``, so that no other process writes there between renaming the old report and replacing it."""
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX)
        yield
    finally:
        os.close(descriptor)


def _keep_earlier_report(path: Path) -> None:
    """Give the report at ``path`` a second name with its run's id, which no other file has, and rename the files beside
    it.

    A page without a report is another program's, and is renamed in the same way.
    """
    if not path.exists():
        for page in map(path.with_suffix, BESIDE):
            if page.exists():
                page.rename(next(free_name for free_name in _names(page, "report-unknown") if not free_name.exists()))
        return
    for other_name in _names(path, f"report-{path_part(_run_id(path) or 'unknown')}"):
        try:
            os.link(path, other_name)
        except FileExistsError:
            continue
        for beside in BESIDE:
            with suppress(OSError):  # a page costs no report
                path.with_suffix(beside).replace(other_name.with_suffix(beside))
        return


def _names(path: Path, stem: str) -> Iterator[Path]:
    """Yield names beside ``path`` that begin with ``stem``, without end."""
    return (path.with_name(f"{stem}{suffix}{path.suffix}") for suffix in chain([""], (f"-{n}" for n in count(1))))


def _run_id(path: Path) -> str | None:
    """Return the run id in the report at ``path``; None when it has none or can't be read."""
    try:
        return read_report(path).run.id
    except UsageError:
        return None


def _modified(path: Path) -> float:
    """Return the modification time in seconds since 1970; 0 for a file that is gone."""
    try:
        return path.stat().st_mtime
    except OSError:
        return 0.0
