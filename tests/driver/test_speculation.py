"""What a search asks next is known beforehand, and measuring it ahead changes nothing but the time that it takes."""

import math
import threading
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

import pytest
from made_history import THRESHOLD, History
from made_runs import MadeHarness, MadePoint

from opduel.driver.attribution import Change
from opduel.driver.bisection import CulpritRange, Measure, Step, bisect
from opduel.driver.investigation import Investigation
from opduel.driver.journal import Journal
from opduel.driver.outcome import Outcome
from opduel.driver.runs import Runs
from opduel.driver.speculation import Ahead, Question, likely_questions, searching_ahead
from opduel.records import RunError


def searches(history: History) -> Callable[[Measure], list[CulpritRange]]:
    """A bisection of it that knows beforehand what can be built."""
    sought = history.total_steps()

    def search(measure: Measure) -> list[CulpritRange]:
        def prepare(revision: int) -> bool:
            return revision not in history.unbuildable

        return bisect(history.revisions, sought, measure, prepare, (), dict.fromkeys(sought, THRESHOLD))

    return search


def test_the_first_question_is_the_one_asked_and_the_others_follow_either_answer() -> None:
    history = History(8, {"a": {3: 0.5}})
    questions = likely_questions(searches(history), history.total_steps(), {}, 3)
    assert questions == [((0, 4), ("a",)), ((0, 2), ("a",)), ((4, 6), ("a",))]
    after = {questions[0]: {"a": history.step(0, 4, "a")}}
    assert likely_questions(searches(history), history.total_steps(), after, 1) == [((0, 2), ("a",))]


def test_what_is_asked_after_both_answers_comes_before_what_follows_one() -> None:
    """Two cases whose changes were found in different halves are independent of each other."""
    history = History(16, {"a": {3: 0.5}, "b": {13: 0.5}})
    answers = {((0, 8), ("a", "b")): {case: history.step(0, 8, case) for case in ("a", "b")}}
    questions = likely_questions(searches(history), history.total_steps(), answers, 4)
    assert questions[:2] == [((0, 4), ("a",)), ((8, 12), ("b",))]


def test_a_search_at_its_end_asks_nothing() -> None:
    history = History(1, {"a": {1: 0.5}})
    assert likely_questions(searches(history), history.total_steps(), {}, 3) == []


@pytest.mark.parametrize("hosts", [2, 3, 7])
@pytest.mark.parametrize("culprits", [{5: 0.5}, {5: 0.5, 40: -0.3}, {17: 0.4, 50: 0.4}])
def test_a_search_with_more_hosts_finds_the_same(hosts: int, culprits: Mapping[int, float]) -> None:
    history = History(63, {"a": culprits, "b": {31: 0.2}}, frozenset({16, 32}), error=0.001, seed=3)
    search = searches(history)
    expected = search(lambda begin, end, cases: {case: history.step(begin, end, case) for case in cases})
    ahead: list[Question] = []
    lock = threading.Lock()

    def now(begin: int, end: int, cases: Sequence[str]) -> Mapping[str, Step]:
        return {case: history.step(begin, end, case) for case in cases}

    def measure_ahead(question: Question, given_up: threading.Event) -> Mapping[str, Step] | None:
        with lock:
            ahead.append(question)
        return None if given_up.is_set() else now(*question[0], question[1])

    with searching_ahead(search, history.total_steps(), hosts, now, measure_ahead) as measure:
        assert search(measure) == expected
    assert ahead
    assert not any({16, 32} & set(between) for between, _ in ahead)


def test_three_hosts_need_half_of_the_turns() -> None:
    """Two levels of the tree at once: three questions a turn."""
    culprits = (1, 300, 777, 1023)
    turns = {
        hosts: [turns_of(History(1023, {"a": {position: 0.5}}), hosts) for position in culprits] for hosts in (1, 3, 7)
    }
    assert max(turns[1]) <= 11
    for hosts in (3, 7):
        most = math.ceil(max(turns[1]) / math.log2(hosts + 1)) + 1
        assert max(turns[hosts]) <= most


def turns_of(history: History, hosts: int) -> int:
    """How long a search takes where each measurement takes 1, and each of the hosts measures one question at a time."""
    answers: dict[Question, Mapping[str, Step]] = {}
    started_at: dict[Question, int] = {}
    now = 0
    search = searches(history)

    def measure(begin: int, end: int, cases: Sequence[str]) -> Mapping[str, Step]:
        nonlocal now
        question = (begin, end), tuple(cases)
        if question not in answers:
            for likely_question in likely_questions(search, history.total_steps(), answers, hosts):
                started_at.setdefault(likely_question, now)
            now = started_at[question] + 1
            for (between, names), start in started_at.items():
                if start + 1 <= now:
                    answers[between, names] = {case: history.step(*between, case) for case in names}
        return answers[question]

    search(measure)
    return now


A, B, C, D = (((begin, begin + 2), ("a",)) for begin in (0, 2, 4, 6))


def test_what_lost_is_given_up_and_ends_before_the_search_does() -> None:
    finished = []
    one_ended = threading.Event()

    def measure(question: Question, given_up: threading.Event) -> None:
        assert given_up.wait(20), "it was never given up"
        finished.append(question)
        one_ended.set()

    likely = [A, B, C]
    ahead = Ahead(lambda answers: likely, 3, measure)
    ahead.ask(A)
    likely[:] = [D, C]
    ahead.ask(D)
    assert one_ended.wait(20)
    assert finished == [B]
    ahead.close()
    assert sorted(finished) == [B, C]


def test_a_host_that_is_free_takes_the_next_question() -> None:
    started = []
    all_begun = threading.Event()

    def measure(question: Question, given_up: threading.Event) -> Mapping[str, Step] | None:
        started.append(question)
        if question == C:
            all_begun.set()
        return {"a": Step("unchanged", Change(0.0, 0.0, 0.0))}

    ahead = Ahead(lambda answers: [candidate for candidate in (A, B, C) if candidate not in answers], 2, measure)
    ahead.ask(A)
    assert all_begun.wait(20)
    ahead.close()
    assert started == [B, C]


def test_what_fails_ahead_is_left_to_the_search() -> None:
    questions = []

    def measure(question: Question, given_up: threading.Event) -> Mapping[str, Step]:
        questions.append(question)
        raise RunError("no host is left")

    ahead = Ahead(lambda answers: [A, B], 2, measure)
    ahead.ask(A)
    ahead.ask(B)  # waits for it, if it has not ended
    ahead.close()
    assert questions.count(B) == 1


def outcome_with(hosts: int, path: Path) -> tuple[Outcome, MadeHarness, Journal]:
    harness = MadeHarness({"mul": {f"p{number}": 1.0 if number < 11 else 2.0 for number in range(17)}}, hosts=hosts)
    journal = Journal(path)
    points = [MadePoint(number) for number in range(17)]
    runs = Runs(journal, harness, 0.0, lambda _: None)
    return Investigation(points, runs, journal, "").investigate(["regressed"]), harness, journal


def test_an_investigation_on_several_hosts_reports_the_same_runs(tmp_path: Path) -> None:
    alone, by_one, first = outcome_with(1, tmp_path / "one.db")
    together, by_three, second = outcome_with(3, tmp_path / "three.db")
    assert alone.culprits is not None
    assert together.culprits is not None
    names = [[point.name for point in culprit.revisions] for culprit in alone.culprits]
    assert [[point.name for point in culprit.revisions] for culprit in together.culprits] == names
    ordered = [(culprit.control.requested, culprit.treatment.requested, culprit.cases) for culprit in by_one.orders]
    assert [
        (culprit.control.requested, culprit.treatment.requested, culprit.cases) for culprit in by_three.orders
    ] == ordered
    assert len(by_three.delivered) == len(by_one.delivered)
    assert not by_one.ahead
    assert len(by_three.ahead) > 2
    # What was measured ahead in vain is gone; the rounds of the others went over to the runs that were ordered.
    assert second.rows("SELECT COUNT(*) FROM rounds") == [(0,)]
    assert sorted(second.runs("")) == sorted(first.runs(""))
    first.close()
    second.close()
