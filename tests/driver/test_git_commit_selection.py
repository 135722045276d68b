"""Which commits are measured and against what, for any history: branches, merges, clocks that jump."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from made_repository import DAY, NOON, RemoteRepository, isolate

from opduel.driver.git.commit_selection import Choice, control_of, pending, week_of
from opduel.driver.git.history import NotAncestor
from opduel.driver.git.repository import open_repository
from opduel.records import Commit, UsageError

MONDAY = 1_699_833_600  # 2023-11-13T00:00:00Z
WEEK = 7 * DAY
SLOP = 5


@dataclass
class Graph:
    """A history in memory: the parents and time of each commit, by number; parents come before their children."""

    parents: list[list[int]]
    times: list[int]

    def __post_init__(self) -> None:
        self.commits = [Commit(f"{i:040x}", time, "Ada <ada@x>", "") for i, time in enumerate(self.times)]
        self.reachable: list[set[int]] = []
        for number, parents in enumerate(self.parents):
            self.reachable.append({number}.union(*(self.reachable[parent] for parent in parents)))

    def number(self, commit: Commit) -> int:
        return int(commit.id, 16)

    def line(self, commit: Commit) -> list[Commit]:
        """The commit and its first parents, newest first."""
        number = self.number(commit)
        numbers = [number]
        while self.parents[number]:
            number = self.parents[number][0]
            numbers.append(number)
        return [self.commits[number] for number in numbers]

    def parent(self, commit: Commit) -> Commit | None:
        return next(iter(self.line(commit)[1:]), None)

    def is_ancestor(self, a: Commit, b: Commit) -> bool:
        return self.number(a) in self.reachable[self.number(b)]

    def merge_base(self, a: Commit, b: Commit) -> Commit | None:
        shared = self.reachable[self.number(a)] & self.reachable[self.number(b)]
        best = [number for number in shared if not any(number in self.reachable[other] - {other} for other in shared)]
        return self.commits[max(best)] if best else None

    def chain(self, control: Commit, treatment: Commit) -> Sequence[Commit]:
        line = self.line(treatment)
        if control in line:
            return line[: line.index(control)][::-1]
        if not self.is_ancestor(control, treatment):
            raise NotAncestor("no")
        holding = [commit for commit in line if self.is_ancestor(control, commit)]
        merge = holding[-1]
        side = next(p for p in self.parents[self.number(merge)][1:] if self.is_ancestor(control, self.commits[p]))
        return [*self.chain(control, self.commits[side]), *holding[::-1]]

    def since(self, tip: Commit, moment: int) -> Sequence[Commit]:
        line = self.line(tip)
        older = [commit.time < moment for commit in line]
        end_positions = (end for end in range(len(line) - SLOP + 1) if all(older[end : end + SLOP]))
        commits = line[: next(end_positions, len(line))]
        while commits and commits[-1].time < moment:
            commits.pop()
        return commits[::-1]


def straight(*times: int) -> Graph:
    return Graph([[index - 1] if index else [] for index in range(len(times))], list(times))


@st.composite
def graphs(draw: st.DrawFn) -> Graph:
    """Up to 25 commits, each on any one or two before it, or on none; times within three weeks, in no order."""
    parents: list[list[int]] = [[]]
    for index in range(1, draw(st.integers(1, 25))):
        some = st.lists(st.integers(0, index - 1), max_size=2, unique=True)
        mostly = st.just([index - 1])
        parents.append(draw(st.one_of(mostly, mostly, mostly, some)))
    moments = st.integers(MONDAY - WEEK, MONDAY + 2 * WEEK)
    return Graph(parents, draw(st.lists(moments, min_size=len(parents), max_size=len(parents))))


@given(st.integers(0, 253402300799))
def test_a_week_begins_on_monday_in_utc(moment: int) -> None:
    from datetime import UTC, datetime

    monday = datetime.fromtimestamp(week_of(moment), UTC) if week_of(moment) >= 0 else None
    assert 0 <= moment - week_of(moment) < WEEK
    if monday:
        assert (monday.weekday(), monday.hour, monday.minute, monday.second) == (0, 0, 0, 0)


def test_the_first_commit_of_the_week_is_the_control() -> None:
    graph = straight(MONDAY - 1, MONDAY, MONDAY + 5, MONDAY + 6)
    choice = control_of(graph.commits[3], None, False, graph)
    assert choice == Choice(graph.commits[1], f"the first commit of the week of {graph.commits[3].short}")


def test_the_first_of_its_week_is_compared_with_the_one_before() -> None:
    graph = straight(MONDAY - 3 * WEEK, MONDAY)
    choice = control_of(graph.commits[1], None, False, graph)
    assert choice.commit == graph.commits[0]
    assert "the commit before" in choice.why


@pytest.mark.parametrize(
    ("times", "control"),
    [
        pytest.param([-WEEK, 0, -2 * DAY, 5, 6], 1, id="one before is dated earlier"),
        pytest.param([-WEEK, 0, -DAY, -DAY, -DAY, -DAY, 6], 1, id="four before are dated earlier"),
        pytest.param([0, *[-DAY] * 5, 6], 5, id="five in a row are another week"),
        pytest.param([-WEEK, 0, WEEK + 5, 5, 6], 1, id="one before is dated later"),
        pytest.param([-WEEK, 0, 5, 6, 3 * WEEK], 3, id="the treatment itself is dated later"),
    ],
)
def test_commits_dated_out_of_order_do_not_move_the_beginning_of_a_week(times: list[int], control: int) -> None:
    graph = straight(*(MONDAY + time for time in times))
    assert control_of(graph.commits[-1], None, False, graph).commit == graph.commits[control]


def test_a_later_base_is_the_control_and_an_earlier_one_is_not() -> None:
    graph = straight(MONDAY - 9, MONDAY - 5, MONDAY, MONDAY + 5, MONDAY + 6)
    assert control_of(graph.commits[4], graph.commits[3], False, graph).commit == graph.commits[3]
    assert control_of(graph.commits[4], graph.commits[0], False, graph).commit == graph.commits[2]
    assert control_of(graph.commits[4], graph.commits[0], True, graph).commit == graph.commits[0]


def test_ancestry_counts_before_a_clock_that_contradicts_it() -> None:
    graph = straight(MONDAY, MONDAY + 1, 5, MONDAY + 9, MONDAY + 10)
    assert control_of(graph.commits[4], graph.commits[2], False, graph).commit == graph.commits[2]
    graph = straight(MONDAY + 5 * WEEK, MONDAY - 5, MONDAY, MONDAY + 10)
    assert control_of(graph.commits[3], graph.commits[0], False, graph).commit == graph.commits[2]
    graph = straight(MONDAY, MONDAY + 9, MONDAY + 2, MONDAY + 10)
    assert control_of(graph.commits[3], graph.commits[2], False, graph).commit == graph.commits[2]


def test_of_unrelated_commits_the_later_date_counts() -> None:
    graph = Graph([[], [0], [1], [0], [0]], [MONDAY - 5, MONDAY, MONDAY + 9, MONDAY + 5, MONDAY - 1])
    assert control_of(graph.commits[2], graph.commits[3], False, graph).commit == graph.commits[3]
    assert control_of(graph.commits[2], graph.commits[4], False, graph).commit == graph.commits[1]


def test_a_base_that_is_not_before_the_treatment_is_passed_over_and_reported() -> None:
    graph = straight(MONDAY, MONDAY + 1, MONDAY + 2)
    for base in graph.commits[1:]:
        choice = control_of(graph.commits[1], base, False, graph)
        assert choice.commit == graph.commits[0]
        assert f"base commit {base.short} is not before" in choice.why


def test_what_has_no_control_is_refused() -> None:
    graph = straight(MONDAY, MONDAY + 1)
    for base in (None, *graph.commits):
        with pytest.raises(UsageError, match="the first of its repository"):
            control_of(graph.commits[0], base, False, graph)
    with pytest.raises(UsageError, match="is the treatment itself"):
        control_of(graph.commits[1], graph.commits[1], True, graph)
    with pytest.raises(UsageError, match="no base commit"):
        control_of(graph.commits[1], None, True, graph)


@given(graphs(), st.data())
def test_a_control_is_never_the_treatment_nor_after_it(graph: Graph, data: st.DataObject) -> None:
    treatment = data.draw(st.sampled_from(graph.commits))
    base = data.draw(st.sampled_from([None, *graph.commits]))
    try:
        control = control_of(treatment, base, False, graph).commit
    except UsageError:
        assert not graph.parents[graph.number(treatment)]
        assert base is None or graph.is_ancestor(treatment, base)
        return
    assert not graph.is_ancestor(treatment, control)
    if base is None or control != base:
        line = graph.line(treatment)
        between = line[: line.index(control)]
        monday = week_of(treatment.time)
        if control != line[1]:  # then it is in a week of the treatment's or of the commits before it
            assert control.time >= monday
            older = [commit.time < monday for commit in between]
            assert not any(all(older[start : start + SLOP]) for start in range(len(older) - SLOP + 1))
    if base and control != base and not graph.is_ancestor(treatment, base):
        assert not (graph.is_ancestor(control, base) and control != base)


def test_every_third_and_the_newest_if_that_is_asked_for() -> None:
    graph = straight(*range(8))
    selection = pending(graph.commits[7], graph.commits[0], None, 3, graph)
    assert selection.commits == tuple(graph.commits[number] for number in (3, 6))
    assert (selection.after, selection.note, selection.waiting) == (graph.commits[0], None, 1)
    selection = pending(graph.commits[7], graph.commits[0], None, 3, graph, with_tip=True)
    assert selection.commits == tuple(graph.commits[number] for number in (3, 6, 7))
    assert selection.waiting == 0
    few = pending(graph.commits[2], graph.commits[0], None, 3, graph)
    assert (few.commits, few.waiting) == ((), 2)
    assert pending(graph.commits[7], None, graph.commits[1], 3, graph).commits == tuple(
        graph.commits[number] for number in (1, 4, 7)
    )
    assert pending(graph.commits[7], None, None, 3, graph).commits == (graph.commits[7],)
    assert pending(graph.commits[7], graph.commits[7], None, 3, graph).commits == ()


def test_a_forced_branch_goes_on_from_the_merge_base_and_says_so() -> None:
    graph = Graph([[], [0], [1], [2], [1], [4], [5]], list(range(7)))
    selection = pending(graph.commits[6], graph.commits[3], None, 1, graph)
    assert selection.commits == tuple(graph.commits[4:])
    assert selection.after == graph.commits[1]
    assert selection.note
    assert graph.commits[1].short in selection.note
    back = pending(graph.commits[1], graph.commits[3], None, 1, graph)
    assert (back.commits, back.after) == ((), graph.commits[1])
    assert back.note


def test_a_branch_with_another_history_is_begun_at_its_tip() -> None:
    graph = Graph([[], [0], [], [2]], [0, 1, 2, 3])
    selection = pending(graph.commits[3], graph.commits[1], None, 1, graph)
    assert selection.commits == (graph.commits[3],)
    assert "shares no history" in (selection.note or "")


def test_a_step_below_one_and_a_start_elsewhere_are_refused() -> None:
    graph = Graph([[], [0], [0]], [0, 1, 2])
    with pytest.raises(UsageError, match="step 0: must be 1 or more"):
        pending(graph.commits[1], None, None, 0, graph)
    with pytest.raises(NotAncestor):
        pending(graph.commits[1], None, graph.commits[2], 1, graph)


@given(graphs(), st.integers(1, 5), st.data())
def test_pending_commits_are_the_steps_of_the_chain_and_its_end(graph: Graph, step: int, data: st.DataObject) -> None:
    tip, last = (data.draw(st.sampled_from(graph.commits)) for _ in range(2))
    selection = pending(tip, last, None, step, graph)
    assert len(set(selection.commits)) == len(selection.commits)
    assert (selection.note is None) == graph.is_ancestor(last, tip)
    if selection.after is None:
        assert selection.commits == (tip,)
        return
    chain = list(graph.chain(selection.after, tip))
    positions = [chain.index(commit) + 1 for commit in selection.commits]
    assert positions == list(range(step, len(chain) + 1, step))
    assert selection.waiting == len(chain) % step
    selection_with_tip = pending(tip, last, None, step, graph, with_tip=True)
    assert selection_with_tip.commits == (selection.commits if not selection.waiting else (*selection.commits, tip))


@given(st.lists(st.integers(1, 9), min_size=1, max_size=6), st.integers(1, 4))
def test_however_commits_land_the_same_ones_are_measured_and_each_once(growth: list[int], step: int) -> None:
    total = 1 + sum(growth)
    graph = straight(*(number * 7919 % 1000 for number in range(total)))  # clocks in disorder
    last, tip, measured = graph.commits[0], 0, []
    for more in growth:
        tip += more
        selection = pending(graph.commits[tip], last, None, step, graph)
        measured += selection.commits
        last = measured[-1] if measured else last
        assert graph.number(last) + selection.waiting == tip
    assert [graph.number(commit) for commit in measured] == list(range(step, total, step))


def test_on_a_real_repository(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    isolate(monkeypatch, tmp_path)
    origin = RemoteRepository(tmp_path / "remote.git")
    ids = [origin.commit(at=time) for time in (MONDAY - 5, MONDAY, NOON, 7, NOON + 5, NOON + 6)]
    repository = open_repository(tmp_path / "work", str(origin.path))
    commits = [repository.commit(id) for id in ids]
    assert control_of(commits[2], None, False, repository).commit == commits[1]
    for treatment in commits[4:]:  # after one that is dated 1970
        assert control_of(treatment, None, False, repository).commit == commits[1]
    assert pending(commits[5], commits[0], None, 2, repository).commits == (commits[2], commits[4])
