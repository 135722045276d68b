"""The metrics of memory: a round of either, and what a run makes of them."""

import math
import random
from dataclasses import replace
from pathlib import Path

import pytest
from toy_bench import toy_bench, toy_case

from opduel.comparator import RunAnalysis, plan_looks
from opduel.harness.measurement_plan import MeasurementPlan
from opduel.harness.planning.schedule import Schedule
from opduel.harness.processes.case_request import CaseRequest
from opduel.harness.processes.pair_pool import PairPool
from opduel.harness.rounds.counter_round import run_memory_round
from opduel.harness.rounds.pair import Round, RoundResult
from opduel.records import Case


def measured(name: str, metric: str, operator: str = "work") -> Case:
    return replace(toy_case(f"{name}/{metric}", operator), metric=metric, threshold=0.01)


def one_round(*cases: Case, bytes_needed: str = "100,200", **memory_environment: str) -> RoundResult:
    result, rng = RoundResult(), random.Random(1)
    requests = [CaseRequest(case, 1) for case in cases]
    bench = replace(toy_bench(TOY_BYTES=bytes_needed), memory_environment=memory_environment)
    run_memory_round(PairPool(bench, rng), Round(requests, 7), rng, result)
    return result


def test_what_calls_need() -> None:
    result = one_round(measured("a", "memory"), measured("bad", "memory", "abort"))
    (sample,) = result.samples
    assert (sample.control, sample.treatment) == (100, 200)
    assert sample.log_ratio == pytest.approx(math.log(2))
    assert result.lost["bad/memory"].side == "both"


def test_what_their_process_holds() -> None:
    (resident,) = one_round(measured("a", "process_memory")).samples
    assert resident.control > 1 << 20, "a Python process holds more than a megabyte"
    assert resident.control == pytest.approx(resident.treatment, rel=0.2)


@pytest.mark.parametrize(("pages", "counted"), [("file", 0), ("anonymous", 1), ("shared", 1)])
def test_pages_of_files_are_not_counted(tmp_path: Path, pages: str, counted: int) -> None:
    size = 16 << 20
    file = tmp_path / "library"
    file.write_bytes(bytes(size))
    case = replace(
        measured("a", "process_memory", "touches"), inputs={"pages": pages, "bytes": size, "file": str(file)}
    )
    (sample,) = one_round(case).samples
    assert (sample.treatment - sample.control) / size == pytest.approx(counted, abs=0.1)


def test_all_devices_count() -> None:
    (sample,) = one_round(measured("a", "memory"), bytes_needed="100:10,100").samples
    assert (sample.control, sample.treatment) == (110, 100)


@pytest.mark.parametrize(("metric", "reaches"), [("memory", True), ("process_memory", False)])
def test_the_environment_for_storage_is_for_storage_alone(metric: str, reaches: bool) -> None:
    result = one_round(measured("a", metric), TOY_IMPORT="dies")
    assert (result.lost_worker is not None) is reaches


def test_a_side_that_holds_nothing_has_no_ratio() -> None:
    (sample,) = one_round(measured("a", "memory"), bytes_needed="0,4096").samples
    assert (sample.control, sample.treatment) == (0, 4096)
    assert sample.log_ratio == 0


@pytest.mark.parametrize(("bytes_held", "verdict"), [("0,0", "unchanged"), ("4096,4160", "regressed")])
def test_three_rounds_show_what_is_unchanged_and_what_is_not(bytes_held: str, verdict: str) -> None:
    cases, looks = [measured("a", "memory")], plan_looks(5)
    result = Schedule(toy_bench(TOY_BYTES=bytes_held), MeasurementPlan(cases, looks, 0.05, 1, inject=0.5)).run()
    (comparison,) = RunAnalysis(cases, result.samples, result.failures, looks).comparisons()
    assert (comparison.verdict, comparison.rounds) == (verdict, 3)
