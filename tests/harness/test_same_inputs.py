"""Cases whose inputs have other values on one side fail before they are measured."""

import time
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pytest
from resumable_run import ListLog, kept_samples, logged_request, same, samples, stop_at
from test_run import Toy
from toy_bench import toy_bench, toy_build, toy_case

from opduel.harness import run
from opduel.harness.numerics.output_check import DIFFER, with_other_inputs
from opduel.harness.run import run_ab
from opduel.harness.run_request import RunRequest
from opduel.records import Case, Comparison, Failure


def fork(case: Case) -> bool:
    return True


def test_other_values_are_found_and_equal_ones_are_not() -> None:
    bench = toy_bench()
    cases = [toy_case("a"), replace(toy_case("a"), id="a/error", metric="error"), toy_case("b")]
    assert with_other_inputs(cases, bench, 1, fork) == []
    other = replace(bench, builds={**bench.builds, "treatment": toy_build("treatment", TOY_VALUES="others")})
    comparisons = with_other_inputs(cases, other, 1, fork)
    assert [
        (comparison.case, comparison.verdict, comparison.failure and comparison.failure.reason)
        for comparison in comparisons
    ] == [(case.id, "failed", DIFFER) for case in cases]
    assert with_other_inputs(cases, other, 1, fork, budget_s=0.0) == [], "no time is left"


class TwoSided(Toy):
    """Asks whether inputs are alike."""

    has_own_sides = True


class Check:
    """Stands in for the check of inputs: what it finds, how long it takes, and the seconds that it was given."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.differing: tuple[str, ...] = ()
        self.takes_s = 0.0
        self.budgets_s: list[float | None] = []
        monkeypatch.setattr(run, "with_other_inputs", self)

    def __call__(
        self, cases: Sequence[Case], bench: Any, seed: int, can_fork: Any, budget_s: float | None
    ) -> list[Comparison]:
        self.budgets_s.append(budget_s)
        time.sleep(self.takes_s)
        failure = Failure("both", "error", DIFFER)
        differing = [case for case in cases if case.id in self.differing]
        return [Comparison.without_figures(case, "failed", failure=failure) for case in differing]


def two_sided(log: Any, *cases: Case, **changes: Any) -> RunRequest:
    """A run of two frameworks, as ``asked``."""
    return replace(logged_request(log, *cases, sentinels=1, **changes), framework=TwoSided())


def test_a_start_whose_check_finds_other_cases_goes_on_with_the_rounds_that_are_kept(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    check, log, cases = Check(monkeypatch), ListLog(), (same("a"), same("b"), same("c"))
    first = run_ab(two_sided(log, *cases), stop_at(1))
    before = kept_samples(log.stored_rounds())
    assert {sample.case_id for sample in before} == {"a", "b", "c"}
    check.differing = ("b",)
    second = run_ab(two_sided(log, *cases))
    assert (second.run.id, second.run.resumed) == (first.run.id, (1,))
    assert "round log" not in caplog.text
    assert [(comparison.case, comparison.verdict) for comparison in second.comparisons] == [
        ("a", "unchanged"),
        ("b", "failed"),
        ("c", "unchanged"),
    ]
    assert {sample for sample in before if sample.case_id != "b"} < set(samples(second))
    assert not [case_id for stored in log.stored_rounds()[1:] for case_id, _ in stored.planned if case_id == "b"], (
        "it is measured no more"
    )


def test_the_check_has_a_share_of_the_time_budget_and_measuring_the_rest(monkeypatch: pytest.MonkeyPatch) -> None:
    check, error = Check(monkeypatch), replace(same("b/error"), metric="error", threshold=0.0)
    check.takes_s, check.differing = 0.3, ("b/error",)
    report = run_ab(two_sided(None, same("a"), error, time_budget=0.3))
    assert check.budgets_s == [pytest.approx(0.3 / 4)]
    assert (report.run.rounds, report.run.complete) == (0, False)
    assert report.run.wall_s >= 0.3
    assert [comparison.verdict for comparison in report.comparisons] == ["inconclusive", "failed"]
