"""Commits in the order of their parents, whatever their dates say."""

from collections.abc import Callable
from contextlib import AbstractContextManager
from pathlib import Path

import pytest
from made_repository import NOON, RemoteRepository, isolate

from opduel.driver.git.history import NotAncestor
from opduel.driver.git.refs import UnknownCommit
from opduel.driver.git.repository import Repository, open_repository


@pytest.fixture
def origin(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> RemoteRepository:
    isolate(monkeypatch, tmp_path)
    return RemoteRepository(tmp_path / "remote.git")


def opened(origin: RemoteRepository) -> Repository:
    return open_repository(origin.path.parent / "work", str(origin.path))


def test_a_commit_is_read_with_its_time_author_and_subject(origin: RemoteRepository) -> None:
    id = origin.commit(at=NOON, author="Ada L. <ada@x>", subject="Make add faster")
    commit = opened(origin).commit(id)
    assert (commit.id, commit.time, commit.author, commit.subject) == (id, NOON, "Ada L. <ada@x>", "Make add faster")


def test_subjects_may_hold_anything(origin: RemoteRepository) -> None:
    first = origin.commit()
    subjects = [b"\xff\xfe latin \xe9", b"tab\tand \x1b[31mred", "Grüße, 世界".encode(), b"%H %x00 | ; $(rm)", b" "]
    ids = [origin.commit(subject=subject) for subject in subjects]
    repository = opened(origin)
    chain = repository.chain(repository.commit(first), repository.commit(ids[-1]))
    assert [commit.id for commit in chain] == ids
    read = [commit.subject for commit in chain]
    assert read == ["\ufffd\ufffd latin \ufffd", "tab and  [31mred", "Grüße, 世界", "%H %x00 | ; $(rm)", ""]


def test_a_date_that_no_calendar_holds_is_cut_to_one_that_does(origin: RemoteRepository) -> None:
    id = origin.commit(at=10**12)
    commit = opened(origin).commit(id)
    assert commit.moment.startswith("9999-12-31")


def test_the_chain_is_what_comes_after_the_control(origin: RemoteRepository) -> None:
    ids = origin.line(6)
    repository = opened(origin)
    chain = repository.chain(repository.commit(ids[1]), repository.commit(ids[4]))
    assert [commit.id for commit in chain] == ids[2:5]
    assert repository.chain(repository.commit(ids[4]), repository.commit(ids[4])) == []


def test_dates_have_no_part_in_the_order(origin: RemoteRepository) -> None:
    ids = [origin.commit(at=time) for time in (NOON, 5, NOON + 9, 1, 2**32, NOON)]
    repository = opened(origin)
    chain = repository.chain(repository.commit(ids[0]), repository.commit(ids[-1]))
    assert [commit.id for commit in chain] == ids[1:]


def test_a_merged_branch_is_one_commit_of_the_chain(origin: RemoteRepository) -> None:
    root = origin.commit()
    main = origin.commit(branch="main")
    side = origin.commit(branch="side", parents=[root])
    merge = origin.commit(parents=[main, side])
    after = origin.commit()
    repository = opened(origin)
    chain = repository.chain(repository.commit(root), repository.commit(after))
    assert [commit.id for commit in chain] == [main, merge, after]


def test_a_control_on_a_merged_branch_leads_through_the_merge(origin: RemoteRepository) -> None:
    root = origin.commit()
    main = [origin.commit() for _ in range(3)]
    side = [origin.commit(branch="side", parents=[root])]
    side += [origin.commit(branch="side") for _ in range(2)]
    deep = origin.commit(branch="deep", parents=[side[0]])
    joined = origin.commit(branch="side", parents=[side[2], deep])
    merge = origin.commit(parents=[main[-1], joined])
    after = [origin.commit() for _ in range(5)]
    repository = opened(origin)
    tip = repository.commit(after[-1])
    chain = [commit.id for commit in repository.chain(repository.commit(side[0]), tip)]
    assert chain == [side[1], side[2], joined, merge, *after]
    chain = [commit.id for commit in repository.chain(repository.commit(deep), tip)]
    assert chain == [joined, merge, *after]


def test_without_an_ancestor_there_is_no_chain(origin: RemoteRepository) -> None:
    root = origin.commit()
    first, other = origin.commit(), origin.commit(branch="other", parents=[root])
    repository = opened(origin)
    with pytest.raises(NotAncestor, match=f"^{first[:12]} is not an ancestor of {other[:12]}"):
        repository.chain(repository.commit(first), repository.commit(other))
    assert repository.merge_base(repository.commit(first), repository.commit(other)) == repository.commit(root)
    assert repository.is_ancestor(repository.commit(root), repository.commit(first))
    assert not repository.is_ancestor(repository.commit(first), repository.commit(other))


def test_unrelated_histories_share_no_commit(origin: RemoteRepository) -> None:
    first, other = origin.commit(), origin.commit(branch="other", parents=[])
    repository = opened(origin)
    assert repository.merge_base(repository.commit(first), repository.commit(other)) is None


def test_a_long_chain_takes_one_process(
    origin: RemoteRepository, processes_started: Callable[[], AbstractContextManager[list[str]]]
) -> None:
    ids = origin.line(12_000)
    repository = opened(origin)
    first, last = repository.commit(ids[0]), repository.commit(ids[-1])
    with processes_started() as started:
        chain = repository.chain(first, last)
    assert [commit.id for commit in chain] == ids[1:]
    assert started.count("subprocess.Popen") == 1


def test_since_goes_back_until_five_in_a_row_are_older(origin: RemoteRepository) -> None:
    ids = [origin.commit(at=NOON + offset) for offset in (90, 1, 2, 3, 4, 5, 20, 5, 6, 7, 8, 30)]
    repository = opened(origin)
    recent = repository.since(repository.commit(ids[-1]), NOON + 15)
    assert [commit.id for commit in recent] == ids[6:]
    assert [commit.id for commit in repository.since(repository.commit(ids[-1]), 0)] == ids
    assert repository.since(repository.commit(ids[-1]), NOON + 91) == []


def test_since_goes_back_any_way(origin: RemoteRepository) -> None:
    ids = origin.line(2000)
    repository = opened(origin)
    tip, start = repository.commit(ids[-1]), repository.commit(ids[700])
    assert [commit.id for commit in repository.since(tip, start.time)] == ids[700:]


def test_the_first_parent(origin: RemoteRepository) -> None:
    root = origin.commit()
    first, other = origin.commit(), origin.commit(branch="other", parents=[root])
    merge = origin.commit(parents=[first, other])
    repository = opened(origin)
    parent = repository.parent(repository.commit(merge))
    assert parent
    assert parent.id == first
    assert repository.parent(repository.commit(root)) is None


def test_a_commit_that_is_not_there(origin: RemoteRepository) -> None:
    origin.commit()
    with pytest.raises(UnknownCommit, match="no such commit"):
        opened(origin).commit("1" * 40)
    with pytest.raises(UnknownCommit, match="no such commit"):
        opened(origin).commit("--all")
