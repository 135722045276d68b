"""The export reporter: the report in a file of a format that other tools read, or in two, one a side."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar, Self

from opduel.records import Report, RunError, UsageError
from opduel.records.atomic import check_file, check_folder, path_part, user_path, write_atomically
from opduel.records.measurement import SIDES, Side
from opduel.reporters.base import Reporter
from opduel.reporters.formats import FORMATS, check_side, write_format

SIDE, RUN = "{side}", "{run}"


@dataclass(frozen=True)
class Export:
    """Where a report goes in the format called ``to`` (one of ``FORMATS``). In the name ``file``, ``{side}`` stands for
    control and treatment, with a file for each, and ``{run}`` for the run's id; or ``side`` alone is written."""

    to: str
    file: str
    side: Side | None = None

    def check(self, option: str) -> None:
        """See that format and name go together, and that the files can be written.

        Raises:
            UsageError: it is not so; the text names ``option`` and the fix.
        """
        if self.side is not None and SIDE in self.file:
            raise UsageError(f"{option} {self.file}: {SIDE} writes both sides: leave it or --side out")
        word = SIDE if self.side is None else "--side"
        is_given = self.side is not None or SIDE in self.file
        check_side(self.to, is_given, option, word, f"put {SIDE} into the file's name, and both are written")
        for side in self._sides():
            path = self._path(RUN, side, option)
            check_file(path, option.removeprefix("--"))
            named = [folder for folder in path.parents if RUN in folder.name]  # made when the run's id is known
            check_folder((named or [path])[-1].parent, option.removeprefix("--"))

    def write(self, report: Report, option: str) -> list[str]:
        """Write the file, or both; returns a line for each, which says what the format left out.

        Raises:
            RunError: a file could not be written; whatever was in its place is still there.
        """
        lines = []
        for side in self._sides():
            path = self._path(path_part(str(report.run.id or "unknown")), side, option)
            written = write_format(report, self.to, side, option)
            try:
                if not path.parent.exists():  # the run's id may name it
                    path.parent.mkdir(parents=True, exist_ok=True)
                write_atomically(path, written.text.encode("utf-8", "backslashreplace"))
            except OSError as error:
                raise RunError(f"cannot write {path} ({error.strerror}): give {option} a file that can be") from error
            lines.append(f"{self.to}: {path}" + (f" (left out: {written.left_out})" if written.left_out else ""))
        return lines

    def files(self, option: str) -> list[Path]:
        """What will be written, the run's id still unknown.

        Raises:
            UsageError: the name means no path; the text names ``option``.
        """
        return [self._path(RUN, side, option) for side in self._sides()]

    def _sides(self) -> tuple[Side | None, ...]:
        return SIDES if SIDE in self.file else (self.side,)

    def _path(self, run: str, side: Side | None, option: str) -> Path:
        return user_path(self.file.replace(SIDE, side or "").replace(RUN, run), option)


class ExportReporter(Reporter):
    """Writes FILE in FORMAT; what was there before is replaced."""

    option: ClassVar[str] = "export_reporter"
    metavar: ClassVar[str | None] = "FORMAT=FILE"
    repeatable: ClassVar[bool] = True
    help: ClassVar[str] = (
        f"write FILE for other tools ({', '.join(FORMATS)}); in its name {SIDE} stands for control and treatment, "
        f"{RUN} for the run's id; repeatable"
    )

    def __init__(self, target: Export) -> None:
        """Write to ``target``."""
        self.target = target

    @classmethod
    def from_option(cls, value: str | None) -> Self:
        """The reporter for ``--export_reporter FORMAT=FILE``."""
        to, _, file = (value or "").partition("=")
        to, file = to.strip(), file.strip()
        if to not in FORMATS:
            raise UsageError(f"--{cls.option} {value}: {to!r} is no format: use one of {', '.join(FORMATS)}")
        if not file:
            raise UsageError(f"--{cls.option} {value}: names no file: write {to}=FILE")
        return cls(Export(to, file))

    def files(self) -> Sequence[Path]:
        return self.target.files(f"--{self.option}")

    def check(self) -> None:
        """See that format and file go together, and that the file can be written.

        Raises:
            UsageError: it is not so.
        """
        self.target.check(f"--{self.option}")

    def report(self, report: Report) -> str:
        """Write the file or files, and return a line for each.

        Raises:
            RunError: it could not be written.
        """
        return "\n".join(self.target.write(report, f"--{self.option}"))
