"""Cases whose inputs have other values on one side fail before they are measured."""

from dataclasses import replace

from toy_bench import toy_bench, toy_build, toy_case

from opduel.harness.same_inputs import DIFFER, with_other_inputs
from opduel.records import Case


def fork(case: Case) -> bool:
    return True


def test_other_values_are_found_and_equal_ones_are_not() -> None:
    bench = toy_bench()
    cases = [toy_case("a"), replace(toy_case("a"), id="a/error", metric="error"), toy_case("b")]
    assert with_other_inputs(cases, bench, 1, fork) == []
    other = replace(bench, builds={**bench.builds, "treatment": toy_build("treatment", TOY_VALUES="others")})
    found = with_other_inputs(cases, other, 1, fork)
    assert [(one.case, one.verdict, one.failure and one.failure.reason) for one in found] == [
        (case.id, "failed", DIFFER) for case in cases
    ]
    assert with_other_inputs(cases, other, 1, fork, budget_s=0.0) == [], "no time is left"
