"""The two ways in which a command ends badly, each with the exit code that every command gives it."""

import errno
import os

from opduel.support.redaction import redact
from opduel.support.text import one_line


class OpduelError(Exception):
    """An error whose text is meant for the user: one line that names what is wrong and the fix.

    The text becomes one printable line without secrets, in which very long arguments are shortened: errors are stored
    and sent, too.
    """

    exit_code = 3

    def __init__(self, text: str = "") -> None:
        super().__init__(one_line(redact(text)))


class UsageError(OpduelError):
    """Wrong usage or input, which the user can fix. Exit code 2."""

    exit_code = 2


class RunError(OpduelError):
    """The run could not be completed, although the usage was correct. Exit code 3."""

    exit_code = 3


class BrokenBuildError(RunError):
    """The sources can't be built. It is not due to a disk, the network or a setting: building fails again."""


class NoSpaceError(RunError):
    """A disk has too little free space."""


def is_full(error: OSError) -> bool:
    """Return whether a disk, or the user's quota of it, is full."""
    return error.errno in (errno.ENOSPC, errno.EDQUOT)


def disk_error(place: str | os.PathLike[str], error: OSError, other_place: str) -> RunError:
    """Return an error of the file system as one line for the user: where, what, and what to do.

    ``place``: what was to be written, unless the error itself names a file. ``other_place`` says how to give another
    place ("give another folder with --work_dir").
    """
    where = error.filename if isinstance(error.filename, str) else os.fspath(place)
    if is_full(error):
        return NoSpaceError(f"{where}: {error.strerror}: free some space, or {other_place}")
    return RunError(f"{where}: {error.strerror or error}: correct that, or {other_place}")
