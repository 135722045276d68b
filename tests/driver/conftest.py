"""The toy framework with its index, git repositories, a made-up loop, and a watch on processes that a test starts."""

import sys
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from typing import Any

import pytest
from made_repository import RemoteRepository, isolate, run
from made_watch import Loop
from toy_framework import Toy, write_index, write_releases

_STARTS = {"subprocess.Popen", "os.posix_spawn", "os.fork", "os.exec", "os.system"}
_watchers: list[list[str]] = []


def _audit(event: str, arguments: tuple[Any, ...]) -> None:
    if event in _STARTS:
        for started in _watchers:
            started.append(event)


sys.addaudithook(_audit)  # for good: a hook can't be taken away, only left with nobody to tell


@pytest.fixture
def processes_started() -> Callable[[], AbstractContextManager[list[str]]]:
    """A context that yields the list of what was started within it."""

    @contextmanager
    def watch() -> Iterator[list[str]]:
        started: list[str] = []
        _watchers.append(started)
        try:
            yield started
        finally:
            _watchers.remove(started)

    return watch


@pytest.fixture(scope="session")
def index(tmp_path_factory: pytest.TempPathFactory) -> str:
    return write_index(tmp_path_factory.mktemp("index"))


@pytest.fixture
def toy(tmp_path: Path, index: str, monkeypatch: pytest.MonkeyPatch) -> Toy:
    """The toy framework; uv sees the local index alone, and a cache of its own."""
    monkeypatch.setenv("UV_DEFAULT_INDEX", index)
    monkeypatch.setenv("UV_CACHE_DIR", str(tmp_path / "uv-cache"))
    for name in ("TOY_LOG", "TOY_BLOCK", "UV_OFFLINE", "UV_INDEX", "UV_FIND_LINKS"):
        monkeypatch.delenv(name, raising=False)
    return write_releases(tmp_path / "specifications")


@pytest.fixture
def loop(tmp_path: Path) -> Iterator[Loop]:
    fresh_loop = Loop(tmp_path, 4)
    yield fresh_loop
    fresh_loop.journal.close()


@pytest.fixture
def origin(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> RemoteRepository:
    """A remote with one commit and a tag."""
    isolate(monkeypatch, tmp_path)
    origin = RemoteRepository(tmp_path / "remote.git")
    origin.commit({"a": "1", "folder/b": "2"})
    origin.tag("v1", origin.tip("main"), annotated=True)
    return origin


@pytest.fixture
def work(tmp_path: Path) -> Path:
    return tmp_path / "work"


@pytest.fixture
def user(origin: RemoteRepository, tmp_path: Path) -> Path:
    """The user's checkout of the remote, with a branch and a tag of its own."""
    folder = tmp_path / "user"
    run("clone", "--quiet", origin.path, folder)
    run("checkout", "--quiet", "-b", "mine", at=folder)
    (folder / "a").write_text("mine")
    run("commit", "--quiet", "-am", "my change", at=folder)
    run("tag", "my_tag", at=folder)
    return folder
