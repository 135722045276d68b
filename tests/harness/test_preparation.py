"""A case made ready on both sides while another is measured: step by step, and whatever one side does."""

import random
from typing import Any

import pytest
from asked_sides import asked_pair
from toy_bench import toy_bench, toy_case

from opduel.harness.processes.case_request import CaseRequest
from opduel.harness.processes.pair_pool import PairStart
from opduel.harness.processes.worker_errors import AskError, CaseLostError, CaseRefusedError, WorkerLostError
from opduel.harness.rounds.preparation import Preparation
from opduel.records.measurement import SIDES


def preparation(pair: Any, seed: int = 1, fork: bool = False) -> Preparation:
    return Preparation(pair, CaseRequest(toy_case("a"), 1), fork, float("inf"), random.Random(seed))


@pytest.mark.parametrize("ahead", [True, False])
@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("error", [CaseRefusedError, CaseLostError, WorkerLostError])
def test_when_one_side_fails_the_other_is_asked(error: type[AskError], seed: int, ahead: bool) -> None:
    """Also when a worker is lost: then there is no fork, and each case has its own pair."""
    for control, treatment, side in ((0, 0, "both"), (0, 100, "control"), (100, 0, "treatment")):
        pair = asked_pair(error, control, treatment)
        preparing = preparation(pair, seed)
        if ahead:
            preparing.steps.advance()
        with pytest.raises(error) as raised:
            preparing.finish(toy_bench().cpus)
        assert raised.value.failure.side == side
        assert [pair[side].blocks for side in SIDES] == [1, 1]


def test_what_is_ready_is_ready_once() -> None:
    pair = asked_pair(CaseLostError, 1, 1)
    preparing = preparation(pair)
    for _ in range(3):
        preparing.steps.advance()
    assert preparing.finish(toy_bench().cpus) == preparing.finish(toy_bench().cpus) == dict.fromkeys(SIDES, 100.0)
    assert list(preparing.processes) in (list(SIDES), list(reversed(SIDES)))
    assert [pair[side].blocks for side in SIDES] == [1, 1]


def test_which_side_comes_first_is_drawn_from_the_seed() -> None:
    first = []
    for seed in range(300):
        preparing = preparation(asked_pair(CaseLostError, 1, 1), seed)
        preparing.steps.advance()
        first.append(next(iter(preparing.processes)))
    assert 100 < first.count("control") < 200


def test_both_sides_are_ready_in_real_processes_on_the_same_processors() -> None:
    bench = toy_bench()
    start = PairStart(bench, random.Random(1))
    try:
        preparing = preparation(start.finish(), fork=True)
        call_ns = preparing.finish(bench.cpus)
        assert min(call_ns[side] for side in SIDES) > 0
        answers = [
            preparing.processes[side].ask({"op": "block", "discard": 0, "calls": 2, "inner": 1}, 20) for side in SIDES
        ]
        assert [len(answer["ns"]) for answer in answers] == [2, 2]
        preparing.end(random.Random(1))
    finally:
        start.close()
