"""The metrics of memory: a round of either, and what a run makes of them."""

import math
import random
from dataclasses import replace

import pytest
from toy_bench import toy_bench, toy_case

from comparator import judge, plan_looks
from harness.blocks import CaseRequest
from harness.memory import held, run_memory_round
from harness.pair import Round, RoundResult
from harness.schedule import Order, Schedule
from harness.supply import PairSupply
from records import Case


def measured(name: str, metric: str, operator: str = "work") -> Case:
    return replace(toy_case(f"{name}/{metric}", operator), metric=metric, threshold=0.01)


def one_round(*cases: Case, held: str = "100,200") -> RoundResult:
    result, coin = RoundResult(), random.Random(1)
    requests = [CaseRequest(case, 1) for case in cases]
    run_memory_round(PairSupply(toy_bench(TOY_BYTES=held), coin), Round(requests, 7), coin, result)
    return result


def test_what_calls_hold_and_what_their_process_holds() -> None:
    result = one_round(measured("a", "memory"), measured("a", "process_memory"), measured("bad", "memory", "abort"))
    samples = {sample.case_id: sample for sample in result.samples}
    assert (samples["a/memory"].control, samples["a/memory"].treatment) == (100, 200)
    assert samples["a/memory"].log_ratio == pytest.approx(math.log(2))
    resident = samples["a/process_memory"]
    assert resident.control > 1 << 20, "a Python process holds more than a megabyte"
    assert resident.control == pytest.approx(resident.treatment, rel=0.2)
    assert result.lost["bad/memory"].side == "both"


def test_a_side_that_holds_nothing_counts_as_one_byte() -> None:
    (sample,) = one_round(measured("a", "memory"), held="0,4096").samples
    assert (sample.control, sample.treatment) == (0, 4096)
    assert sample.log_ratio == pytest.approx(math.log(4096))


@pytest.mark.parametrize(("bytes_held", "verdict", "rounds"), [("0,0", "unchanged", 3), ("4096,4160", "regressed", 3)])
def test_three_rounds_show_what_is_unchanged_and_what_is_not(bytes_held: str, verdict: str, rounds: int) -> None:
    cases, looks = [measured("a", "memory")], plan_looks(5)
    findings = Schedule(toy_bench(TOY_BYTES=bytes_held), Order(cases, looks, 0.05, 1, inject=0.5)).run()
    (comparison,) = judge(cases, findings.samples, findings.failures, looks)
    assert (comparison.verdict, comparison.rounds) == (verdict, rounds)


def test_the_median_call_counts_with_all_its_devices() -> None:
    calls = [{"memory": {"cpu/0": bytes_, "gpu/0": 10}} for bytes_ in (0, 100, 100, 5000, 100)]
    assert held(calls) == 110
    assert held([{"memory": {}}]) == 0
