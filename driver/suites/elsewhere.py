"""Bring a suite to another host: list what its cases need there, pack its files here, unpack them there."""

import tarfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from opduel.driver.builds.transfer import pack_files
from opduel.driver.lock import explained_disk_errors
from opduel.driver.suites.source import Suite, digest_of, files_of
from opduel.driver.suites.work import CacheOrder
from opduel.records import Case, RunError
from opduel.support.text import one_line


@dataclass(frozen=True)
class ChosenSuite:
    """A suite of which cases were chosen.

    ``orders`` has every ``setup_cache`` that these need; ``keys`` maps the name of a benchmark with one to its folder.
    """

    suite: Suite
    orders: Sequence[CacheOrder]
    keys: Mapping[str, str]

    def needed_by(self, cases: Sequence[Case]) -> list[CacheOrder]:
        """Return the orders that these cases need."""
        needed = {self.keys.get(case.operator) for case in cases}
        return [order for order in self.orders if order.key in needed]


def pack_suite(suite: Suite, archive: Path) -> None:
    """Write the suite's files to ``archive``, a tar file. Raise RunError if they are no longer what they were when the
    run began, or can't be read or written."""
    if digest_of(suite.folder, suite.parts) != suite.digest:
        raise RunError(f"--suite {suite.folder}: was changed since it was read: start the run again")
    names = [str(path) for path in files_of(suite.folder, suite.parts) if (suite.folder / path).is_file()]
    pack_files(suite.folder, names, archive, dereference=True)


def unpack_suite(archive: Path, digest: str, folder: Path, parts: Sequence[str] = ()) -> None:
    """Put the suite's files in ``folder``; ``parts`` are those of the suite. Raise RunError if the archive is damaged
    or holds another suite, or the folder can't be written."""
    try:
        with explained_disk_errors(folder, "give another one with --folder"):
            folder.mkdir(parents=True, exist_ok=True)
            with tarfile.open(archive) as tar:
                tar.extractall(folder, filter="data")
    except tarfile.TarError as error:
        raise RunError(f"{archive}: is damaged ({one_line(str(error))}): start the run again") from None
    if digest_of(folder, parts) != digest:
        raise RunError(f"{archive}: holds another suite than {digest[:12]}: start the run again")
