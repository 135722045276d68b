"""Keeping the build cache below a size: the builds used least recently go first."""

import logging
import os
import sysconfig
from collections.abc import Collection
from contextlib import suppress
from pathlib import Path

from opduel.driver.builds.cache import BuildCache, last_used, remove_unlocked, sweep
from opduel.driver.builds.manifest import FILE_NAME

log = logging.getLogger(__name__)


def prune(cache: BuildCache, limit_bytes: float, keep: Collection[str] = ()) -> list[Path]:
    """Remove builds until the cache takes no more than ``limit_bytes``; returns the places of those removed.

    What killed processes left goes first. Left alone: the builds in the folders ``keep``, those that somebody is
    making, what can't be removed, and what is no build. A file that several builds share is counted once, and takes
    space as long as one of them is there.
    """
    for folder in cache.directory.glob(f"*/{sysconfig.get_platform()}"):
        with suppress(OSError):  # a cache of another user's
            sweep(folder)
    places = [
        path
        for path in cache.directory.glob(f"*/{sysconfig.get_platform()}/[!.]*")
        if (path / FILE_NAME).is_file()  # else no build: somebody else's folder
    ]
    owners: dict[tuple[int, int], set[Path]] = {}
    sizes: dict[tuple[int, int], int] = {}
    for place in places:
        for file, size in _files(place):
            owners.setdefault(file, set()).add(place)
            sizes[file] = size
    total = sum(sizes.values())
    removed: list[Path] = []
    for place in sorted(places, key=last_used):
        if total <= limit_bytes:
            break
        if str(place) in keep or not remove_unlocked(place):
            continue
        removed.append(place)
        log.info("removed %s from the build cache, which may hold %.1f GiB", place.name, limit_bytes / 2**30)
        for file, holders in owners.items():
            if place in holders:
                holders.remove(place)
                total -= 0 if holders else sizes[file]
    return removed


def _files(place: Path) -> list[tuple[tuple[int, int], int]]:
    """Each file's identity on its disk, and the bytes that it takes there."""
    found = []
    for folder, _, names in os.walk(place):
        for name in names:
            with suppress(OSError):  # somebody else may be pruning
                status = os.lstat(os.path.join(folder, name))
                found.append(((status.st_dev, status.st_ino), status.st_blocks * 512))
    return found
