"""One member of an archive: nothing but a regular file is taken, nothing else is written, and no more than the limit.

Members are never written by their own names, so none can climb out of a folder.
"""

import lzma
import tarfile
import zipfile
import zlib
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import IO, BinaryIO

from opduel.harness.models.download import Limits, copy_limited
from opduel.records import UsageError

_CHUNK = 1 << 20
# gzip and bz2 report a damaged file as an OSError without a number; zipfile an unknown compression, and a password, as
# the last two.
_BROKEN = (
    *(tarfile.TarError, zipfile.BadZipFile, EOFError, zlib.error, lzma.LZMAError, OSError),
    *(NotImplementedError, RuntimeError),
)


def unpack(archive: Path, member: str, stream: BinaryIO, limits: Limits) -> None:
    """Write the member called ``member`` of a .tar (packed or not) or .zip to ``stream``. Raises UsageError: it is no
    archive, a broken one, has no such file, or a larger one than ``limits`` allow."""
    try:
        with zipfile.ZipFile(archive) if zipfile.is_zipfile(archive) else tarfile.open(archive) as packed:
            openers = _regular_files(packed)
            if member.removeprefix("./") not in openers:
                there = ", ".join([*list(openers)[:5], *(["..."] if len(openers) > 5 else [])]) or "nothing"
                raise UsageError(f"{archive.name} has no file {member}: it has {there}")
            with openers[member.removeprefix("./")]() as source:
                copy_limited(iter(partial(source.read, _CHUNK), b""), stream, limits, f"{archive.name}: {member}")
    except _BROKEN as error:
        if isinstance(error, OSError) and error.errno is not None:
            raise
        words = " ".join(str(error).split()) or type(error).__name__
        raise UsageError(f"{archive.name} is not a readable archive ({words}): use .tar, .tar.gz or .zip") from None


def _regular_files(packed: zipfile.ZipFile | tarfile.TarFile) -> dict[str, Callable[[], IO[bytes]]]:
    """Return what opens each file, by its name."""
    if isinstance(packed, zipfile.ZipFile):
        return {
            info.filename.removeprefix("./"): partial(packed.open, info)
            for info in packed.infolist()
            if not info.is_dir()
        }
    return {
        info.name.removeprefix("./"): partial(packed.extractfile, info)  # type: ignore[misc]
        for info in packed
        if info.isreg()
    }
