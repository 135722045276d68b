"""What is tried again, with which settings, and how far it goes on: several starts in one work directory."""

from dataclasses import replace

import pytest
from made_runs import a_commit
from made_watch import HOUR_S, Loop, MadeRepository

from opduel.driver.runs import BUDGETS
from opduel.records import Commit, RunError, UsageError

SIDE = a_commit(40)


class Forked(MadeRepository):
    """As well as main one commit, on a branch of its own that leaves main after commit 1."""

    def resolve(self, name: str) -> Commit:
        return SIDE if name in (SIDE.id, "side") else super().resolve(name)

    def commit(self, name: str) -> Commit:
        return SIDE if name == SIDE.id else super().commit(name)

    def _up_to(self, commit: Commit) -> list[Commit]:
        return [*self.line[:2], SIDE] if commit == SIDE else self.line[: self.line.index(commit) + 1]

    def parent(self, commit: Commit) -> Commit | None:
        return next(iter(self._up_to(commit)[-2:-1]), None)

    def is_ancestor(self, a: Commit, b: Commit) -> bool:
        return a in self._up_to(b)

    def merge_base(self, a: Commit, b: Commit) -> Commit | None:
        return [own_commit for own_commit in self._up_to(a) if own_commit in self._up_to(b)][-1]

    def chain(self, control: Commit, treatment: Commit) -> list[Commit]:
        path = self._up_to(treatment)
        return path[path.index(control) + 1 :]

    def since(self, tip: Commit, moment: int) -> list[Commit]:
        return [own_commit for own_commit in self._up_to(tip) if own_commit.time >= moment]


@pytest.mark.parametrize("night", [1, 2])
def test_a_retry_of_another_branch_leaves_the_commit_file_where_it_was(loop: Loop, night: int) -> None:
    loop.repository = Forked(6)
    loop.watch().once()
    loop.builder.failing[40] = RunError("no network")
    loop.watch(commit="side", commit_file=None).once()
    del loop.builder.failing[40]
    loop.now += HOUR_S
    loop.ear.treatments.clear()
    for _ in range(night):
        loop.watch().once()
    assert loop.ear.treatments == [SIDE.subject]
    assert loop.dealt_with() == "Change 5"
    assert loop.events("history") == []


@pytest.mark.parametrize(
    "other",
    [{"identity": "smoke"}, {"base": a_commit(0).id}, {"sought": ("regressed",)}],
    ids=["spec", "base", "sought"],
)
def test_what_failed_is_tried_again_with_the_settings_that_it_failed_with(loop: Loop, other: dict[str, object]) -> None:
    loop.builder.failing[3] = RunError("no network")
    nightly: dict[str, object] = {"identity": "full"}
    loop.watch(**nightly).once()
    del loop.builder.failing[3]
    loop.now += HOUR_S
    loop.ear.treatments.clear()
    loop.watch(**{**nightly, **other, "commit": a_commit(1).id, "commit_file": None}).once()
    assert loop.ear.treatments == ["Change 1"]
    loop.watch(**nightly).once()
    assert loop.ear.treatments == ["Change 1", "Change 3"]
    assert loop.journal.troubled() == {}


def test_a_search_that_ended_early_is_a_failure_and_goes_on_when_due(loop: Loop) -> None:
    level = {own_commit.short: 1.0 if number < 2 else 1.5 for number, own_commit in enumerate(loop.repository.line)}
    loop.harness = replace(loop.harness, level={"case": level})
    loop.builder.failing[1] = RunError("no network")
    tally = loop.watch(sought=("regressed",)).once()
    newest, first = a_commit(3).short, a_commit(1).short
    assert tally.failures == [f"{newest}: the search for the culprit ended: {first} can't be built: no network"]
    assert [outcome.confirmed for _, outcome in tally.outcomes] == [("case",)]
    assert [outcome.culprits for outcome in loop.ear.outcomes] == [None]
    measured = len(loop.harness.orders)
    del loop.builder.failing[1]
    loop.now += HOUR_S
    assert loop.watch(sought=("regressed",)).once().failures == []
    (traced,) = loop.ear.outcomes[-1].culprits or ()
    assert [revision.name for revision in traced.revisions] == [a_commit(1).short, a_commit(2).short]
    assert {order.run_type for order in loop.harness.orders[measured:]} == {"regress"}
    assert loop.journal.troubled() == {}


def test_a_search_of_which_a_step_is_not_settled_goes_on_at_the_next_pass(loop: Loop) -> None:
    """And not an hour later: the next night's pass is to name the commit."""
    level = {own_commit.short: 1.0 if number < 2 else 1.5 for number, own_commit in enumerate(loop.repository.line)}
    loop.harness = replace(loop.harness, level={"case": level})
    loop.harness.endings = ["", "", "open"]
    tally = loop.watch(sought=("regressed",)).once()
    assert tally.failures == [
        f"{a_commit(3).short}: the search for the culprit ended: case looked changed when the time budget ended, and is"
        " not settled"
    ]
    assert loop.events("not settled")[0].endswith("; the next pass tries again")
    assert loop.watch(sought=("regressed",)).once().failures == []
    (traced,) = loop.ear.outcomes[-1].culprits or ()
    assert [revision.name for revision in traced.revisions] == [a_commit(1).short, a_commit(2).short]
    assert loop.journal.troubled() == {}


def test_with_other_settings_other_culprits_are_written_down(loop: Loop) -> None:
    level = {own_commit.short: 1.0 if number < 2 else 1.5 for number, own_commit in enumerate(loop.repository.line)}
    loop.harness = replace(loop.harness, level={"case": level})
    for identity in ("full", "smoke", "full"):
        loop.watch(commit=a_commit(3).id, commit_file=None, sought=("regressed",), identity=identity).once()
    assert len(list((loop.folder / "culprits").iterdir())) == 2


def test_an_older_commit_asked_for_is_measured_alone_and_the_commit_file_stays(loop: Loop) -> None:
    loop.watch().once()
    loop.ear.treatments.clear()
    loop.watch(commit=a_commit(1).id).once()
    assert loop.ear.treatments == ["Change 1"]
    assert loop.dealt_with() == "Change 3"
    assert loop.events("history") == []


@pytest.mark.parametrize("commit_file", [True, False])
def test_a_branch_whose_last_commits_were_removed_is_recorded_once(loop: Loop, commit_file: bool) -> None:
    loop.repository = Forked(2)
    loop.repository.line.append(SIDE)  # as the newest commit of main

    def between(number: int) -> None:
        if number == 1:
            loop.repository.line.pop()  # taken away by a force-push
        if number == 3:
            loop.repository.line.append(a_commit(2))

    loop.passes(4, between, **({} if commit_file else {"commit_file": None}))
    assert loop.events("history") == [
        f"{SIDE.short}, measured last, is no longer on the branch: continuing from {a_commit(1).short}, "
        "which is on both"
    ]
    assert loop.ear.treatments == [SIDE.subject, "Change 2"]
    assert not commit_file or loop.dealt_with() == "Change 2"


def test_a_dry_run_writes_nothing_down(loop: Loop) -> None:
    loop.repository = Forked(2)
    loop.last.write_text(SIDE.id)
    assert loop.watch().branches[0].due() == []
    assert loop.last.read_text() == SIDE.id
    assert loop.journal.events() == []


def test_the_last_commit_asked_for_again_is_dealt_with(loop: Loop) -> None:
    loop.watch().once()
    assert loop.watch(commit=a_commit(3).id).once().outcomes == []


def test_a_commit_that_is_asked_for_wrongly_is_wrong_usage(loop: Loop) -> None:
    with pytest.raises(UsageError, match="--commit 'nothing'"):
        loop.watch(commit="nothing").once()


def test_with_again_all_is_measured_again(loop: Loop) -> None:
    settings = {"commit": a_commit(2).id}
    loop.watch(**settings).once()
    loop.last.unlink()
    loop.watch(**settings).once()
    assert len(loop.harness.orders) == 1
    loop.last.unlink()
    loop.watch(**settings, again=True).once()
    assert len(loop.harness.orders) == 2


def test_with_again_a_start_begins_once_and_its_passes_go_on(loop: Loop) -> None:
    loop.harness.endings = ["open"] * 10
    watch = loop.watch(again=True)
    for _ in range(BUDGETS + 1):
        watch.once()
    assert [order.budgets for order in loop.harness.orders] == list(range(1, BUDGETS + 1))
    assert loop.dealt_with() == "Change 3"


def test_with_again_what_an_earlier_start_settled_beyond_another_goes_on_too(loop: Loop) -> None:
    loop.last.write_text(a_commit(1).id)
    loop.harness.endings = ["open"]
    loop.watch().once()
    assert loop.ear.treatments == ["Change 2", "Change 3"], "and the second one is settled"
    loop.harness.endings = ["open", "open"]
    watch = loop.watch(again=True)
    watch.once()
    watch.once()
    assert loop.ear.treatments[2:] == ["Change 2", "Change 3", "Change 2", "Change 3"]
    assert [order.budgets for order in loop.harness.orders[2:]] == [1, 1, 2, 2]
    assert loop.dealt_with() == "Change 3"
