"""--commit_file: what the driver wrote is read back, and nobody else's file is ever replaced."""

import os
from collections.abc import Callable
from pathlib import Path

import pytest
from made_watch import Loop, a_commit

from opduel.driver.commit_file import kept_commit, kept_name
from opduel.records import Commit, UsageError


def resolving(*names: str) -> Callable[[str], Commit]:
    """A repository that knows the names."""

    def resolve(name: str) -> Commit:
        if name in names:
            return a_commit(1)
        raise UsageError(f"{name!r}: no branch, tag or commit of that name")

    return resolve


@pytest.mark.parametrize("text", ["a" * 40 + "\n", "1.9.1", "  master\n\n"])
def test_what_names_a_commit_is_read(tmp_path: Path, text: str) -> None:
    path = tmp_path / "last"
    path.write_text(text)
    assert kept_name(path) == text.strip()
    assert kept_commit(path, resolving(text.strip())) == a_commit(1)


def test_without_a_file_or_with_an_empty_one_nothing_is_kept(tmp_path: Path) -> None:
    assert kept_commit(tmp_path / "last", resolving()) is None
    (tmp_path / "last").touch()
    assert kept_commit(tmp_path / "last", resolving()) is None


def test_a_commit_of_another_repository_is_no_commit_here(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    (tmp_path / "last").write_text("b" * 40)
    assert kept_commit(tmp_path / "last", resolving()) is None
    assert "starting from the beginning" in caplog.text


@pytest.mark.parametrize("content", [b"shopping", b"two words\n", b"\xff\xfe", b"a" * 5000, b"[1, 2]\n"])
def test_any_other_file_is_refused(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "notes.txt"
    path.write_bytes(content)
    with pytest.raises(UsageError, match=f"^--commit_file {path}: names no commit.*left unchanged") as raised:
        kept_commit(path, resolving("master"))
    assert len(str(raised.value)) < 400
    assert path.read_bytes() == content


def test_what_is_no_file_is_refused_at_once(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    for path in (tmp_path, tmp_path / "pipe", Path("/dev/zero")):
        with pytest.raises(UsageError, match="names no commit"):
            kept_name(path)


def test_a_pass_leaves_the_file_of_somebody_else_alone(loop: Loop) -> None:
    loop.last.write_text("my notes\n")
    with pytest.raises(UsageError, match="names no commit"):
        loop.watch().once()
    assert loop.last.read_text() == "my notes\n"
    assert loop.ear.treatments == []
