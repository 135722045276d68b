"""Mercurial repositories: pulled, converted, and read by their own ids."""

import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import pytest

from opduel.driver.git.history import UnknownCommit
from opduel.driver.hg.repository import HgRepository, open_hg_repository
from opduel.driver.version_control import RemoteGone
from opduel.records import RunError, UsageError

NOON = 1_700_000_000


class MadeHg:
    """A Mercurial repository made by a test; each commit is an hour after the one before."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._time = NOON
        self.run("init", str(path), at=path.parent)

    def run(self, *arguments: str, at: Path | None = None) -> str:
        command = ["hg", "--noninteractive", *arguments]
        process = subprocess.run(command, cwd=at or self.path, capture_output=True, text=True, check=False)
        assert process.returncode == 0, process.stderr
        return process.stdout.strip()

    def commit(self, message: str, user: str = "Ada <ada@example.org>", **files: str) -> str:
        for name, text in files.items():
            (self.path / name).write_text(text)
        self._time += 3600
        options = ("--date", f"{self._time} -7200", "--user", user, "--message", message)
        return re.findall(r"committed changeset \d+:(\w{40})$", self.run("--debug", "commit", "--addremove", *options))[
            0
        ]

    def id(self, name: str) -> str:
        return self.run("log", "--rev", name, "--template", "{node}")


@pytest.fixture(scope="module", autouse=True)
def _environment() -> Iterator[None]:
    """This environment's hg, without the user's settings."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PATH", f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}")
        patch.setenv("HGRCPATH", "")
        patch.setenv("HGPLAIN", "1")
        if shutil.which("hg") is None:
            pytest.skip("not installed: hg (PyPI's mercurial)")
        yield


@pytest.fixture
def origin(tmp_path: Path) -> MadeHg:
    return MadeHg(tmp_path / "theirs")


def opened(origin: MadeHg, tmp_path: Path) -> HgRepository:
    return open_hg_repository(tmp_path / "work", str(origin.path), retries=False)


@dataclass(frozen=True)
class Converted:
    """A Mercurial repository, the ids of its commits, and what was made of it."""

    origin: MadeHg
    ids: Sequence[str]
    repository: HgRepository


@pytest.fixture(scope="module")
def converted(tmp_path_factory: pytest.TempPathFactory) -> Converted:
    """One with three commits of files of all kinds."""
    folder = tmp_path_factory.mktemp("converted")
    origin = MadeHg(folder / "theirs")
    first = origin.commit("One\nand more", user="ada", a="1\n")
    (origin.path / "a folder").mkdir()
    (origin.path / "a folder" / 'odd "\xe9" name').write_bytes(b"\0binary\n\0")
    (origin.path / '"quo\\ted"').write_bytes(b"1\n")
    (origin.path / "script").write_text("#!/bin/sh\n")
    (origin.path / "script").chmod(0o755)
    (origin.path / "link").symlink_to("script")
    second = origin.commit("Two")
    origin.run("remove", "link")
    (origin.path / "link").mkdir()
    (origin.path / "link" / "inside").write_text("a file below what was a link\n")
    third = origin.commit("Three")
    return Converted(origin, [first, second, third], opened(origin, folder))


def test_changesets_keep_ids_authors_dates_and_files(converted: Converted, tmp_path: Path) -> None:
    first, second, third = converted.ids
    repository = converted.repository
    tip = repository.resolve("default")
    line = [*reversed(repository.chain(repository.resolve(first), tip)), repository.resolve(first)]
    assert [commit.id for commit in line] == [third, second, first]
    assert [commit.subject for commit in line] == ["Three", "Two", "One"]
    assert [commit.author for commit in line] == ["Ada <ada@example.org>"] * 2 + ["ada"]
    assert [commit.time for commit in line] == [NOON + 10800, NOON + 7200, NOON + 3600]
    assert repository.default_branch() == "default"
    assert repository.resolve(second[:8]).id == repository.resolve(second).id == second
    assert repository.content(repository.commit(second), 'a folder/odd "\xe9" name') == b"\0binary\n\0"
    for commit in line:
        theirs, ours = tmp_path / f"hg {commit.short}", tmp_path / f"git {commit.short}"
        converted.origin.run("archive", "--rev", commit.id, "--exclude", ".hg_archival.txt", str(theirs))
        repository.checkout(commit, ours)
        assert state(ours) == state(theirs), commit.subject


def state(folder: Path) -> dict[str, tuple[str, bytes]]:
    """What is in a folder: path -> kind, content."""
    state_by_path = {}
    for path in folder.rglob("*"):
        name = str(path.relative_to(folder))
        if name in (".git", ".hg_archival.txt") or (path.is_dir() and not path.is_symlink()):
            continue
        if path.is_symlink():
            state_by_path[name] = ("link", os.readlink(path).encode())
        else:
            state_by_path[name] = ("program" if os.access(path, os.X_OK) else "file", path.read_bytes())
    return state_by_path


@pytest.mark.nightly
def test_a_pull_brings_what_is_new_alone_with_merges_branches_bookmarks_and_tags(
    origin: MadeHg, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    base = origin.commit("Base", a="1\n", b="1\n")
    repository = opened(origin, tmp_path)
    assert repository.resolve("default").id == base
    origin.run("branch", "stable")
    fix = origin.commit("Fix", b="2\n")
    origin.run("update", "default")
    work = origin.commit("Work", a="2\n")
    origin.run("bookmark", "@")
    origin.run("merge", "stable")
    merge = origin.commit("Merge")
    origin.run("tag", "--rev", work, "--user", "Ada", "--date", f"{NOON} 0", "v1")
    origin.run("bookmark", "--rev", fix, "a topic/with..dots")
    with caplog.at_level("INFO"):
        repository = opened(origin, tmp_path)
        repository.fetch()
    assert "converting 4 changesets" in caplog.text
    assert "'a topic/with..dots': a name that git can't have: give the changeset's id instead" in caplog.text
    assert (repository.branch("stable").id, repository.resolve("v1").id) == (fix, work)
    assert repository.default_branch() == "@"
    assert repository.resolve("@").id == repository.resolve("tip").id == origin.id("tip")
    chain = repository.chain(repository.commit(base), repository.commit(merge))
    assert [commit.id for commit in chain] == [work, merge]
    shared = repository.merge_base(repository.commit(fix), repository.commit(work))
    assert shared is not None
    assert shared.id == base
    assert repository.content(repository.commit(merge), "b") == b"2\n"
    origin.run("bookmark", "--delete", "@")
    repository.fetch()
    assert repository.default_branch() == "default"


@pytest.mark.nightly
def test_what_was_killed_is_taken_up_again(origin: MadeHg, tmp_path: Path) -> None:
    first = origin.commit("One", a="1\n")
    opened(origin, tmp_path)
    ids = tmp_path / "work" / "hg" / "ids"
    second = origin.commit("Two", a="2\n")
    with ids.open("a") as file:
        file.write(second[:20])
    (tmp_path / "work" / "hg" / "clone-of another").mkdir()
    repository = opened(origin, tmp_path)
    repository.fetch()
    assert [line.split()[0] for line in ids.read_text().splitlines()] == [first, second]
    assert repository.resolve("default").id == second
    assert len(list((tmp_path / "work" / "hg").glob("clone-*"))) == 1


def test_errors_are_one_line(converted: Converted, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    origin, repository = converted.origin, converted.repository
    with pytest.raises(UnknownCommit, match=r"^'defaul': no branch, tag or commit of that name; similar: default"):
        repository.resolve("defaul")
    (tmp_path / "plain").mkdir()
    with pytest.raises(UsageError, match=r"plain: not a Mercurial repository: give its top folder$"):
        open_hg_repository(tmp_path / "other", str(tmp_path / "plain"))
    with pytest.raises(UsageError, match=r"holds a password or token.*hg help config\.auth") as secret:
        open_hg_repository(tmp_path / "other", "https://ada:hunter2@example.org/r")
    assert "hunter2" not in str(secret.value)
    with pytest.raises(RemoteGone, match=r"nowhere: no such folder"):
        open_hg_repository(tmp_path / "other", str(tmp_path / "nowhere"))
    with pytest.raises(RemoteGone, match=r"^cloning http://127\.0\.0\.1:9/r: hg said: abort: "):
        open_hg_repository(tmp_path / "other", "http://127.0.0.1:9/r", retries=False)
    origin.path.rename(tmp_path / "away")
    with pytest.raises(RemoteGone, match=r"^pulling from .*theirs: hg said: abort: repository .*theirs.* not found"):
        repository.fetch()
    assert repository.resolve("default").id == converted.ids[-1]
    (tmp_path / "away").rename(origin.path)
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(RunError, match=r"^hg is not installed, or not in PATH: install Mercurial"):
        open_hg_repository(tmp_path / "other", str(origin.path))
