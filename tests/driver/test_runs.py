"""Runs that are made once: whatever ends a start, the next one neither loses nor doubles."""

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from made_runs import MadeHarness, a_build

from opduel.driver.journal import MOST_WITH_ROUNDS, Journal
from opduel.driver.runs import BUDGETS, TRIES, NotSettled, RunOrder, Runs
from opduel.records import Report, RunError, Verdict
from opduel.records.run_record import LeftOutRecord

CONTROL, TREATMENT = a_build("old"), a_build("new")
LEVEL = {"case": {"old": 1.0, "new": 1.0}}


class Start:
    """One start after the other of a driver that makes runs, on one journal."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.harness = MadeHarness(LEVEL)
        self.slept: list[float] = []
        self.again()

    def again(self) -> None:
        """As a new process would begin."""
        self.journal = Journal(self.path)
        self.runs = Runs(self.journal, self.harness, 120.0, self.slept.append)

    def make(self, name: str = "run", run_type: str = "benchmark") -> Report:
        return self.runs.make(RunOrder(name, run_type, CONTROL, TREATMENT, self.journal.rounds_of(name)))


@pytest.fixture
def start(tmp_path: Path) -> Iterator[Start]:
    started = Start(tmp_path / "journal.db")
    yield started
    started.journal.close()


def test_a_finished_run_is_answered_from_the_journal_and_reported_once(start: Start) -> None:
    first = start.make()
    start.again()
    assert start.make() == first
    assert len(start.harness.orders) == 1
    assert start.harness.delivered == [first.run.id]
    assert start.journal.report("run") is not None


def test_that_a_run_is_not_made_again_is_said_with_the_way_to_have_it_made(
    start: Start, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("INFO")
    start.make()
    assert "--again" not in caplog.text
    start.again()
    start.make()
    assert "benchmark of old and new: was measured at" in caplog.text
    assert "is not measured again: --again does that" in caplog.text


def test_that_a_step_had_nothing_to_measure_is_not_called_a_measurement(
    start: Start, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("INFO")
    report = start.make()
    left_out = LeftOutRecord(cases=("a",), total=1)
    start.harness.reports[report.run.id] = replace(report, run=replace(report.run, left_out=left_out))
    start.again()
    start.make()
    assert "old..new: nothing that these cases run differs" in caplog.text
    assert "was measured" not in caplog.text


def test_an_interrupted_run_keeps_its_rounds_and_is_not_reported(start: Start) -> None:
    start.harness.endings = ["interrupted"]
    with pytest.raises(KeyboardInterrupt, match=r"by a signal; repeat the command to measure on$"):
        start.make()
    assert start.harness.delivered == []
    start.again()
    assert start.journal.rounds_of("run").rounds() == ["1", "round 1", "round 2"]
    report = start.make()
    assert [order.seed for order in start.harness.orders] == [start.harness.orders[0].seed] * 2
    assert start.harness.delivered == [report.run.id]
    assert start.journal.rounds_of("run").rounds() == []


def test_killed_between_the_end_of_a_run_and_its_telling(start: Start) -> None:
    start.harness.refuse = SystemExit("killed")
    with pytest.raises(SystemExit):
        start.make()
    start.harness.refuse = None
    start.again()
    report = start.make()
    assert len(start.harness.orders) == 1
    assert start.harness.delivered == [report.run.id]


def test_what_was_not_delivered_is_delivered_by_the_next_start_in_order(start: Start) -> None:
    start.harness.refuse = RunError("the disk is full")
    for name in ("b", "a"):
        with pytest.raises(RunError, match="full"):
            start.make(name)
    start.harness.refuse = None
    start.again()
    start.runs.deliver_all()
    assert [report_id.partition("-")[0] for report_id in start.harness.delivered] == ["1", "2"]
    start.runs.deliver_all()
    assert len(start.harness.delivered) == 2


def test_a_run_that_cannot_be_trusted_is_made_again_after_a_pause_but_not_for_ever(start: Start) -> None:
    start.harness.endings = ["held", "held"]
    report = start.make()
    assert report.comparisons[0].held_back is None
    assert (len(start.harness.orders), start.slept) == (3, [120.0, 120.0])
    assert len({order.seed for order in start.harness.orders}) == 3
    assert len(start.harness.delivered) == 3

    start.harness.endings = ["held"] * 10
    assert start.make("other").comparisons[0].held_back == "unchanged"
    assert len(start.harness.orders) == 3 + TRIES


def test_a_run_whose_aa_check_found_a_difference_is_made_again_though_verdicts_stand(start: Start) -> None:
    start.harness.endings = ["biased"]
    assert not start.make().is_biased
    assert (len(start.harness.orders), start.slept) == (2, [120.0])


def test_tries_that_were_made_before_are_not_made_again(start: Start) -> None:
    start.harness.endings = ["held", "interrupted"]
    with pytest.raises(KeyboardInterrupt):
        start.make()
    start.again()
    start.make()
    assert len(start.harness.orders) == 3
    assert start.slept == [120.0]  # a run that was begun is gone on with at once
    assert len(start.harness.delivered) == 2


def test_a_run_that_broke_is_reported_and_repeated_by_the_next_start(start: Start) -> None:
    start.harness.endings = ["broken"]
    broken = start.make()
    assert start.harness.delivered == [broken.run.id]
    start.again()
    complete = start.make()
    assert not complete.run.aborted
    assert start.harness.delivered == [broken.run.id, complete.run.id]


def test_a_run_out_of_time_that_leaves_a_suspect_is_measured_on_by_the_next_start(start: Start) -> None:
    start.harness.endings = ["open"]
    with pytest.raises(
        NotSettled, match="case looked changed when the time budget ended, and is not settled; the next pass"
    ) as raised:
        start.make()
    assert raised.value.report.run.continues is True
    assert start.harness.delivered == ["1-benchmark-old..new-open-1"]
    assert len(start.journal.rounds_of("run").rounds()) == 3, "they are kept"
    assert start.journal.report("run") is None
    start.again()
    report = start.make()
    assert [order.budgets for order in start.harness.orders] == [1, 2]
    assert start.harness.started_runs == 1, "it went on"
    assert start.harness.delivered == ["1-benchmark-old..new-open-1", report.run.id]
    assert start.journal.report("run") is not None


def test_who_waits_for_a_run_is_told_to_repeat_the_command(start: Start) -> None:
    start.harness.endings = ["open"]
    start.runs = Runs(start.journal, start.harness, 120.0, start.slept.append, repeats=False)
    with pytest.raises(NotSettled, match=r"and is not settled; repeat the command to measure on$"):
        start.make()
    start.harness.endings = ["open"]
    start.runs = Runs(start.journal, start.harness, 120.0, start.slept.append, is_awaited=True)
    with pytest.raises(NotSettled, match=r"and is not settled; repeat the command to measure on$"):
        start.make()


def test_a_step_of_a_search_that_somebody_waits_for_gets_its_further_budgets_at_once(start: Start) -> None:
    start.harness.endings = ["open"] * 10
    start.runs = Runs(start.journal, start.harness, 120.0, start.slept.append, is_awaited=True)
    assert start.make(run_type="regress").open_suspects
    assert [order.budgets for order in start.harness.orders] == list(range(1, BUDGETS + 1))


def test_all_steps_of_a_search_together_take_no_more_than_their_time_budgets(
    start: Start, caplog: pytest.LogCaptureFixture
) -> None:
    """A step that isn't settled goes on in the time that earlier runs left, and is answered as it is without it."""
    caplog.set_level("INFO")
    now, measure = [0.0], start.harness.measure
    seconds = {"ends": 60.0, "again": 20.0, "step": 180.0, "late": 180.0}

    def measure_for_long(order: RunOrder) -> Report:
        now[0] += seconds[order.name]
        return measure(order)

    start.harness.measure = measure_for_long  # type: ignore[method-assign]
    start.runs = Runs(
        *(start.journal, start.harness, 120.0, start.slept.append),
        is_awaited=True,
        budget_s=180.0,
        clock=lambda: now[0],
    )
    start.make("ends")
    start.make("again", "verify")
    start.harness.endings = ["open"] * 10
    assert start.make("step", "regress").open_suspects
    assert start.make("late", "regress").open_suspects
    budgets = [(order.name, order.budgets) for order in start.harness.orders]
    assert budgets == [("ends", 1), ("again", 1), ("step", 1), ("step", 2), ("late", 1)]
    assert now[0] <= 4 * 180.0
    assert "another time budget of 3 min, which earlier runs left" in caplog.text


def awaited(start: Start) -> None:
    """As a new process of somebody who waits for the run's verdicts would begin."""
    start.again()
    start.runs = Runs(start.journal, start.harness, 120.0, start.slept.append, repeats=False, is_awaited=True)


def test_a_benchmark_that_was_too_short_for_who_waits_for_it_is_measured_on_with_a_budget_on_top(start: Start) -> None:
    """An undecided case needed 7 s more; with another time budget the run began again from zero."""
    start.harness.endings = ["short", "short"]
    awaited(start)
    first = start.make()
    awaited(start)
    start.harness.budget_s = 30.0
    start.make()
    awaited(start)
    last = start.make()
    assert start.harness.started_runs == 1, "it went on"
    had = [order.earlier and order.earlier.configuration.time_budget for order in start.harness.orders]
    assert had == [None, 20.0, 50.0]
    assert last.configuration.time_budget == 80.0
    assert len(set(start.harness.delivered)) == 3, "each has a name of its own, so that none is taken for another"
    assert start.harness.delivered[0] == first.run.id
    assert not any(order.suspects_only for order in start.harness.orders)
    awaited(start)
    assert start.make() == last, "it is complete"
    assert len(start.harness.orders) == 3


def test_a_search_begins_as_soon_as_the_benchmark_has_found_what_it_follows(start: Start) -> None:
    """It waited for the last open case first."""
    start.harness.endings = ["short", "short"]
    awaited(start)
    report = start.make()
    regressed = replace(report.comparisons[0], case="b", verdict="regressed")
    start.harness.reports[report.run.id] = replace(report, comparisons=[*report.comparisons, regressed])
    awaited(start)
    order = RunOrder(
        "run", "benchmark", CONTROL, TREATMENT, start.journal.rounds_of("run"), sought=frozenset(["regressed"])
    )
    assert start.runs.make(order).run.id == report.run.id
    assert len(start.harness.orders) == 1
    awaited(start)
    start.runs.make(replace(order, log=start.journal.rounds_of("run"), sought=frozenset[Verdict](["improved"])))
    assert len(start.harness.orders) == 2


def test_a_benchmark_that_nobody_waits_for_is_not_measured_on(start: Start) -> None:
    start.harness.endings = ["short"]
    first = start.make()
    start.again()
    assert start.make() == first
    assert start.journal.rounds_of("run").rounds() == []


def test_a_benchmark_whose_rounds_are_gone_is_answered_from_the_journal(start: Start) -> None:
    start.harness.endings = ["short"] * (MOST_WITH_ROUNDS + 1)
    awaited(start)
    for number in range(MOST_WITH_ROUNDS + 1):
        start.make(f"run {number}")
    kept = [bool(start.journal.rounds_of(f"run {number}").rounds()) for number in range(MOST_WITH_ROUNDS + 1)]
    assert kept == [False, *[True] * MOST_WITH_ROUNDS]
    start.make("run 0")
    assert len(start.harness.orders) == MOST_WITH_ROUNDS + 1
    start.make("run 1")
    assert len(start.harness.orders) == MOST_WITH_ROUNDS + 2


def test_a_start_knows_the_budgets_of_those_before_it(start: Start) -> None:
    start.harness.endings = ["open", "open"]
    for _ in range(BUDGETS - 1):
        with pytest.raises(NotSettled):
            start.make()
        start.again()
        start.harness.budget_s += 10.0
    start.make()
    had = [order.earlier and order.earlier.configuration.time_budget for order in start.harness.orders]
    assert had == [None, 20.0, 50.0]
    assert [order.suspects_only for order in start.harness.orders] == [False, True, True]


def test_a_report_that_says_what_it_needs_has_no_other_advice_beside_it(start: Start) -> None:
    start.harness.endings = ["open"]
    start.harness.forecast = {"further": 20.0}
    awaited(start)
    with pytest.raises(NotSettled, match=r"and is not settled$"):
        start.make()


def test_a_run_that_no_budget_settles_is_not_measured_on_for_ever(start: Start) -> None:
    start.harness.endings = ["open"] * 10
    for _ in range(BUDGETS - 1):
        with pytest.raises(NotSettled):
            start.make()
        start.again()
    report = start.make()
    assert report.open_suspects
    assert [order.budgets for order in start.harness.orders] == list(range(1, BUDGETS + 1))
    start.again()
    assert start.make() == report, "it is done with"
    assert len(start.harness.orders) == BUDGETS
    ((_, kind, text),) = start.journal.events()
    assert (kind, "after 3 time budgets" in text) == ("not settled", True)


def test_forgetting_lets_an_open_run_begin_again(start: Start) -> None:
    start.harness.endings = ["open"]
    with pytest.raises(NotSettled):
        start.make("line/benchmark")
    start.runs.forget("line/")
    start.make("line/benchmark")
    assert [order.budgets for order in start.harness.orders] == [1, 1]
    assert start.harness.started_runs == 2


def test_forgetting_repeats_runs(start: Start) -> None:
    start.make("line/benchmark")
    start.make("line/verify")
    start.make("other")
    start.runs.forget("line/")
    for name in ("line/benchmark", "line/verify", "other"):
        start.make(name)
    assert len(start.harness.orders) == 5
    assert len(start.harness.delivered) == 5


def test_time_budgets_that_only_led_to_the_first_test_do_not_count(start: Start) -> None:
    """On a busy machine three of them passed before any case was tested, and a case at +101 % was left at that."""
    untested = BUDGETS + 2
    start.harness.endings = ["untested"] * untested + ["open"] * 10
    for _ in range(untested + BUDGETS - 1):
        with pytest.raises(NotSettled):
            start.make()
    assert start.make().open_suspects
    assert len(start.harness.orders) == untested + BUDGETS


def test_a_run_whose_time_budgets_bring_no_round_is_left_at_that(start: Start) -> None:
    start.harness.endings = ["untested"] * 10
    start.harness.rounds = 0
    for _ in range(BUDGETS - 1):
        with pytest.raises(NotSettled):
            start.make()
    start.make()
