"""Where a case's time goes: medians over calls; and what goes wrong with it costs no verdict."""

import time
from collections.abc import Mapping
from dataclasses import replace
from typing import Any, cast

import pytest
from test_run import Toy
from test_run import request as toy_request
from toy_bench import toy_bench, toy_build, toy_case
from watching import Watch

import opduel.harness.profiles
from opduel.harness.measurement_plan import MeasurementResult
from opduel.harness.profiles import Profiling, add_breakdowns, operator_times
from opduel.harness.run import run_ab
from opduel.records import Breakdown, Case, Comparison, OperatorTime, Verdict
from opduel.records.measurement import SIDES


def test_it_is_the_median_over_calls_the_longest_first() -> None:
    calls: list[Mapping[str, Any]] = [
        {"operators": {"add": [10, 10], "dot": [60]}},
        {"operators": {"add": [10, 30], "dot": [70]}},
        {"operators": {"add": [10, 20], "dot": [900], "once": [5]}},
    ]
    assert operator_times(calls) == (
        OperatorTime("dot", 1, 70, 0.7),
        OperatorTime("add", 2, 30, 0.3),
        OperatorTime("once", 0, 0, 0.0),
    )


def test_nothing_was_seen() -> None:
    assert operator_times([{"operators": {}}]) == ()
    assert operator_times([{"operators": {"add": [0]}}]) == (OperatorTime("add", 1, 0, 0.0),)


def test_a_side_of_which_the_profiler_saw_nothing_has_a_note() -> None:
    run_request = toy_request(replace(toy_case("a"), threshold=0.5))
    sides = {side: toy_build(side, TOY_OPERATORS="{}") for side in SIDES}
    run_request = replace(run_request, control=sides["control"], treatment=sides["treatment"]).configured(
        breakdown=True
    )
    (comparison,) = run_ab(run_request).comparisons
    assert comparison.breakdown is not None
    assert comparison.breakdown.note == "; ".join(f"{side}: the framework's profiler saw no operator" for side in SIDES)


def test_what_can_not_be_profiled_costs_no_verdict() -> None:
    cases = [replace(toy_case("a"), threshold=0.5), toy_case("bad", "refuse")]
    report = run_ab(toy_request(*cases, TOY_OPERATORS="no JSON").configured(breakdown=True))
    fine, bad = report.comparisons
    assert fine.verdict in ("unchanged", "inconclusive")
    assert fine.breakdown is not None
    assert (fine.breakdown.control, fine.breakdown.treatment) == ((), ())
    assert "control: error: " in fine.breakdown.note
    assert "treatment: error: " in fine.breakdown.note
    assert bad.breakdown is None
    assert report.run.breakdown == "all"
    assert (report.run.complete, report.run.aborted) == (True, False)


def test_without_being_asked_only_networks_are_profiled() -> None:
    report = run_ab(toy_request(replace(toy_case("a"), threshold=0.5)))
    assert report.comparisons[0].breakdown is None
    assert report.run.breakdown == "networks"


def test_breakdowns_fit_into_the_time_budget() -> None:
    """Profiling a case would take minutes: it is cut off, and that is said; all was measured in the rest."""
    slow = toy_request(replace(toy_case("a", timeout_s=600.0), threshold=0.5), TOY_PROFILING_S="300")
    report = run_ab(slow.configured(breakdown=True, time_budget=3.0))
    (comparison,) = report.comparisons
    assert comparison.samples
    assert comparison.breakdown is None
    assert report.run.not_broken_down == 1
    assert not report.run.aborted


def test_what_changed_is_broken_down_first(monkeypatch: pytest.MonkeyPatch) -> None:
    names = {"same": "unchanged", "worse": "regressed", "late": "inconclusive", "better": "improved"}
    cases = [toy_case(name) for name in names]
    measured: list[Comparison] = [
        replace(Comparison.without_figures(case, cast(Verdict, names[case.id])), control=1e6) for case in cases
    ]
    profiled: list[str] = []

    def break_down(_: object, case: Case, *arguments: object) -> Breakdown | None:
        profiled.append(case.id)
        return Breakdown((), ()) if len(profiled) < 3 else None

    monkeypatch.setattr(opduel.harness.profiles, "_break_down", break_down)
    result, profiling = MeasurementResult(), Profiling(toy_bench(), Toy(), 1, 1, deadline=0.0)
    comparisons = add_breakdowns(measured, cases, result, profiling, every_case=True)
    assert profiled == ["worse", "better", "same"]
    assert [comparison.case for comparison in comparisons if comparison.breakdown is not None] == ["worse", "better"]
    assert result.not_broken_down == 2


def test_after_the_deadline_no_worker_is_started(watch: Watch) -> None:
    watch.starting.append(lambda *_: pytest.fail("a worker was started"))
    case, result = toy_case("a"), MeasurementResult()
    comparisons = [replace(Comparison.without_figures(case, "unchanged"), control=1e6)]
    profiling = Profiling(toy_bench(), Toy(), 1, 1, deadline=time.monotonic())
    assert add_breakdowns(comparisons, [case], result, profiling, every_case=True) == comparisons
    assert result.not_broken_down == 1


def test_a_signal_meanwhile_keeps_what_was_measured(watch: Watch) -> None:
    watch.interrupt("profile")
    report = run_ab(toy_request(replace(toy_case("a"), threshold=0.5)).configured(breakdown=True))
    assert report.comparisons[0].samples
    assert report.run.interrupted
    assert report.run.stop_reason == "stopped by SIGTERM"
