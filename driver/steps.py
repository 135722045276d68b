"""What reports and known changes say of a case, as the steps of a bisection."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Literal

from opduel.driver.attribution import Known
from opduel.driver.bisection import Step
from opduel.records import Comparison, Report, Verdict
from opduel.records.measurement import Side


def steps_of(report: Report, cases: Sequence[str], sought: Mapping[str, Verdict]) -> dict[str, Step]:
    """What an A/B says of each of these cases, in a search for what is ``sought``.

    Unsure are those whose verdict was held back, those of an aborted run, and those whose ratio may be off by what A/A
    checks found: searches rely on sizes. Where a failure is sought, no
    load on the host makes or hides it, and one that an aborted run found is there.
    """
    found = {one.case: one for one in report.comparisons}
    steps = {case: step_of(found[case]) if case in found else Step("inconclusive") for case in cases}
    for case, step in steps.items():
        if sought[case] == "failed":
            unsure = report.run.aborted and step.verdict != "failed"
        else:
            one = found.get(case)
            unsure = report.run.aborted or (one is not None and (bool(one.held_back) or report.may_be_off(one)))
        steps[case] = replace(step, unsure=unsure)
    return steps


def step_of(one: Comparison) -> Step:
    """What a comparison says."""
    low, high = one.ci or (None, None)
    return Step(
        one.verdict,
        None if one.ratio is None else math.log(one.ratio),
        None if low is None else math.log(low),
        None if high is None else math.log(high),
        _side_of_failure(one),
    )


def _side_of_failure(one: Comparison) -> Side | Literal["both"] | None:
    """Where a case failed; "both" also if only the treatment did, and the machine may be the reason."""
    if one.failure is None:
        return None
    return one.failure.side if one.failure.side != "treatment" or one.is_broken_by_treatment else "both"


def known_step(known: Known) -> Step:
    """What an earlier investigation found."""
    change = known.change
    verdict: Verdict = known.kind  # type: ignore[assignment]
    if change is None:
        return Step(verdict, side="treatment" if verdict == "failed" else None)
    return Step(verdict, change.estimate, change.low, change.high)
