"""Rates and their intervals: against enumerated tails, and on reports whose every verdict is known."""

import math
from collections.abc import Sequence
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from opduel.comparator.calibration import Rate, evaluate
from opduel.records import Build, Comparison, Report, Verdict
from opduel.records.host_record import HostRecord
from opduel.records.run_record import RunRecord

BUILD = Build("toy", "toy", "interpreter", "/python", "1", "3.11", "aa")


def at_least(count: int, of: int, share: float) -> float:
    """The probability of ``count`` or more of ``of``, summed term by term."""
    return sum(math.comb(of, k) * share**k * (1 - share) ** (of - k) for k in range(count, of + 1))


@given(st.integers(0, 40).flatmap(lambda of: st.tuples(st.integers(0, of), st.just(of))))
def test_interval_of_a_rate_cuts_off_exactly_its_tails(rate: tuple[int, int]) -> None:
    count, of = rate
    low, high = Rate(count, of).interval
    assert 0 <= low <= high <= 1
    assert low == 0 if count == 0 else at_least(count, of, low) == pytest.approx(0.025, abs=1e-9)
    assert high == 1 if count == of else 1 - at_least(count + 1, of, high) == pytest.approx(0.025, abs=1e-9)


def test_a_rate_of_nothing_is_unknown() -> None:
    assert Rate(0, 0).share is None
    assert Rate(0, 0).interval == (0, 1)
    assert Rate(3, 4).share == 0.75


def comparison(
    verdict: Verdict, injected: bool = False, threshold: float = 0.02, ratio: float | None = 1.01, case: str = "a"
) -> Comparison:
    nothing = dict.fromkeys(("ci", "p_value", "q_value", "mde", "control", "treatment", "decided_on", "failure"))
    return Comparison(case, "op", "forward", "time", "ns", verdict, ratio, threshold=threshold, rounds=5,
                      injected=injected, **nothing)  # fmt: skip


def a_run(comparisons: Sequence[Comparison], inject: float = 0.0, **changes: Any) -> Report:
    run = {
        "configuration": {"inject": inject},
        "complete": True,
        "aborted": False,
        "wall_s": 10.0,
        "timed_s": 4.0,
        **changes,
    }
    return Report(RunRecord.of(run), BUILD, BUILD, HostRecord(), tuple(comparisons))


def test_every_verdict_is_counted_where_it_belongs() -> None:
    slowed: list[Verdict] = ["regressed"] * 5 + ["unchanged"] * 2 + ["improved", "inconclusive", "failed"]
    clean: list[Verdict] = ["regressed", "improved"] + ["unchanged"] * 6 + ["inconclusive", "failed"]
    comparisons = [comparison(verdict, injected=True) for verdict in slowed] + [
        comparison(verdict) for verdict in clean
    ]
    (row,) = evaluate([a_run(comparisons, inject=0.05)])
    assert (row.share, row.threshold, row.runs, row.unfinished, row.held_back) == (0.05, 0.02, 1, 0, 0)
    assert (row.detected, row.missed_as_unchanged, row.backwards) == (Rate(5, 9), Rate(2, 9), 1)
    assert (row.false_flags, row.cleared, row.failed) == (Rate(2, 9), Rate(6, 9), 2)
    assert (row.seconds_a_case, row.timed_share) == (0.5, 0.4)


@pytest.mark.parametrize("share", [0.01, 0.02])
def test_a_slowdown_within_the_threshold_must_not_be_flagged(share: float) -> None:
    (row,) = evaluate([a_run([comparison("regressed", injected=True), comparison("unchanged")], inject=share)])
    assert (row.detected, row.false_flags, row.cleared) == (Rate(0, 0), Rate(1, 2), Rate(1, 2))


def test_runs_alike_are_taken_together_and_others_apart() -> None:
    runs = [
        a_run([comparison("unchanged")], wall_s=1.0),
        a_run([comparison("regressed")], inject=0.05),
        a_run([comparison("improved")], wall_s=7.0, complete=False),
        a_run([comparison("inconclusive")], wall_s=3.0, validity={"valid": False, "reasons": ["busy"]}),
        a_run([comparison("unchanged", threshold=0.005)], validity={"valid": True}),
        a_run([comparison("unchanged"), comparison("regressed")], aborted=True, complete=False),
        a_run([]),
    ]
    plain, tight, injected = evaluate(runs)
    assert [(row.share, row.threshold) for row in (plain, tight, injected)] == [(0, 0.02), (0, 0.005), (0.05, 0.02)]
    assert (plain.runs, plain.unfinished, plain.held_back, plain.false_flags) == (3, 1, 1, Rate(1, 3))
    assert plain.seconds_a_case == 3.0
    assert (tight.runs, tight.held_back) == (1, 0)


def test_one_run_with_two_thresholds_is_in_two_rows_at_its_own_cost() -> None:
    loose, tight = evaluate([a_run([comparison("unchanged"), comparison("regressed", threshold=0.01)])])
    assert (loose.cleared, tight.false_flags) == (Rate(1, 1), Rate(1, 1))
    assert loose.seconds_a_case == tight.seconds_a_case == 5.0


def test_no_runs_no_rows() -> None:
    assert evaluate([]) == []
