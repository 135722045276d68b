"""What the reporters that write to a folder have in common."""

from pathlib import Path
from typing import ClassVar, Self

from reporters.atomic import check_folder
from reporters.base import Reporter


class FolderReporter(Reporter):
    """Keeps reports on disk, in or below a folder that is made when it is not there."""

    metavar: ClassVar[str | None] = "DIR"

    def __init__(self, directory: Path) -> None:
        """Write in or below ``directory``."""
        self.directory = directory

    @classmethod
    def from_option(cls, value: str | None) -> Self:
        """The reporter for ``--<option> DIR``."""
        return cls(Path(value or ".").expanduser())

    def check(self) -> None:
        """See that the folder can be written.

        Raises:
            UsageError: it can't.
        """
        check_folder(self.directory, self.option)
