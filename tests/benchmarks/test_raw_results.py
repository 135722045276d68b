"""Raw results are complete lines, and name the commit that measured them."""

from pathlib import Path

import git
import pytest

from benchmarks.raw_results import RESULTS, append, commit_of, read
from opduel.records import UsageError


def test_results_are_read_back_and_a_line_that_was_cut_off_is_replaced(tmp_path: Path) -> None:
    path = tmp_path / "folder" / "data.jsonl"
    assert read(path, dict) == []
    append(path, '{"a": 1}')
    path.write_text('{"a": 1}\n{"a": 2')
    assert read(path, dict) == [{"a": 1}]
    append(path, '{"b": 3}')
    assert read(path, dict) == [{"a": 1}, {"b": 3}]
    with pytest.raises(UsageError, match="line 2 is no such result"):
        read(path, lambda document: document["a"])


def test_the_commit_says_whether_files_were_changed(tmp_path: Path) -> None:
    assert commit_of(tmp_path) is None
    repository = git.Repo.init(tmp_path)
    commit = repository.index.commit("nothing").hexsha[:12]
    append(tmp_path / RESULTS / "data.jsonl", "a result")
    assert commit_of(tmp_path) == commit
    (tmp_path / "file").touch()
    repository.index.add(["file"])
    assert commit_of(tmp_path) == f"{commit}-dirty"
