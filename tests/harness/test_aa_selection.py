"""Sentinels: whose turn it is, and how they are measured on real worker processes."""

import os
import random
import signal
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import pytest
from resumable_run import ListLog
from test_run import request
from toy_bench import toy_bench, toy_case
from watching import Watch

from opduel.comparator import Looks
from opduel.harness.checkpoint import Checkpoint
from opduel.harness.measurement_plan import MeasurementPlan, MeasurementResult
from opduel.harness.planning.aa_selection import AASchedule, draw_aa_cases, usual_count
from opduel.harness.planning.schedule import Schedule
from opduel.harness.processes.case_request import CaseRequest
from opduel.harness.processes.pair_pool import PairPool
from opduel.harness.processes.process import CaseProcess
from opduel.harness.rounds.pair import Round, RoundResult, run_round
from opduel.harness.run_recording import without_measuring
from opduel.records import Case, Stage

LOOKS = Looks((3, 6))
CASES = [toy_case(f"c{number}") for number in range(40)]


def run(*cases: Case, **order: Any) -> MeasurementResult:
    environment = order.pop("environment", {})
    plan = MeasurementPlan(cases, LOOKS, alpha=0.05, seed=order.pop("seed", 1), **order)
    return Schedule(toy_bench(**environment), plan).run()


def requests_for(cases: Sequence[Case], stage: Stage) -> list[CaseRequest]:
    return [CaseRequest(case, 1, stage=stage) for case in cases]


@pytest.mark.parametrize(("cases", "count"), [(1, 1), (19, 1), (20, 2), (40, 4), (1000, 4)])
def test_one_in_ten_but_few(cases: int, count: int) -> None:
    assert usual_count(cases) == count


def test_they_are_drawn_from_the_seed() -> None:
    drawn = {seed: draw_aa_cases(CASES, 4, seed) for seed in range(20)}
    assert drawn[3] == draw_aa_cases(CASES, 4, 3)
    assert all(len({case.id for case in drawn_cases}) == 4 for drawn_cases in drawn.values())
    assert len({case.id for drawn_cases in drawn.values() for case in drawn_cases}) > 20
    assert draw_aa_cases(CASES[:2], 4, 1) in ((CASES[0], CASES[1]), (CASES[1], CASES[0]))
    assert draw_aa_cases(CASES, 0, 1) == ()


def test_on_the_screen_a_round_has_as_large_a_share_of_them_as_of_the_cases() -> None:
    aa_schedule = AASchedule(CASES[:4], 40)
    assert len(aa_schedule.due_within(requests_for(CASES, "screening"))) == 4
    assert len(aa_schedule.due_within(requests_for(CASES[:20], "screening"))) == 2
    assert [len(aa_schedule.due_within(requests_for(CASES[:3], "screening"))) for _ in range(5)] == [1] * 5


def test_of_the_rounds_of_suspects_alone_every_second_has_one_and_they_take_turns() -> None:
    aa_schedule = AASchedule(CASES[:4], 40)
    chosen_by_round = [aa_schedule.due_within(requests_for(CASES[:9], "confirmation")) for _ in range(16)]
    assert [len(chosen) for chosen in chosen_by_round] == [1, 0] * 8
    assert Counter(case.id for chosen in chosen_by_round for case in chosen) == dict.fromkeys(
        ("c0", "c1", "c2", "c3"), 2
    )


def counted(cases: Sequence[Case]) -> list[Case]:
    return [replace(case, id=f"{case.id}/instructions", metric="instructions") for case in cases]


def test_rounds_of_other_metrics_take_no_turns() -> None:
    aa_schedule = AASchedule(CASES[:4], 40)
    chosen_by_round = []
    for _ in range(8):
        chosen_by_round.append(len(aa_schedule.due_within(requests_for(CASES[:1], "confirmation"))))
        assert aa_schedule.due_within(requests_for(counted(CASES[:1]), "confirmation")) == []
    assert chosen_by_round == [1, 0] * 4


@pytest.mark.parametrize("fork", [True, False])
def test_they_are_a_share_of_the_timed_cases_of_a_run(fork: bool) -> None:
    order = MeasurementPlan(
        [*CASES, *counted(CASES)], LOOKS, alpha=0.05, seed=1, aa_count=4, can_fork=lambda case: fork
    )
    schedule = Schedule(toy_bench(), order)
    wave = [this_round for _ in range(5) for this_round in schedule._plan_wave()]
    assert sum(len(this_round.requests) for this_round in wave) == 5 * 80
    assert abs(sum(len(this_round.aa_requests) for this_round in wave) - 5 * 4) <= 1


def test_rounds_of_other_metrics_that_were_kept_take_no_turns() -> None:
    both = [*CASES[:1], *counted(CASES[:1])]
    log = ListLog()
    Checkpoint(log, "r").phase("first").keep(RoundResult(), Round(requests_for(both[1:], "confirmation"), 0), 1.0)
    order = MeasurementPlan(both, LOOKS, alpha=0.05, seed=1, aa_count=1)
    schedule = Schedule(toy_bench(), order, checkpoint=Checkpoint(log, "r").phase("first"))
    schedule._take_in_stored()
    assert len(schedule._aa_schedule.due_within(requests_for(both[:1], "confirmation"))) == 1


def test_the_report_says_how_many_there_were_to_be() -> None:
    """Fewer than asked for where there are fewer timed cases; the usual number of none is none."""
    asked_for = request(*CASES[:2], *counted(CASES[:5])).configured(sentinels=50)
    none_timed = request(*counted(CASES[:5]))
    reports = [without_measuring(run_request, "") for run_request in (asked_for, none_timed)]
    assert [report.run.aa_cases for report in reports] == [2, 0]


def test_what_is_dropped_has_no_more_turns() -> None:
    aa_schedule = AASchedule(CASES[:2], 2)
    aa_schedule.drop("c1")
    assert [case.id for case in aa_schedule.due_within(requests_for(CASES[:2], "screening"))] == ["c0"]
    aa_schedule.drop("c0")
    assert aa_schedule.due_within(requests_for(CASES[:2], "screening")) == aa_schedule.due_alone("screening") == []


def test_turns_go_on_where_another_process_left_them() -> None:
    """Suspects' rounds are kept, and so is what cases that can't share a process have earned towards a round."""
    uninterrupted, resumed = (AASchedule(CASES[:3], len(CASES)) for _ in range(2))
    for number in range(7):
        chosen = uninterrupted.due_within(requests_for(CASES[:2], "confirmation"))
        resumed.replay(["confirmation", "confirmation"], [case.id for case in chosen], fork=True)
        due = uninterrupted.due_alone("screening" if number % 2 else "confirmation")
        resumed.replay(["screening" if number % 2 else "confirmation"], [], fork=False)
        for case in due:
            resumed.replay([], [case.id], fork=False)
    later = [
        (aa_schedule.due_within(requests_for(CASES[:2], "confirmation")), aa_schedule.due_alone("screening"))
        for aa_schedule in (uninterrupted, resumed) * 30
    ]
    assert later[::2] == later[1::2]
    assert any(alone for _, alone in later)


@pytest.mark.parametrize(("aa_cases", "cases", "per_hundred"), [(4, 40, 10), (1, 1, 100), (2, 1, 100), (0, 5, 0)])
def test_rounds_of_their_own_are_a_share_of_all(aa_cases: int, cases: int, per_hundred: int) -> None:
    aa_schedule = AASchedule(CASES[:aa_cases], cases)
    assert abs(sum(len(aa_schedule.due_alone("screening")) for _ in range(100)) - per_hundred) <= 1
    assert abs(sum(len(aa_schedule.due_alone("confirmation")) for _ in range(100)) - per_hundred / 2) <= 1


@pytest.mark.parametrize("fork", [True, False])
def test_their_samples_are_kept_apart_and_compare_the_control_with_itself(fork: bool) -> None:
    """The treatment is far slower; A/A checks are not affected, nor by an injection."""
    slow = toy_case("slow", slower=3)
    result = run(slow, aa_count=1, inject=0.9, can_fork=lambda case: fork)
    assert set(result.samples) == set(result.aa_samples) == {"slow"}
    assert len(result.aa_samples["slow"]) >= LOOKS.counts[0]
    middle = sorted(sample.log_ratio for sample in result.aa_samples["slow"])
    assert abs(middle[len(middle) // 2]) < 0.4 < min(sample.log_ratio for sample in result.samples["slow"])
    assert result.rounds == len(result.samples["slow"]) + (0 if fork else len(result.aa_samples["slow"]))


@pytest.mark.parametrize("fork", [True, False])
def test_those_that_fail_are_dropped_and_cost_the_run_nothing(fork: bool) -> None:
    good = [replace(toy_case(name), threshold=0.5) for name in "ab"]
    bad = [toy_case(operator, operator) for operator in ("abort", "refuse")]
    result = run(good[0], *bad, good[1], aa_count=4, can_fork=lambda case: fork)
    assert set(result.aa_samples) == {"a", "b"}
    assert set(result.failures) == {"abort", "refuse"}
    assert result.stopped is None
    incidents = [incident for incident in result.incidents if "A/A" in incident.consequence]
    assert [incident.case_id for incident in incidents] == ["abort"]
    assert all(incident.case_id for incident in result.incidents), "nothing is reported twice"
    assert all(len(result.samples[name]) >= LOOKS.counts[0] for name in "ab")


@pytest.fixture
def log(watch: Watch) -> list[tuple[str, int, str]]:
    """Who was started, and asked to prepare what: (side, worker's process id, what)."""
    log: list[tuple[str, int, str]] = []

    def note(process: CaseProcess, request: Mapping[str, Any]) -> None:
        if request["op"] == "prepare":
            log.append((process._worker.side, process._worker.pid, f"{request['case']['id']} {request['slow']}"))

    watch.started.append(lambda worker: log.append((worker.side, worker.pid, "start")))
    watch.asking.append(note)
    return log


ALONE = replace(toy_bench(), cpus=replace(toy_bench().cpus, start=toy_bench().cpus.measure))  # nothing is started ahead


def rounds(seed: int, count: int, cases: int, aa_cases: int = 1) -> list[RoundResult]:
    """So many rounds in a row."""
    requests = [CaseRequest(toy_case(f"c{number}"), 1, inject=0.1) for number in range(cases)]
    watch = [CaseRequest(toy_case(f"s{number}"), 1) for number in range(aa_cases)]
    rng, results = random.Random(seed), []
    with PairPool(ALONE, rng) as pool:
        for number in range(count):
            results.append(RoundResult())
            run_round(pool, Round(requests, number, aa_requests=watch), rng, results[-1])
    return results


def test_places_and_sides_are_drawn_from_the_seed(log: list[tuple[str, int, str]]) -> None:
    places, firsts = set(), set()
    for seed in range(5):
        log.clear()
        rounds(seed, 2, 5)
        second = log[[event for _, _, event in log].index("start", 2) :]
        case_ids = [event.split()[0] for _, _, event in second if event != "start"][::2]
        assert Counter(case_ids) == {"s0": 1, **{f"c{number}": 1 for number in range(5)}}
        places.add(case_ids.index("s0"))
        previous_control = next(pid for side, pid, event in log if event == "start" and side == "control")
        firsts.add(next(pid for _, pid, event in second if event == "s0 False") == previous_control)
    assert len(places) >= 3
    assert firsts == {True, False}


def test_both_processes_of_a_sentinel_are_of_the_control(log: list[tuple[str, int, str]]) -> None:
    first, second = rounds(1, 2, 1)
    controls = [pid for side, pid, event in log if event == "start" and side == "control"]
    assert len(controls) == 2
    assert {pid for _, pid, event in log if event.startswith("s0")} == set(controls)
    assert {side for side, _, event in log if event.startswith("c0")} == {"control", "treatment"}
    assert first.aa_result is not None
    assert second.aa_result is not None
    assert first.aa_result.samples == [], "there is no second process of the control yet"
    assert [sample.case_id for sample in second.aa_result.samples] == ["s0"]
    assert [sample.case_id for sample in second.samples] == ["c0"]


def test_sentinels_cost_no_process(log: list[tuple[str, int, str]]) -> None:
    rounds(1, 3, 2)
    assert sorted(side for side, _, event in log if event == "start") == ["control"] * 3 + ["treatment"] * 3


def test_a_round_of_sentinels_alone_starts_no_treatment(log: list[tuple[str, int, str]]) -> None:
    (result,) = rounds(1, 1, 0, 2)
    assert [side for side, _, event in log if event == "start"] == ["control", "control"]
    assert result.aa_result is not None
    assert {sample.case_id for sample in result.aa_result.samples} == {"s0", "s1"}


def test_a_previous_control_that_dies_costs_the_round_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    requests, watch = [CaseRequest(toy_case("c"), 1)], [CaseRequest(toy_case("s"), 1)]
    rng, results = random.Random(1), [RoundResult(), RoundResult(), RoundResult()]
    with PairPool(ALONE, rng) as pool:
        for number, result in enumerate(results):
            if number == 1:
                assert pool.previous_control is not None
                os.kill(pool.previous_control.pid, signal.SIGKILL)
            run_round(pool, Round(requests, number, aa_requests=watch), rng, result)
    assert [len(result.samples) for result in results] == [1, 1, 1]
    assert [result.lost_worker for result in results] == [None, None, None]
    assert results[1].aa_result is not None
    assert results[1].aa_result.lost["s"].kind == "killed"
    assert results[2].aa_result is not None
    assert len(results[2].aa_result.samples) == 1
