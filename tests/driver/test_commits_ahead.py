"""The commits of a pass on a fleet: begun side by side, decided and reported one after the other, as on one host."""

import re
import sqlite3
import threading
from collections.abc import Callable, Iterable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from made_runs import MadeHarness, a_commit
from made_watch import Loop
from test_branches import Branches, both  # noqa: F401  # a fixture

from opduel.driver.journal import Journal
from opduel.driver.runs import RunOrder
from opduel.records import BrokenBuildError, Report

COMMITS = 8
SLOW = 4  # the commit from which on it takes twice as long
ALL = frozenset({0, 1})  # processors
SETTINGS: dict[str, Any] = {"base": a_commit(0).id, "exact_base": True, "sought": ["regressed"], "ahead": ALL}
LEVEL = {"case": {a_commit(number).short: 1.0 if number < SLOW else 2.0 for number in range(COMMITS)}}


def a_loop(folder: Path, hosts: int) -> Loop:
    """Commits 2 to 7 are due."""
    folder.mkdir(exist_ok=True)
    loop = Loop(folder, COMMITS)
    loop.harness = MadeHarness(LEVEL, hosts=hosts)
    loop.last.write_text(a_commit(1).id)
    return loop


def names_of(ids: Iterable[str]) -> list[str]:
    """Which runs were reported; what comes before the name in an id differs with what was measured before."""
    return [id.partition("-")[2] for id in ids]


def treatments(orders: list[RunOrder]) -> list[int]:
    return [int(order.treatment.requested, 16) for order in orders if order.run_type == "benchmark"]


def benchmarks_ahead(loop: Loop) -> list[int]:
    return [int(order.treatment.requested, 16) for order in loop.harness.ahead if order.cases is None]


def state(loop: Loop) -> dict[str, Any]:
    """All that the journal holds, but for reports, and what comes before the name in ids of runs."""
    journal = loop.journal

    def same(text: str) -> str:
        return re.sub(r'"\w+-(verify|regress)-', r'"\1-', text).replace(str(loop.folder), "FOLDER")

    return {
        "runs": sorted(journal.runs("")),
        "facts": {same(name): same(text) for name, text in journal.facts("").items()},
        "events": [event[1:] for event in journal.events()],
        "troubled": journal.troubled(),
        "rounds": journal.rows("SELECT * FROM rounds"),
        "delivered": journal.rows("SELECT key, state FROM outbox ORDER BY number"),
    }


def test_a_fleet_comes_to_what_one_host_comes_to(tmp_path: Path) -> None:
    loops = {hosts: a_loop(tmp_path / str(hosts), hosts) for hosts in (1, 3)}
    for loop in loops.values():
        loop.builder.failing[3] = BrokenBuildError("does not compile")
        loop.harness.endings = ["", "held"]  # the second run has to be repeated
    tallies = {hosts: loop.watch(**SETTINGS).once() for hosts, loop in loops.items()}
    single_host, three = loops[1], loops[3]
    assert benchmarks_ahead(single_host) == []
    assert len(benchmarks_ahead(three)) >= 3
    assert names_of(three.harness.delivered) == names_of(single_host.harness.delivered)
    assert three.ear.treatments == single_host.ear.treatments
    assert [commit for commit, _ in tallies[3].outcomes] == [commit for commit, _ in tallies[1].outcomes]
    assert tallies[3].failures == tallies[1].failures
    assert three.last.read_text() == single_host.last.read_text() == f"{a_commit(7).id}\n"
    names = [[point.name for point in culprit.revisions] for culprit in single_host.ear.outcomes[1].culprits or ()]
    assert [
        [single_host.name for single_host in culprit.revisions] for culprit in three.ear.outcomes[1].culprits or ()
    ] == names
    assert len(names) == 1
    assert state(three) == state(single_host)
    for loop in loops.values():
        loop.journal.close()


def blocking(loop: Loop, until: Callable[[], bool]) -> None:
    """The first run that is ordered ends only when something is so."""
    changed = threading.Condition()
    measure, measure_ahead = loop.harness.measure, loop.harness.measure_ahead

    def ordered(order: RunOrder) -> Report:
        with changed:
            assert changed.wait_for(until, 20)
        return measure(order)

    def ahead(order: RunOrder, rank: int, is_given_up: Callable[[], bool]) -> Report | None:
        report = measure_ahead(order, rank, is_given_up)
        with changed:
            changed.notify_all()
        return report

    loop.harness.measure, loop.harness.measure_ahead = ordered, ahead  # type: ignore[method-assign]


def test_while_one_commit_is_measured_all_others_are_on_hosts_that_get_free(tmp_path: Path) -> None:
    loop = a_loop(tmp_path, 2)
    blocking(loop, lambda: len(loop.harness.ahead) == 5)  # and so built
    loop.watch(**{**SETTINGS, "sought": []}).once()
    assert sorted(benchmarks_ahead(loop)) == [3, 4, 5, 6, 7]
    assert [number for number, processors in loop.builder.built if processors == ALL and number] == [3, 4, 5, 6, 7]
    assert treatments(loop.harness.orders) == [2, 3, 4, 5, 6, 7]
    loop.journal.close()


def test_no_more_commits_are_under_way_than_hosts_and_one_more(tmp_path: Path) -> None:
    loop = a_loop(tmp_path, 2)
    running, most = set(), []
    lock, go = threading.Lock(), threading.Event()
    measure, measure_ahead = loop.harness.measure, loop.harness.measure_ahead

    def wait_for_three(order: RunOrder) -> None:
        with lock:
            running.add(order.treatment.requested)
            most.append(len(running))
            if len(running) == 3:
                go.set()
        assert go.wait(20)
        with lock:
            running.discard(order.treatment.requested)

    def ordered(order: RunOrder) -> Report:
        wait_for_three(order)
        return measure(order)

    def ahead(order: RunOrder, rank: int, is_given_up: Callable[[], bool]) -> Report | None:
        wait_for_three(order)
        return measure_ahead(order, rank, is_given_up)

    loop.harness.measure, loop.harness.measure_ahead = ordered, ahead  # type: ignore[method-assign]
    loop.watch(**{**SETTINGS, "sought": []}).once()
    assert max(most) == 3
    loop.journal.close()


def test_those_whose_turn_comes_first_go_first(tmp_path: Path) -> None:
    loop = a_loop(tmp_path, 4)
    ranks: dict[int, int] = {}
    measure_ahead = loop.harness.measure_ahead

    def ahead(order: RunOrder, rank: int, is_given_up: Callable[[], bool]) -> Report | None:
        ranks[int(order.treatment.requested, 16)] = rank
        return measure_ahead(order, rank, is_given_up)

    loop.harness.measure_ahead = ahead  # type: ignore[method-assign]
    blocking(loop, lambda: len(loop.harness.ahead) == 5)
    loop.watch(**{**SETTINGS, "sought": []}).once()
    assert sorted(ranks, key=ranks.__getitem__) == [3, 4, 5, 6, 7]
    loop.journal.close()


def test_a_signal_gives_up_what_is_measured_ahead_and_the_next_start_goes_on(tmp_path: Path) -> None:
    loop = a_loop(tmp_path, 3)
    started = threading.Semaphore(0)

    def ahead(order: RunOrder, rank: int, is_given_up: Callable[[], bool]) -> Report | None:
        order.log.keep("ahead")
        started.release()
        while not is_given_up():
            threading.Event().wait(0.001)
        raise KeyboardInterrupt("given up")

    def interrupted(order: RunOrder) -> Report:
        assert all(started.acquire(timeout=20) for _ in range(3))
        raise KeyboardInterrupt("stopped by SIGTERM")

    loop.harness.measure_ahead, loop.harness.measure = ahead, interrupted  # type: ignore[method-assign]
    with pytest.raises(KeyboardInterrupt):
        loop.watch(**SETTINGS).once()
    assert not [thread for thread in threading.enumerate() if "_follow" in thread.name]
    assert len(loop.journal.rows("SELECT DISTINCT run FROM rounds")) == 3
    assert loop.harness.delivered == []

    loop.harness = replace(loop.harness)
    loop.watch(**SETTINGS).once()
    expected = a_loop(tmp_path / "alone", 1)
    expected.watch(**SETTINGS).once()
    assert names_of(loop.harness.delivered) == names_of(expected.harness.delivered)
    assert loop.journal.rows("SELECT * FROM rounds") == []
    loop.journal.close()
    expected.journal.close()


def killed_at(loop: Loop, moment: int, path: Path) -> MadeHarness:
    """A copy of the journal as it is when so many runs were measured, ahead or not: what is left by a kill -9. The
    harness that the first start had then."""
    counted, copied = threading.Lock(), threading.Event()
    remaining: list[int] = [moment]
    then: list[MadeHarness] = []
    measure, measure_ahead = loop.harness.measure, loop.harness.measure_ahead

    def one_more() -> None:
        with counted:
            remaining[0] -= 1
            if remaining[0] == 0:
                with loop.journal.transaction(), sqlite3.connect(path) as target:
                    source = sqlite3.connect(f"file:{loop.folder / 'journal.db'}?mode=ro", uri=True)
                    source.backup(target)
                    source.close()
                    then.append(replace(loop.harness, delivered=[*loop.harness.delivered]))
                copied.set()

    def ordered(order: RunOrder) -> Report:
        report = measure(order)
        one_more()
        return report

    def ahead(order: RunOrder, rank: int, is_given_up: Callable[[], bool]) -> Report | None:
        report = measure_ahead(order, rank, is_given_up)
        one_more()
        return report

    loop.harness.measure, loop.harness.measure_ahead = ordered, ahead  # type: ignore[method-assign]
    loop.watch(**SETTINGS).once()
    loop.journal.close()
    assert copied.is_set()
    return then[0]


@pytest.mark.parametrize("moment", [1, 2, 3, 5, 7, 10])
def test_a_start_after_a_kill_measures_and_reports_nothing_twice(tmp_path: Path, moment: int) -> None:
    alone = a_loop(tmp_path / "alone", 1)
    alone.watch(**SETTINGS).once()
    alone.journal.close()

    folder = tmp_path / "again"
    folder.mkdir()
    before = killed_at(a_loop(tmp_path / "killed", 3), moment, folder / "journal.db")
    finished = {name for (name,) in sqlite3.connect(folder / "journal.db").execute("SELECT run FROM reports")}
    again = a_loop(folder, 3)
    again.harness.reports.update(before.reports)
    again.watch(**SETTINGS).once()
    names = [
        f"{order.run_type} {order.control.requested}..{order.treatment.requested}" for order in again.harness.orders
    ]
    assert len(set(names)) == len(names)
    # A report that was just being delivered is delivered again, under the same id.
    assert sorted(names_of({*again.harness.delivered, *before.delivered})) == sorted(names_of(alone.harness.delivered))
    assert len(again.harness.orders) == len(alone.harness.orders) - len(finished)
    assert sorted(again.journal.runs("")) == sorted(Journal(tmp_path / "alone" / "journal.db").runs(""))
    assert again.journal.rows("SELECT * FROM rounds") == []
    again.journal.close()


def test_with_again_commits_are_only_built_ahead(tmp_path: Path) -> None:
    loop = a_loop(tmp_path, 3)
    loop.watch(**{**SETTINGS, "sought": [], "again": True}).once()
    assert loop.harness.ahead == []
    assert {number for number, processors in loop.builder.built if processors == ALL} >= {3, 4, 5, 6, 7}
    loop.journal.close()


def test_without_processors_for_builds_nothing_is_begun_ahead(tmp_path: Path) -> None:
    loop = a_loop(tmp_path, 3)
    loop.watch(**{**SETTINGS, "ahead": frozenset()}).once()
    assert benchmarks_ahead(loop) == []
    loop.journal.close()


def test_the_status_file_ends_what_is_measured_ahead(tmp_path: Path) -> None:
    loop = a_loop(tmp_path, 3)
    measure = loop.harness.measure

    def last(order: RunOrder) -> Report:
        loop.status.write_text("0")
        return measure(order)

    loop.harness.measure = last  # type: ignore[method-assign]
    tally = loop.watch(**SETTINGS).once()
    assert [commit.subject for commit, _ in tally.outcomes] == ["Change 2"]
    assert len(loop.harness.delivered) == 1
    assert not [thread for thread in threading.enumerate() if "_follow" in thread.name]
    loop.journal.close()


def test_the_next_branch_is_begun_while_the_last_commit_of_one_is_measured(both: Branches) -> None:  # noqa: F811
    both.harness.hosts = 2
    ahead: list[str] = []
    measure_ahead = both.harness.measure_ahead
    next_branch = threading.Event()

    def noted(order: RunOrder, rank: int, is_given_up: Callable[[], bool]) -> Report | None:
        assert order.treatment.commit is not None
        ahead.append(order.treatment.commit.subject)
        if ahead[-1].startswith("Release"):
            next_branch.set()
        return measure_ahead(order, rank, is_given_up)

    measure = both.harness.measure

    def measured(order: RunOrder) -> Report:
        assert next_branch.wait(20)
        return measure(order)

    both.harness.measure_ahead, both.harness.measure = noted, measured  # type: ignore[method-assign]
    tally = both.watch(ahead=ALL).once()
    assert both.measured(tally) == ["Main 3", "Release 1"]
    assert ahead == ["Release 1"]
