"""Changes on the remote are fetched; a forced push is followed; what fails is tried again."""

import shutil
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest
from made_repository import RemoteRepository, isolate, run, serve

from opduel.driver.git.refs import UnknownCommit
from opduel.driver.git.repository import Repository, open_repository
from opduel.driver.version_control import RemoteGone
from opduel.records import UsageError

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture
def origin(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> RemoteRepository:
    isolate(monkeypatch, tmp_path)
    origin = RemoteRepository(tmp_path / "remote.git")
    origin.commit()
    return origin


@pytest.fixture
def repository(origin: RemoteRepository, tmp_path: Path) -> Repository:
    return open_repository(tmp_path / "work", str(origin.path), sleep=lambda _: None)


def test_further_commits_and_branches_are_brought(origin: RemoteRepository, repository: Repository) -> None:
    id = origin.commit()
    origin.branch("more", id)
    origin.tag("v1", id)
    repository.fetch()
    assert [repository.resolve(name).id for name in ("main", "more", "v1")] == [id] * 3


def test_a_forced_branch_is_taken_and_its_commits_stay(origin: RemoteRepository, repository: Repository) -> None:
    root = origin.tip("main")
    origin.commit()
    repository.fetch()
    old = origin.tip("main")
    new = origin.commit(parents=[root], subject="instead")
    repository.fetch()
    assert repository.resolve("main").id == new
    assert repository.commit(old).id == old


def test_a_deleted_branch_goes_and_its_commit_stays(origin: RemoteRepository, repository: Repository) -> None:
    origin.branch("topic", id := origin.commit(branch="topic"))
    repository.fetch()
    origin.drop("refs/heads/topic")
    repository.fetch()
    with pytest.raises(UnknownCommit):
        repository.resolve("topic")
    run("gc", "--auto", "--quiet", at=repository.directory)
    assert repository.commit(id).id == id


def test_a_deleted_tag_stays_and_a_moved_one_is_taken(origin: RemoteRepository, repository: Repository) -> None:
    origin.tag("kept", first := origin.commit(branch="topic"), annotated=True)
    origin.tag("moved", first)
    repository.fetch()
    origin.drop("refs/heads/topic")
    origin.drop("refs/tags/kept")
    origin.tag("moved", second := origin.commit())
    repository.fetch()
    assert repository.resolve("kept").id == first
    assert repository.resolve("moved").id == second


def test_users_who_have_tags_pruned_have_ours_kept(
    origin: RemoteRepository, repository: Repository, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    isolate(monkeypatch, tmp_path, "[fetch]\n prune = true\n pruneTags = true\n output = compact\n")
    origin.tag("kept", id := origin.commit())
    repository.fetch()
    origin.drop("refs/tags/kept")
    repository.fetch()
    assert repository.resolve("kept").id == id


def test_a_branch_makes_room_for_branches_below_it(origin: RemoteRepository, repository: Repository) -> None:
    origin.branch("topic", origin.tip("main"))
    repository.fetch()
    origin.drop("refs/heads/topic")
    origin.branch("topic/one", origin.tip("main"))
    repository.fetch()
    assert repository.resolve("topic/one").id == origin.tip("main")


def test_the_default_branch_is_followed(origin: RemoteRepository, repository: Repository) -> None:
    assert repository.default_branch() == "main"
    origin.branch("trunk", origin.tip("main"))
    origin.default("trunk")
    repository.fetch()
    assert repository.default_branch() == "trunk"


def test_where_the_default_branch_was_deleted_no_other_is_taken(
    origin: RemoteRepository, repository: Repository
) -> None:
    origin.branch("develop", origin.tip("main"))
    repository.fetch()
    origin.drop("refs/heads/main")
    for _ in range(2):
        repository.fetch()
        with pytest.raises(UsageError, match=r"^the remote's default branch 'main' was deleted: name a branch with --"):
            repository.default_branch()
    assert repository.resolve("develop").id
    origin.default("develop")
    repository.fetch()
    assert repository.default_branch() == "develop"


def test_without_a_default_that_ever_existed_there_are_sensible_ones(origin: RemoteRepository, tmp_path: Path) -> None:
    origin.default("gone")
    repository = open_repository(tmp_path / "work", str(origin.path), sleep=lambda _: None)
    repository.fetch()
    assert repository.default_branch() == "main"
    origin.branch("develop", origin.tip("main"))
    origin.drop("refs/heads/main")
    repository.fetch()
    assert repository.default_branch() == "develop"
    assert repository.has_branches()
    for name in ("one", "other"):
        origin.branch(name, origin.tip("develop"))
    origin.drop("refs/heads/develop")
    repository.fetch()
    with pytest.raises(UsageError, match=r"no default branch \(2 branches\): name one with --branch"):
        repository.default_branch()


def test_a_remote_that_is_gone_is_tried_three_times_and_said(origin: RemoteRepository, tmp_path: Path) -> None:
    pauses: list[float] = []
    repository = open_repository(tmp_path / "work", str(origin.path), sleep=pauses.append)
    shutil.move(origin.path, tmp_path / "away")
    with pytest.raises(
        RemoteGone, match=r"^fetching from .*: failed 3 times; git's last error: .*not appear"
    ) as raised:
        repository.fetch()
    assert "\n" not in str(raised.value)
    assert len(pauses) == 2
    assert 0 < pauses[0] < pauses[1]
    assert repository.resolve("main").id == made_tip(tmp_path / "away")


def test_a_tag_alone_is_no_commit_to_go_on_with(origin: RemoteRepository, repository: Repository) -> None:
    origin.tag("v1", origin.tip("main"))
    origin.drop("refs/heads/main")
    repository.fetch()
    assert not repository.has_branches()


def test_a_remote_that_comes_back_in_time_is_fetched_from(origin: RemoteRepository, tmp_path: Path) -> None:
    away = tmp_path / "away"
    repository = open_repository(
        tmp_path / "work", str(origin.path), sleep=lambda _: away.exists() and shutil.move(away, origin.path)
    )
    id = origin.commit()
    shutil.move(origin.path, away)
    repository.fetch()
    assert repository.resolve("main").id == id


def test_a_fetch_killed_half_way_is_repeated(origin: RemoteRepository, tmp_path: Path) -> None:
    reached, released = threading.Event(), threading.Event()

    def hold() -> None:
        reached.set()
        released.wait(60)

    with serve(tmp_path) as server:
        url, work = f"{server.url}/remote.git", tmp_path / "work"
        open_repository(work, url)
        origin.line(300)
        server.hold = hold
        code = "import sys; from pathlib import Path; from opduel.driver.git.repository import open_repository as o; "
        code += "o(Path(sys.argv[1]), sys.argv[2]).fetch()"
        child = subprocess.Popen([sys.executable, "-c", code, str(work), url], cwd=ROOT)
        assert reached.wait(60)
        child.kill()
        child.wait()
        server.hold = None
        released.set()
        started = time.monotonic()
        repository = open_repository(work, url)
        assert time.monotonic() - started < 60  # the wait for leftovers would be over: none was left
        repository.fetch()
    assert repository.resolve("main").id == origin.tip("main")
    assert not list(repository.directory.rglob("*.lock"))
    run("fsck", "--connectivity-only", at=repository.directory)


def made_tip(path: Path) -> str:
    return run("rev-parse", "main", at=path)
