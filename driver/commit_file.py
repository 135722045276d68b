"""--commit_file: the last commit processed, kept in a file of opduel's own."""

import logging
import re
from collections.abc import Callable
from pathlib import Path

from opduel.records import Commit, UsageError
from opduel.support.files import MissingError, UnreadableError, read_text

log = logging.getLogger(__name__)

PLACEHOLDER = "{branch}"  # in the path: stands for the branch
_LONGEST = 1024  # bytes
_ID = re.compile(r"[0-9a-f]{40}")


def kept_name(path: Path) -> str | None:
    """Return the name in the file: an id that the driver wrote, or a name that a person put there, such as a tag.

    Return None if there is no file, or it is empty. UsageError: the file can't be read, or contains something else, so
    that it must not be replaced.
    """
    try:
        words = read_text(path, _LONGEST, pipes=False).split()
    except MissingError:
        return None
    except UnreadableError as error:
        raise _foreign(path, str(error)) from None
    if len(words) > 1:
        raise _foreign(path, f"holds {len(words)} words")
    return words[0] if words else None


def kept_commit(path: Path, resolve: Callable[[str], Commit]) -> Commit | None:
    """Return the commit that the file names; None without one, or if it is of another repository. UsageError: the
    driver did not write the file."""
    name = kept_name(path)
    if name is None:
        return None
    try:
        return resolve(name)
    except UsageError as error:
        if not _ID.fullmatch(name):
            raise _foreign(path, str(error)) from None
        log.warning(
            "--commit_file %s: does not name a commit of this repository (%s): starting from the beginning", path, error
        )
        return None


def _foreign(path: Path, why: str) -> UsageError:
    return UsageError(
        f"--commit_file {path}: names no commit, so the driver did not write it ({why}): left unchanged; give "
        "another path"
    )
