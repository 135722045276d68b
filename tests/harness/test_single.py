"""One build alone, on toy operators: every call counted, every death told, nothing measured lost."""

import json
import statistics
from collections.abc import Mapping
from typing import Any

import numpy
import pytest
from test_smoke_check import Toy
from toy_bench import toy_build, toy_case

from opduel.frameworks import ProfilingSetup
from opduel.harness.other_runs.single import SingleProgress, SingleRequest, distribution, run_single
from opduel.records import Build, Case, RunConfiguration, RunError
from opduel.records.single import SingleReport, SingleResult


def measured(
    cases: list[Case], build: Build | None = None, env: Mapping[str, str] | None = None, **options: Any
) -> SingleReport:
    configuration = RunConfiguration(**{"rounds": 2, **options})
    return run_single(SingleRequest(Toy(), build or toy_build("control"), cases, 3, configuration, env=env or {}))


def test_all_calls_of_all_processes_are_counted() -> None:
    report = measured([toy_case("a")], rounds=3, runs=7)
    assert report.run.configuration == RunConfiguration(rounds=3, runs=7)
    (case_result,) = report.cases
    assert (case_result.calls, case_result.rounds, len(case_result.process_p50)) == (21, 3, 3)
    assert case_result.time is not None
    assert (
        case_result.time.min
        <= min(case_result.process_p50)
        <= case_result.time.p50
        <= case_result.time.p90
        <= case_result.time.p99
        <= case_result.time.max
    )
    assert case_result.failure is None


def profiled(operators: dict[str, list[float]]) -> SingleResult:
    build = toy_build("control", TOY_BYTES="64:8,0", TOY_OPERATORS=json.dumps(operators))
    (case_result,) = measured([toy_case("a")], build, profiler="native", runs=3).cases
    return case_result


def test_the_frameworks_profiler_times_calls_by_their_operators() -> None:
    case_result = profiled({"add": [2000, 3000], "dot": [10_000]})
    assert (case_result.calls, case_result.rounds, case_result.process_p50, case_result.note) == (
        6,
        2,
        (15_000, 15_000),
        "",
    )
    assert case_result.time is not None
    assert (case_result.time.p50, case_result.time.stdev) == (15_000, 0)
    assert case_result.operators is not None
    assert (case_result.operators["add"].count, case_result.operators["add"].total_ns) == (12, 30_000)


@pytest.mark.parametrize(("operators", "note"), [({}, "saw no operator"), ({"add": [0, 0]}, "shorter than a tick")])
def test_what_the_frameworks_profiler_can_not_time_has_a_note_and_no_time(
    operators: dict[str, list[float]], note: str
) -> None:
    case_result = profiled(operators)
    assert (case_result.time, case_result.calls, case_result.rounds, case_result.process_p50, case_result.failure) == (
        None,
        0,
        0,
        (),
        None,
    )
    assert note in case_result.note
    assert "use --profiler python" in case_result.note
    assert case_result.memory == {"cpu/0": 64, "cpu/1": 8}


class Stored(Toy):
    """A framework whose workers that measure storage can't start."""

    profiling = ProfilingSetup(memory_variables={"TOY_IMPORT": "dies"})


def test_times_and_storage_come_from_workers_of_their_own() -> None:
    request = SingleRequest(
        Stored(), toy_build("control"), [toy_case(name) for name in "abcd"], 3, RunConfiguration(rounds=2)
    )
    report = run_single(request)
    assert [(case_result.rounds, case_result.memory, case_result.failure) for case_result in report.cases] == [
        (2, None, None)
    ] * 4
    assert report.run.complete


def test_the_users_variables_reach_the_build() -> None:
    report = measured([toy_case("a", "variable", asked="DNNL_VERBOSE")], env={"DNNL_VERBOSE": "1"})
    (case_result,) = report.cases
    assert case_result.failure is not None
    assert case_result.failure.reason == "ValueError: DNNL_VERBOSE is 1"
    assert (report.run.env, report.run.environment["DNNL_VERBOSE"]) == (("DNNL_VERBOSE",), "1")


def test_a_call_that_takes_longer_is_made_less_often() -> None:
    short, long = measured([toy_case("a", turns=1000), toy_case("b", turns=500_000)], rounds=1).cases
    assert short.calls > 2 * long.calls
    assert short.time
    assert long.time
    assert long.time.p50 > 20 * short.time.p50


def test_what_dies_hangs_or_refuses_costs_nothing_but_itself() -> None:
    names = ["work", "abort", "refuse", "hang", "missing", "kill"]
    report = measured([toy_case(name, name, timeout_s=1.0 if name == "hang" else 20.0) for name in names])
    result_by_case = {case_result.case: case_result for case_result in report.cases}
    assert [name for name in names if result_by_case[name].time is not None] == ["work"]
    reasons = {name: failure.reason for name in names if (failure := result_by_case[name].failure)}
    assert reasons["abort"] == "killed by SIGABRT"
    assert reasons["refuse"] == "ValueError: Shapes (2,) and (3,)"
    assert reasons["hang"] == "no answer within 1 s (prepare)"
    assert reasons["missing"].startswith("MissingOperator")
    assert result_by_case["hang"].failure is not None
    assert "going to sleep" in result_by_case["hang"].failure.output_tail
    assert report.run.complete
    assert not report.run.aborted


def test_the_time_budget_keeps_what_was_measured() -> None:
    cases = [toy_case(f"{number}") for number in range(4)]
    report = measured(cases, rounds=100_000, time_budget=2.0, runs=5)
    assert not report.run.complete
    assert not report.run.aborted
    assert report.run.stop_reason == "the time budget was spent"
    assert any(case_result.time for case_result in report.cases)
    assert not any(case_result.failure for case_result in report.cases), "a case that was aborted did not fail"


def test_a_signal_keeps_what_was_measured() -> None:
    def interrupt(progress: SingleProgress) -> None:
        if progress.cases_done == 2:
            raise KeyboardInterrupt("stopped by SIGINT")

    request = SingleRequest(
        Toy(), toy_build("control"), [toy_case(name) for name in "abc"], 3, RunConfiguration(runs=5)
    )
    report = run_single(request, interrupt)
    assert report.run.aborted
    assert report.run.interrupted
    assert report.run.stop_reason == "stopped by SIGINT"
    assert sum(case_result.time is not None for case_result in report.cases) == 2


def test_a_build_that_can_not_start_ends_the_run() -> None:
    with pytest.raises(RunError, match="could not be started 3 times in a row"):
        measured([toy_case(name) for name in "abc"], toy_build("control", TOY_IMPORT="dies"))


def test_the_order_of_cases_is_drawn_from_the_seed(monkeypatch: pytest.MonkeyPatch) -> None:
    orders = []
    for seed in (1, 1, 2):
        order: list[str] = []
        monkeypatch.setattr(
            "opduel.harness.other_runs.single._Run._measure_case",
            lambda _run, _timing, _storage, case, order=order: order.append(case.id),
        )
        request = SingleRequest(
            Toy(), toy_build("control"), [toy_case(f"{n}") for n in range(8)], seed, RunConfiguration(rounds=2)
        )
        run_single(request)
        orders.append(order)
    assert orders[0] == orders[1] != orders[2]
    assert orders[0][:8] != orders[0][8:]


def test_a_distribution_is_as_numpy_and_statistics_have_it() -> None:
    values = list(numpy.random.default_rng(1).lognormal(size=137))
    summary = distribution(values)
    for name, share in (("p50", 50), ("p90", 90), ("p99", 99), ("min", 0), ("max", 100)):
        assert getattr(summary, name) == pytest.approx(numpy.percentile(values, share))
    assert summary.mean == pytest.approx(numpy.mean(values))
    assert summary.stdev == pytest.approx(statistics.stdev(values))
    assert distribution([5.0]).stdev == 0.0
