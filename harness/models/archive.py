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
from pathlib import Path
from typing import IO, BinaryIO

from opduel.harness.models.download import Limits, copy_limited
from opduel.records import UsageError

_CHUNK = 1 << 20
_BROKEN = (tarfile.TarError, zipfile.BadZipFile, EOFError, zlib.error, lzma.LZMAError, gzip.BadGzipFile)
_UNKNOWN = (NotImplementedError, RuntimeError)  # zipfile's words for a compression it has not, and for a password
_PACKED = ((b"\x1f\x8b", gzip.open), (b"BZh", bz2.open), (b"\xfd7zXZ", lzma.open))


def unpack(archive: Path, member: str, stream: BinaryIO, limits: Limits) -> None:
    """Write the member called ``member`` of a .tar (packed or not) or .zip to ``stream``.

    Raises:
        UsageError: it is no archive, a broken one, has no such member, or more than ``limits`` allow.
    """
    try:
        if zipfile.is_zipfile(archive):
            _unpack_zip(archive, member, stream, limits)
        else:
            _unpack_tar(archive, member, stream, limits)
    except _BROKEN as error:
        words = " ".join(str(error).split()) or type(error).__name__
        raise UsageError(f"{archive.name} is not a readable archive ({words}): use .tar, .tar.gz or .zip") from None
    except _UNKNOWN as error:
        raise UsageError(f"{archive.name}: {member}: {error}: pack it again without it") from None


def _unpack_zip(archive: Path, member: str, stream: BinaryIO, limits: Limits) -> None:
    with zipfile.ZipFile(archive) as packed:
        _check_count(len(packed.infolist()), archive, limits)
        named = [info for info in packed.infolist() if info.filename == member]
        if not named:
            raise _missing(archive, member, packed.namelist())
        kind = stat.S_IFMT(named[0].external_attr >> 16)
        if len(named) > 1 or named[0].is_dir() or kind not in (0, stat.S_IFREG):
            raise _no_file(archive, member)
        with packed.open(named[0]) as source:
            _copy(source, stream, limits, archive, member)


def _unpack_tar(archive: Path, member: str, stream: BinaryIO, limits: Limits) -> None:
    """Read from the first byte to the last: a packed one is unpacked once, and no further than the limit."""
    names: list[str] = []
    found = False
    with _unpacked(archive) as content:
        limited = _LimitedReader(content, limits, archive)
        with tarfile.open(fileobj=limited, mode="r|") as packed:  # type: ignore[call-overload]
            for info in packed:
                names.append(info.name)
                _check_count(len(names), archive, limits)
                if info.name.removeprefix("./") != member.removeprefix("./"):
                    continue
                if found or not info.isreg():
                    raise _no_file(archive, member)
                found = True
                source = packed.extractfile(info)
                assert source is not None
                _copy(source, stream, limits, archive, member)
    if not found:
        raise _missing(archive, member, names)


def _unpacked(archive: Path) -> IO[bytes]:
    with archive.open("rb") as file:
        head = file.read(8)
    opener = next((opener for magic, opener in _PACKED if head.startswith(magic)), open)
    stream: IO[bytes] = opener(archive, "rb")  # type: ignore[assignment]
    return stream


class _LimitedReader:
    """What tarfile reads from: no more than the limit, whatever the headers say."""

    def __init__(self, content: IO[bytes], limits: Limits, archive: Path) -> None:
        self._content = content
        self._left = limits.max_bytes
        self._archive = archive
        self._limits = limits

    def read(self, size: int) -> bytes:
        chunk = self._content.read(size)
        self._left -= len(chunk)
        if self._left < 0:
            raise UsageError(
                f"{self._archive.name} holds more than {self._limits.max_bytes} bytes when unpacked, which is the limit"
            )
        return chunk


def _copy(source: IO[bytes], stream: BinaryIO, limits: Limits, archive: Path, member: str) -> None:
    copy_limited(iter(lambda: source.read(_CHUNK), b""), stream, limits, f"{archive.name}: {member}")


def _check_count(count: int, archive: Path, limits: Limits) -> None:
    if count > limits.max_members:
        raise UsageError(f"{archive.name} has more than {limits.max_members} members: pack only the network")


def _no_file(archive: Path, member: str) -> UsageError:
    return UsageError(
        f"{archive.name}: {member} is not a single regular file (a link, a folder, or listed twice): pack it again"
    )


def _missing(archive: Path, member: str, names: list[str]) -> UsageError:
    there = ", ".join(names[:5]) or "nothing"
    return UsageError(f"{archive.name} has no member {member}: it has {there}{', ...' if len(names) > 5 else ''}")
