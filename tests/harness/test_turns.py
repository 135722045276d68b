"""Blocks that the two sides' processes measure in turns: their order, and which side fails when it goes wrong."""

import importlib.util
import os
import random
import signal
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
from toy_bench import toy_bench, toy_case

import opduel.harness.rounds.blocks
from opduel.harness.processes.case_request import CaseRequest
from opduel.harness.processes.channel import Waiting
from opduel.harness.processes.pair_pool import PairStart
from opduel.harness.processes.process import WORKER
from opduel.harness.processes.worker_errors import CaseLostError, CaseRefusedError, WorkerLostError
from opduel.harness.rounds.block_plan import BlockPlan, plan_blocks
from opduel.harness.rounds.blocks import STOP, BlockTimer, Pipes
from opduel.harness.rounds.preparation import Preparation
from opduel.records import Failure
from opduel.records.measurement import SIDES, Side

CALL_NS = 200_000.0
PLAN = BlockPlan(1, dict.fromkeys(SIDES, 3), dict.fromkeys(SIDES, 1), quads=10, takes_ns=1e9)
CALL_S = 0.002  # real, for blocks that aren't over before a busy machine comes back to whoever waits for them


@pytest.fixture(scope="module")
def turns() -> ModuleType:
    spec = importlib.util.spec_from_file_location("opduel_turns", WORKER.with_name("timing.py"))
    assert spec
    assert spec.loader
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.mark.parametrize("seed", range(5))
def test_blocks_come_in_the_order_that_was_drawn(turns: ModuleType, seed: int) -> None:
    order = [side for quad in PLAN.draw_quads(random.Random(seed)) for side in quad]
    sides_in_turn: list[Side] = []
    lengths: dict[Side, list[int]] = {side: [] for side in SIDES}
    for number, side in enumerate(order):
        if number and order[number - 1] == side:
            lengths[side][-1] += 1
        else:
            lengths[side].append(1)
    with Pipes.opened() as pipes:

        def take(side: Side) -> None:
            paths = pipes.paths(side)
            turns.take_turns(
                lambda switched: sides_in_turn.append(side),
                lengths[side],
                side == order[0],
                paths["read_from"],
                paths["write_to"],
            )

        threads = [threading.Thread(target=take, args=[side]) for side in SIDES]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    assert sides_in_turn == order


def test_who_waits_is_told_to_stop(turns: ModuleType) -> None:
    assert turns.STOP == STOP
    with Pipes.opened() as pipes:
        pipes.stop()
        paths = pipes.paths("treatment")
        assert turns.take_turns(lambda switched: 1, [2, 2], True, paths["read_from"], paths["write_to"]) == [1, 1]
        other_path = pipes.paths("control")["read_from"]
        assert turns.take_turns(lambda switched: 1, [2, 2], False, other_path, paths["write_to"]) == []


def test_pipes_are_closed() -> None:
    before = os.listdir("/proc/self/fd")
    with Pipes.opened() as pipes:
        paths = [path for side in SIDES for path in pipes.paths(side).values()]
        assert all(Path(path).exists() for path in paths)
    assert os.listdir("/proc/self/fd") == before


@contextmanager
def prepared(operator: str, timeout_s: float = 20.0, **inputs: Any) -> Iterator[tuple[Preparation, Callable[[], Any]]]:
    """A case that is ready on both sides, and the measurement of it."""
    bench, rng = toy_bench(OPDUEL_PRIORITY="keep"), random.Random(1)  # or all blocks are over before the test goes on
    case = toy_case("a", operator, timeout_s, **inputs)
    start = PairStart(bench, rng)
    try:
        preparation = Preparation(start.finish(), CaseRequest(case, 1), True, float("inf"), rng)
        preparation.finish(bench.cpus)
        yield preparation, lambda: BlockTimer(preparation.processes, case, rng).measure_in_turns(PLAN)
    finally:
        start.close()


def test_each_side_has_its_blocks() -> None:
    with prepared("work", turns=100) as (_, measure):
        blocks = measure()
    assert {side: len(side_blocks) for side, side_blocks in blocks.items()} == dict.fromkeys(SIDES, 2 * PLAN.quads)
    for block in (block for side_blocks in blocks.values() for block in side_blocks):
        assert block.low == pytest.approx(3000, rel=0.03)  # the toy's calls and processes differ by 0.2 %
        assert block.timed_ns == pytest.approx(3 * 3000, rel=0.03)


@pytest.mark.parametrize(("only_on", "side"), [("treatment", "treatment"), ("control", "control"), (None, "both")])
def test_a_side_that_refuses_in_the_midst(only_on: str | None, side: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(opduel.harness.rounds.blocks, "PATIENCE", 100.0)  # the other one is stopped at once
    with prepared("refuse_later", **({"only_on": only_on} if only_on else {})) as (preparation, measure):
        with pytest.raises(CaseRefusedError) as raised:
            measure()
        assert (raised.value.failure.side, raised.value.failure.kind) == (side, "error")
        for process in preparation.processes.values():  # the case can still be asked
            with pytest.raises(CaseRefusedError) if side in ("both", process._worker.side) else no_error():
                process.ask({"op": "block", "discard": 0, "calls": 2, "inner": 1}, 20)


@contextmanager
def no_error() -> Iterator[None]:
    yield


@pytest.mark.parametrize("side", SIDES)
def test_a_side_that_hangs_in_the_midst_is_lost_and_the_other_is_not(side: Side) -> None:
    with prepared("hang_later", timeout_s=1.0, only_on=side) as (_, measure), pytest.raises(CaseLostError) as raised:
        measure()
    failure = raised.value.failure
    assert (failure.side, failure.kind) == (side, "timeout")
    assert failure.reason.startswith("no answer within 1 s (turns)")


@pytest.mark.parametrize("side", SIDES)
def test_a_side_that_is_killed_in_the_midst(side: Side) -> None:
    with prepared("hang_later", timeout_s=20, only_on=side) as (preparation, measure):
        killed = threading.Timer(0.3, os.kill, (preparation.processes[side].pid, signal.SIGKILL))
        killed.start()
        with pytest.raises(CaseLostError) as raised:
            measure()
    assert (raised.value.failure.side, raised.value.failure.kind) == (side, "killed")


def test_sides_that_are_too_slow_give_the_quads_that_they_have() -> None:
    """All of them take 6 s at least: what is there when the time is nearly up is whole quads."""
    with prepared("sleep", timeout_s=3, seconds=0.05) as (_, measure):
        blocks = measure()
        assert len(blocks["control"]) == len(blocks["treatment"]) in range(2, 2 * PLAN.quads, 2)


@pytest.mark.parametrize(("control", "treatment", "complete"), [(7, 6, 6), (5, 5, 4), (2, 3, 2)])
def test_only_whole_quads_count(control: int, treatment: int, complete: int, monkeypatch: pytest.MonkeyPatch) -> None:
    answer = {"low": 100.0, "timed_ns": 300.0, "calls": 3}
    answers = {"control": [answer] * control, "treatment": [answer] * treatment}
    monkeypatch.setattr(opduel.harness.rounds.blocks, "ask_in_turns", lambda *_: (answers, {}))
    blocks = BlockTimer({}, toy_case("a"), random.Random(1)).measure_in_turns(PLAN)
    assert {side: len(side_blocks) for side, side_blocks in blocks.items()} == dict.fromkeys(SIDES, complete)


def test_where_no_quad_comes_of_it_blocks_are_asked_for(monkeypatch: pytest.MonkeyPatch) -> None:
    """Too little time, or pipes that can't be opened on one side or both."""
    full = dict.fromkeys(SIDES, 2 * PLAN.quads)
    with prepared("sleep", seconds=0.01) as (_, measure), monkeypatch.context() as patch:
        patch.setattr(opduel.harness.rounds.blocks, "PATIENCE", 0.0)  # both are to stop in the midst of the first block
        assert {side: len(side_blocks) for side, side_blocks in measure().items()} == full
    with prepared("work", turns=100) as (_, measure):
        paths, no_paths = Pipes.paths, dict.fromkeys(("read_from", "write_to"), "/proc/self/fd/none")
        with monkeypatch.context() as patch:
            patch.setattr(Pipes, "paths", lambda self, side: (self.stop(), paths(self, side))[1])  # before they begin
            assert {side: len(side_blocks) for side, side_blocks in measure().items()} == full
        for refused in (SIDES, SIDES[:1], SIDES[1:]):
            with monkeypatch.context() as patch:
                patch.setattr(
                    Pipes, "paths", lambda self, side, r=refused: no_paths if side in r else paths(self, side)
                )
                assert {side: len(side_blocks) for side, side_blocks in measure().items()} == full


def test_a_call_that_runs_out_is_refused(turns: ModuleType) -> None:
    values = iter([1, 2])
    with Pipes.opened() as pipes, pytest.raises(StopIteration):
        turns.take_turns(lambda switched: next(values), [3], True, **pipes.paths("control"))


def test_a_worker_that_is_lost_meanwhile_costs_the_pair_and_not_the_run() -> None:
    """What is being prepared beside it loses the worker, whose pipes are closed by that."""
    with prepared("sleep", seconds=CALL_S) as (preparation, _):
        worker = preparation.processes["control"]._worker

        def advance() -> list[Waiting]:
            worker.lost(Failure("control", "crash", "stopped while answering"))
            return []

        with pytest.raises(WorkerLostError) as raised:
            BlockTimer(preparation.processes, toy_case("a"), random.Random(1)).measure_in_turns(PLAN, advance)
    assert (raised.value.failure.side, raised.value.failure.reason) == ("control", "stopped while answering")


def test_others_are_got_on_with_meanwhile() -> None:
    times: list[float] = []
    read_end, write_end = os.pipe()
    os.write(write_end, b"ready")

    def advance() -> list[Waiting]:
        times.append(time.monotonic())
        return [Waiting(read_end, time.monotonic() + 10)] if len(times) < 5 else []

    try:
        with prepared("sleep", seconds=CALL_S) as (preparation, _):
            plan = plan_blocks(dict.fromkeys(SIDES, CALL_NS))
            BlockTimer(preparation.processes, toy_case("a"), random.Random(1)).measure_in_turns(plan, advance)
    finally:
        os.close(read_end)
        os.close(write_end)
    assert len(times) >= 5
