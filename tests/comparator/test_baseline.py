"""Against an earlier result: each verdict where it belongs, on either side of the threshold."""

import dataclasses
from typing import Any

import pytest

from opduel.comparator.baseline import compare_with_baseline, machine_differences
from opduel.records import Build, Failure
from opduel.records.host_record import HostRecord
from opduel.records.run_record import SingleRunRecord
from opduel.records.single import Distribution, SingleReport, SingleResult

BUILD = Build("toy", "toy", "interpreter", "/bin/true", "1.0", "3.11", "digest")
FAILED = Failure("treatment", "error", "shapes differ")


def result(case: str, p50: float | None, failure: Failure | None = None, **changed: Any) -> SingleResult:
    time = None if p50 is None else Distribution(p50, p50, p50, p50, p50, p50, 0.0)
    processes = () if p50 is None else (p50, 0.5 * p50, 50 * p50)  # the middle one counts
    single_result = SingleResult(
        case, "nd.exp", "forward", "float32", "cpu", {}, time, 3, 3, processes, None, None, failure
    )
    return dataclasses.replace(single_result, **changed)


def report(*cases: SingleResult, **host: Any) -> SingleReport:
    return SingleReport(SingleRunRecord(threads=1, seed=2), BUILD, HostRecord(**host), cases)


@pytest.mark.parametrize(
    ("now", "verdict"), [(111.0, "slower"), (110.0, "within"), (100.0, "within"), (91.0, "within"), (90.0, "faster")]
)
def test_beyond_the_threshold_and_within(now: float, verdict: str) -> None:
    (comparison,) = compare_with_baseline(report(result("a", now)), report(result("a", 100.0)), 0.1)
    assert comparison.verdict == verdict
    assert comparison.ratio == pytest.approx(now / 100)
    assert comparison.is_worse == (verdict == "slower")


def test_what_can_not_be_compared_is_said() -> None:
    now = report(
        result("new", 1.0),
        result("fails", None, FAILED),
        result("fails still", None, FAILED),
        result("fixed", 1.0),
        result("other inputs", 1.0, inputs={"data": [2]}),
        result("too short", 0.0),
    )
    then = report(
        result("gone", 1.0),
        result("fails", 1.0),
        result("fails still", None, FAILED),
        result("fixed", None, FAILED),
        result("other inputs", 1.0),
        result("too short", 0.0),
    )
    comparison_by_case = {comparison.case: comparison for comparison in compare_with_baseline(now, then)}
    assert {case: comparison.verdict for case, comparison in comparison_by_case.items()} == {
        "new": "new",
        "fails": "failed",
        "fails still": "failed",
        "fixed": "incomparable",
        "other inputs": "incomparable",
        "too short": "incomparable",
        "gone": "gone",
    }
    assert [case for case, comparison in comparison_by_case.items() if comparison.is_worse] == ["fails"]
    assert all(comparison.ratio is None for comparison in comparison_by_case.values())


def test_another_machine_is_noticed() -> None:
    now, then = report(cpu_model="A", kernel="5"), report(cpu_model="B", kernel="5")
    assert machine_differences(now, then) == ["cpu_model: B then, A now"]
    assert machine_differences(now, now) == []
    fewer = dataclasses.replace(now, run=dataclasses.replace(now.run, runs=7))
    assert machine_differences(now, fewer) == ["runs: 7 then, as many as fit now"]
