"""What a commit holds, by hash and by file; and its folders, exported safely."""

import os
from pathlib import Path

import pytest
from made_repository import Link, RemoteRepository, Submodule, isolate, run

from opduel.driver.git.repository import Repository, open_repository
from opduel.driver.version_control import CommandNoSpace
from opduel.records import RunError, UsageError


@pytest.fixture
def origin(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> RemoteRepository:
    isolate(monkeypatch, tmp_path)
    return RemoteRepository(tmp_path / "remote.git")


def opened(origin: RemoteRepository) -> Repository:
    return open_repository(origin.path.parent / "work", str(origin.path))


def test_entries_are_those_of_the_top_level(origin: RemoteRepository) -> None:
    id = origin.commit(
        {"file": "1", "folder/one": "1", "folder/two": "2", "link": Link("file"), "sub": Submodule("1" * 40)}
    )
    repository = opened(origin)
    entries = repository.entries(repository.commit(id))
    assert set(entries) == {"file", "folder", "link", "sub"}
    assert entries["sub"] == "160000 commit " + "1" * 40
    assert entries["folder"] == "040000 tree " + run("rev-parse", "main:folder", at=origin.path)
    assert entries["file"].startswith("100644 blob ")


def test_names_may_hold_anything(origin: RemoteRepository) -> None:
    id = origin.commit({'"tab\\tnew\\nline"': "1", "grüße": "2"})
    repository = opened(origin)
    assert set(repository.entries(repository.commit(id))) == {"tab\tnew\nline", "grüße"}
    repository.export(repository.commit(id), "", origin.path.parent / "out")
    assert set(os.listdir(origin.path.parent / "out")) == {"tab\tnew\nline", "grüße"}


def test_equal_folders_have_equal_trees(origin: RemoteRepository) -> None:
    commit = origin.commit({"python/a": "1", "src/b/c": "2"})
    other = origin.commit({"python/a": "changed"})
    repository = opened(origin)
    first, second = repository.commit(commit), repository.commit(other)
    assert repository.tree(first, "src") == repository.tree(second, "src/")
    assert repository.tree(first, "src/b") == run("rev-parse", f"{commit}:src/b", at=origin.path)
    assert repository.tree(first, "python") != repository.tree(second, "python")
    assert repository.tree(first, "") == run("rev-parse", f"{commit}^{{tree}}", at=origin.path)


@pytest.mark.parametrize("path", ["absent", "file", "folder/absent", "../folder", "/folder", "fold*", ":/folder"])
def test_what_is_no_folder_is_refused(origin: RemoteRepository, path: str) -> None:
    origin.commit({"file": "1", "folder/one": "1"})
    repository = opened(origin)
    with pytest.raises(UsageError, match=r"has no such folder|not a path in the repository"):
        repository.tree(repository.resolve("main"), path)


def test_files_are_all_below_a_folder(origin: RemoteRepository) -> None:
    id = origin.commit({"p/a": "1", "p/b/c": "2", "p/link": Link("a"), "q": "3", "p/sub": Submodule("1" * 40)})
    repository = opened(origin)
    assert repository.files(repository.commit(id), "p") == ["a", "b/c", "link"]


def test_an_export_is_the_files_as_they_are(origin: RemoteRepository, tmp_path: Path) -> None:
    files = {
        "p/a.py": "x = 1\n",
        "p/version.py": "$Format:%H$\n",
        "p/tests/t.py": "pass\n",
        "p/link": Link("tests/t.py"),
        "p/.gitattributes": "version.py export-subst\ntests export-ignore\n",
        ".gitattributes": "p/a.py export-ignore\n",
        "q": "not this",
    }
    id = origin.commit(files)
    repository = opened(origin)
    destination = tmp_path / "deep" / "out"
    repository.export(repository.commit(id), "p", destination)
    exported = sorted(str(path.relative_to(destination)) for path in destination.rglob("*") if not path.is_dir())
    assert exported == sorted(repository.files(repository.commit(id), "p"))
    assert (destination / "version.py").read_text() == "$Format:%H$\n"
    assert (destination / "a.py").read_text() == "x = 1\n"
    assert os.readlink(destination / "link") == "tests/t.py"


def test_links_that_lead_out_are_left_out(origin: RemoteRepository, tmp_path: Path) -> None:
    links = {
        "up": "../q",
        "loop": "loop",
        "absolute": "/etc/passwd",
        "far": "x/../../../q",
        "inside": "x/y",
        "dangling": "nothing",
    }
    id = origin.commit({"q": "1", "p/x/y": "2", **{f"p/{name}": Link(target) for name, target in links.items()}})
    repository = opened(origin)
    repository.export(repository.commit(id), "p", tmp_path / "out")
    assert sorted(os.listdir(tmp_path / "out")) == ["dangling", "inside", "loop", "x"]
    assert (tmp_path / "out" / "inside").read_text() == "2"


@pytest.mark.parametrize("words", ["No space left on device", "Disk quota exceeded"])
def test_a_full_disk_is_known_from_gits_words(
    origin: RemoteRepository, words: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    repository = opened(origin)
    program = tmp_path / "bin" / "git"
    program.parent.mkdir()
    program.write_text(f"#!/bin/sh\necho 'fatal: could not write the index: {words}' >&2\nexit 128\n")
    program.chmod(0o755)
    monkeypatch.setenv("PATH", str(program.parent))
    with pytest.raises(CommandNoSpace, match=f"git reset: fatal: could not write the index: {words}: free some"):
        repository.git.run("reset")


def test_without_git_it_says_what_to_install(origin: RemoteRepository, monkeypatch: pytest.MonkeyPatch) -> None:
    repository = opened(origin)
    monkeypatch.setenv("PATH", "")
    with pytest.raises(RunError, match=r"^git is not installed, or not in PATH: install it$"):
        repository.git.run("reset")
