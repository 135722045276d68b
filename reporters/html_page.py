"""The HTML reporter: a run as one page, in a file of its own."""

from collections.abc import Sequence
from pathlib import Path
from typing import ClassVar, Self

from opduel.records import Report, RunError
from opduel.records.atomic import check_file, check_folder, user_path
from opduel.reporters.base import Reporter
from opduel.reporters.html import write_page


class HtmlReporter(Reporter):
    """Writes FILE, atomically: one self-contained page, to be opened from disk without a network."""

    option: ClassVar[str] = "html_reporter"
    metavar: ClassVar[str | None] = "FILE"
    help: ClassVar[str] = "write the run as one page for a browser, with plots; needs no network"

    def __init__(self, path: Path) -> None:
        """Write at ``path``."""
        self.path = path

    @classmethod
    def from_option(cls, value: str | None) -> Self:
        """The reporter for ``--html_reporter FILE``."""
        return cls(user_path(value or ".", f"--{cls.option}").absolute())

    def files(self) -> Sequence[Path]:
        return [self.path]

    def check(self) -> None:
        """See that the file's folder can be written; it is made where it is missing.

        Raises:
            UsageError: it can't, or FILE is a folder or no regular file.
        """
        check_file(self.path, self.option)
        check_folder(self.path.parent, self.option)

    def report(self, report: Report) -> str:
        """Write the page and return its path as a line; what was at the path before is replaced.

        Raises:
            RunError: it could not be written.
        """
        try:
            self.path.parent.mkdir(parents=True, exist_ok=True)
            write_page(self.path, report)
        except OSError as error:
            raise RunError(
                f"cannot write {self.path} ({error.strerror}): give --{self.option} a file that can be written"
            ) from error
        return f"page: {self.path}"
