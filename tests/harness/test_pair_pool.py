"""Process pairs: who starts first and with how large an environment, on which build, and who lives on."""

import os
import random
from collections.abc import Iterator
from contextlib import closing
from dataclasses import replace

import psutil
import pytest
from toy_bench import toy_bench

from opduel.harness.machine.cpus import CpuPlan
from opduel.harness.processes.pair_pool import PADDING_BYTES, PairPool, PairStart, draw_variables
from opduel.harness.processes.worker_errors import WorkerLostError
from opduel.records.measurement import SIDES

BENCH = toy_bench()
ALLOWED = frozenset(os.sched_getaffinity(0))
# As on machines with and without a processor to start the next pair on, whatever this one has.
OVERLAPPING = replace(BENCH, cpus=CpuPlan(frozenset(), ALLOWED, ALLOWED))
ALONE = replace(BENCH, cpus=CpuPlan(ALLOWED, ALLOWED, ALLOWED))


@pytest.fixture
def pool() -> Iterator[PairPool]:
    with PairPool(BENCH, random.Random(1)) as pair_pool:
        yield pair_pool


def test_the_seed_draws_a_pair_s_order_paddings_and_seed_of_hashes() -> None:
    drawn = [draw_variables(random.Random(seed)) for seed in range(300)]
    assert drawn == [draw_variables(random.Random(seed)) for seed in range(300)]
    first = [next(iter(drawn_cases)) for drawn_cases in drawn]
    assert 100 < first.count("control") < 200
    for side in SIDES:
        paddings = [len(drawn_cases[side]["OPDUEL_PADDING"]) for drawn_cases in drawn]
        assert all(0 <= padding < PADDING_BYTES for padding in paddings)
        assert 0.4 * PADDING_BYTES < sum(paddings) / len(paddings) < 0.6 * PADDING_BYTES
    seeds = [{variables["PYTHONHASHSEED"] for variables in drawn_cases.values()} for drawn_cases in drawn]
    assert all(len(of_a_pair) == 1 for of_a_pair in seeds), "both sides hash alike"
    assert len(set.union(*seeds)) == 300
    assert all(0 <= int(seed) < 2**32 for seed in set.union(*seeds))


@pytest.mark.parametrize("fixed", [{}, {"PYTHONHASHSEED": "7"}])
def test_a_seed_of_hashes_is_the_user_s_or_each_pair_s_own(fixed: dict[str, str]) -> None:
    ours = {name: value for name, value in BENCH.environment.items() if name != "PYTHONHASHSEED"}
    bench = replace(BENCH, environment={**ours, **fixed})
    seeds = []
    with PairPool(bench, random.Random(1)) as pool:
        for _ in range(2):
            with closing(pool.take()) as start:
                pair = start.finish()
                seeds.append([psutil.Process(pair[side].pid).environ()["PYTHONHASHSEED"] for side in SIDES])
    assert all(control == treatment for control, treatment in seeds)
    assert len({control for control, _ in seeds}) == (1 if fixed else 2)
    assert not fixed or seeds[0] == ["7", "7"]


def test_a_pair_is_two_processes_of_which_one_can_be_kept(pool: PairPool) -> None:
    start = pool.take()
    pair = start.finish()
    pids = {side: pair[side].pid for side in SIDES}
    assert [pair[side].side for side in SIDES] == list(SIDES)
    pool.retire(start.release("control"))
    start.close()
    assert {side: psutil.pid_exists(pid) for side, pid in pids.items()} == {"control": True, "treatment": False}
    assert pool.previous_control is not None
    assert pool.previous_control.pid == pids["control"]
    pool.retire(None)
    assert not psutil.pid_exists(pids["control"])


def test_an_aa_pair_is_the_control_twice(pool: PairPool) -> None:
    start = pool.take(aa=True)
    pair = start.finish()
    assert [pair[side].side for side in SIDES] == ["control", "control"]
    assert pair["control"].pid != pair["treatment"].pid
    start.close()


def test_the_next_pair_is_on_its_way_and_ends_with_the_pool() -> None:
    with PairPool(OVERLAPPING, random.Random(1)) as pool:
        pool.advance()
        coming = pool._coming
        assert coming is not None
        (first,) = coming._pair.values()
        assert pool.take() is coming
        pair = coming.finish()
        assert first in pair.values()
        coming.close()
        pool.advance()
        assert pool._coming is not None
        (last,) = pool._coming._pair.values()
        assert psutil.pid_exists(last.pid)
    assert not psutil.pid_exists(last.pid)


def test_without_a_processor_to_spare_nothing_is_started_ahead() -> None:
    with PairPool(ALONE, random.Random(1)) as pool:
        pool.advance()
        assert pool._coming is None


def test_a_side_that_does_not_start_is_reported_and_the_other_ended() -> None:
    bench = toy_bench(TOY_IMPORT="dies")
    start = PairStart(bench, random.Random(1))
    with pytest.raises(WorkerLostError, match="no such library"):
        start.finish()
    start.close()
    assert not any(psutil.pid_exists(worker.pid) for worker in start._pair.values())
