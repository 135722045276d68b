"""Builds that several runs send to a host at the same time arrive whole, and once."""

import threading
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from opduel.fleet import archives
from opduel.fleet.archives import Archives
from opduel.fleet.host import HostPlugin, receive
from opduel.fleet.job import BUILDS, HostSettings
from opduel.records import Build
from opduel.support.digests import file_digest

CONTENT = bytes(range(250)) * 4
DIGEST = "digest of a build"


@pytest.fixture
def worker(tmp_path: Path) -> Any:
    """Dask's worker, as far as it is asked for."""
    return SimpleNamespace(plugins={HostPlugin.name: HostPlugin(HostSettings("bench-1", tmp_path / "host"))})


def test_two_senders_of_one_build_do_not_disturb_each_other(tmp_path: Path, worker: Any) -> None:
    (tmp_path / "host").mkdir()
    archive = tmp_path / "archive"
    archive.write_bytes(CONTENT)
    arguments = len(CONTENT), file_digest(archive), worker
    assert receive(DIGEST, "a", 0, CONTENT[:400], *arguments) is None
    assert receive(DIGEST, "b", 0, CONTENT[:500], *arguments) is None
    assert receive(DIGEST, "a", 400, CONTENT[400:], *arguments) is None
    assert receive(DIGEST, "b", 500, CONTENT[500:], *arguments) is None
    assert (tmp_path / "host" / BUILDS / DIGEST).read_bytes() == CONTENT
    assert receive(DIGEST, "c", 0, CONTENT[:-1] + b"!", *arguments) == "an archive arrived damaged"


def test_what_several_runs_want_to_send_is_sent_once(
    tmp_path: Path, worker: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "host").mkdir()
    monkeypatch.setattr(archives, "PIECE", 100)
    commit: Any = "abc"
    build = Build("toy", "abc", "source", "/python", "1.0", "3.11", DIGEST, commit=commit, directory="/built")
    request: Any = SimpleNamespace(control=build, treatment=build, cases=(), framework=None)
    pieces: list[str] = []

    def run(function: Callable[..., Any], *arguments: Any, workers: list[str]) -> dict[str, Any]:
        if function is receive:
            pieces.append(arguments[1])
        return {workers[0]: function(*arguments, dask_worker=worker)}

    def pack(_: Build, path: Path) -> None:
        path.write_bytes(CONTENT)

    monkeypatch.setattr(archives, "pack", pack)
    answers: list[str | None] = []

    def send(number: int) -> None:
        folder = tmp_path / str(number)
        folder.mkdir()
        client: Any = SimpleNamespace(run=run)
        answers.append(Archives(folder, request, None).send(client, "bench-1", "tcp://bench-1:1", [DIGEST]))

    threads = [threading.Thread(target=send, args=(number,)) for number in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(20)
    assert answers == [None, None, None]
    assert len(pieces) == len(CONTENT) / 100
    assert len(set(pieces)) == 1
    assert (tmp_path / "host" / BUILDS / DIGEST).read_bytes() == CONTENT
