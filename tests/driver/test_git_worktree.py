"""A worktree is moved from commit to commit: what is equal is not touched, what is not the commit's is not left."""

import os
import shutil
import signal
import time
from pathlib import Path

import pytest
from made_repository import Content, RemoteRepository, Submodule, forked, isolate, run, serve

from opduel.driver.git.repository import Repository, open_repository
from opduel.driver.version_control import RemoteGone
from opduel.records import RunError


@pytest.fixture
def origin(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> RemoteRepository:
    isolate(monkeypatch, tmp_path)
    return RemoteRepository(tmp_path / "remote.git")


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return tmp_path / "work" / "tree"


def opened(origin: RemoteRepository) -> Repository:
    return open_repository(origin.path.parent / "work", str(origin.path), sleep=lambda _: None)


def modules(origin: RemoteRepository, *names: str, url: str = "") -> tuple[dict[str, Content], list[RemoteRepository]]:
    """Files of a commit that has submodules in 3rdparty/, and their repositories."""
    files: dict[str, Content] = {}
    text, repositories = "", []
    for name in names:
        module = RemoteRepository(origin.path.parent / f"{name}.git")
        module.commit({"lib.c": f"{name} 1", "other.c": "same"})
        repositories.append(module)
        address = url.format(name=name) or str(module.path)
        text += f'[submodule "the {name}"]\n\tpath = 3rdparty/{name}\n\turl = {address}\n'
        files[f"3rdparty/{name}"] = Submodule(module.tip("main"))
    return {".gitmodules": text, **files}, repositories


def contents(folder: Path) -> dict[str, str]:
    paths = (path for path in folder.rglob("*") if path.is_file() and path.name != ".git")
    return {str(path.relative_to(folder)): path.read_text() for path in paths}


def test_files_that_are_equal_keep_their_times(origin: RemoteRepository, folder: Path) -> None:
    first = origin.commit({"same": "1", "differs": "1", "gone": "1", "to/folder": "1"})
    second = origin.commit({"differs": "2", "gone": None, "more": "2", "to/folder": None, "to": "a file"})
    repository = opened(origin)
    repository.checkout(repository.commit(first), folder)
    times = (folder / "same").stat()
    os.utime(folder / "same", ns=(times.st_atime_ns, times.st_mtime_ns - 10**9))  # touched, as by a copy; content equal
    before = (folder / "same").stat().st_mtime_ns
    repository.checkout(repository.commit(second), folder)
    assert contents(folder) == {"same": "1", "differs": "2", "more": "2", "to": "a file"}
    assert (folder / "same").stat().st_mtime_ns == before
    assert run("rev-parse", "HEAD", at=folder) == second
    repository.checkout(repository.commit(first), folder)
    assert contents(folder) == {"same": "1", "differs": "1", "gone": "1", "to/folder": "1"}
    assert (folder / "same").stat().st_mtime_ns == before


def test_a_folder_reached_by_a_link_is_the_same_worktree(origin: RemoteRepository, tmp_path: Path) -> None:
    first, second = origin.commit({"same": "1", "a": "1"}), origin.commit({"a": "2"})
    (tmp_path / "real").mkdir()
    (tmp_path / "link").symlink_to(tmp_path / "real")
    times = []
    for place in ("link", "real", "link"):
        repository = open_repository(tmp_path / place / "work", str(origin.path))
        for id in (first, second):
            repository.checkout(repository.commit(id), tmp_path / place / "tree")
        times.append((tmp_path / "real" / "tree" / "same").stat().st_mtime_ns)
    assert len(set(times)) == 1


def test_what_a_build_left_is_discarded(origin: RemoteRepository, folder: Path) -> None:
    id = origin.commit({"a": "1", ".gitignore": "*.o\n"})
    repository = opened(origin)
    repository.checkout(repository.commit(id), folder)
    (folder / "a").write_text("changed")
    (folder / "a.o").write_text("ignored")
    (folder / "build" / "deep").mkdir(parents=True)
    (folder / "build" / "deep" / "x").write_text("untracked")
    run("init", "--quiet", folder / "nested")
    (folder / "a.c").write_text("staged")
    run("add", "a.c", at=folder)
    repository.checkout(repository.commit(id), folder)
    assert contents(folder) == {"a": "1", ".gitignore": "*.o\n"}
    assert not (folder / "nested").exists()
    assert run("status", "--porcelain", at=folder) == ""


def test_patterns_choose_what_is_there(origin: RemoteRepository, folder: Path) -> None:
    id = origin.commit({"a": "1", "example/big": "2", "python/x": "3", "python/tests/t": "4"})
    repository = opened(origin)
    commit = repository.commit(id)
    repository.checkout(commit, folder, ["/*", "!/example/"])
    assert set(contents(folder)) == {"a", "python/x", "python/tests/t"}
    mtime = (folder / "python" / "x").stat().st_mtime_ns
    repository.checkout(commit, folder, ["/python/", "!tests/"])
    assert set(contents(folder)) == {"python/x"}
    repository.checkout(commit, folder)
    assert set(contents(folder)) == {"a", "example/big", "python/x", "python/tests/t"}
    assert (folder / "python" / "x").stat().st_mtime_ns == mtime


def test_two_worktrees_do_not_disturb_each_other(origin: RemoteRepository, folder: Path, tmp_path: Path) -> None:
    first, second = origin.commit({"a": "1", "b": "1"}), origin.commit({"a": "2"})
    repository = opened(origin)
    other = tmp_path / "elsewhere" / "tree"  # of the same name
    repository.checkout(repository.commit(first), folder, ["/a"])
    repository.checkout(repository.commit(second), other)
    repository.checkout(repository.commit(first), folder, ["/a"])
    assert contents(folder) == {"a": "1"}
    assert contents(other) == {"a": "2", "b": "1"}
    assert run("rev-parse", "--is-bare-repository", at=repository.directory) == "true"


def test_submodules_are_at_the_commits_revision(origin: RemoteRepository, folder: Path) -> None:
    files, (submodule, other) = modules(origin, "one", "other")
    first = origin.commit({"a": "1", **files})
    moved = submodule.commit({"lib.c": "one 2"})
    second = origin.commit({"3rdparty/one": Submodule(moved)})
    third = origin.commit({"3rdparty/other": None, "3rdparty/one": None, ".gitmodules": None})
    repository = opened(origin)
    named = ["3rdparty/one", "3rdparty/absent"]
    repository.checkout(repository.commit(first), folder, [], named)
    assert (folder / "3rdparty/one/lib.c").read_text() == "one 1"
    assert not list((folder / "3rdparty/other").iterdir())
    mtime = (folder / "3rdparty/one/other.c").stat().st_mtime_ns
    (folder / "3rdparty/one/lib.c").write_text("changed")
    (folder / "3rdparty/one/lib.o").write_text("left")
    repository.checkout(repository.commit(second), folder, [], named)
    assert contents(folder / "3rdparty/one") == {"lib.c": "one 2", "other.c": "same"}
    assert (folder / "3rdparty/one/other.c").stat().st_mtime_ns == mtime
    repository.checkout(repository.commit(third), folder, [], named)
    assert set(contents(folder)) == {"a"}
    repository.checkout(repository.commit(second), folder, [], [*named, "3rdparty/other"])
    assert (folder / "3rdparty/other/lib.c").read_text() == "other 1"
    repository.checkout(repository.commit(second), folder, [], ["3rdparty/other"])
    assert not list((folder / "3rdparty/one").iterdir())
    assert other.tip("main") == run("rev-parse", "HEAD", at=folder / "3rdparty/other")


def test_submodules_within_chosen_patterns(origin: RemoteRepository, folder: Path) -> None:
    files, _ = modules(origin, "one")
    id = origin.commit({"src/a": "1", "example/b": "2", **files})
    repository = opened(origin)
    for _ in range(2):
        repository.checkout(repository.commit(id), folder, ["/src/"], ["3rdparty/one"])
        assert set(contents(folder)) == {"src/a", ".gitmodules", "3rdparty/one/lib.c", "3rdparty/one/other.c"}


@pytest.mark.parametrize("local", [False, True])
def test_submodules_come_from_where_the_user_says(
    origin: RemoteRepository, folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, local: bool
) -> None:
    files, (submodule,) = modules(origin, "one", url="https://nowhere.invalid/{name}.git")
    id = origin.commit(files)
    rule = (f"url.{tmp_path}/.insteadOf", "https://nowhere.invalid/")
    run("clone", "--quiet", origin.path, tmp_path / "user")
    if local:  # in the checkout's own configuration
        run("config", *rule, at=tmp_path / "user")
    else:
        isolate(monkeypatch, tmp_path, f'[url "{tmp_path}/"]\n insteadOf = {rule[1]}\n')
    repository = open_repository(tmp_path / "work", "origin", tmp_path / "user", sleep=lambda _: None)
    repository.checkout(repository.commit(id), folder, [], ["3rdparty/one"])
    assert run("rev-parse", "HEAD", at=folder / "3rdparty/one") == submodule.tip("main")


def test_protocols_that_the_user_forbids_stay_forbidden(
    origin: RemoteRepository, folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    files, _ = modules(origin, "one")
    id = origin.commit(files)
    repository = opened(origin)
    isolate(monkeypatch, tmp_path, '[protocol "file"]\n allow = never\n')
    with pytest.raises(RemoteGone, match=r"^submodules of .*: git said: .*transport 'file' not allowed"):
        repository.checkout(repository.commit(id), folder, [], ["3rdparty/one"])


def test_a_submodule_whose_clone_was_cut_short_is_cloned_again(origin: RemoteRepository, folder: Path) -> None:
    files, (submodule,) = modules(origin, "one")
    id = origin.commit(files)
    repository = opened(origin)
    repository.checkout(repository.commit(id), folder, [], ["3rdparty/one"])
    module = Path(run("rev-parse", "--absolute-git-dir", at=folder / "3rdparty/one"))
    shutil.rmtree(module / "refs")
    (module / "refs").mkdir()
    (module / "packed-refs").unlink()
    (module / "HEAD").write_text("ref: refs/heads/main\n")
    (module / "index.lock").write_text("")
    repository.checkout(repository.commit(id), folder, [], ["3rdparty/one"])
    assert run("rev-parse", "HEAD", at=folder / "3rdparty/one") == submodule.tip("main")


def test_what_a_kill_leaves_is_repaired(origin: RemoteRepository, folder: Path) -> None:
    first, second = origin.commit({"a": "1", "b": "1"}), origin.commit({"a": "2"})
    repository = opened(origin)
    repository.checkout(repository.commit(first), folder)
    admin = Path(run("rev-parse", "--absolute-git-dir", at=folder))
    spoils = {
        "a lock": lambda: (admin / "index.lock").write_text("x"),
        "no index": lambda: (admin / "index").unlink(),
        "no files": lambda: [path.unlink() for path in (folder / "a", folder / "b")],
        "no link": lambda: [shutil.rmtree(folder), folder.mkdir()],
        "no folder": lambda: shutil.rmtree(folder),
        "no administration": lambda: shutil.rmtree(admin),
        "a half-made one": lambda: [shutil.rmtree(folder), (admin / "locked").write_text("initializing")],
        "no HEAD": lambda: (admin / "HEAD").write_text(""),
    }
    for damage, spoil in spoils.items():
        spoil()
        repository = opened(origin)
        for id, content in ((second, "2"), (first, "1")):
            repository.checkout(repository.commit(id), folder)
            assert contents(folder) == {"a": content, "b": "1"}, damage
        admin = Path(run("rev-parse", "--absolute-git-dir", at=folder))


def test_a_folder_that_is_not_ours_is_left_alone(origin: RemoteRepository, folder: Path, tmp_path: Path) -> None:
    id = origin.commit({"a": "1"})
    repository = opened(origin)
    run("clone", "--quiet", origin.path, tmp_path / "theirs")
    (tmp_path / "plain").mkdir()
    (tmp_path / "plain" / "precious").write_text("x")
    for theirs in (tmp_path / "theirs", tmp_path / "plain"):
        with pytest.raises(RunError, match="holds files, but is no worktree"):
            repository.checkout(repository.commit(id), theirs)
    assert (tmp_path / "plain" / "precious").exists()
    assert (tmp_path / "theirs" / "a").exists()


def test_a_submodule_over_http(origin: RemoteRepository, folder: Path, tmp_path: Path) -> None:
    with serve(tmp_path) as server:
        files, _ = modules(origin, "one", url=server.url + "/{name}.git")
        id = origin.commit(files)
        repository = opened(origin)
        repository.checkout(repository.commit(id), folder, [], ["3rdparty/one"])
    assert (folder / "3rdparty/one/lib.c").read_text() == "one 1"
    repository.checkout(repository.commit(id), folder, [], ["3rdparty/one"])  # needs no network any more


def test_killed_at_any_moment_it_ends_up_whole(origin: RemoteRepository, folder: Path, tmp_path: Path) -> None:
    files, _ = modules(origin, "one")
    many = {f"src/{index}": "x" * 2000 for index in range(300)}
    first = origin.commit({**files, **many})
    second = origin.commit(dict.fromkeys(many, "y" * 2000))

    def check_out_both(work: Path) -> None:
        repository = open_repository(work, str(origin.path))
        for commit_id in (first, second):
            repository.checkout(repository.commit(commit_id), work / "tree", ["/*", "!/none/"], ["3rdparty/one"])

    started = time.monotonic()
    complete = forked(check_out_both, tmp_path / "whole")
    complete.join()
    duration = time.monotonic() - started
    exit_codes = []
    for step in range(4):
        child = forked(check_out_both, tmp_path / "work")
        child.join(duration * (0.3 + 0.18 * step))
        child.kill()
        child.join()
        exit_codes.append(child.exitcode)
    assert complete.exitcode == 0
    assert -signal.SIGKILL in exit_codes
    repository = opened(origin)
    repository.checkout(repository.commit(second), folder, [], ["3rdparty/one"])
    assert contents(folder) == contents(tmp_path / "whole" / "tree")
    assert run("status", "--porcelain", at=folder) == ""
