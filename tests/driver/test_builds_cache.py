"""The cache under ill treatment: killed makers, races, damaged builds."""

import logging
import os
import shutil
import signal
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest
from forked import Forked
from toy_framework import Toy, builds, leftovers, write_releases

from opduel.driver.builds import BuildCache, load_releases, resolve_build
from opduel.records import RunError


@pytest.fixture
def cache(tmp_path: Path) -> BuildCache:
    return BuildCache(tmp_path / "cache")


@pytest.fixture(scope="module")
def original(index: str, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A cache with toy 1.0, for tests to copy."""
    folder = tmp_path_factory.mktemp("original")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("UV_DEFAULT_INDEX", index)
        patch.setenv("UV_CACHE_DIR", str(folder / "uv-cache"))
        resolve_build("toy==1.0", write_releases(folder / "specifications"), BuildCache(folder / "cache"))
    return folder / "cache"


@pytest.fixture
def with_build(original: Path, cache: BuildCache) -> BuildCache:
    """A cache with toy 1.0."""
    shutil.copytree(original, cache.directory, symlinks=True)
    return cache


@pytest.fixture
def block(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """While this file exists, the toy's import does not end; each import is logged in ``imports`` beside it."""
    path = tmp_path / "block"
    path.touch()
    monkeypatch.setenv("TOY_BLOCK", str(path))
    monkeypatch.setenv("TOY_LOG", str(tmp_path / "imports"))
    return path


def maker(toy: Toy, cache: BuildCache, errors: Path | None = None) -> Forked:
    """Another process that resolves toy 1.0; its log goes to ``errors``."""
    script = Path(__file__).with_name("toy_framework.py")
    command = [sys.executable, script, toy.specifications, cache.directory, "toy==1.0"]
    with (errors or Path(os.devnull)).open("w") as stderr:
        return Forked(command, stderr=stderr)


def wait_for(condition: Callable[[], object]) -> None:
    deadline = time.monotonic() + 30
    while not condition():
        assert time.monotonic() < deadline, "waited in vain"
        time.sleep(0.02)


def imports(block: Path) -> int:
    log = block.with_name("imports")
    return len(log.read_text().splitlines()) if log.exists() else 0


def test_a_maker_killed_in_mid_build_is_cleaned_up_after(toy: Toy, cache: BuildCache, block: Path) -> None:
    with maker(toy, cache) as killed:
        wait_for(lambda: imports(block))
        killed.kill()
    assert len(leftovers(cache.directory)) == 1  # else the test would show nothing
    assert builds(cache.directory) == []
    block.unlink()  # its orphaned import may end now
    build = resolve_build("toy==1.0", toy, cache)
    assert build.version == "1.0"
    assert leftovers(cache.directory) == []


def test_a_leftover_is_not_swept_while_an_orphan_works_in_it(toy: Toy, cache: BuildCache, block: Path) -> None:
    with maker(toy, cache) as killed:
        wait_for(lambda: imports(block))
        killed.kill()
    os.environ.pop("TOY_BLOCK")  # the build below doesn't wait; monkeypatch restores it
    resolve_build("toy==2.0", toy, cache)
    assert [name.startswith(".making-toy-1.0") for name in leftovers(cache.directory)] == [True]
    block.unlink()
    with maker(toy, cache) as after:
        assert after.wait(60) == 0
    assert leftovers(cache.directory) == []


def test_a_killed_makers_leftover_is_swept_by_the_next_maker_of_another_build(toy: Toy, cache: BuildCache) -> None:
    place = cache.place("toy", load_releases(toy).recipe("toy", "1.0"))
    leftover = place.with_name(f".making-{place.name}")
    (leftover / "bin").mkdir(parents=True)
    resolve_build("toy==2.0", toy, cache)
    assert not leftover.exists()


def test_a_stopped_maker_leaves_nothing(toy: Toy, cache: BuildCache, block: Path) -> None:
    with maker(toy, cache) as stopped:
        wait_for(lambda: imports(block))
        assert leftovers(cache.directory)
        stopped.send_signal(signal.SIGINT)
        assert stopped.wait(60) == -signal.SIGINT
    assert leftovers(cache.directory) == []
    assert builds(cache.directory) == []


def test_racing_processes_make_it_once(toy: Toy, cache: BuildCache, block: Path) -> None:
    logs = [block.with_name("log-1"), block.with_name("log-2")]
    racers = [maker(toy, cache, log) for log in logs]
    wait_for(lambda: imports(block) and any("waiting for another process" in log.read_text() for log in logs))
    block.unlink()
    outputs = [racer.communicate(timeout=60)[0] for racer in racers]
    assert [racer.returncode for racer in racers] == [0, 0]
    assert imports(block) == 1
    assert outputs == [f"{builds(cache.directory)[0]}/bin/python\n"] * 2


def _no_manifest(build: Path) -> None:
    (build / "manifest.json").unlink()


def _cut_manifest(build: Path) -> None:
    text = (build / "manifest.json").read_text()
    (build / "manifest.json").write_text(text[: len(text) // 2])


def _future_manifest(build: Path) -> None:
    text = (build / "manifest.json").read_text()
    (build / "manifest.json").write_text(text.replace('"manifest_version": 1', '"manifest_version": 2'))


def _other_recipe(build: Path) -> None:
    text = (build / "manifest.json").read_text()
    (build / "manifest.json").write_text(text.replace('"toydep": "0.5"', '"toydep": "0.4"'))


def _no_interpreter(build: Path) -> None:
    (build / "bin" / "python").unlink()
    (build / "bin" / "python").symlink_to("/nowhere/python")


def _no_library(build: Path) -> None:
    next(build.glob("lib/*/site-packages/toy/libtoy.so")).unlink()


def _a_file(build: Path) -> None:
    shutil.rmtree(build)
    build.write_text("not a folder")


@pytest.mark.parametrize(
    "damage", [_no_manifest, _cut_manifest, _future_manifest, _other_recipe, _no_interpreter, _no_library, _a_file]
)
def test_a_damaged_build_is_made_again(
    toy: Toy, with_build: BuildCache, caplog: pytest.LogCaptureFixture, damage: Callable[[Path], None]
) -> None:
    cache = with_build
    first = resolve_build("toy==1.0", toy, cache)
    damage(Path(str(first.directory)))
    with caplog.at_level(logging.WARNING):
        again = resolve_build("toy==1.0", toy, cache)
    assert "is no whole build of toy==1.0: removed, and rebuilt" in caplog.text
    assert again.digest == first.digest
    assert Path(again.interpreter).exists()
    assert leftovers(cache.directory) == []
    assert cache.find("toy", load_releases(toy).recipe("toy", "1.0"))


def test_a_cache_that_was_moved_still_holds_its_builds(
    toy: Toy, with_build: BuildCache, tmp_path: Path, processes_started
) -> None:
    with_build.directory.rename(tmp_path / "moved")
    with processes_started() as started:
        build = resolve_build("toy==1.0", toy, BuildCache(tmp_path / "moved"))
    assert not started
    assert build.interpreter.startswith(str(tmp_path / "moved"))
    assert Path(build.interpreter).exists()


def test_a_full_disk_is_reported(toy: Toy, cache: BuildCache, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(aside: Path, place: Path) -> Path:
        raise OSError(28, "No space left on device", str(aside))

    monkeypatch.setattr(Path, "rename", full)
    with pytest.raises(
        RunError, match=r"No space left on device: free some space, or give another folder with --exec_dir"
    ):
        resolve_build("toy==1.0", toy, cache)
    assert leftovers(cache.directory) == []
    assert builds(cache.directory) == []
