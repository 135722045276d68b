"""What a comparison finds, and what counts as worse."""

from dataclasses import replace
from typing import Any, get_args

import pytest

from opduel.records import FLAGGED, ONE_SIDED, Build, Case, Comparison, Failure, Report, Verdict, verdict_words
from opduel.records.host_record import HostRecord
from opduel.records.measurement import Side
from opduel.records.run_record import RunRecord

CASE = Case("a", "nd.add", "forward", {}, "float32", "cpu", 0.02, 60.0)


@pytest.mark.parametrize("verdict", [verdict for verdict in get_args(Verdict) if verdict != "failed"])
def test_of_a_case_that_ran_the_verdict_is_the_finding(verdict: Verdict) -> None:
    comparison = Comparison.without_figures(CASE, verdict)
    assert comparison.finding == (verdict if verdict in FLAGGED else None)
    assert comparison.is_worse == (verdict == "regressed")


@pytest.mark.parametrize(
    ("side", "kind", "finding"),
    [
        ("treatment", "crash", "failed"),
        ("treatment", "error", "failed"),
        ("treatment", "timeout", "failed"),
        ("treatment", "killed", None),
        ("treatment", "out-of-memory", None),
        ("control", "crash", None),
        ("both", "crash", None),
    ],
)
def test_a_failure_is_worse_only_if_the_treatment_causes_it(side: Side, kind: str, finding: Verdict | None) -> None:
    comparison = Comparison.without_figures(CASE, "failed", failure=Failure(side, kind, "died"))
    assert (comparison.finding, comparison.is_worse, comparison.is_broken_by_treatment) == (
        finding,
        bool(finding),
        bool(finding),
    )


def test_a_verdict_that_is_withheld_is_no_finding() -> None:
    comparison = replace(Comparison.without_figures(CASE, "inconclusive"), held_back="regressed")
    assert (comparison.finding, comparison.is_worse) == (None, False)


@pytest.mark.parametrize(
    ("metric", "not_worse", "not_better"),
    [
        ("time", "not slower", "not faster"),
        ("cpu_time", "not slower", "not faster"),
        ("memory", "not larger", "not smaller"),
        ("process_memory", "not larger", "not smaller"),
        ("instructions", "not more", "not fewer"),
        ("value", "not worse", "not better"),
        ("of a later version", "not worse", "not better"),
    ],
)
def test_people_call_a_one_sided_verdict_by_the_metric(metric: str, not_worse: str, not_better: str) -> None:
    assert [verdict_words(verdict, metric) for verdict in ONE_SIDED] == [not_worse, not_better]
    two_sided = [verdict for verdict in get_args(Verdict) if verdict not in ONE_SIDED]
    assert [verdict_words(verdict, metric) for verdict in two_sided] == two_sided


@pytest.mark.parametrize("verdict", ONE_SIDED)
def test_a_run_that_settled_a_case_on_one_side_compared_something(verdict: Verdict) -> None:
    build = Build("toy", "x", "source", "/python", "1.0", "3.11", "digest")
    report = Report(RunRecord(), build, build, HostRecord(), (Comparison.without_figures(CASE, verdict),))
    assert not report.nothing_compared
    assert report.standing == list(report.comparisons)


def biased(hold: bool = True, flagged: bool = True, **run: Any) -> Report:
    """Of two cases, one measured on each of two hosts."""
    checks = [{"case": "a", "ratio": 1.1, "flagged": flagged}]
    build = Build("toy", "x", "source", "/python", "1.0", "3.11", "digest")
    cases = [replace(Comparison.without_figures(CASE, "regressed"), case=host, host=host) for host in ("one", "two")]
    record = RunRecord.of({"validity": {"hold": hold, "aa_checks": checks}, **run})
    return Report(record, build, build, HostRecord(), tuple(cases))


@pytest.mark.parametrize(
    ("report", "off"),
    [
        (biased(), ["one", "two"]),
        (biased(hold=False), []),
        (biased(flagged=False), []),
        (biased(fleet={"hosts": [{"name": "one", "valid": False}, {"name": "two", "valid": True}]}), ["one"]),
        (biased(fleet={"hosts": [{"name": "one", "valid": False}, {"name": "two", "valid": False}]}), ["one", "two"]),
    ],
)
def test_ratios_may_be_off_where_an_aa_check_found_a_difference(report: Report, off: list[str]) -> None:
    assert [comparison.case for comparison in report.comparisons if report.may_be_off(comparison)] == off
    assert report.is_biased == (len(off) == 2)


@pytest.mark.parametrize(
    ("verdict", "suspected", "is_open"),
    [
        ("not_worse", "improved", False),
        ("not_better", "regressed", True),
        ("inconclusive", "improved", True),
        ("inconclusive", None, False),
    ],
)
def test_what_is_not_worse_is_settled_however_much_better_it_looks(
    verdict: Verdict, suspected: Verdict | None, is_open: bool
) -> None:
    comparison = replace(Comparison.without_figures(CASE, verdict), suspected=suspected)
    assert comparison.is_open_suspect == is_open
