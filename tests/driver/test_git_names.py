"""How a commit is named: branch, tag, the user's branch, id; and what is said when it is none of these."""

from pathlib import Path

import pytest
from made_repository import Made, isolate, run

from opduel.driver.git.refs import UnknownCommit
from opduel.driver.git.repository import Repository, open_repository
from opduel.records import UsageError


@pytest.fixture
def made(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Made:
    isolate(monkeypatch, tmp_path)
    made = Made(tmp_path / "remote.git")
    made.commit()
    return made


def opened(made: Made, repo_dir: Path | None = None) -> Repository:
    remote = "origin" if repo_dir else str(made.path)
    return open_repository(made.path.parent / "work", remote, repo_dir)


def test_a_remote_branch_goes_before_a_tag_before_a_local_branch(made: Made, tmp_path: Path) -> None:
    run("clone", "--quiet", made.path, tmp_path / "user")
    commits = [made.commit(branch=f"b{index}") for index in range(3)]
    run("fetch", "--quiet", at=tmp_path / "user")
    for name in ("x", "y", "z"):
        run("branch", name, commits[2], at=tmp_path / "user")
    made.tag("x", commits[1])
    made.tag("y", commits[1], annotated=True)
    made.branch("x", commits[0])
    repository = opened(made, tmp_path / "user")
    repository.fetch()
    assert [repository.resolve(name).id for name in ("x", "y", "z")] == [commits[0], commits[1], commits[2]]


def test_the_remotes_tag_goes_before_the_users_own_of_that_name(made: Made, tmp_path: Path) -> None:
    run("clone", "--quiet", made.path, tmp_path / "user")
    id = made.commit()
    made.tag("v1", id)
    run("tag", "v1", "HEAD", at=tmp_path / "user")
    repository = opened(made, tmp_path / "user")
    for _ in range(2):
        repository.fetch()
        assert repository.resolve("v1").id == id


def test_an_id_or_its_beginning(made: Made) -> None:
    id = made.commit()
    repository = opened(made)
    assert [repository.resolve(name).id for name in (id, id[:12], id[:12].upper())] == [id] * 3


def test_a_name_that_looks_like_an_id_is_a_name_first(made: Made) -> None:
    first, second = made.commit(), made.commit()
    made.branch(second[:8], first)
    assert opened(made).resolve(second[:8]).id == first


def test_a_beginning_of_several_commits_is_reported(made: Made) -> None:
    ids = made.line(1200)  # of so many, two begin alike in 4 digits
    beginnings = [id[:4] for id in ids]
    twice = next(beginning for beginning in beginnings if beginnings.count(beginning) > 1)
    one, other = sorted(id for id in ids if id.startswith(twice))[:2]
    with pytest.raises(UnknownCommit, match=rf"^{twice}: \d+ commits match: {one}, {other}.*: give more digits"):
        opened(made).resolve(twice)


def test_the_id_of_a_file_or_folder_is_no_commit(made: Made) -> None:
    made.commit({"file": "content"})
    repository = opened(made)
    for id in (run("rev-parse", "main:file", at=made.path), run("rev-parse", "main^{tree}", at=made.path)):
        for name in (id, id[:10]):
            with pytest.raises(UnknownCommit):
                repository.resolve(name)


def test_the_id_of_an_annotated_tag_is_its_commit(made: Made) -> None:
    made.tag("v1", id := made.tip("main"), annotated=True)
    assert opened(made).resolve(run("rev-parse", "refs/tags/v1", at=made.path)).id == id


def test_a_tag_of_a_file_is_no_commit(made: Made) -> None:
    made.commit({"key": "a public key"})
    run("tag", "key", "main:key", at=made.path)
    with pytest.raises(UnknownCommit):
        opened(made).resolve("key")


def test_similar_names_are_offered_up_to_five(made: Made) -> None:
    for minor in range(9):
        made.tag(f"1.{minor}.0", made.tip("main"))
    with pytest.raises(UnknownCommit) as raised:
        opened(made).resolve("1.9.9")
    assert str(raised.value).startswith("'1.9.9': no branch, tag or commit of that name; similar: 1.")
    assert str(raised.value).count(",") == 1 + 4
    assert isinstance(raised.value, UsageError)


@pytest.mark.parametrize(
    "name", ["", "-1", "--all", "main~1", "main^{tree}", "@{-1}", "HEAD", "a..b", "a b\nc", "../x"]
)
def test_what_is_no_name_is_unknown_in_one_line(made: Made, name: str) -> None:
    made.commit()
    with pytest.raises(UnknownCommit) as raised:
        opened(made).resolve(name)
    assert "\n" not in str(raised.value)
