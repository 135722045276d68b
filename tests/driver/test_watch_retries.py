"""What is tried again, with which settings, and how far it goes on: several starts in one work directory."""

import pytest
from made_runs import a_commit
from made_watch import HOUR_S, Loop, MadeRepository

from records import Commit, RunError

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
        return [one for one in self._up_to(a) if one in self._up_to(b)][-1]

    def chain(self, control: Commit, treatment: Commit) -> list[Commit]:
        path = self._up_to(treatment)
        return path[path.index(control) + 1 :]

    def since(self, tip: Commit, moment: int) -> list[Commit]:
        return [one for one in self._up_to(tip) if one.time >= moment]


@pytest.mark.parametrize("night", [1, 2])
def test_a_retry_of_another_branch_leaves_the_commit_file_where_it_was(loop: Loop, night: int) -> None:
    loop.repository = Forked(6)
    loop.watch().once()
    loop.builder.failing[40] = RunError("no network")
    loop.watch(commit="side", commit_file=None).once()
    del loop.builder.failing[40]
    loop.now += HOUR_S
    loop.ear.begun.clear()
    for _ in range(night):
        loop.watch().once()
    assert loop.ear.begun == [SIDE.subject]
    assert loop.dealt_with() == "Change 5"
    assert loop.events("history") == []
