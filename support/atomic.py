"""The atomic file writer, checks of where it may write, and names that are safe as parts of a path."""

import errno
import hashlib
import os
import re
import secrets
import stat
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import BinaryIO

from opduel.support.errors import UsageError

_LONGEST_PART = 80  # characters; two of them and ".." stay below the 255 bytes of a name


def path_part(name: str) -> str:
    """Return ``name`` as one part of a path: ASCII letters, digits and ``._=+@-``; never ``.``, ``..``, hidden or
    empty.

    A long name is cut, and a digest of all of it appended.
    """
    part = re.sub(r"[^A-Za-z0-9._=+@-]+", "_", name)
    part = re.sub(r"^[.-]+", "_", part) or "_"
    if len(part) <= _LONGEST_PART:
        return part
    digest = hashlib.sha256(name.encode("utf-8", "surrogatepass")).hexdigest()[:12]
    return f"{part[: _LONGEST_PART - 13]}-{digest}"


def user_path(text: str, option: str) -> Path:
    """Return the path ``text`` with ``~`` and ``~user`` expanded; UsageError, which names ``option``, if there is no
    such user."""
    try:
        return Path(text).expanduser()
    except RuntimeError:
        raise UsageError(f"{option} {text}: there is no such user: give the full path") from None


def write_atomically(
    path: Path,
    content: bytes | Callable[[BinaryIO], object],
    before_replace: Callable[[Path], object] = lambda _: None,
    mode: int = 0o666,
) -> None:
    """Write ``content`` (bytes, or a function that writes them) to a temporary file beside ``path``, flush it to disk,
    and rename it to ``path``.

    ``before_replace`` is called with the complete temporary file. ``mode`` is the new file's, less the umask. On any
    error ``path`` stays as it was. Raises OSError: it could not be written, or ``path`` is not a regular file; and what
    ``content`` and ``before_replace`` raise.
    """
    if is_special(path):
        raise OSError(errno.EINVAL, "it is not a regular file")
    aside = path.with_name(f".{path.name}.{secrets.token_hex(8)}.tmp")
    try:
        with open(aside, "xb", opener=lambda name, flags: os.open(name, flags, mode)) as file:
            file.write(content) if isinstance(content, bytes) else content(file)
            file.flush()
            os.fsync(file.fileno())
        before_replace(aside)
        os.replace(aside, path)
    except BaseException:
        aside.unlink(missing_ok=True)
        raise
    descriptor = os.open(path.parent, os.O_RDONLY)
    try:
        os.fsync(descriptor)  # so that the new name lasts through a power cut
    finally:
        os.close(descriptor)


def is_special(path: Path) -> bool:
    """Return whether ``path`` is, or links to, a device, a pipe or a socket, which a new file would replace."""
    try:
        mode = path.stat().st_mode
    except OSError:
        return False
    return not stat.S_ISREG(mode) and not stat.S_ISDIR(mode)


def check_file(path: Path, option: str) -> None:
    """Raise UsageError, which names ``option`` and the fix, unless a file can be put at ``path``."""
    if not path.name or os.path.isdir(path):
        raise UsageError(f"--{option} {path}: is a folder: give a file's name")
    if is_special(path):
        raise UsageError(f"--{option} {path}: is not a regular file: give a file's name")


def check_folder(directory: Path, option: str) -> None:
    """Create ``directory`` if it is missing. Raise UsageError, which names ``option`` and the fix, unless files can be
    written in it."""
    try:
        directory.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryFile(dir=directory):
            pass
    except OSError as error:
        raise UsageError(
            f"--{option} {directory}: cannot be written ({error.strerror}): give a folder that can be"
        ) from None
