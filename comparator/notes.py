"""Why a verdict is what it is, in one short plain line, where the figures alone don't say."""

from comparator.assessment import Assessment
from comparator.equivalence import as_ratio
from comparator.looks import Looks


def explain(assessment: Assessment, looks: Looks, family: int) -> str:
    """The note of a case in a run of ``family`` cases; empty where there is nothing to add."""
    if assessment.verdict != "inconclusive":
        return ""
    course = assessment.course
    if course.figures is None:
        return "fewer than 2 rounds measured this case"
    first = looks.of(course.stage)[0]
    if course.stage == "own" and course.n < first:
        return f"suspect on the screen, but only {course.n} of at least {first} rounds of its own"
    if course.n < first:
        return f"only {course.n} of at least {first} rounds"
    return _why_open(assessment, family)


def _why_open(assessment: Assessment, family: int) -> str:
    """What the interval of a case that has been looked at lacks."""
    figures, threshold = assessment.course.figures, assessment.case.threshold
    if figures is None:
        return ""
    low, high = (as_ratio(limit) - 1 for limit in figures.interval)
    interval = f"interval {low:+.1%}..{high:+.1%}"
    if threshold == 0:
        return f"{interval}; a threshold of 0 can't be shown unchanged; {figures.n} rounds"
    if low > threshold or high < 1 / (1 + threshold) - 1:
        if assessment.course.stage == "screen":
            return f"{interval} lies beyond the threshold, but was not confirmed in rounds of its own"
        return f"{interval} lies beyond the threshold, but not far enough in a run of {family} cases " + (
            f"(q {assessment.q_value:.2g}); {figures.n} rounds"
        )
    given_up = ", given up: more would hardly settle it" if assessment.course.given_up else ""
    return f"{interval} straddles the threshold; {figures.n} rounds{given_up}"
