"""Several branches in one work directory, of a real git repository: each with a last commit and failures of its own."""

from collections import defaultdict
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from made_repository import RemoteRepository, isolate
from made_watch import HOUR_S, Loop

from opduel.driver.git.repository import open_repository
from opduel.driver.watch import Tally, Watch
from opduel.records import RunError, UsageError

SLASHED = "release/1.x"


class Branches(Loop):
    """A loop over a real repository with the branches main, of four commits, and release/1.x, which left main after
    the second and has two of its own. Builds and measurements are made up."""

    def __init__(self, folder: Path) -> None:
        super().__init__(folder, 0)
        self.remote = RemoteRepository(folder / "remote.git")
        for number in range(4):
            self.remote.commit(subject=f"Main {number}")
            if number == 1:
                self.remote.branch(SLASHED, self.remote.tip("main"))
        for number in range(2):
            self.remote.commit(branch=SLASHED, subject=f"Release {number}")
        self.remote.default("main")
        self.harness = replace(self.harness, level={"case": defaultdict(lambda: 1.0)})
        self.open()

    def open(self) -> None:
        """As a new start of the driver does."""
        self.repository: Any = open_repository(self.folder / "work", str(self.remote.path))

    def watch(self, *arguments: Any, **settings: Any) -> Watch:
        usual = {"branches": ("main", SLASHED), "commit_file": self.folder / "last-{branch}"}
        return super().watch(*arguments, **{**usual, **settings})

    def fail(self, id: str) -> None:
        self.builder.failing[int(id[:12], 16)] = RunError("does not compile")

    def commit_files(self) -> dict[str, str]:
        """What the commit files hold, as subjects."""
        subjects = {path.name: path.read_text().strip() for path in self.folder.glob("last*")}
        return {name: self.repository.commit(id).subject for name, id in subjects.items()}

    def measured(self, tally: Tally) -> list[str]:
        return [commit.subject for commit, _ in tally.outcomes]


@pytest.fixture
def both(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Branches]:
    isolate(monkeypatch, tmp_path)
    branches = Branches(tmp_path)
    yield branches
    branches.journal.close()


def test_each_branch_goes_on_from_its_own_last_commit(both: Branches) -> None:
    assert both.measured(both.watch().once()) == ["Main 3", "Release 1"]
    assert both.ear.of_branches == [order.branch for order in both.harness.orders] == ["main", SLASHED]
    assert both.commit_files() == {"last-main": "Main 3", "last-release%2F1.x": "Release 1"}
    assert both.watch().once() == Tally()
    both.remote.commit(branch=SLASHED, subject="Release 2")
    both.remote.commit(subject="Main 4")
    both.remote.commit(branch=SLASHED, subject="Release 3")
    assert both.measured(both.watch().once()) == ["Main 4", "Release 2", "Release 3"]


@pytest.mark.parametrize("commit_file", [True, False])
def test_going_on_for_ever_each_commit_is_measured_once(both: Branches, commit_file: bool) -> None:
    def lands(number: int) -> None:
        if number == 2:
            both.remote.commit(branch=SLASHED, subject="Release 2")

    tallies = both.passes(4, lands, **({} if commit_file else {"commit_file": None}))
    assert [both.measured(tally) for tally in tallies] == [["Main 3", "Release 1"], [], ["Release 2"], []]


def test_with_a_step_each_branch_is_counted_by_itself(both: Branches) -> None:
    settings = {"step": 2}
    assert both.measured(both.watch(**settings).once()) == ["Main 3", "Release 1"]
    for subject in ("Release 2", "Release 3"):
        both.remote.commit(branch=SLASHED, subject=subject)
        both.remote.commit(subject=f"Beside {subject}") if subject == "Release 2" else None
        tally = both.watch(**settings).once()
    assert both.measured(tally) == ["Release 3"]


def test_a_commit_that_both_branches_hold_is_measured_once_and_passed_by_both(both: Branches) -> None:
    both.remote.branch("next", both.remote.tip("main"))
    settings = {"branches": ("main", "next")}
    tally = both.watch(**settings).once()
    assert len(both.harness.orders) == len(both.harness.delivered) == 1
    assert set(both.measured(tally)) == {"Main 3"}
    assert both.commit_files() == {"last-main": "Main 3", "last-next": "Main 3"}
    assert both.watch(**settings).once() == Tally()


def test_a_commit_that_fails_on_one_branch_holds_up_no_other(both: Branches) -> None:
    both.fail(both.remote.tip("main"))
    tally = both.watch().once()
    assert both.measured(tally) == ["Release 1"]
    assert [text.split()[0] for text in tally.failures] == [both.remote.tip("main")[:12]]
    both.builder.failing.clear()
    both.now += HOUR_S
    assert both.measured(both.watch(branches=(SLASHED,)).once()) == [], "it is the other branch's to try again"
    assert both.measured(both.watch().once()) == ["Main 3"]
    assert both.journal.troubled() == {}
    assert both.watch().once() == Tally()


def test_a_failure_on_the_default_branch_is_tried_again_where_that_is_named(both: Branches) -> None:
    both.fail(both.remote.tip("main"))
    default: dict[str, Any] = {"branches": (), "commit_file": None}
    assert len(both.watch(**default).once().failures) == 1
    both.builder.failing.clear()
    both.now += HOUR_S
    for last, branch in (("last-main", "main"), ("last-release%2F1.x", SLASHED)):
        (both.folder / last).write_text(both.remote.tip(branch))
    assert both.measured(both.watch(branches=(SLASHED,)).once()) == []
    assert both.measured(both.watch().once()) == ["Main 3"]
    assert both.journal.troubled() == {}
    assert both.measured(both.watch().once()) == []


def test_a_branch_that_is_deleted_is_a_failure_and_holds_up_no_other(both: Branches) -> None:
    both.watch().once()
    both.remote.drop(f"refs/heads/{SLASHED}")
    both.remote.commit(subject="Main 4")
    tally = both.watch().once()
    assert both.measured(tally) == ["Main 4"]
    assert list(tally.failed) == [f"branch {SLASHED}"]
    assert tally.failures == [f"{SLASHED}: --branch '{SLASHED}': no branch of that name"]
    assert both.events("branch failed") == tally.failures


def test_a_tag_does_not_stand_in_for_a_deleted_branch(both: Branches) -> None:
    both.remote.tag(SLASHED, both.remote.tip("main"))
    both.watch(branches=(SLASHED,)).once()
    assert both.ear.treatments == ["Release 1"]
    both.remote.drop(f"refs/heads/{SLASHED}")
    with pytest.raises(UsageError, match="no branch of that name"):
        both.watch(branches=(SLASHED,)).once()
    assert both.ear.treatments == ["Release 1"]


def test_branches_of_which_none_is_there_are_wrong_usage(both: Branches) -> None:
    with pytest.raises(UsageError, match=r"--branch 'mian'.*similar: main"):
        both.watch(branches=("mian", "nothing")).once()


def test_a_dry_run_shows_the_other_branches_when_one_is_gone(both: Branches) -> None:
    tally = Tally()
    due = both.watch(branches=("nothing", SLASHED)).due(tally)
    assert [commit.subject for _, commit in due] == ["Release 1"]
    assert list(tally.failed) == ["branch nothing"]
    assert both.events("branch failed") == []


def test_the_placeholder_stands_for_the_default_branch_too(both: Branches) -> None:
    both.watch(branches=()).once()
    assert both.commit_files() == {"last-main": "Main 3"}


def test_killed_on_the_second_branch_the_next_start_goes_on_there(both: Branches) -> None:
    both.harness.endings = ["", "interrupted"]
    with pytest.raises(KeyboardInterrupt):
        both.watch().once()
    assert both.commit_files() == {"last-main": "Main 3"}
    both.open()
    assert both.measured(both.watch().once()) == ["Release 1"]
    assert both.harness.started_runs == 2, "the run that was interrupted is gone on with"
