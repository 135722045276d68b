"""Make steps of a bisection out of comparisons and known changes."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Literal

from opduel.driver.attribution import Change, KnownChange
from opduel.driver.bisection import Step
from opduel.driver.speculation import CLEAR
from opduel.records import Comparison, Report, Verdict
from opduel.records.measurement import Side


def steps_of(report: Report, cases: Sequence[str], sought: Mapping[str, Verdict]) -> dict[str, Step]:
    """Return the step of each case, in a search for the verdicts ``sought``.

    A case that the difference between the builds can't reach, so that it was not measured, is unchanged to the last.
    A step is unsure if its verdict was held back, its run was aborted, or an A/A check found a difference that may
    affect its ratio, since a search relies on sizes. Where a failure is sought, load on the host makes no difference,
    and a failure that an aborted run found counts.
    """
    comparison_by_case = {comparison.case: comparison for comparison in report.comparisons}
    unreached_cases = report.run.left_out.cases if report.run.left_out else ()
    steps: dict[str, Step] = {}
    for case in cases:
        comparison = comparison_by_case.get(case)
        step = CLEAR if case in unreached_cases else step_of(comparison) if comparison else Step("inconclusive")
        unsure = report.run.aborted
        if sought[case] == "failed":
            unsure = unsure and step.verdict != "failed"
        elif comparison is not None:
            unsure = unsure or bool(comparison.held_back) or report.may_be_off(comparison)
        steps[case] = replace(step, unsure=unsure)
    return steps


def step_of(comparison: Comparison) -> Step:
    """Return a comparison as a step."""
    change = None
    if comparison.ratio is not None and comparison.ci is not None:
        change = Change(*map(math.log, (comparison.ratio, *comparison.ci)))
    side: Side | Literal["both"] | None = comparison.failure.side if comparison.failure else None
    if side == "treatment" and not comparison.is_broken_by_treatment:  # the machine may be the reason
        side = "both"
    return Step(comparison.verdict, change, side)


def known_step(known_change: KnownChange) -> Step:
    """Return what an earlier investigation found as a step."""
    verdict: Verdict = known_change.kind  # type: ignore[assignment]
    return Step(verdict, known_change.change, "treatment" if verdict == "failed" else None)
