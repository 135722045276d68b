"""Patches as git prints them: which files they are of, whatever these are called."""

import subprocess
from pathlib import Path

import pytest

from opduel.driver.git.patch import parse_patch

NAMES = [
    "plain.c",
    "with space.c",
    "a b/c.c",
    'quo"te.c',
    "back\\slash.c",
    "tab\there.c",
    "bell\a.c",
    "ümlaut.c",
    "x b/y b/z.c",
]

BODY = 20 * "a line of {0}\n"


def git(folder: Path, *words: str) -> str:
    who = ("-c", "user.name=Ada", "-c", "user.email=ada@example.org")
    return subprocess.run(["git", *who, *words], cwd=folder, capture_output=True, check=True).stdout.decode()


@pytest.fixture
def repository(tmp_path: Path) -> Path:
    git(tmp_path, "init", "--quiet")
    for name in NAMES:
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(BODY.format(name))
    git(tmp_path, "add", ".")
    git(tmp_path, "commit", "--quiet", "-m", "First")
    return tmp_path


def patch(repository: Path) -> str:
    git(repository, "add", ".")
    git(repository, "commit", "--quiet", "-m", "Second")
    return git(repository, "diff-tree", "-r", "-z", "--raw", "--patch", "--unified=0", "-M", "HEAD~1", "HEAD")


def test_a_file_has_its_own_name(repository: Path) -> None:
    for name in NAMES:
        (repository / name).write_text(BODY.format(name) + "new\n")
    files = parse_patch(patch(repository))
    assert sorted((file.path, file.was) for file in files) == sorted((name, name) for name in NAMES)
    assert all(hunk.added == ["new"] for file in files for hunk in file.hunks)


def test_one_that_was_renamed_has_both(repository: Path) -> None:
    names = {name: f"moved to {number} b/{Path(name).name}" for number, name in enumerate(NAMES)}
    for name, new in names.items():
        (repository / new).parent.mkdir(parents=True)
        (repository / name).rename(repository / new)
        (repository / new).write_text(BODY.format(name) + "new\n")
    old_paths = {file.path: file.was for file in parse_patch(patch(repository))}
    assert set(old_paths) == set(names.values())
    assert set(old_paths.values()) == set(names)


def test_a_link_that_became_a_file_is_removed_and_added(repository: Path) -> None:
    link = repository / "link"
    link.symlink_to("plain.c")
    patch(repository)
    link.unlink()
    link.write_text("-- a line\n++ another\n")
    (repository / "plain.c").write_text("")
    link_before, link_after, plain = parse_patch(patch(repository))
    assert [file.path for file in (link_before, link_after, plain)] == ["link", "link", "plain.c"]
    assert [hunk.removed for hunk in link_before.hunks] == [["plain.c"]]
    assert [hunk.added for hunk in link_after.hunks] == [["-- a line", "++ another"]]
    assert [len(hunk.before) for hunk in plain.hunks] == [20]
