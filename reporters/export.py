"""The reporters that write a file for others: a page for a browser, or a format of another tool, in one file or two."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Self

from opduel.records import Report, UsageError
from opduel.records.measurement import SIDES, Side
from opduel.reporters.base import FindingsReporter, Reporter, writing
from opduel.reporters.formats import FORMATS, Rendered, check_side, write_format
from opduel.reporters.html import to_html
from opduel.reporters.options import RUN, SIDE
from opduel.support.atomic import check_file, check_folder, path_part, user_path, write_atomically
from opduel.support.text import printable


@dataclass(frozen=True)
class Export:
    """Where a report goes in the format called ``to`` (one of ``FORMATS``). In the name ``file``, ``{side}`` stands for
    control and treatment, with a file for each, and ``{run}`` for the run's id; or ``side`` alone is written.
    ``option`` is what errors name."""

    to: str
    file: str
    option: str
    side: Side | None = None

    def check(self) -> None:
        """Check that the format goes with the file's name, and that the files can be written. Raises UsageError: it
        doesn't, or they can't; the text names the option and the fix."""
        if self.side is not None and SIDE in self.file:
            raise UsageError(f"{self.option} {self.file}: {SIDE} writes both sides: leave it or --side out")
        word = SIDE if self.side is None else "--side"
        is_given = self.side is not None or SIDE in self.file
        check_side(self.to, is_given, self.option, word, f"put {SIDE} into the file's name, and both are written")
        for path in self.files():
            check_file(path, self.option.removeprefix("--"))
            named = [folder for folder in path.parents if RUN in folder.name]  # made when the run's id is known
            check_folder((named or [path])[-1].parent, self.option.removeprefix("--"))

    def write(self, report: Report, content: Rendered | None = None) -> list[str]:
        """Write the file, or both, with ``content`` in place of the usual; returns a line for each, which says what the
        format left out. Raises RunError: a file could not be written; whatever was in its place is still there."""
        lines = []
        for side, path in zip(self._sides(), self.files(path_part(str(report.run.id or "unknown"))), strict=True):
            written = content or write_format(report, self.to, side, self.option)
            with writing(path, f"{self.option} a file that can be written"):
                if not path.parent.exists():  # the run's id may name it
                    path.parent.mkdir(parents=True, exist_ok=True)
                write_atomically(path, written.text.encode("utf-8", "backslashreplace"))
            lines.append(
                f"{self.to}: {printable(str(path))}" + (f" (left out: {written.left_out})" if written.left_out else "")
            )
        return lines

    def files(self, run: str = RUN) -> list[Path]:
        """Return what will be written, by default the run's id still unknown. Raises UsageError: the name means no
        path; the text names the option."""
        names = [self.file.replace(SIDE, side or "").replace(RUN, run) for side in self._sides()]
        return [user_path(name, self.option) for name in names]

    def _sides(self) -> tuple[Side | None, ...]:
        return SIDES if SIDE in self.file else (self.side,)


class ExportReporter(Reporter, option="export_reporter"):
    """Writes FILE in FORMAT; what was there before is replaced."""

    def __init__(self, target: Export) -> None:
        """Write to ``target``."""
        self.target = target

    @classmethod
    def from_option(cls, value: str | None) -> Self:
        to, _, file = (value or "").partition("=")
        to, file = to.strip(), file.strip()
        if to not in FORMATS:
            raise UsageError(f"--{cls.option} {value}: {to!r} is no format: use one of {', '.join(FORMATS)}")
        if not file:
            raise UsageError(f"--{cls.option} {value}: names no file: write {to}=FILE")
        return cls(Export(to, file, f"--{cls.option}"))

    def files(self) -> Sequence[Path]:
        return self.target.files()

    def check(self) -> None:
        self.target.check()

    def report(self, report: Report) -> str | None:
        """Write the file or files, and return a line for each."""
        return "\n".join(self.target.write(report))


class HtmlReporter(FindingsReporter, ExportReporter, option="html_reporter"):
    """Writes FILE: one self-contained page, to be opened from disk without a network."""

    @classmethod
    def from_option(cls, value: str | None) -> Self:
        option = f"--{cls.option}"
        return cls(Export("html", str(user_path(value or ".", option).absolute()), option))

    def report_findings(self, report: Report, culprits: Sequence[str]) -> str:
        """Write the page and return its path as a line."""
        (line,) = self.target.write(report, Rendered(to_html(report, culprits)))
        return line.replace("html: ", "page: ", 1)
