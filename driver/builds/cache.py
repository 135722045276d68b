"""The build cache: a build in its place is complete."""

import logging
import os
import shutil
import sysconfig
from collections.abc import Callable, Collection, Iterator
from contextlib import suppress
from pathlib import Path

import platformdirs

from opduel.driver.builds.manifest import FILE_NAME, Manifest, UnusableBuild, read_manifest
from opduel.driver.builds.recipes import AnyRecipe
from opduel.driver.lock import explained_disk_errors, held_lock, lock_file, try_lock
from opduel.records import Build, RunError

log = logging.getLogger(__name__)

ANOTHER_CACHE = "give another folder with --exec_dir"
_MAKING = ".making-"
_PRUNED = ".pruned-"
_LOCK = ".lock-"
_USED = ".used"
_WAITING = "waiting for another process that is installing %s"

# Makes the build in a directory that exists, and describes it.  Whatever process it starts must inherit the file
# descriptor, through which the lock is held: a build whose maker was killed is swept only when all have ended.
Maker = Callable[[Path, int], Manifest]


class BuildCache:
    """Builds by content: ``<directory>/<framework>/<platform>/<key>/``, each with its manifest.

    Any number of processes may share it.  One process at a time makes a build, in a hidden folder beside its place,
    and renames it into place when it is complete.
    """

    def __init__(self, directory: Path | None = None) -> None:
        """``directory`` need not exist yet; without it, the user's cache folder (XDG_CACHE_HOME is honoured)."""
        folder = directory or platformdirs.user_cache_path("opduel") / "builds"
        self.directory = folder.expanduser().absolute()

    def place(self, framework: str, recipe: AnyRecipe) -> Path:
        """Return the folder of that build, whether it exists or not."""
        return self.folder(framework) / recipe.key

    def folder(self, framework: str) -> Path:
        """Return the folder of the framework's builds for this platform."""
        return self.directory / framework / sysconfig.get_platform()

    def builds_of_commits(self, framework: str) -> Iterator[tuple[Path, Manifest]]:
        """Yield the folders of the framework's complete builds of commits, sorted by name, with their manifests."""
        for place in sorted(self.folder(framework).glob("code-*")):
            with suppress(UnusableBuild):
                yield place, read_manifest(place)

    def find(self, framework: str, recipe: AnyRecipe) -> Build | None:
        """Return the build if it is complete, else None; this reads a few files, starts no process and takes no lock.

        Where it can, it leaves a mark of the time, by which the cache is pruned.
        """
        place = self.place(framework, recipe)
        try:
            build = read_manifest(place, recipe).build(place)
        except UnusableBuild:
            return None
        with suppress(OSError):  # a cache that can't be written is none that is pruned
            (place / _USED).touch()
        return build

    def find_or_make(self, framework: str, recipe: AnyRecipe, make: Maker) -> Build:
        """Return the build; make it if it doesn't exist.

        An error, or a signal that is an exception (Ctrl-C, all of a command's), leaves nothing behind; what a killed
        process left is removed first. RunError: the cache can't be written, or whatever ``make`` raises.
        """
        build = self.find(framework, recipe)
        if build:
            return build
        place = self.place(framework, recipe)
        with explained_disk_errors(self.directory, ANOTHER_CACHE):
            place.parent.mkdir(parents=True, exist_ok=True)
            with held_lock(lock_path(place), lambda _: log.info(_WAITING, place.name)) as lock:
                sweep(place.parent, place)
                return self.find(framework, recipe) or _make_in_place(place, recipe, make, lock)


def prune(cache: BuildCache, limit_bytes: float, keep: Collection[str] = ()) -> list[Path]:
    """Remove builds, the least recently used first, until the cache takes at most ``limit_bytes``; return their places.

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
    sizes = {place: _file_sizes(place) for place in places}
    removed: list[Path] = []
    for place in sorted(places, key=last_used):
        size_by_file = {file: size for files in sizes.values() for file, size in files.items()}
        if sum(size_by_file.values()) <= limit_bytes:
            break
        if str(place) not in keep and remove_unlocked(place):
            removed.append(place)
            log.info("removed %s from the build cache, which may hold %.1f GiB", place.name, limit_bytes / 2**30)
            del sizes[place]
    return removed


def _file_sizes(place: Path) -> dict[tuple[int, int], int]:
    """Return each file's identity on its disk -> the bytes that it takes there."""
    sizes = {}
    for folder, _, names in os.walk(place):
        for name in names:
            with suppress(OSError):  # somebody else may be pruning
                status = os.lstat(os.path.join(folder, name))
                sizes[status.st_dev, status.st_ino] = status.st_blocks * 512
    return sizes


def sweep(folder: Path, own: Path | None = None) -> None:
    """Remove what killed makers and pruners left in the folder, where no process but ``own``'s holds the lock."""
    for leftover in folder.glob(_PRUNED + "*"):  # nobody's build, even while its pruner removes it
        shutil.rmtree(leftover, ignore_errors=True)
    for leftover in folder.glob(_MAKING + "*"):
        other = leftover.with_name(leftover.name.removeprefix(_MAKING))
        with lock_file(lock_path(other)) as descriptor:
            if other == own or try_lock(descriptor):
                log.info("removing %s, left by a killed process", leftover)
                _remove(leftover)


def remove_unlocked(place: Path) -> bool:
    """Remove a build at once, by renaming it away first; False where that can't be: somebody holds its lock, say."""
    aside = place.with_name(f"{_PRUNED}{place.name}-{os.getpid()}")
    try:
        with lock_file(lock_path(place)) as descriptor:
            if not try_lock(descriptor):
                return False
            place.rename(aside)
    except OSError:
        return False
    shutil.rmtree(aside, ignore_errors=True)
    return True


def lock_path(place: Path) -> Path:
    """Return the lock file of the build that is, or would be, at ``place``."""
    return place.with_name(_LOCK + place.name)


def last_used(place: Path) -> float:
    """Return when the build at ``place`` was last used or made, in seconds since 1970; 0 if that can't be read."""
    for path in (place / _USED, place):
        with suppress(OSError):
            return path.stat().st_mtime
    return 0.0


def _make_in_place(place: Path, recipe: AnyRecipe, make: Maker, lock: int) -> Build:
    """Make the build aside and rename it into place; the lock is held."""
    aside = place.with_name(_MAKING + place.name)
    if os.path.lexists(place):
        log.warning("%s: is no whole build of %s: removed, and rebuilt", place, recipe.request)
        place.rename(aside)  # gone at once; removing takes longer
        _remove(aside)
    log.info("installing %s (once; kept in %s)", recipe.request, place)
    try:
        aside.mkdir()
        make(aside, lock).write(aside)
        aside.rename(place)
    except BaseException:
        shutil.rmtree(aside, ignore_errors=True)
        raise
    try:
        return read_manifest(place, recipe).build(place)
    except UnusableBuild as why:
        raise RunError(f"{place}: the build can't be used here: {why}") from None


def _remove(path: Path) -> None:
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path)
    else:
        path.unlink(missing_ok=True)
