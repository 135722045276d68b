"""A contributor's checkout: its work tree as a commit, where its branch began, and nothing of it changed."""

import os
from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest
from made_repository import RemoteRepository, isolate, run

from opduel.driver.git.gitpython import forget_hook_variables
from opduel.driver.git.local import base_of, snapshot, top_of
from opduel.driver.git.refs import UnknownCommit
from opduel.driver.git.repository import Repository, open_repository
from opduel.records import UsageError


@pytest.fixture
def origin(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> RemoteRepository:
    isolate(monkeypatch, tmp_path)
    origin = RemoteRepository(tmp_path / "remote.git")
    origin.commit({"python/code.py": "1\n", "src/native.cc": "1\n", ".gitignore": "*.o\n", "top.txt": "1\n"})
    origin.commit({"python/code.py": "2\n"})
    return origin


@pytest.fixture
def checkout(origin: RemoteRepository, tmp_path: Path) -> Path:
    """A clone with a branch of its own, one commit ahead of the remote's main, which has gone on meanwhile."""
    folder = tmp_path / "checkout"
    run("clone", "--quiet", origin.path, folder)
    run("checkout", "--quiet", "-b", "mine", at=folder)
    (folder / "python" / "code.py").write_text("3\n")
    run("commit", "--quiet", "-am", "Mine", at=folder)
    origin.commit({"python/code.py": "4\n"})
    run("fetch", "--quiet", at=folder)
    return folder


def opened(checkout: Path) -> Repository:
    return open_repository(checkout.parent / "work", None, checkout)


def everything(folder: Path) -> dict[str, tuple[int, int, bytes]]:
    """Every file of a folder, git's own included: size, time of modification, content."""

    def walk() -> Iterator[tuple[str, tuple[int, int, bytes]]]:
        for base, folders, names in os.walk(folder):
            for name in [*names, *folders]:
                path = Path(base) / name
                stat = path.lstat()
                content = path.read_bytes() if path.is_file() and not path.is_symlink() else b""
                is_read = name.startswith("sharedindex.") or ".git/objects" in base  # reading gives a new time
                time = 0 if is_read else stat.st_mtime_ns
                yield str(path), (stat.st_size, time, content)

    return dict(walk())


def contents(repository: Repository, id: str) -> Mapping[str, str]:
    names = run("ls-tree", "-r", "--name-only", id, at=repository.directory).splitlines()
    return {name: run("show", f"{id}:{name}", at=repository.directory) for name in names}


def test_a_clean_work_tree_is_its_head(checkout: Path) -> None:
    snapshot_commit = snapshot(opened(checkout))
    assert snapshot_commit.commit == snapshot_commit.head
    assert (snapshot_commit.head.subject, snapshot_commit.branch, snapshot_commit.changed) == ("Mine", "mine", ())


def test_uncommitted_changes_are_a_commit_and_the_checkout_is_as_it_was(checkout: Path) -> None:
    (checkout / "python" / "code.py").write_text("staged\n")
    run("add", "python/code.py", at=checkout)
    (checkout / "python" / "code.py").write_text("5\n")
    (checkout / "python" / "new.py").write_text("new\n")
    (checkout / "src" / "native.o").write_text("ignored\n")
    (checkout / "src" / "native.cc").unlink()
    (checkout / "notes.txt").write_text("mine\n")
    (checkout / "venv").mkdir()
    (checkout / "venv" / "x").write_text("mine\n")
    repository = opened(checkout)
    before = everything(checkout)
    snapshot_commit = snapshot(repository)
    assert everything(checkout) == before
    assert snapshot_commit.changed == ("python/code.py", "python/new.py", "src/native.cc")
    assert snapshot_commit.left_out == ("notes.txt", "venv/x")
    assert contents(repository, snapshot_commit.commit.id) == {
        ".gitignore": "*.o",
        "python/code.py": "5",
        "python/new.py": "new",
        "top.txt": "1",
    }
    assert snapshot_commit.commit.subject == "uncommitted changes on mine"
    assert repository.parent(snapshot_commit.commit) == snapshot_commit.head
    assert repository.resolve(snapshot_commit.commit.id) == snapshot_commit.commit
    assert run("status", "--porcelain", at=checkout).splitlines()[0] == "MM python/code.py"
    missing = run("cat-file", "--batch-check", at=checkout, stdin=f"{snapshot_commit.commit.id}\n".encode())
    assert missing.endswith("missing"), "no object is written into the user's repository"


def test_the_same_work_tree_gives_the_same_commit(checkout: Path) -> None:
    (checkout / "python" / "code.py").write_text("5\n")
    first = snapshot(opened(checkout)).commit
    os.utime(checkout / "python" / "code.py")
    assert snapshot(opened(checkout)).commit == first
    (checkout / "python" / "code.py").write_text("6\n")
    assert snapshot(opened(checkout)).commit != first


def test_settings_of_the_user_s_that_would_write_or_run_something_are_ignored(checkout: Path) -> None:
    marker = checkout.parent / "told"
    hook = checkout / ".git" / "hooks" / "post-index-change"
    hook.write_text(f"#!/bin/sh\ntouch {marker}\n")
    hook.chmod(0o755)
    for setting in ("core.splitIndex", "core.untrackedCache", "commit.gpgSign"):
        run("config", setting, "true", at=checkout)
    run("update-index", "--split-index", at=checkout)
    marker.unlink(missing_ok=True)
    (checkout / "python" / "code.py").write_text("5\n")
    repository = opened(checkout)
    before = everything(checkout)
    assert snapshot(repository).changed == ("python/code.py",)
    assert everything(checkout) == before
    assert not marker.exists()


def test_it_works_from_within_a_hook_and_in_a_linked_worktree(checkout: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    linked = checkout.parent / "linked"
    run("worktree", "add", "--quiet", "-b", "other", linked, at=checkout)
    (linked / "python" / "code.py").write_text("7\n")
    monkeypatch.setenv("GIT_DIR", str(checkout / ".git"))
    monkeypatch.setenv("GIT_INDEX_FILE", str(checkout / ".git" / "index"))
    forget_hook_variables()  # as a start of opduel does
    before = everything(checkout)
    snapshot_commit = snapshot(opened(linked))
    assert (snapshot_commit.branch, snapshot_commit.changed) == ("other", ("python/code.py",))
    assert everything(checkout) == before


def test_what_a_sparse_checkout_leaves_out_is_not_deleted(checkout: Path) -> None:
    run("sparse-checkout", "set", "--no-cone", "/*", "!/src/", at=checkout)
    assert not (checkout / "src").exists()
    (checkout / "python" / "code.py").write_text("5\n")
    repository = opened(checkout)
    snapshot_commit = snapshot(repository)
    assert snapshot_commit.changed == ("python/code.py",)
    assert "src/native.cc" in contents(repository, snapshot_commit.commit.id)


def test_a_detached_head_and_odd_names(checkout: Path) -> None:
    run("checkout", "--quiet", "--detach", at=checkout)
    (checkout / "python" / "na\nme é.py").write_text("5\n")
    snapshot_commit = snapshot(opened(checkout))
    assert (snapshot_commit.branch, snapshot_commit.changed) == ("", ("python/na\nme é.py",))
    assert snapshot_commit.commit.subject == f"uncommitted changes on {snapshot_commit.head.short}"


def test_conflicts_and_a_repository_without_a_commit_are_refused(checkout: Path, tmp_path: Path) -> None:
    run("config", "user.email", "a@b", at=checkout)
    with pytest.raises(AssertionError):
        run("merge", "--quiet", "origin/main", at=checkout)
    with pytest.raises(UsageError, match=r"python/code\.py has conflicts of a merge: resolve them"):
        snapshot(opened(checkout))
    run("init", "--quiet", tmp_path / "empty" / "checkout")
    with pytest.raises(UsageError, match="has no commit yet"):
        snapshot(opened(tmp_path / "empty" / "checkout"))


def test_changes_within_a_submodule_are_named(checkout: Path, tmp_path: Path) -> None:
    library = RemoteRepository(tmp_path / "library.git")
    library.commit({"code.c": "1\n"})
    run("submodule", "--quiet", "add", library.path, "3rdparty/library", at=checkout)
    run("commit", "--quiet", "-am", "A library", at=checkout)
    assert snapshot(opened(checkout)).within == ()
    (checkout / "3rdparty" / "library" / "code.c").write_text("2\n")
    snapshot_commit = snapshot(opened(checkout))
    assert (snapshot_commit.commit, snapshot_commit.within) == (snapshot_commit.head, ("3rdparty/library",))


def test_the_base_is_where_the_branch_left_the_remote_s_default(checkout: Path, origin: RemoteRepository) -> None:
    repository = opened(checkout)
    head = snapshot(repository).head
    base = base_of(repository, head, None, None)
    assert (base.commit, base.name) == (repository.parent(head), "origin/main")
    origin.branch("v1.x", base.commit.id)
    with pytest.raises(UsageError, match=r"--branch v1.x: origin has no such branch, .* here \(main\): run git fetch"):
        base_of(repository, head, None, "v1.x")
    run("fetch", "--quiet", at=checkout)
    assert base_of(repository, head, None, "v1.x").name == "origin/v1.x"


def test_nothing_is_fetched(checkout: Path, origin: RemoteRepository) -> None:
    origin.path.rename(origin.path.with_name("gone.git"))
    repository = opened(checkout)
    head = snapshot(repository).head
    assert base_of(repository, head, None, None).commit == repository.parent(head)
    repository.fetch()


def test_of_several_remotes_upstream_comes_first(checkout: Path, tmp_path: Path) -> None:
    run("remote", "rename", "origin", "fork", at=checkout)
    repository = opened(checkout)
    head = snapshot(repository).head
    assert base_of(repository, head, None, None).name == "fork/main"
    upstream = RemoteRepository(tmp_path / "upstream.git")
    run("push", "--quiet", upstream.path, "mine:refs/heads/main", at=checkout)
    run("remote", "add", "upstream", upstream.path, at=checkout)
    run("fetch", "--quiet", "upstream", at=checkout)
    assert base_of(repository, head, None, None).commit == head
    assert base_of(repository, head, "fork", None).name == "fork/main"
    run("remote", "rename", "upstream", "theirs", at=checkout)
    with pytest.raises(UsageError, match="remotes are fork, theirs: name one with --remote_repository"):
        base_of(repository, head, None, None)
    with pytest.raises(UsageError, match="--remote_repository nobody: the checkout has no branch of it"):
        base_of(repository, head, "nobody", None)


def test_without_a_remote_it_is_the_checkout_s_own_main(checkout: Path) -> None:
    run("branch", "--force", "main", "mine~1", at=checkout)
    run("remote", "remove", "origin", at=checkout)
    repository = opened(checkout)
    head = snapshot(repository).head
    base = base_of(repository, head, None, None)
    assert (base.name, base.commit) == ("main", repository.parent(head))
    run("branch", "-M", "main", "first", at=checkout)
    assert base_of(repository, head, None, None).name == "first", "the only other one"
    run("branch", "second", at=checkout)
    with pytest.raises(UsageError, match="which branch did yours begin from"):
        base_of(repository, head, None, None)


def test_the_top_of_a_checkout(checkout: Path, tmp_path: Path) -> None:
    assert top_of(checkout / "python") == top_of(checkout) == checkout
    with pytest.raises(UsageError, match="is not in a git checkout"):
        top_of(tmp_path)
    with pytest.raises(UsageError, match="no such folder"):
        top_of(tmp_path / "gone")


def test_names_that_only_the_checkout_knows(checkout: Path) -> None:
    repository = opened(checkout)
    head = run("rev-parse", "HEAD", at=checkout)
    assert repository.resolve("HEAD").id == repository.resolve("@").id == head
    assert repository.resolve("HEAD~1").id == run("rev-parse", "HEAD~1", at=checkout)
    assert repository.resolve("mine@{0}").id == head
    for name in ("HEAD~99", "--all", "nothing", "", "HEAD..main", "HEAD:python"):
        with pytest.raises(UnknownCommit):
            repository.resolve(name)
