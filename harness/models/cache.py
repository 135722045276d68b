"""The cache of model files: by checksum, each there whole or not at all, and compared with its checksum at each use."""

import hashlib
import re
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import BinaryIO
from urllib.parse import unquote, urlsplit

from opduel.harness.models.archive import unpack
from opduel.harness.models.download import Limits, copy_limited, download
from opduel.records import Case, ModelFile, NoSpaceError, OpduelError, UsageError, is_full
from opduel.support.atomic import write_atomically
from opduel.support.redaction import bare_address

DOWNLOADS = 2  # of a file whose checksum differs: AI-PEP's rule
_MODE = 0o600  # of a file in the cache


class _WrongChecksum(Exception):
    """What was fetched is not the file that the spec names; the text says how."""


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
        result.append(replace(case, files={name: fetched[file] for name, file in case.files.items()}))
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
        write_atomically(within, lambda stream: unpack(target, str(file.member), stream, limits), mode=_MODE)
        return within
    except OSError as error:
        if is_full(error):
            raise NoSpaceError(f"{cache}: no space left: free some, or give another --model_cache") from None
        raise UsageError(f"{cache}: cannot be used ({error.strerror}): give another --model_cache") from None


def _bring(file: ModelFile, target: Path, on_download: Callable[[str], None], limits: Limits) -> None:
    remote = re.match(r"(?i)https?://", file.location) is not None

    def check(aside: Path) -> None:
        if (difference := _mismatch(aside, file)) is not None:
            raise _WrongChecksum(difference)

    mismatch = ""
    for _ in range(DOWNLOADS if remote else 1):
        if remote:
            on_download(f"fetching {bare_address(file.location)}")
        try:
            write_atomically(target, lambda stream: _read_into(file, remote, stream, limits), check, _MODE)
            return
        except _WrongChecksum as error:
            mismatch = str(error)
    target.unlink(missing_ok=True)
    place = bare_address(file.location)
    raise UsageError(f"{place} has {mismatch}: correct the checksum in the spec if that is the file you mean")


def _read_into(file: ModelFile, remote: bool, stream: BinaryIO, limits: Limits) -> None:
    if remote:
        download(file.location, stream, limits)
        return
    path = _local(file.location)
    try:
        with path.open("rb") as source:
            copy_limited(iter(lambda: source.read(1 << 20), b""), stream, limits, str(path))
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


_md5 = partial(hashlib.md5, usedforsecurity=False)


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
