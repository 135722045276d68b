"""Changes on the remote are fetched; a forced push is reported; what fails is tried again."""

import shutil
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest
from made_repository import Made, isolate, run, serve

from opduel.driver.git.refs import UnknownCommit
from opduel.driver.git.repository import Repository, open_repository
from opduel.driver.version_control import RemoteGone
from opduel.records import UsageError

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture
def made(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Made:
    isolate(monkeypatch, tmp_path)
    made = Made(tmp_path / "remote.git")
    made.commit()
    return made


@pytest.fixture
def repository(made: Made, tmp_path: Path) -> Repository:
    return open_repository(tmp_path / "work", str(made.path), sleep=lambda _: None)


def test_further_commits_and_branches_are_brought_and_not_reported(made: Made, repository: Repository) -> None:
    id = made.commit()
    made.branch("more", id)
    made.tag("v1", id)
    assert repository.fetch().moved == ()
    assert [repository.resolve(name).id for name in ("main", "more", "v1")] == [id] * 3
    assert repository.fetch().moved == ()


def test_a_forced_branch_is_taken_and_reported_once(made: Made, repository: Repository) -> None:
    root = made.tip("main")
    made.branch("steady", made.commit())
    repository.fetch()
    old = made.tip("main")
    new = made.commit(parents=[root], subject="instead")
    made.commit(branch="steady")
    (moved,) = repository.fetch().moved
    assert (moved.branch, moved.old.id, moved.new.id) == ("main", old, new)
    assert repository.resolve("main").id == new
    assert repository.commit(old).id == old
    assert repository.fetch().moved == ()


def test_a_branch_set_back_is_reported(made: Made, repository: Repository) -> None:
    root = made.tip("main")
    made.commit()
    repository.fetch()
    made.branch("main", root)
    (moved,) = repository.fetch().moved
    assert moved.new.id == root


def test_a_deleted_branch_goes_and_its_commit_stays(made: Made, repository: Repository) -> None:
    made.branch("topic", id := made.commit(branch="topic"))
    repository.fetch()
    made.drop("refs/heads/topic")
    assert repository.fetch().moved == ()
    with pytest.raises(UnknownCommit):
        repository.resolve("topic")
    run("gc", "--auto", "--quiet", at=repository.directory)
    assert repository.commit(id).id == id


def test_a_deleted_tag_stays_and_a_moved_one_is_taken(made: Made, repository: Repository) -> None:
    made.tag("kept", first := made.commit(branch="topic"), annotated=True)
    made.tag("moved", first)
    repository.fetch()
    made.drop("refs/heads/topic")
    made.drop("refs/tags/kept")
    made.tag("moved", second := made.commit())
    repository.fetch()
    assert repository.resolve("kept").id == first
    assert repository.resolve("moved").id == second


def test_users_who_have_tags_pruned_have_ours_kept(
    made: Made, repository: Repository, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    isolate(monkeypatch, tmp_path, "[fetch]\n prune = true\n pruneTags = true\n output = compact\n")
    made.tag("kept", id := made.commit())
    repository.fetch()
    made.drop("refs/tags/kept")
    repository.fetch()
    assert repository.resolve("kept").id == id


def test_a_branch_makes_room_for_branches_below_it(made: Made, repository: Repository) -> None:
    made.branch("topic", made.tip("main"))
    repository.fetch()
    made.drop("refs/heads/topic")
    made.branch("topic/one", made.tip("main"))
    repository.fetch()
    assert repository.resolve("topic/one").id == made.tip("main")


def test_the_default_branch_is_followed(made: Made, repository: Repository) -> None:
    assert repository.default_branch() == "main"
    made.branch("trunk", made.tip("main"))
    made.default("trunk")
    assert repository.fetch().default == ("main", "trunk")
    assert repository.default_branch() == "trunk"
    assert repository.fetch().default is None


def test_where_the_default_branch_was_deleted_no_other_is_taken(made: Made, repository: Repository) -> None:
    made.branch("develop", made.tip("main"))
    repository.fetch()
    made.drop("refs/heads/main")
    for _ in range(2):
        repository.fetch()
        with pytest.raises(UsageError, match=r"^the remote's default branch 'main' was deleted: name a branch with --"):
            repository.default_branch()
    assert repository.resolve("develop").id
    made.default("develop")
    repository.fetch()
    assert repository.default_branch() == "develop"


def test_without_a_default_that_ever_existed_there_are_sensible_ones(made: Made, tmp_path: Path) -> None:
    made.default("gone")
    repository = open_repository(tmp_path / "work", str(made.path), sleep=lambda _: None)
    repository.fetch()
    assert repository.default_branch() == "main"
    made.branch("develop", made.tip("main"))
    made.drop("refs/heads/main")
    repository.fetch()
    assert repository.default_branch() == "develop"
    assert repository.has_branches()
    made.branch("other", made.tip("develop"))
    repository.fetch()
    with pytest.raises(UsageError, match=r"no default branch \(2 branches\): name one with --branch"):
        repository.default_branch()


def test_a_remote_that_is_gone_is_tried_three_times_and_said(made: Made, tmp_path: Path) -> None:
    pauses: list[float] = []
    repository = open_repository(tmp_path / "work", str(made.path), sleep=pauses.append)
    shutil.move(made.path, tmp_path / "away")
    with pytest.raises(
        RemoteGone, match=r"^fetching from .*: failed 3 times; git's last error: .*not appear"
    ) as raised:
        repository.fetch()
    assert "\n" not in str(raised.value)
    assert len(pauses) == 2
    assert 0 < pauses[0] < pauses[1]
    assert repository.resolve("main").id == made_tip(tmp_path / "away")


def test_a_tag_alone_is_no_commit_to_go_on_with(made: Made, repository: Repository) -> None:
    made.tag("v1", made.tip("main"))
    made.drop("refs/heads/main")
    repository.fetch()
    assert not repository.has_branches()


def test_a_remote_that_comes_back_in_time_is_fetched_from(made: Made, tmp_path: Path) -> None:
    away = tmp_path / "away"
    repository = open_repository(
        tmp_path / "work", str(made.path), sleep=lambda _: away.exists() and shutil.move(away, made.path)
    )
    id = made.commit()
    shutil.move(made.path, away)
    repository.fetch()
    assert repository.resolve("main").id == id


def test_a_fetch_killed_half_way_is_repeated(made: Made, tmp_path: Path) -> None:
    reached, released = threading.Event(), threading.Event()

    def hold() -> None:
        reached.set()
        released.wait(60)

    with serve(tmp_path) as server:
        url, work = f"{server.url}/remote.git", tmp_path / "work"
        open_repository(work, url)
        made.line(300)
        server.hold = hold
        code = "import sys; from pathlib import Path; from opduel.driver.git.repository import open_repository as o; "
        code += "o(Path(sys.argv[1]), sys.argv[2]).fetch()"
        child = subprocess.Popen([sys.executable, "-c", code, str(work), url], cwd=ROOT)
        assert reached.wait(60)
        child.kill()
        child.wait()
        server.hold = None
        released.set()
        begun = time.monotonic()
        repository = open_repository(work, url)
        assert time.monotonic() - begun < 60  # the wait for leftovers would be over: none was left
        repository.fetch()
    assert repository.resolve("main").id == made.tip("main")
    assert not list(repository.directory.rglob("*.lock"))
    run("fsck", "--connectivity-only", at=repository.directory)


def made_tip(path: Path) -> str:
    return run("rev-parse", "main", at=path)
