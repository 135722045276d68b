"""Fuzzing: which draws are kept, what counts as a difference, and how findings are made smaller."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

import pytest

import opduel.harness.other_runs.fuzz
from opduel.harness.other_runs.fuzz import Finding, draw_cases, findings, shrink, smaller
from opduel.harness.other_runs.smoke_check import SmokeCheck
from opduel.harness.specs.strategies import Drawn
from opduel.harness.specs.template import templates
from opduel.records import Case, Comparison, Failure, RunError

LIKE = Case("op_large/forward", "nd.op", "forward", {"a": [16, 32]}, "float32", "cpu", 0.02, 60.0)
(TEMPLATE,) = templates([LIKE])


def draw(*sizes: int) -> Drawn:
    return Drawn(TEMPLATE, sizes, ())


def comparison(case: Case, verdict: Any, ratio: float | None = None, side: Any = None) -> Comparison:
    failure = Failure(side, "crash", "died") if side else None
    return replace(Comparison.without_figures(case, verdict, failure=failure), ratio=ratio)


def finding(
    sizes: Sequence[int], verdict: str = "regressed", ratio: float | None = 2.0, side: str | None = None
) -> Finding:
    drawn_sizes = draw(*sizes)
    case = replace(LIKE, inputs=drawn_sizes.inputs)
    return Finding(drawn_sizes, case, comparison(case, verdict, ratio, side))


def compare_cases(is_slow: Callable[[int, int], bool]) -> Callable[[Sequence[Case]], Mapping[str, Comparison]]:
    """Measures without noise: slow or not by the sizes."""

    def measure(cases: Sequence[Case]) -> Mapping[str, Comparison]:
        comparison_by_case = {}
        for case in cases:
            slow = is_slow(*case.inputs["a"])
            comparison_by_case[case.id] = comparison(case, "regressed" if slow else "unchanged", 2.0 if slow else 1.0)
        return comparison_by_case

    return measure


@pytest.mark.parametrize(
    ("is_slow", "smallest"),
    [
        (lambda n, m: True, (1, 1)),
        (lambda n, m: n >= 5, (5, 1)),
        (lambda n, m: m % 2 == 0, (1, 2)),
        (lambda n, m: n * m >= 12, None),
    ],
)
def test_findings_are_made_as_small_as_still_shows_them(
    is_slow: Callable[[int, int], bool], smallest: tuple[int, int] | None
) -> None:
    (smallest_finding,) = shrink([finding((16, 32))], compare_cases(is_slow), steps=60)
    assert is_slow(*smallest_finding.drawn.sizes)
    assert smallest is None or smallest_finding.drawn.sizes == smallest
    assert smallest_finding.case.inputs == {"a": list(smallest_finding.drawn.sizes)}
    assert not any(is_slow(*less.sizes) for less in smaller(smallest_finding.drawn))


def test_what_was_not_measured_again_is_left_as_it_was() -> None:
    before = [finding((16, 32)), finding((8, 8))]
    assert shrink(before, lambda cases: {}) == before


def test_a_failure_must_be_of_the_same_side() -> None:
    before = finding((16, 32), "failed", None, "treatment")

    def measure(cases: Sequence[Case]) -> Mapping[str, Comparison]:
        side = "treatment" if cases[0].inputs["a"][0] > 4 else "both"
        return {case.id: comparison(case, "failed", None, side) for case in cases}

    (smallest_finding,) = shrink([before], measure, steps=60)
    assert smallest_finding.drawn.sizes == (5, 1)


def test_the_largest_difference_comes_first_and_what_fails_on_both_is_none() -> None:
    table = [("regressed", 1.5, None), ("failed", None, "both"), ("improved", 0.1, None), ("unchanged", 1.0, None)]
    table += [("failed", None, "treatment"), ("inconclusive", 3.0, None)]
    draws, comparisons = [], {}
    for number, (verdict, ratio, side) in enumerate(table):
        case = replace(LIKE, id=f"{number}")
        draws.append((draw(2, 2), [case]))
        comparisons[case.id] = comparison(case, verdict, ratio, side)
    assert [finding.case.id for finding in findings(draws, comparisons)] == ["4", "2", "0"]


def refusing(monkeypatch: pytest.MonkeyPatch, refuses: Callable[[int], str | None]) -> None:
    """Have a control that refuses cases, by how large they are, with a failure of that kind."""

    def smoke_check(build: object, framework: object, cases: Sequence[Case], *, seed: int, env: object) -> Any:
        for case in cases:
            kind = refuses(case.inputs["a"][0])
            yield SmokeCheck(case, Failure("treatment", kind, "no") if kind else None)

    monkeypatch.setattr(opduel.harness.other_runs.fuzz, "smoke_check", smoke_check)


def test_what_the_control_refuses_is_left_out_and_what_crashes_it_is_not(monkeypatch: pytest.MonkeyPatch) -> None:
    refusing(monkeypatch, lambda n: "error" if n % 2 else "crash")
    cases = [LIKE, replace(LIKE, id="op_large/forward/error", metric="error")]
    drawn = draw_cases(cases, 8, 1, None, None, {})  # type: ignore[arg-type]
    assert 2 <= len(drawn) <= 8
    for draw, (by_time, by_numbers) in drawn:
        assert draw.sizes[0] % 2 == 0
        assert by_time.inputs == by_numbers.inputs == draw.inputs
        assert (by_time.metric, by_numbers.metric) == ("time", "error")
        assert by_numbers.id == f"{by_time.id}/error"


def test_every_kind_of_inputs_has_its_share(monkeypatch: pytest.MonkeyPatch) -> None:
    refusing(monkeypatch, lambda n: None)
    cases = [replace(LIKE, id=f"{name}/forward", operator=f"nd.{name}") for name in ("add", "dot", "exp")]
    drawn = draw_cases(cases, 7, 1, None, None, {})  # type: ignore[arg-type]
    counts = [sum(draw.template.like.operator == case.operator for draw, _ in drawn) for case in cases]
    assert sorted(counts) == [2, 2, 3]
    assert len({draw.sizes for draw, _ in drawn}) > 4, "not the same sizes for each operator"


def test_nothing_left_to_measure_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    refusing(monkeypatch, lambda n: "error")
    with pytest.raises(RunError, match="nothing could be drawn that the control takes"):
        draw_cases([LIKE], 3, 1, None, None, {})  # type: ignore[arg-type]
