"""One round of a process pair: how often it measures a case, where, and until when."""

import math
import os
import random
from collections.abc import Mapping
from contextlib import closing, nullcontext
from dataclasses import replace
from itertools import accumulate, groupby
from typing import Any

import pytest
from toy_bench import run_one_round, toy_bench, toy_case
from watching import Watch

import opduel.harness.rounds.pair
from opduel.harness.machine.cpus import plan_cpus
from opduel.harness.planning.effort import PILOT, Repetitions
from opduel.harness.processes.case_request import CaseRequest, shuffled
from opduel.harness.processes.pair_pool import PairPool
from opduel.harness.processes.process import CaseProcess
from opduel.harness.processes.worker_errors import CaseRefusedError
from opduel.harness.rounds.pair import Round, RoundResult, _Share
from opduel.harness.rounds.preparation import Preparation
from opduel.records import Failure


@pytest.mark.many_forks
def test_each_case_is_measured_as_often_as_planned_and_one_without_a_plan_as_a_pilot(watch: Watch) -> None:
    """Each time in processes of its own, on either side; and all of it is one sample."""
    pids: set[int] = set()
    watch.asking.append(lambda process, _: pids.add(process.pid))
    requests = [CaseRequest(toy_case(name), 1) for name in ("often", "seldom", "new")]
    planned = {"often": Repetitions(5, 2), "seldom": Repetitions(1, 20)}
    result = run_one_round(toy_bench(), Round(requests, 0, repetitions=planned))
    samples = {sample.case_id: sample for sample in result.samples}
    assert {name: (sample.forks, sample.blocks) for name, sample in samples.items()} == {
        "often": (5, 5 * 2 * 2),
        "seldom": (1, 2 * 20),
        "new": (PILOT.forks, PILOT.forks * 2 * PILOT.quads),
    }
    assert len(pids) == 2 * (5 + 1 + PILOT.forks)
    assert {name: (time.forks, time.quads) for name, time in result.times.items()} == {
        "often": (5, 10),
        "seldom": (1, 20),
        "new": (PILOT.forks, PILOT.forks * PILOT.quads),
    }
    assert Round(requests[:1], 0, fork=False, repetitions=planned).forks_of("often") == 1


def test_the_time_of_a_round_is_that_of_its_cases_and_of_its_pair() -> None:
    requests = [CaseRequest(toy_case(name), 1) for name in "ab"]
    result = run_one_round(toy_bench(), Round(requests, 0))
    parts = [(time.waited_s, time.beside_s, time.quads_s) for time in result.times.values()]
    assert len(parts) == 2
    assert all(seconds > 0 for part in parts for seconds in part[1:])
    assert all(time.prepared_s > 0 for time in result.times.values())
    assert sum(waited for waited, _, _ in parts) == pytest.approx(result.prepare_s)
    assert sum(quads for _, _, quads in parts) <= result.block_s
    spent_s = sum(time.spent_s for time in result.times.values())
    assert spent_s == pytest.approx(sum(map(sum, parts)))
    assert result.block_s < spent_s < result.wall_s - result.start_s
    assert result.start_cpu_s > 0


@pytest.mark.measures  # with all of the machine's processors
@pytest.mark.skipif(len(os.sched_getaffinity(0)) < 2, reason="needs two processors")
@pytest.mark.parametrize(
    ("contexts", "operators", "beside", "pids"),
    [
        ("cpu cpu cpu", "work", True, 6),
        ("gpu gpu gpu", "work", False, 2),
        ("gpu gpu gpu(1)", "work", False, 4),
        ("gpu cpu gpu", "work", False, 6),
        ("gpu gpu gpu", "refuse work work", False, 4),
        ("gpu gpu gpu", "work abort work", False, 4),
    ],
)
def test_cases_on_a_device_come_one_after_the_other_and_share_processes(
    contexts: str, operators: str, beside: bool, pids: int, watch: Watch, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of others, each has its own, and is prepared while another is measured."""
    places, names = contexts.split(), (operators.split() * 3)[:3]
    cases = [
        replace(toy_case(case_id, name), context=place)
        for case_id, name, place in zip("abc", names, places, strict=True)
    ]
    events = watched_steps(watch)
    monkeypatch.setattr(random.Random, "sample", lambda self, population, k: list(population)[:k])
    bench = toy_bench(TOY_CLOCK="real")  # so that there is time to prepare another
    result = run_one_round(bench, Round([CaseRequest(case, 1) for case in cases], 0))
    assert {sample.case_id for sample in result.samples} == {
        case.id for case in cases
    } - result.refused.keys() - result.lost.keys()
    running = list(accumulate({"turns": 1, "turns over": -1}.get(name, 0) for name, _ in events))
    assert max(running) == 2, "both sides are measured in turns"
    assert any(running[number] for number, (name, _) in enumerate(events) if name == "prepare") == beside
    assert len({pid for _, pid in events}) == pids


@pytest.mark.many_forks
def test_each_fork_of_a_case_on_a_device_is_another_process(watch: Watch) -> None:
    events = watched_steps(watch)
    (sample,) = run_one_round(toy_bench(), Round([CaseRequest(replace(toy_case("a"), context="gpu"), 1)], 0)).samples
    assert sample.forks == 2
    assert len({pid for _, pid in events}) == 4


def watched_steps(watch: Watch) -> list[tuple[str, int]]:
    """What is asked of which process, and when it was answered, as it happens."""
    events: list[tuple[str, int]] = []
    watch.asking.append(lambda process, request: events.append((request["op"], process.pid)))
    watch.answered.append(lambda process, request: events.append((f"{request['op']} over", process.pid)))
    return events


@pytest.mark.measures  # with all of the machine's processors
@pytest.mark.skipif(len(os.sched_getaffinity(0)) < 2, reason="needs two processors")
@pytest.mark.parametrize("context", ["cpu", "gpu"])
def test_a_case_on_a_device_is_prepared_where_it_is_measured(context: str, watch: Watch) -> None:
    """There the work that is injected is measured against a call that takes as long as those that it is added to."""
    affinities_seen: list[list[set[int]]] = []

    def note(process: CaseProcess, request: Mapping[str, Any]) -> None:
        if request["op"] == "prepare":
            affinities_seen.append(affinities(process.pid))

    watch.answered.append(note)
    bench = toy_bench()
    assert run_one_round(bench, Round([CaseRequest(replace(toy_case("a"), context=context), 1)], 0)).samples
    expected = bench.cpus.start if context == "cpu" else bench.cpus.measure
    assert affinities_seen
    assert all(cpus == expected for threads in affinities_seen for cpus in threads)


@pytest.mark.parametrize("operator", ["work", "refuse"])
def test_a_case_that_was_prepared_or_refused_leaves_the_measuring_processors(
    operator: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    pinned: list[frozenset[int]] = []
    monkeypatch.setattr(Preparation, "_pin", lambda _, cpus: pinned.append(cpus))
    bench = toy_bench()
    cpus = replace(bench.cpus, start=frozenset((0, 1)), measure=frozenset((1,)))
    case = replace(toy_case("a", operator), context="gpu")
    with PairPool(bench, random.Random(1)) as pool, closing(pool.take()) as start:
        preparation = Preparation(start.finish(), CaseRequest(case, 1), True, math.inf, random.Random(1))
        with pytest.raises(CaseRefusedError) if operator == "refuse" else nullcontext():
            preparation.finish(cpus)
    assert pinned == [cpus.measure, cpus.prepare] == [{1}, {0}]


@pytest.mark.measures  # with all of the machine's processors
def test_both_sides_measure_on_the_same_processors(watch: Watch) -> None:
    affinities_seen: dict[str, list[set[int]]] = {"prepare": [], "low_block": [], "turns": []}
    controller: set[frozenset[int]] = set()

    def note(process: CaseProcess, request: Mapping[str, Any]) -> None:
        affinities_seen[request["op"]].extend(affinities(process.pid))
        if request["op"] == "turns":
            controller.add(frozenset(os.sched_getaffinity(0)))

    watch.answered.append(note)
    bench = toy_bench()
    run_one_round(bench, Round([CaseRequest(toy_case("a"), 1)], 0))
    assert affinities_seen["prepare"]
    assert all(cpus <= bench.cpus.start for cpus in affinities_seen["prepare"])
    for name in ("low_block", "turns"):
        assert affinities_seen[name]
        assert all(cpus == bench.cpus.measure for cpus in affinities_seen[name])
    assert controller == {bench.cpus.control}, "it disturbs no block"


@pytest.mark.measures  # with all of the machine's processors
@pytest.mark.skipif(len(os.sched_getaffinity(0)) < 2, reason="needs two processors")
def test_with_several_threads_the_controller_asks_for_each_block(watch: Watch) -> None:
    """The side that waits is stopped, so that the other side can't ask it for its turn."""
    ops: list[str] = []
    watch.asking.append(lambda _, request: ops.append(request["op"]))
    plan = Round([CaseRequest(toy_case("a"), 1)], 0, repetitions={"a": Repetitions(1, 3)})
    (sample,) = run_one_round(replace(toy_bench(), cpus=plan_cpus(2)), plan).samples
    assert sample.blocks == 2 * 3
    assert ops.count("low_block") == 2 + 4 * 3, "two to learn what a call takes"
    assert "turns" not in ops


def affinities(pid: int) -> list[set[int]]:
    return [os.sched_getaffinity(int(task)) for task in os.listdir(f"/proc/{pid}/task")]


def test_a_round_begins_no_case_when_it_has_taken_all_that_it_may() -> None:
    requests = [CaseRequest(toy_case(str(number), "sleep", seconds=0.05), 1) for number in range(40)]  # 4 s at least
    result = run_one_round(toy_bench(), Round(requests, 0, most_s=0.5))
    assert 1 <= len(result.samples) < 20
    assert (result.refused, result.lost) == ({}, {})


def test_a_deadline_stops_a_round_between_cases() -> None:
    requests = [CaseRequest(toy_case(name), 1) for name in "abc"]
    result = run_one_round(toy_bench(), Round(requests, 0, deadline=0.0))
    assert not result.samples
    assert {request.case.id for request in result.unmeasured} == {"a", "b", "c"}
    assert (result.lost, result.lost_worker) == ({}, None)


@pytest.mark.many_forks
@pytest.mark.parametrize(("planned", "forks"), [({}, {1, 2}), ({"a": Repetitions(4, 2)}, {4})])
def test_a_pilot_whose_forks_cost_much_has_one(
    planned: dict[str, Repetitions], forks: set[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Or two, where the second was prepared meanwhile. Once its costs are known, the plan decides."""
    monkeypatch.setattr(opduel.harness.rounds.pair, "FORKED_S", 0.0)
    plan = Round([CaseRequest(toy_case("a"), 1)], 0, repetitions=planned)
    (sample,) = run_one_round(toy_bench(), plan).samples
    assert sample.forks in forks


def test_forks_of_one_round_that_fail_on_either_side_fail_on_both() -> None:
    share = _Share({}, [CaseRequest(toy_case("a"), 1)], RoundResult())
    share.note(share.result.lost, "a", Failure("control", "crash", "killed by SIGABRT"))
    assert share.result.lost["a"].side == "control"
    share.note(share.result.lost, "a", Failure("treatment", "crash", "killed by SIGABRT"))
    assert share.result.lost["a"].side == "both"


def test_a_round_in_order_measures_the_likeliest_cases_as_long_as_there_is_time() -> None:
    names = [f"c{number}" for number in range(8)]
    requests = [CaseRequest(toy_case(name), 1) for name in names]
    result = run_one_round(toy_bench(), Round(requests, 0, in_order=True))
    assert list(result.times) == names


def test_cases_are_shuffled_module_by_module() -> None:
    operators = [f"{module}.{name}" for module in ("a", "a.inner", "b", "c") for name in "pqrs"] + ["work", "nothing"]
    orders = set()
    for seed in range(200):
        order = shuffled([toy_case(name, operator=name) for name in operators], lambda case: case, random.Random(seed))
        names = [case.operator for case in order]
        assert sorted(names) == sorted(operators)
        modules = [name.rpartition(".")[0] for name in names]
        assert len(list(groupby(module[:1] for module in modules))) == 4
        assert len(list(groupby(modules))) == 5
        orders.add(tuple(names))
    assert len(orders) == 200
    assert len({order[-1][0] for order in orders}) == 3
