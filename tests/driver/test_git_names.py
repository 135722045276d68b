"""How a commit is named: branch, tag, the user's branch, id; and what is said when it is none of these."""

from pathlib import Path

import pytest
from made_repository import RemoteRepository, isolate, run, serve

from opduel.driver.git.refs import UnknownCommit
from opduel.driver.git.repository import Repository, open_repository
from opduel.records import UsageError


@pytest.fixture
def origin(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> RemoteRepository:
    isolate(monkeypatch, tmp_path)
    origin = RemoteRepository(tmp_path / "remote.git")
    origin.commit()
    return origin


def opened(origin: RemoteRepository, repo_dir: Path | None = None) -> Repository:
    remote = "origin" if repo_dir else str(origin.path)
    return open_repository(origin.path.parent / "work", remote, repo_dir)


def test_a_remote_branch_goes_before_a_tag_before_a_local_branch(origin: RemoteRepository, tmp_path: Path) -> None:
    run("clone", "--quiet", origin.path, tmp_path / "user")
    commits = [origin.commit(branch=f"b{index}") for index in range(3)]
    run("fetch", "--quiet", at=tmp_path / "user")
    for name in ("x", "y", "z"):
        run("branch", name, commits[2], at=tmp_path / "user")
    origin.tag("x", commits[1])
    origin.tag("y", commits[1], annotated=True)
    origin.branch("x", commits[0])
    repository = opened(origin, tmp_path / "user")
    repository.fetch()
    assert [repository.resolve(name).id for name in ("x", "y", "z")] == [commits[0], commits[1], commits[2]]


def test_the_remotes_tag_goes_before_the_users_own_of_that_name(origin: RemoteRepository, tmp_path: Path) -> None:
    run("clone", "--quiet", origin.path, tmp_path / "user")
    id = origin.commit()
    origin.tag("v1", id)
    run("tag", "v1", "HEAD", at=tmp_path / "user")
    repository = opened(origin, tmp_path / "user")
    for _ in range(2):
        repository.fetch()
        assert repository.resolve("v1").id == id


def test_an_id_or_its_beginning(origin: RemoteRepository) -> None:
    id = origin.commit()
    repository = opened(origin)
    assert [repository.resolve(name).id for name in (id, id[:12], id[:12].upper())] == [id] * 3


def test_a_name_that_looks_like_an_id_is_a_name_first(origin: RemoteRepository) -> None:
    first, second = origin.commit(), origin.commit()
    origin.branch(second[:8], first)
    assert opened(origin).resolve(second[:8]).id == first


def test_a_beginning_of_several_commits_is_reported(origin: RemoteRepository) -> None:
    ids = origin.line(1200)  # of so many, two begin alike in 4 digits
    beginnings = [id[:4] for id in ids]
    twice = next(beginning for beginning in beginnings if beginnings.count(beginning) > 1)
    with pytest.raises(UnknownCommit, match=rf"^'{twice}': no branch, .* or several commits begin so: give all 40"):
        opened(origin).resolve(twice)


def test_the_id_of_a_file_or_folder_is_no_commit(origin: RemoteRepository) -> None:
    origin.commit({"file": "content"})
    repository = opened(origin)
    for id in (run("rev-parse", "main:file", at=origin.path), run("rev-parse", "main^{tree}", at=origin.path)):
        for name in (id, id[:10]):
            with pytest.raises(UnknownCommit):
                repository.resolve(name)


def test_the_id_of_an_annotated_tag_is_its_commit(origin: RemoteRepository) -> None:
    origin.tag("v1", id := origin.tip("main"), annotated=True)
    assert opened(origin).resolve(run("rev-parse", "refs/tags/v1", at=origin.path)).id == id


def test_a_tag_of_a_file_is_no_commit(origin: RemoteRepository) -> None:
    origin.commit({"key": "a public key"})
    run("tag", "key", "main:key", at=origin.path)
    with pytest.raises(UnknownCommit):
        opened(origin).resolve("key")


def test_similar_names_are_offered_up_to_five(origin: RemoteRepository) -> None:
    for minor in range(9):
        origin.tag(f"1.{minor}.0", origin.tip("main"))
    with pytest.raises(UnknownCommit) as raised:
        opened(origin).resolve("1.10.0")
    assert str(raised.value).startswith("'1.10.0': no branch, tag or commit of that name; similar: 1.")
    assert str(raised.value).count(",") == 1 + 4
    assert isinstance(raised.value, UsageError)
    with pytest.raises(UnknownCommit, match=r"no branch, tag or commit of that name$"):
        opened(origin).resolve("9.9")


@pytest.mark.parametrize(
    "name", ["", "-1", "--all", "main~9", "nowhere~1", "HEAD^2", "main^{tree}", "@{-1}", "a..b", "a b\nc", "../x"]
)
def test_what_is_no_name_is_unknown_in_one_line(origin: RemoteRepository, name: str) -> None:
    origin.commit()
    with pytest.raises(UnknownCommit) as raised:
        opened(origin).resolve(name)
    assert "\n" not in str(raised.value)


def test_head_and_steps_back_are_those_of_the_remote_or_of_the_checkout(
    origin: RemoteRepository, tmp_path: Path
) -> None:
    commits = [origin.commit() for _ in range(3)]
    origin.tag("v1", commits[1], annotated=True)
    names = {"HEAD": 2, "HEAD~2": 0, "main~1": 1, "main^": 1, "v1^": 0, f"{commits[2][:12]}~2": 0, "HEAD^^": 0}
    with serve(tmp_path) as server:
        by_address = open_repository(tmp_path / "address", f"{server.url}/remote.git")
        assert {name: by_address.resolve(name).id for name in names} == {n: commits[i] for n, i in names.items()}
    by_folder = opened(origin)
    assert {name: by_folder.resolve(name).id for name in names} == {n: commits[i] for n, i in names.items()}
    run("clone", "--quiet", origin.path, user := tmp_path / "user")
    run("checkout", "--quiet", "--detach", commits[1], at=user)
    for repository in (open_repository(tmp_path / "a", str(user)), open_repository(tmp_path / "b", "origin", user)):
        assert [repository.resolve(name).id for name in ("HEAD", "HEAD~1", "main")] == [
            commits[1],
            commits[0],
            commits[2],
        ]


def test_a_commit_that_only_the_folder_has_needs_a_branch(origin: RemoteRepository, tmp_path: Path) -> None:
    origin.commit()
    run("clone", "--quiet", origin.path, user := tmp_path / "user")
    repository = open_repository(tmp_path / "work", str(user))
    run("-c", "user.name=a", "-c", "user.email=b@c.example", "commit", "--quiet", "--allow-empty", "-m", "x", at=user)
    with pytest.raises(
        UnknownCommit, match=r"^'HEAD': [0-9a-f]{12} is on no branch of .*user: make one, or use --repo"
    ):
        repository.resolve("HEAD")
    repository.fetch()
    assert repository.resolve("HEAD").subject == "x"
