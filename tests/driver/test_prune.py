"""The build cache kept to its size: the least recently used goes first, and nothing that is in use."""

import fcntl
import os
import sysconfig
from pathlib import Path

import pytest

from opduel.driver.builds import BuildCache
from opduel.driver.builds.cache import lock_path, prune

MIB = 2**20


@pytest.fixture
def cache(tmp_path: Path) -> BuildCache:
    """Three builds of 1 MiB each, "a" used last, "c" first."""
    for age, name in enumerate("abc"):
        place = tmp_path / "toy" / sysconfig.get_platform() / name
        place.mkdir(parents=True)
        (place / "library").write_bytes(os.urandom(MIB))
        (place / "manifest.json").touch()
        (place / ".used").touch()
        os.utime(place / ".used", (1_700_000_000 - age, 1_700_000_000 - age))
    return BuildCache(tmp_path)


def remaining(cache: BuildCache) -> list[str]:
    return sorted(path.name for path in cache.folder("toy").glob("[!.]*"))


def place(cache: BuildCache, name: str) -> Path:
    return cache.directory / "toy" / sysconfig.get_platform() / name


def test_a_cache_that_is_small_enough_is_left_alone(cache: BuildCache) -> None:
    assert prune(cache, 4 * MIB) == []
    assert remaining(cache) == ["a", "b", "c"]


@pytest.mark.parametrize(("limit", "names"), [(2.5, ["a", "b"]), (1.5, ["a"]), (0.5, [])])
def test_what_was_used_least_recently_goes_first(cache: BuildCache, limit: float, names: list[str]) -> None:
    removed = prune(cache, limit * MIB)
    assert remaining(cache) == names
    assert [path.name for path in removed] == sorted(set("abc") - set(names), reverse=True)
    assert not list(cache.directory.rglob(".pruned-*"))


def test_what_is_no_build_stays(cache: BuildCache) -> None:
    """Whoever gives a folder of theirs as the cache loses nothing in it."""
    own = place(cache, "own work")
    own.mkdir()
    (own / "thesis").write_bytes(os.urandom(MIB))
    prune(cache, 0)
    assert remaining(cache) == ["own work"]
    assert (own / "thesis").stat().st_size == MIB


def test_builds_in_use_stay(cache: BuildCache) -> None:
    prune(cache, 1.5 * MIB, {str(place(cache, "c"))})
    assert remaining(cache) == ["c"]


def test_a_build_whose_lock_is_held_stays(cache: BuildCache) -> None:
    with lock_path(place(cache, "c")).open("a") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        prune(cache, 1.5 * MIB)
    assert remaining(cache) == ["c"]


def test_a_shared_file_takes_space_as_long_as_one_of_its_builds_is_there(cache: BuildCache) -> None:
    for name in "bc":
        (place(cache, name) / "library").unlink()
        os.link(place(cache, "a") / "library", place(cache, name) / "library")
    assert prune(cache, 1.5 * MIB) == []  # one library, three times
    assert [path.name for path in prune(cache, 0.5 * MIB)] == ["c", "b", "a"]  # with the first two nothing is gained


def test_what_a_killed_pruner_or_maker_left_is_removed(cache: BuildCache) -> None:
    for name in (".pruned-d-123", ".making-d", ".making-e"):
        place(cache, name).mkdir()
        (place(cache, name) / "library").write_bytes(os.urandom(MIB))
    with lock_path(place(cache, "e")).open("a") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        assert prune(cache, 4 * MIB) == []
    names = {path.name for path in place(cache, "a").parent.iterdir() if path.is_dir()}
    assert names == {"a", "b", "c", ".making-e"}


def test_a_build_whose_lock_can_t_be_opened_stays(cache: BuildCache) -> None:
    lock_path(place(cache, "c")).mkdir()  # as if it were another user's: root may open any file
    assert [path.name for path in prune(cache, 1.5 * MIB)] == ["b", "a"]
    assert remaining(cache) == ["c"]


def test_a_cache_that_is_not_there_holds_nothing(tmp_path: Path) -> None:
    assert prune(BuildCache(tmp_path / "none"), 0) == []
