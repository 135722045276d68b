"""The family of a run in which cases moved, on several kinds of host: the levels of all kinds stay alpha."""

from dataclasses import replace
from datetime import UTC, datetime
from types import SimpleNamespace
from typing import Any

import pytest
import report_samples as samples
from made_samples import a_case

from opduel.comparator import RunAnalysis, plan_looks
from opduel.fleet.merge import HostReport, RunTiming, count_attempts, report_of
from opduel.frameworks import get_framework
from opduel.harness.run_request import RunRequest


def request_of(cases: int, kinds: int) -> Any:
    return SimpleNamespace(cases=[SimpleNamespace(metric="time")] * cases, other_comparisons=(kinds - 1) * cases)


@pytest.mark.parametrize(("cases", "kinds", "given_up"), [(30, 1, 4), (30, 2, 4), (7, 5, 3), (1, 3, 1), (40, 4, 0)])
def test_the_levels_of_all_kinds_add_up_to_alpha(cases: int, kinds: int, given_up: int) -> None:
    """Each kind's level is alpha times the share of the family that its own attempts are."""
    request = request_of(cases, kinds)
    family = cases + request.other_comparisons + count_attempts(request, given_up)
    assert kinds * (cases + given_up) / family == pytest.approx(1)


@pytest.mark.parametrize(
    ("log", "stopped", "parts", "resumable"),
    [
        (True, None, [{"complete": False, "resumable": True}, {"complete": True, "resumable": True}], True),
        (True, None, [{"complete": True, "resumable": True}], False),
        (True, None, [{"complete": False, "resumable": False}], False),
        (True, "no host was there", [{"complete": True, "resumable": True}], True),
        (False, "no host was there", [{"complete": False, "resumable": True}], False),
    ],
)
def test_a_run_is_resumable_where_a_host_would_go_on(
    log: bool, stopped: str | None, parts: list[dict[str, Any]], resumable: bool
) -> None:
    """The log is kept then: a longer time budget continues what the earlier one cut short."""
    cases = [a_case(f"c{number}") for number in range(len(parts))]
    log_or_none: Any = SimpleNamespace() if log else None
    request = RunRequest(get_framework("python"), samples.CONTROL, samples.TREATMENT, cases, 1, log=log_or_none)
    looks = plan_looks(request.max_rounds)
    reports = [
        replace(samples.report(RunAnalysis([case], {}, {}, looks).comparisons(), **run), cases=(case,))
        for case, run in zip(cases, parts, strict=True)
    ]
    course = RunTiming(datetime.now(UTC), 1.0, stopped, False)
    merged_report = report_of(request, [HostReport("one", each) for each in reports], course, 0)
    assert merged_report.run.resumable is resumable


def test_where_some_rows_failed_elsewhere_it_is_no_less() -> None:
    request = request_of(30, 3)
    request.other_comparisons -= 7
    family = 30 + request.other_comparisons + count_attempts(request, 5)
    assert (30 + 5 + 53 + 2 * 5) / family <= 1
