"""Whole runs on real worker processes with the toy adaptor: what is found, what fails, what is survived."""

import os
import signal
import sys
import time
from collections import Counter
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import psutil
import pytest
from toy_bench import run_one_round, toy_bench, toy_case
from watching import Watch

from opduel.comparator import Looks, RunAnalysis
from opduel.comparator.modes import modes_of
from opduel.harness.collector import FAILED_STARTS
from opduel.harness.measurement_plan import MeasurementPlan, MeasurementResult, Progress
from opduel.harness.planning import schedule
from opduel.harness.planning.schedule import Schedule
from opduel.harness.processes.case_request import CaseRequest
from opduel.harness.processes.process import CaseProcess
from opduel.harness.rounds.pair import Round
from opduel.records import Case, Comparison

LOOKS = Looks((3, 6))


def run(
    *cases: Case, on_progress: Any = lambda _: None, **order: Any
) -> tuple[MeasurementResult, dict[str, Comparison]]:
    environment, now = order.pop("environment", {}), order.pop("now", time.monotonic)
    looks, alpha = order.pop("looks", LOOKS), order.pop("alpha", 0.05)
    plan = MeasurementPlan(cases, looks, alpha, seed=order.pop("seed", 1), **order)
    result = Schedule(toy_bench(**environment), plan, on_progress, now=now).run()
    comparisons = RunAnalysis(
        cases, result.samples, result.failures, looks, alpha, injected=plan.injected
    ).comparisons()
    return result, {comparison.case: comparison for comparison in comparisons}


@pytest.mark.parametrize("clock", [pytest.param("real", marks=pytest.mark.measures), "simulated"])
def test_a_case_twice_as_slow_is_flagged_once_fresh_pairs_agree(clock: str) -> None:
    """Its first look finds it, and the next one, after three process pairs more, claims it."""
    wide = replace(toy_case("same"), threshold=0.3)
    result, comparisons = run(toy_case("slow", slower=2), wide, environment={"TOY_CLOCK": clock})
    slow = comparisons["slow"]
    assert (slow.verdict, slow.decided_on) == ("regressed", "confirmation")
    assert slow.ratio is not None
    assert 1.5 < slow.ratio < 2.7
    assert [sample.stage for sample in slow.samples] == ["screening"] * 3 + ["confirmation"] * 3
    assert comparisons["same"].verdict == "unchanged"
    assert result.stopped is None
    assert result.timed_s > 0
    assert result.rounds < slow.rounds + comparisons["same"].rounds, "cases share process pairs"
    assert sum(map(len, result.samples.values())) == slow.rounds + comparisons["same"].rounds


def test_all_cases_share_the_rounds_to_their_first_look() -> None:
    """Also one that is precise enough for its threshold after its first sample: it isn't final before."""
    cases = [replace(toy_case("wide"), threshold=5.0), *(replace(toy_case(name), threshold=0.5) for name in "ab")]
    result, comparisons = run(*cases)
    assert {comparison.verdict for comparison in comparisons.values()} == {"unchanged"}
    assert result.rounds == LOOKS.counts[0]


def test_a_run_for_suspects_alone_ends_when_none_is_left() -> None:
    """All cases come to their first look, and none that is not suspected then gets more rounds."""
    open_one = replace(toy_case("same"), threshold=1e-7)
    looks, still = Looks((3, 6, 50), suspect_level=1e-5), {"TOY_CLOCK": "simulated"}
    cases = toy_case("slow", slower=4), open_one
    result, comparisons = run(*cases, looks=looks, alpha=1e-3, suspects_only=True, environment=still)
    assert result.stopped == "no suspect is left; 1 other case undecided"
    assert not result.aborted
    assert comparisons["same"].rounds == 3
    assert comparisons["slow"].verdict == "regressed"


@pytest.mark.parametrize("clock", [pytest.param("real", marks=pytest.mark.measures), "simulated"])
def test_injected_work_is_found_on_every_second_case(clock: str) -> None:
    cases = [replace(toy_case(name), threshold=0.1) for name in "abcd"]
    _, comparisons = run(*cases, inject=0.8, environment={"TOY_CLOCK": clock})
    injected = {name for name in "abcd" if comparisons[name].injected}
    assert len(injected & set("ab")) == len(injected & set("cd")) == 1
    assert {name for name in "abcd" if comparisons[name].verdict == "regressed"} == injected
    assert all(1.4 < (comparisons[name].ratio or 0) < 2.4 for name in injected)


def test_which_of_two_cases_is_slowed_is_drawn_from_the_seed() -> None:
    """Forward and backward cases take turns in a spec: either kind must come to be slowed."""
    cases = [toy_case(f"{number}") for number in range(41)]
    chosen = [MeasurementPlan(cases, LOOKS, 0.05, seed, inject=0.1).injected for seed in range(5)]
    assert all(len(ids) == 20 for ids in chosen)
    assert len(set(chosen)) == 5
    assert chosen[0] == MeasurementPlan(cases, LOOKS, 0.05, 0, inject=0.1).injected
    assert 5 < sum(int(name) % 2 for name in chosen[0]) < 15
    assert MeasurementPlan(cases, LOOKS, 0.05, 0).injected == frozenset()


@pytest.mark.parametrize("fork", [True, False])
def test_a_case_that_outlasts_the_budget_is_no_failure(fork: bool) -> None:
    case = toy_case("slow", "hang", timeout_s=300.0)
    result, comparisons = run(case, time_budget=1.0, can_fork=lambda case: fork)
    assert result.incidents == []
    assert result.stopped == "the time budget was spent"
    assert result.wall_s < 200, "its own timeout is 300 s"
    assert comparisons["slow"].failure is None
    assert comparisons["slow"].verdict == "inconclusive"


def test_a_case_that_takes_a_large_part_of_the_budget_is_given_up_and_blames_no_side(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(schedule, "LEAST_PREPARE_S", 1.0)
    slow_cases = [toy_case("slow", "hang", 300.0), toy_case("slow treatment", "hang", 300.0, only_on="treatment")]
    _, comparisons = run(*slow_cases, replace(toy_case("a"), threshold=0.5), time_budget=20.0)
    for case in slow_cases:
        failure = comparisons[case.id].failure
        assert failure is not None
        assert (failure.side, comparisons[case.id].is_worse) == ("both", False)
        assert failure.reason == "no answer within 2 s (prepare); a larger --time_budget gives it more"
    assert comparisons["a"].verdict == "unchanged"


def test_a_fault_of_ours_costs_nothing_that_was_measured(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(progress: Progress) -> None:
        if progress.rounds == 2:
            raise MemoryError("no more")

    result, comparisons = run(toy_case("a"), on_progress=fail)
    assert (result.aborted, result.stopped) == (True, "MemoryError: no more")
    assert comparisons["a"].rounds == 2


def test_a_build_that_vanishes_in_mid_run_ends_it_with_what_was_measured(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    link = tmp_path / "python"
    link.symlink_to(sys.executable)
    bench = toy_bench()
    bench = replace(
        bench, builds={**bench.builds, "treatment": replace(bench.builds["treatment"], interpreter=str(link))}
    )

    def remove(progress: Progress) -> None:
        if progress.rounds == 2:
            link.unlink()

    looks = Looks((6,))  # the case isn't settled with a third pair
    result = Schedule(bench, MeasurementPlan([toy_case("a")], looks, alpha=0.05, seed=1), remove).run()
    assert result.aborted
    assert str(link) in str(result.stopped)
    assert len(result.samples["a"]) in (2, 3), "the third pair may have been started ahead"
    assert [incident.failure.kind for incident in result.incidents] == ["start"] * FAILED_STARTS


def test_a_worker_lost_between_two_cases_is_reported(monkeypatch: pytest.MonkeyPatch) -> None:
    original = CaseProcess.end
    ended_cases: list[str] = []

    def end(self: CaseProcess) -> None:
        ended_cases.append("one")
        if len(ended_cases) == 1:
            os.kill(self._worker.pid, signal.SIGKILL)
        original(self)

    monkeypatch.setattr(CaseProcess, "end", end)
    result, comparisons = run(*(replace(toy_case(name), threshold=0.5) for name in "ab"))
    assert [incident.failure.kind for incident in result.incidents] == ["killed"]
    assert {comparison.verdict for comparison in comparisons.values()} == {"unchanged"}


@pytest.mark.parametrize("fork", [True, False])
def test_failing_cases_fail_alone(fork: bool) -> None:
    failures = [  # operator, on which side it fails, and how
        ("missing", "control", "missing"),
        ("refuse", "both", "error"),
        ("refuse_later", "treatment", "error"),
        ("refuse_later", "both", "error"),
        ("abort", "treatment", "crash"),
        ("segfault_like_exit", "both", "crash"),
        ("kill", "control", "killed"),
        ("hang", "treatment", "timeout"),
        ("hang", "both", "timeout"),
    ]
    bad_cases = [
        toy_case(
            f"{operator} on {side}",
            operator,
            timeout_s=1.0 if operator == "hang" else 20.0,
            **({} if side == "both" else {"only_on": side}),
        )
        for operator, side, _ in failures
    ]
    good_cases = [replace(toy_case(name), threshold=0.5) for name in "ab"]
    result, comparisons = run(good_cases[0], *bad_cases, good_cases[1], can_fork=lambda case: fork)
    assert [comparisons[name].verdict for name in "ab"] == ["unchanged", "unchanged"]
    assert result.stopped is None
    losses = Counter(incident.case_id for incident in result.incidents)
    for case, (_, side, kind) in zip(bad_cases, failures, strict=True):
        failure = comparisons[case.id].failure
        assert comparisons[case.id].verdict == "failed"
        assert failure is not None
        assert (failure.side, failure.kind) == (side, kind), case.id
        assert failure.reason
        is_tried_once = kind in ("error", "missing") or (side, kind) == ("both", "timeout")
        assert losses[case.id] == (0 if is_tried_once else 2), case.id


@pytest.mark.parametrize("victim", ["child", "worker"])
def test_kill_9_costs_one_sample_and_is_reported(victim: str, watch: Watch) -> None:
    """Someone kills a process from outside, once, while it measures: the case is measured again, and decided."""
    count_by_op = Counter[str]()

    def kill_once(process: CaseProcess, request: Mapping[str, Any]) -> None:
        count_by_op[request["op"]] += 1
        if count_by_op["turns"] == 4 and request["op"] == "turns":
            os.kill(process.pid if victim == "child" else os.getsid(process.pid), signal.SIGKILL)

    watch.asking.append(kill_once)
    cases = [replace(toy_case(name), threshold=0.5) for name in "abc"]
    result, comparisons = run(*cases)
    (incident,) = result.incidents
    assert incident.failure.kind == "killed"
    assert incident.case_id in ("a", "b", "c")
    assert "goes on" in incident.consequence
    assert [comparison.verdict for comparison in comparisons.values()] == ["unchanged"] * 3
    rounds = Counter(sample.case_id for samples in result.samples.values() for sample in samples)
    assert all(rounds[name] >= LOOKS.counts[0] for name in "abc")


def test_workers_that_never_start_end_the_run() -> None:
    result, comparisons = run(toy_case("a"), environment={"TOY_IMPORT": "dies"})
    assert result.aborted
    assert result.stopped is not None
    assert "cannot import toy: no such library" in result.stopped
    assert len(result.incidents) == FAILED_STARTS
    assert comparisons["a"].verdict == "inconclusive"


def test_the_budget_ends_a_run_and_keeps_what_was_measured() -> None:
    """Two thousand seconds pass when the second round has ended."""
    later = [0.0]

    def pass_time(progress: Progress) -> None:
        if progress.rounds == 2:
            later[0] = 2000.0

    endless = Looks((3, 5000))
    case = replace(toy_case("a"), threshold=1e-6)
    result, comparisons = run(
        case, time_budget=1000.0, looks=endless, on_progress=pass_time, now=lambda: time.monotonic() + later[0]
    )
    assert result.stopped is not None
    assert "the time budget" in result.stopped
    assert not result.aborted
    assert comparisons["a"].verdict == "inconclusive"
    assert comparisons["a"].rounds == 2


def test_an_interrupt_ends_a_run_and_keeps_what_was_measured() -> None:
    def interrupt(progress: Progress) -> None:
        if progress.rounds == 2:
            raise KeyboardInterrupt

    before = set(psutil.Process().children())
    result, comparisons = run(toy_case("a"), toy_case("b"), on_progress=interrupt)
    assert (result.stopped, result.aborted, result.rounds) == ("interrupted", True, 2)
    assert [comparisons[name].rounds for name in "ab"] == [2, 2]
    children = set(psutil.Process().children()) - before
    assert not [child for child in children if child.status() != psutil.STATUS_ZOMBIE]


def test_an_interrupt_within_a_round_keeps_the_cases_before_it(watch: Watch) -> None:
    watch.interrupt("turns", processes=4)
    result, _ = run(*(toy_case(name) for name in "abcd"))
    assert sum(map(len, result.samples.values())) == 2


def test_progress_counts_down() -> None:
    progresses: list[Progress] = []
    run(*(replace(toy_case(name), threshold=0.5) for name in "ab"), on_progress=progresses.append)
    assert [progress.rounds for progress in progresses] == list(range(1, len(progresses) + 1))
    assert progresses[0].open_cases == 2
    assert progresses[0].left_s > 0
    assert progresses[-1].open_cases == 0
    assert progresses[-1].left_s == 0


def test_every_asymmetry_is_drawn_from_the_seed(watch: Watch) -> None:
    """Order of cases, starts, preparations and blocks, and the environment's size: random, and repeatable."""
    log: list[Any] = []

    def note(process: CaseProcess, request: Mapping[str, Any]) -> None:
        log.append((request["op"], process._worker.side, request.get("case", {}).get("id")))

    watch.starting.append(lambda side, environment: log.append(("start", side, len(environment["OPDUEL_PADDING"]))))
    watch.asking.append(note)
    bench = toy_bench()
    bench = replace(bench, cpus=replace(bench.cpus, start=bench.cpus.measure))  # nothing is started or prepared ahead

    def one_round(seed: int) -> list[Any]:
        log.clear()
        requests = [CaseRequest(toy_case(name), 1) for name in "abcd"]
        run_one_round(bench, Round(requests, 0), seed)
        return [entry for entry in log if entry[0] in ("start", "prepare", "end")]

    logs = {seed: one_round(seed) for seed in range(6)}
    assert one_round(0) == logs[0]
    firsts = {seed: next(entry[1] for entry in entries if entry[0] == "start") for seed, entries in logs.items()}
    assert set(firsts.values()) == {"control", "treatment"}
    paddings = {entry[2] for entries in logs.values() for entry in entries if entry[0] == "start"}
    assert len(paddings) > 6
    orders = {tuple(entry[2] for entry in entries if entry[0] == "prepare")[::2] for entries in logs.values()}
    assert len(orders) > 1
    prepared_first = [entry[1] for entries in logs.values() for entry in entries if entry[0] == "prepare"][::2]
    assert set(prepared_first) == {"control", "treatment"}


def test_cases_that_cannot_fork_never_share_a_process() -> None:
    cases = [replace(toy_case(name), threshold=0.5) for name in "ab"]
    result, comparisons = run(*cases, can_fork=lambda case: case.id == "a")
    assert [comparisons[name].verdict for name in "ab"] == ["unchanged"] * 2
    assert result.rounds == comparisons["a"].rounds + comparisons["b"].rounds


def test_many_cases_share_several_pairs_and_each_is_kept_and_reported(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("opduel.harness.planning.schedule.MOST_TOGETHER", 3)
    progresses: list[Progress] = []
    cases = [replace(toy_case(f"c{number}"), threshold=0.9) for number in range(7)]
    result, comparisons = run(*cases, toy_case("slow", slower=4), on_progress=progresses.append)
    assert comparisons["slow"].verdict == "regressed"
    assert {comparisons[case.id].verdict for case in cases} == {"unchanged"}
    by_round: dict[int, set[str]] = {}
    for samples in result.samples.values():
        for sample in samples:
            by_round.setdefault(sample.round, set()).add(sample.case_id)
    assert max(map(len, by_round.values())) == 3
    assert [len(by_round[number]) for number in range(3)] in ([3, 3, 2], [3, 2, 3], [2, 3, 3])
    assert set.union(*(by_round[number] for number in range(3))) == set(result.samples), "each once in a wave"
    assert len({frozenset(by_round[number]) for number in range(6)}) > 3, "with others in the next"
    assert [progress.rounds for progress in progresses] == list(range(1, len(by_round) + 1))
    assert progresses[0].open_cases == 8
    assert progresses[-1].open_cases == 0


@pytest.mark.many_forks
def test_a_case_with_one_time_in_some_processes_and_another_in_others_is_known_as_such(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """In pairs of six forks, whose means lie between the two."""
    case = replace(toy_case("moody", mode=3.0), threshold=1e-7)
    monkeypatch.setattr(Round, "forks_of", lambda *_: 6)
    result, _ = run(case, looks=Looks((12,)), environment={"TOY_CLOCK": "simulated"})
    assert {sample.forks for sample in result.samples["moody"]} == {6}
    modes_by_side = modes_of(result.samples["moody"])
    assert {side: modes.high / modes.low for side, modes in modes_by_side.items()} == {
        "control": pytest.approx(3, rel=0.02),
        "treatment": pytest.approx(3, rel=0.02),
    }
    assert all(modes.low_pairs + modes.high_pairs == 72 for modes in modes_by_side.values())
