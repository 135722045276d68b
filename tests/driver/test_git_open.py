"""A repository of our own: made whole or not at all, and nothing of the user's is written to."""

import hashlib
import logging
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from made_repository import RemoteRepository, isolate, run, serve

from opduel.driver.git.refs import UnknownCommit
from opduel.driver.git.repository import Repository, open_repository
from opduel.driver.version_control import RemoteGone
from opduel.records import OpduelError, RunError, UsageError

ROOT = Path(__file__).resolve().parents[2]


def snapshot(folder: Path) -> dict[str, tuple[int, str]]:
    """Every file with its time and content."""
    state = {}
    for path in sorted(folder.rglob("*")):
        if path.is_file() and not path.is_symlink():
            content = hashlib.sha256(path.read_bytes()).hexdigest()
            state[str(path.relative_to(folder))] = (path.stat().st_mtime_ns, content)
    return state


def ids(repository: Repository, *names: str) -> list[str]:
    return [repository.resolve(name).id for name in names]


def test_a_folder_is_cloned_once_and_used_again(origin: RemoteRepository, work: Path) -> None:
    first = open_repository(work, str(origin.path))
    assert first.directory == work / "repository.git"
    assert ids(first, "main", "v1") == [origin.tip("main")] * 2
    assert run("rev-parse", "--is-bare-repository", at=first.directory) == "true"
    assert sorted(path.name for path in work.iterdir()) == ["repository.git", "repository.lock"]
    origin.commit()
    assert ids(open_repository(work, str(origin.path)), "main") != [origin.tip("main")]  # not fetched


def test_no_branch_of_our_own_is_left_by_the_clone(origin: RemoteRepository, work: Path) -> None:
    repository = open_repository(work, str(origin.path))
    refs = run("for-each-ref", "--format=%(refname)", at=repository.directory).split()
    assert refs == ["refs/remotes/origin/HEAD", "refs/remotes/origin/main", "refs/tags/v1"]
    assert not run("config", "--list", "--file", repository.directory / "config", at=work).count("branch.")


def test_a_folder_that_lacks_a_blob_of_old_history_is_cloned_and_fetched(origin: RemoteRepository, work: Path) -> None:
    old = origin.commit({"lost": "x" * 5000})
    new = origin.commit({"lost": None, "kept": "y"})
    run("repack", "-adq", at=origin.path)
    run("unpack-objects", "-q", at=origin.path, stdin=moved_pack(origin.path).read_bytes())
    lost = run("rev-parse", f"{old}:lost", at=origin.path)
    (origin.path / "objects" / lost[:2] / lost[2:]).unlink()
    repository = open_repository(work, str(origin.path))
    after = origin.commit({"kept": "z"})
    repository.fetch()
    assert ids(repository, "main") == [after]
    repository.export(repository.commit(new), "", work / "out")
    assert sorted(path.name for path in (work / "out").iterdir()) == ["a", "folder", "kept"]
    with pytest.raises(RunError, match=lost):
        repository.export(repository.commit(old), "", work / "lost")


def moved_pack(repository: Path) -> Path:
    """The pack, moved out, so that its objects can be unpacked and one of them be lost."""
    (pack,) = (repository / "objects" / "pack").glob("*.pack")
    moved = repository / "out.pack"
    shutil.move(pack, moved)
    for index in (repository / "objects" / "pack").iterdir():
        index.unlink()
    return moved


def test_a_clone_of_a_folder_that_borrows_reads_from_the_same_place(
    origin: RemoteRepository, tmp_path: Path, work: Path
) -> None:
    run("clone", "--quiet", "--shared", "--bare", origin.path, tmp_path / "borrower")
    repository = open_repository(work, str(tmp_path / "borrower"))
    assert repository.files(repository.resolve("main"), "") == ["a", "folder/b"]


def test_an_empty_remote_can_be_opened_and_filled_later(tmp_path: Path, work: Path, origin: RemoteRepository) -> None:
    empty = RemoteRepository(tmp_path / "empty.git")
    repository = open_repository(work, str(empty.path))
    with pytest.raises(UsageError, match="no default branch"):
        repository.default_branch()
    id = empty.commit()
    repository.fetch()
    assert repository.default_branch() == "main"
    assert ids(repository, "main") == [id]


def test_a_checkout_is_borrowed_from_and_not_written_to(origin: RemoteRepository, user: Path, work: Path) -> None:
    (user / "a").write_text("dirty")
    (user / "untracked").write_text("untracked")
    (user / ".git" / "index.lock").write_text("")
    before = snapshot(user)
    newer = origin.commit()
    repository = open_repository(work, "origin", user)
    assert ids(repository, "v1", "mine", "my_tag")[1:] == [run("rev-parse", "mine", at=user)] * 2
    assert repository.default_branch() == "main"
    assert ids(repository, "main") != [newer]
    repository.fetch()
    assert ids(repository, "main") == [newer]
    repository.checkout(repository.resolve("mine"), work / "tree")
    assert (work / "tree" / "a").read_text() == "mine"
    assert snapshot(user) == before


def test_objects_are_not_copied(user: Path, work: Path) -> None:
    repository = open_repository(work, "origin", user)
    repository.fetch()
    assert not [path for path in (repository.directory / "objects").glob("??/*") if path.is_file()]
    assert not list((repository.directory / "objects" / "pack").glob("*.pack"))


def test_a_linked_worktree_and_a_bare_repository_can_be_borrowed_from(user: Path, work: Path, tmp_path: Path) -> None:
    run("worktree", "add", "--quiet", tmp_path / "linked", "main", at=user)
    run("clone", "--quiet", "--bare", user, tmp_path / "bare")
    for index, folder in enumerate((tmp_path / "linked", tmp_path / "bare", user / ".git")):
        repository = open_repository(work / str(index), "origin", folder)
        repository.fetch()
        assert ids(repository, "mine", "my_tag") == [run("rev-parse", "mine", at=user)] * 2


def test_a_checkout_without_a_remote_has_the_users_tags_for_builds_that_ask_git(user: Path, work: Path) -> None:
    repository = open_repository(work, None, user)
    repository.checkout(repository.resolve("mine"), work / "tree")
    assert run("describe", "--tags", at=work / "tree") == "my_tag"


@pytest.mark.parametrize("remote", ["origin", None])
def test_the_users_tags_follow_those_of_the_checkout(user: Path, work: Path, remote: str | None) -> None:
    assert ids(open_repository(work, remote, user), "my_tag") == [run("rev-parse", "mine", at=user)]
    run("tag", "--force", "my_tag", "main", at=user)
    repository = open_repository(work, remote, user)
    assert ids(repository, "my_tag") == [run("rev-parse", "main", at=user)]
    run("tag", "-d", "my_tag", at=user)
    with pytest.raises(UsageError, match="no branch, tag or commit of that name"):
        open_repository(work, remote, user).resolve("my_tag")


def test_local_branches_follow_those_of_the_checkout(user: Path, work: Path) -> None:
    repository = open_repository(work, "origin", user)
    run("branch", "other", "main", at=user)
    run("branch", "-m", "mine", "mine/2", at=user)
    repository.fetch()
    assert ids(repository, "other", "mine/2") == [run("rev-parse", name, at=user) for name in ("main", "mine/2")]
    with pytest.raises(UnknownCommit, match=r"mine/2"):
        repository.resolve("mine")


def test_without_remotes_the_checkout_alone_counts(user: Path, work: Path) -> None:
    run("remote", "remove", "origin", at=user)
    repository = open_repository(work, "origin", user)
    repository.fetch()
    assert repository.default_branch() == "mine"
    assert ids(repository, "mine") == [run("rev-parse", "HEAD", at=user)]


def test_a_remote_is_named_or_given(origin: RemoteRepository, user: Path, work: Path, tmp_path: Path) -> None:
    other = RemoteRepository(tmp_path / "other.git")
    id = other.commit()
    run("remote", "add", "fork", "../other.git", at=user)  # relative to the checkout
    for index, remote in enumerate(("fork", str(other.path), f"file://{other.path}")):
        repository = open_repository(work / str(index), remote, user)
        repository.fetch()
        assert ids(repository, "main") == [id]
    with pytest.raises(UsageError, match=r"^upstream: not a remote of .*its remotes are fork, origin"):
        open_repository(work / "none", "upstream", user)


def test_what_was_known_of_another_remote_is_forgotten(origin: RemoteRepository, work: Path, tmp_path: Path) -> None:
    origin.branch("old", origin.tip("main"))
    open_repository(work, str(origin.path))
    other = RemoteRepository(tmp_path / "other.git")
    id = other.commit()
    repository = open_repository(work, str(other.path))
    with pytest.raises(UnknownCommit):
        repository.resolve("old")
    repository.fetch()
    assert ids(repository, "main") == [id]
    assert repository.default_branch() == "main"


@pytest.mark.parametrize("as_remote", [True, False])
def test_a_shallow_clone_is_refused(origin: RemoteRepository, work: Path, tmp_path: Path, as_remote: bool) -> None:
    origin.commit()
    run("clone", "--quiet", "--depth=1", f"file://{origin.path}", tmp_path / "shallow")
    places = (str(tmp_path / "shallow"),) if as_remote else ("origin", tmp_path / "shallow")
    with pytest.raises(UsageError, match=r"shallow clone, without history: run `git fetch --unshallow`"):
        open_repository(work, *places)
    assert not (work / "repository.git").exists()


def test_a_shallow_remote_is_refused_over_the_network_too(origin: RemoteRepository, work: Path, tmp_path: Path) -> None:
    origin.commit()
    run("clone", "--quiet", "--bare", "--depth=1", f"file://{origin.path}", tmp_path / "served" / "shallow.git")
    with serve(tmp_path / "served") as server:
        with pytest.raises(UsageError, match="--unshallow"):
            open_repository(work, f"{server.url}/shallow.git", sleep=lambda _: None)
        assert not (work / "repository.git").exists()
        assert not (work / "repository.git.making").exists()
        run("init", "--quiet", tmp_path / "empty")
        repository = open_repository(work, f"{server.url}/shallow.git", tmp_path / "empty")
        with pytest.raises(UsageError, match="--unshallow"):
            repository.fetch()


def test_a_partial_clone_is_refused(origin: RemoteRepository, work: Path, tmp_path: Path) -> None:
    run("config", "uploadpack.allowFilter", "true", at=origin.path)
    run("clone", "--quiet", "--filter=blob:none", f"file://{origin.path}", tmp_path / "partial")
    with pytest.raises(UsageError, match="a partial clone"):
        open_repository(work, "origin", tmp_path / "partial")


def test_what_is_no_repository_is_refused_in_one_line(user: Path, work: Path, tmp_path: Path) -> None:
    (tmp_path / "plain").mkdir()
    for folder, words in (
        (tmp_path / "absent", "no such folder"),
        (tmp_path / "plain", "not a git repository"),
        (user / ".git" / "hooks", "not a git repository|a folder inside"),
    ):
        with pytest.raises(UsageError, match=f"^--repo_dir {re.escape(str(folder))}: .*({words})") as raised:
            open_repository(work, "origin", folder)
        assert "\n" not in str(raised.value)
    (user / "sub").mkdir()
    with pytest.raises(UsageError, match="a folder inside a repository"):
        open_repository(work, "origin", user / "sub")
    for remote in (str(tmp_path / "plain"), "-x", ""):
        with pytest.raises(UsageError, match=r"^--remote_repository "):
            open_repository(work, remote)


def test_a_remote_that_is_a_folder_and_is_not_there_is_as_gone_as_a_url(
    origin: RemoteRepository, work: Path, tmp_path: Path
) -> None:
    """At first nothing can be had from it; later the commits at hand are there, and a fetch says that it is gone."""
    away = tmp_path / "away"
    for remote in (str(away), away.as_uri()):
        with pytest.raises(RemoteGone, match=r"/away: (no such folder|git said: )") as raised:
            open_repository(work, remote, sleep=lambda _: None)
        assert raised.value.exit_code == 3
    for name, remote in (("folder", str(origin.path)), ("url", origin.path.as_uri())):
        opened = open_repository(work / name, remote).resolve("main")
        origin.path.rename(away)
        repository = open_repository(work / name, remote, sleep=lambda _: None)
        assert repository.resolve("main") == opened
        with pytest.raises(RemoteGone, match="failed 3 times"):
            repository.fetch()
        away.rename(origin.path)


def test_borrowed_objects_that_are_gone_are_reported_with_the_fix(user: Path, work: Path, tmp_path: Path) -> None:
    repository = open_repository(work, "origin", user)
    commit = repository.resolve("mine")
    user.rename(tmp_path / "elsewhere")
    for use in (
        lambda: repository.commit(commit.id),
        lambda: repository.fetch(),
        lambda: open_repository(work, str(tmp_path / "remote.git")),
    ):
        with pytest.raises(OpduelError, match=r"user/.git/objects: is gone, but .*remove .*repository.git") as raised:
            use()
        assert "\n" not in str(raised.value)
    again = open_repository(work, "origin", tmp_path / "elsewhere")  # it was moved: found again there
    assert again.resolve("mine") == commit


def test_a_branch_that_the_user_removed_and_cleaned_up_is_dropped(
    origin: RemoteRepository, user: Path, work: Path, caplog: pytest.LogCaptureFixture
) -> None:
    repository = open_repository(work, "origin", user)
    old = repository.resolve("mine").id
    run("checkout", "--quiet", "main", at=user)
    run("branch", "-D", "mine", at=user)
    run("tag", "-d", "my_tag", at=user)
    run("reflog", "expire", "--expire=now", "--all", at=user)
    run("gc", "--quiet", "--prune=now", at=user)
    with caplog.at_level(logging.WARNING):
        repository = open_repository(work, "origin", user)
    assert old[:12] in caplog.text
    origin.commit()
    repository.fetch()
    assert ids(repository, "main") == [origin.tip("main")]


def test_the_variables_of_a_git_hook_change_nothing(
    origin: RemoteRepository, user: Path, work: Path, tmp_path: Path
) -> None:
    before = snapshot(user)
    variables = {
        "GIT_DIR": user / ".git",
        "GIT_WORK_TREE": user,
        "GIT_INDEX_FILE": user / ".git" / "index",
        "GIT_OBJECT_DIRECTORY": tmp_path / "nowhere",
    }
    code = "import sys; from pathlib import Path; from opduel.driver.git.repository import open_repository\n"
    code += "work = Path(sys.argv[1]); repository = open_repository(work, sys.argv[2]); repository.fetch()\n"
    code += "repository.checkout(repository.resolve('main'), work / 'tree')"
    environment = {**os.environ, **{name: str(path) for name, path in variables.items()}}
    subprocess.run([sys.executable, "-c", code, work, origin.path], cwd=ROOT, env=environment, check=True)
    assert (work / "tree" / "a").read_text() == "1"
    assert snapshot(user) == before


def test_a_repository_of_the_users_is_not_taken_for_ours(origin: RemoteRepository, work: Path, tmp_path: Path) -> None:
    """--work_dir may be a folder in which somebody keeps a repository.git."""
    run("clone", "--quiet", "--bare", origin.path, work / "repository.git")
    (work / "repository.git" / "config.lock").touch()
    before = contents(work)
    with pytest.raises(UsageError, match=r"repository\.git: is not the driver's own repository: give another folder"):
        open_repository(work, str(origin.path))
    assert contents(work) == before
    (tmp_path / "other").mkdir()
    (tmp_path / "other" / "repository.git").write_text("precious")
    with pytest.raises(UsageError, match="is not the driver's own"):
        open_repository(tmp_path / "other", str(origin.path))


def contents(folder: Path) -> dict[Path, bytes]:
    return {path: path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def test_hooks_of_the_users_are_not_run(
    origin: RemoteRepository, work: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "hooks").mkdir()
    for name in ("post-checkout", "post-index-change", "reference-transaction"):
        (tmp_path / "hooks" / name).write_text(f"#!/bin/sh\ntouch {tmp_path}/ran\n")
        (tmp_path / "hooks" / name).chmod(0o755)
    isolate(monkeypatch, tmp_path, f"[core]\n hooksPath = {tmp_path}/hooks\n[init]\n templateDir = {tmp_path}\n")
    repository = open_repository(work, str(origin.path))
    repository.checkout(repository.resolve("main"), work / "tree")
    assert not (tmp_path / "ran").exists()
