"""Raw results are complete lines, and name the commit that measured them."""

from pathlib import Path

import git
import pytest

from benchmarks.raw_results import RESULTS, append, commit_of
from opduel.records import UsageError


def test_a_line_that_was_cut_off_is_replaced(tmp_path: Path) -> None:
    path = tmp_path / "folder" / "data.jsonl"
    append(path, "one")
    path.write_text("one\ntw")
    append(path, "three")
    assert path.read_text() == "one\nthree\n"


def test_a_file_that_cannot_be_written_is_named(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="give a file that can be written"):
        append(tmp_path, "one")


def test_the_commit_says_whether_files_were_changed(tmp_path: Path) -> None:
    assert commit_of(tmp_path) is None
    repository = git.Repo.init(tmp_path)
    assert commit_of(tmp_path) is None
    (tmp_path / "file").write_text("one")
    repository.index.add(["file"])
    commit = repository.index.commit("one").hexsha
    assert commit_of(tmp_path) == commit[:12]
    results = tmp_path / RESULTS / "data.jsonl"
    append(results, "one")
    repository.index.add([str(results)])
    commit = repository.index.commit("two").hexsha
    append(results, "two")
    assert commit_of(tmp_path) == commit[:12]
    (tmp_path / "file").write_text("two")
    assert commit_of(tmp_path) == f"{commit[:12]}-dirty"
    (tmp_path / ".git" / "index").write_text("nonsense")
    assert commit_of(tmp_path) is None
