"""One member of an archive: nothing but a regular file is taken, nothing else is written, and no more than the limits.

Members are never written by their own names, so none can climb out of a folder; links and device files are refused.
"""

import bz2
import gzip
import lzma
import stat
import tarfile
import zipfile
import zlib
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import IO, Any, BinaryIO

from opduel.harness.models.download import Limits, copy_limited
from opduel.records import UsageError

_CHUNK = 1 << 20
# gzip and bz2 report a damaged file as an OSError without a number.
_BROKEN = (tarfile.TarError, zipfile.BadZipFile, EOFError, zlib.error, lzma.LZMAError, OSError)
_UNKNOWN = (NotImplementedError, RuntimeError)  # zipfile's words for a compression it has not, and for a password
_PACKED: dict[bytes, Callable[..., Any]] = {b"\x1f\x8b": gzip.open, b"BZh": bz2.open, b"\xfd7zXZ": lzma.open}
_Member = tuple[str, bool, Callable[[], Any]]  # its name, whether it is a regular file, and what opens it


def unpack(archive: Path, member: str, stream: BinaryIO, limits: Limits) -> None:
    """Write the member called ``member`` of a .tar (packed or not) or .zip to ``stream``. Raises UsageError: it is no
    archive, a broken one, has no such member, or more than ``limits`` allow."""
    try:
        _copy_member(archive, member, stream, limits)
    except _UNKNOWN as error:
        raise UsageError(f"{archive.name}: {member}: {error}: pack it again without it") from None
    except _BROKEN as error:
        if isinstance(error, OSError) and error.errno is not None:
            raise
        words = " ".join(str(error).split()) or type(error).__name__
        raise UsageError(f"{archive.name} is not a readable archive ({words}): use .tar, .tar.gz or .zip") from None


def _copy_member(archive: Path, member: str, stream: BinaryIO, limits: Limits) -> None:
    names: list[str] = []
    is_copied = False
    is_zip = zipfile.is_zipfile(archive)
    for name, is_file, opened in _zip_members(archive) if is_zip else _tar_members(archive, limits):
        names.append(name)
        if len(names) > limits.max_members:
            raise UsageError(f"{archive.name} has more than {limits.max_members} members: pack only the network")
        if name != member and (is_zip or name.removeprefix("./") != member.removeprefix("./")):
            continue
        if is_copied or not is_file:
            raise UsageError(
                f"{archive.name}: {member} is not one regular file (a link, a folder, or listed twice): pack it again"
            )
        is_copied = True
        with opened() as source:
            chunks = iter(lambda source=source: source.read(_CHUNK), b"")  # type: ignore[misc]
            copy_limited(chunks, stream, limits, f"{archive.name}: {member}")
    if not is_copied:
        there = ", ".join(names[:5]) or "nothing"
        raise UsageError(f"{archive.name} has no member {member}: it has {there}{', ...' if len(names) > 5 else ''}")


def _zip_members(archive: Path) -> Iterator[_Member]:
    with zipfile.ZipFile(archive) as packed:
        for info in packed.infolist():
            is_file = not info.is_dir() and stat.S_IFMT(info.external_attr >> 16) in (0, stat.S_IFREG)
            yield info.filename, is_file, partial(packed.open, info)


def _tar_members(archive: Path, limits: Limits) -> Iterator[_Member]:
    """Yield the members in order: a packed archive is unpacked once, and no further than the limit."""
    with archive.open("rb") as file:
        head = file.read(8)
    unpacker = next((unpacker for magic, unpacker in _PACKED.items() if head.startswith(magic)), open)
    with unpacker(archive, "rb") as content:
        limited = _LimitedReader(content, limits, archive)
        with tarfile.open(fileobj=limited, mode="r|") as packed:  # type: ignore[call-overload]
            for info in packed:
                yield info.name, info.isreg(), partial(packed.extractfile, info)


class _LimitedReader:
    """What tarfile reads from: no more than the limit, whatever the headers say."""

    def __init__(self, content: IO[bytes], limits: Limits, archive: Path) -> None:
        self._content, self._bytes_left = content, limits.max_bytes
        self._refusal = f"{archive.name} holds more than {limits.max_bytes} bytes when unpacked, which is the limit"

    def read(self, size: int) -> bytes:
        chunk = self._content.read(size)
        self._bytes_left -= len(chunk)
        if self._bytes_left < 0:
            raise UsageError(self._refusal)
        return chunk
