"""Make steps of a bisection out of comparisons and known changes."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Literal

from opduel.driver.attribution import KnownChange
from opduel.driver.bisection import Step
from opduel.records import Comparison, Report, Verdict
from opduel.records.measurement import Side


def steps_of(report: Report, cases: Sequence[str], sought: Mapping[str, Verdict]) -> dict[str, Step]:
    """Return the step of each case, in a search for the verdicts ``sought``.

    A step is unsure if its verdict was held back, its run was aborted, or an A/A check found a difference that may
    affect its ratio, since a search relies on sizes. Where a failure is sought, load on the host makes no difference,
    and a failure that an aborted run found counts.
    """
    comparison_by_case = {comparison.case: comparison for comparison in report.comparisons}
    steps = {
        case: step_of(comparison_by_case[case]) if case in comparison_by_case else Step("inconclusive")
        for case in cases
    }
    for case, step in steps.items():
        if sought[case] == "failed":
            unsure = report.run.aborted and step.verdict != "failed"
        else:
            comparison = comparison_by_case.get(case)
            unsure = report.run.aborted or (
                comparison is not None and (bool(comparison.held_back) or report.may_be_off(comparison))
            )
        steps[case] = replace(step, unsure=unsure)
    return steps


def step_of(comparison: Comparison) -> Step:
    """Return a comparison as a step."""
    low, high = comparison.ci or (None, None)
    return Step(
        comparison.verdict,
        None if comparison.ratio is None else math.log(comparison.ratio),
        None if low is None else math.log(low),
        None if high is None else math.log(high),
        _side_of_failure(comparison),
    )


def _side_of_failure(comparison: Comparison) -> Side | Literal["both"] | None:
    """Return the side on which a case failed: "both", too, if only the treatment did and the machine may be the
    reason."""
    if comparison.failure is None:
        return None
    return (
        comparison.failure.side
        if comparison.failure.side != "treatment" or comparison.is_broken_by_treatment
        else "both"
    )


def known_step(known_change: KnownChange) -> Step:
    """Return what an earlier investigation found as a step."""
    change = known_change.change
    verdict: Verdict = known_change.kind  # type: ignore[assignment]
    if change is None:
        return Step(verdict, side="treatment" if verdict == "failed" else None)
    return Step(verdict, change.estimate, change.low, change.high)
