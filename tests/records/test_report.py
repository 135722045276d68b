"""What a comparison finds, and what counts as worse."""

from dataclasses import replace
from typing import get_args

import pytest

from opduel.records import FLAGGED, Case, Comparison, Failure, Verdict
from opduel.records.measurement import Side

CASE = Case("a", "nd.add", "forward", {}, "float32", "cpu", 0.02, 60.0)


@pytest.mark.parametrize("verdict", [one for one in get_args(Verdict) if one != "failed"])
def test_of_a_case_that_ran_the_verdict_is_the_finding(verdict: Verdict) -> None:
    one = Comparison.without_figures(CASE, verdict)
    assert one.finding == (verdict if verdict in FLAGGED else None)
    assert one.is_worse == (verdict == "regressed")


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
    one = Comparison.without_figures(CASE, "failed", failure=Failure(side, kind, "died"))
    assert (one.finding, one.is_worse, one.is_broken_by_treatment) == (finding, bool(finding), bool(finding))


def test_a_verdict_that_is_withheld_is_no_finding() -> None:
    one = replace(Comparison.without_figures(CASE, "inconclusive"), held_back="regressed")
    assert (one.finding, one.is_worse) == (None, False)
