"""Files that cases need: fetched over http(s) or from a path, kept in a cache by checksum, unpacked.

In the cache each is there whole or not at all, and compared with its checksum at each use. A download has a limit on
its size, a deadline, and further attempts when the network fails. Of an archive nothing but a regular file is taken,
nothing else is written, and no more than the limit; members are never written by their own names.
"""

import hashlib
import http
import lzma
import re
import tarfile
import time
import zipfile
import zlib
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import IO, BinaryIO
from urllib.parse import unquote, urlsplit

import requests
import urllib3
from tenacity import Retrying, retry_if_exception_type, stop_after_attempt, wait_exponential

from opduel.records import Case, ModelFile, NoSpaceError, OpduelError, RunError, UsageError, is_full
from opduel.support.atomic import write_atomically
from opduel.support.redaction import bare_address

GIB = 1024**3
_MODE = 0o600  # of a file in the cache
_CHUNK = 1 << 20
_AGAIN = (408, 425, 429, 500, 502, 503, 504)
# What may be over in a moment.
_PASSING = (requests.ConnectionError, requests.Timeout, requests.HTTPError, urllib3.exceptions.HTTPError)
# gzip and bz2 report a damaged file as an OSError without a number; zipfile an unknown compression, and a password, as
# the last two.
_BROKEN = (
    *(tarfile.TarError, zipfile.BadZipFile, EOFError, zlib.error, lzma.LZMAError, OSError),
    *(NotImplementedError, RuntimeError),
)
_md5 = partial(hashlib.md5, usedforsecurity=False)


@dataclass(frozen=True)
class Limits:
    """Bounds on what is fetched and unpacked. ``silence_s``: without a byte; ``whole_s``: for one file in all."""

    max_bytes: int = 4 * GIB
    silence_s: float = 30.0
    whole_s: float = 3600.0
    attempts: int = 4
    pause_s: float = 1.0  # before the second attempt, twice that before the third...


def fetch_files(
    cases: Sequence[Case],
    cache: Path,
    on_download: Callable[[str], None] = lambda _: None,
    limits: Limits | None = None,
) -> list[Case]:
    """Return the cases with all of their files on this host. Each file is fetched once; ``on_download`` hears of it.

    Locations are then fit to be kept with a report: without user, password and query. Raises UsageError: a file is not
    there, its checksum differs, a refused archive, a cache that can't be written. RunError: a server that can't be
    reached, or does not answer; NoSpaceError: the disk is full.
    """
    fetched: dict[ModelFile, ModelFile] = {}
    result = []
    for case in cases:
        for name, file in case.files.items():
            if file in fetched:
                continue
            try:
                path = str(_fetch(file, cache, on_download, limits or Limits()))
                fetched[file] = replace(file, path=path, location=bare_address(file.location))
            except OpduelError as error:
                raise type(error)(f"{case.id}: files.{name}: {error}") from None
        files = {name: fetched[file] for name, file in case.files.items()}
        result.append(replace(case, files=files) if files else case)
    return result


def checksum_of(file: ModelFile) -> str:
    """Return the checksum that it is known by, and which one that is: ``sha256-1234...``."""
    return f"sha256-{file.sha256}" if file.sha256 else f"md5-{file.md5}"


def place_of(file: ModelFile, cache: Path) -> Path:
    """Return where it is in the cache, if it is there; of a member of an archive, the archive."""
    return cache / checksum_of(file) / (file.filename or _filename(file.location))


def original_of(file: ModelFile) -> Path | None:
    """Return what was fetched for a file that has a ``path``: itself, or its archive; None where that is gone."""
    if file.path is None:
        return None
    own = Path(file.path)
    candidates = [own] if file.member is None else sorted(own.parent.iterdir()) if own.parent.is_dir() else []
    return next((path for path in candidates if _mismatch(path, file) is None), None)


def _fetch(file: ModelFile, cache: Path, on_download: Callable[[str], None], limits: Limits) -> Path:
    """Return the file's path in the cache, its content that of the checksum."""
    target = place_of(file, cache)
    folder = target.parent
    try:
        folder.mkdir(parents=True, exist_ok=True)
        if _mismatch(target, file) is not None:
            _bring(file, target, on_download, limits)
        if file.member is None:
            return target
        within = folder / f"member-{hashlib.sha256(file.member.encode()).hexdigest()[:16]}"
        write_atomically(within, lambda stream: _unpack(target, str(file.member), stream, limits), mode=_MODE)
        return within
    except OSError as error:
        if is_full(error):
            raise NoSpaceError(f"{cache}: no space left: free some, or give another --model_cache") from None
        raise UsageError(f"{cache}: cannot be used ({error.strerror}): give another --model_cache") from None


def _bring(file: ModelFile, target: Path, on_download: Callable[[str], None], limits: Limits) -> None:
    remote, place = re.match(r"(?i)https?://", file.location) is not None, bare_address(file.location)

    def check(aside: Path) -> None:
        if (difference := _mismatch(aside, file)) is not None:
            raise UsageError(f"{place} has {difference}: correct the checksum in the spec if that is the file you mean")

    if remote:
        on_download(f"fetching {place}")
    write_atomically(target, lambda stream: _read_into(file, remote, stream, limits), check, _MODE)


def _read_into(file: ModelFile, remote: bool, stream: BinaryIO, limits: Limits) -> None:
    if remote:
        _download(file.location, stream, limits)
        return
    path = _local(file.location)
    try:
        with path.open("rb") as source:
            _copy_limited(iter(lambda: source.read(_CHUNK), b""), stream, limits, str(path))
    except OSError as error:
        if is_full(error):
            raise
        raise UsageError(f"{path}: cannot be read ({error.strerror}): correct the location") from None


def _local(location: str) -> Path:
    if not location.lower().startswith("file://"):
        return Path(location)
    return Path(unquote(urlsplit(location).path))


def _filename(location: str) -> str:
    path = urlsplit(location).path if "://" in location else location
    return re.sub(r"[^A-Za-z0-9._+=@-]+", "_", unquote(path).rpartition("/")[2]).lstrip(".-")[-100:] or "file"


def _mismatch(path: Path, file: ModelFile) -> str | None:
    """Return what is wrong with the content of ``path``: ``sha256 1234..., not abcd...``; None if nothing is."""
    for name, make, value in (("sha256", hashlib.sha256, file.sha256), ("md5", _md5, file.md5)):
        if value is None:
            continue
        try:
            with path.open("rb") as stream:
                digest = hashlib.file_digest(stream, make).hexdigest()
        except OSError:
            return "no content that can be read"
        if digest != value:
            return f"{name} {digest}, not {value}"
    return None


def _download(url: str, stream: BinaryIO, limits: Limits) -> None:
    """Write what ``url`` holds to ``stream``, from its beginning again at each attempt. Raises UsageError: the server
    refuses, or there is too much of it. RunError: it could not be had in any attempt."""
    deadline, place = time.monotonic() + limits.whole_s, bare_address(url)
    retrying = Retrying(
        retry=retry_if_exception_type(_PASSING),
        stop=stop_after_attempt(limits.attempts),
        wait=wait_exponential(limits.pause_s),
        reraise=True,
    )
    try:
        retrying(_attempt, url, stream, limits, deadline)
    except _PASSING as error:  # whose text may have the address, with secrets
        status = f" {error.response.status_code}" if isinstance(error, requests.HTTPError) else ""
        why = f"in {limits.attempts} attempts ({type(error).__name__}{status})"
        raise RunError(f"{place} could not be fetched {why}: is the network up?") from None
    except requests.RequestException as error:  # a URL that can't be one, a redirection to nowhere
        raise UsageError(f"{place}: {type(error).__name__}: correct the location") from None


def _attempt(url: str, stream: BinaryIO, limits: Limits, deadline: float) -> None:
    stream.seek(0)
    stream.truncate()
    headers = {"Accept-Encoding": "identity"}  # the checksum is that of the file, not of a packed one
    with requests.get(url, stream=True, timeout=limits.silence_s, headers=headers) as response:
        if response.status_code in _AGAIN:
            response.raise_for_status()
        if response.status_code != http.HTTPStatus.OK:
            words = f"the server says {response.status_code} {response.reason or ''}".strip()
            raise UsageError(f"{bare_address(url)}: {words}: correct the location")
        # read1 returns what has come: a server that sends a byte now and then can't outlast the deadline.
        chunks = iter(lambda: response.raw.read1(1 << 16, decode_content=True), b"")
        _copy_limited(chunks, stream, limits, bare_address(url), deadline)


def _copy_limited(
    chunks: Iterable[bytes], stream: BinaryIO, limits: Limits, place: str, deadline: float = float("inf")
) -> None:
    """Write ``chunks`` to ``stream``, no more than the limit and not beyond ``deadline`` (of the monotonic clock).
    Raises UsageError: there is more; RunError: it takes too long."""
    size = 0
    for chunk in chunks:
        size += len(chunk)
        if size > limits.max_bytes:
            raise UsageError(f"{place} has more than {limits.max_bytes} bytes, which is the limit")
        if time.monotonic() > deadline:
            raise RunError(f"{place}: not there after {limits.whole_s:g} s: use a closer copy")
        stream.write(chunk)


def _unpack(archive: Path, member: str, stream: BinaryIO, limits: Limits) -> None:
    """Write the member called ``member`` of a .tar (packed or not) or .zip to ``stream``. Raises UsageError: it is no
    archive, a broken one, has no such file, or a larger one than ``limits`` allow."""
    try:
        with zipfile.ZipFile(archive) if zipfile.is_zipfile(archive) else tarfile.open(archive) as packed:
            openers = _regular_files(packed)
            if member.removeprefix("./") not in openers:
                there = ", ".join([*list(openers)[:5], *(["..."] if len(openers) > 5 else [])]) or "nothing"
                raise UsageError(f"{archive.name} has no file {member}: it has {there}")
            with openers[member.removeprefix("./")]() as source:
                _copy_limited(iter(partial(source.read, _CHUNK), b""), stream, limits, f"{archive.name}: {member}")
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
