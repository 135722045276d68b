"""The two ways in which a command ends badly, each with the exit code that every command gives it."""

import errno
import os

from opduel.records.redaction import redact
from opduel.records.text import one_line


class OpduelError(Exception):
    """An error whose text is meant for the user: one line that names what is wrong and the fix.

    Whatever it is given becomes one printable line without secrets, in which very long arguments are shortened: errors
    are stored and sent, too.
    """

    exit_code = 3

    def __init__(self, text: str = "") -> None:
        super().__init__(one_line(redact(text)))


class UsageError(OpduelError):
    """Wrong usage or input, which the user can fix. Exit code 2."""

    exit_code = 2


class RunError(OpduelError):
    """The run could not be completed, though it was asked for rightly. Exit code 3."""

    exit_code = 3


class BrokenBuildError(RunError):
    """What was to be built is at fault itself, not a disk, the network or a setting: it would fail again."""


class NoSpaceError(RunError):
    """A disk has too little free: nobody's fault who asked, and over as soon as somebody frees some."""


def is_full(error: OSError) -> bool:
    """Whether a disk, or the user's share of it, is full."""
    return error.errno in (errno.ENOSPC, errno.EDQUOT)


def disk_error(place: str | os.PathLike[str], error: OSError, elsewhere: str) -> RunError:
    """What an error of the file system is to the user, in one line: where, what, and what to do.

    ``place``: what was to be written, unless the error itself names a file. ``elsewhere`` says how another place can be
    given ("give another folder with --work_dir").
    """
    where = error.filename if isinstance(error.filename, str) else os.fspath(place)
    if is_full(error):
        return NoSpaceError(f"{where}: {error.strerror}: free some space, or {elsewhere}")
    return RunError(f"{where}: {error.strerror or error}: correct that, or {elsewhere}")
