"""Where every case stands in mid-run: what the scheduler reads after each round."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from comparator.assessment import Assessment, assess
from comparator.looks import Looks
from comparator.moderation import Prior
from records import Case, Failure, PairSample, Stage, Verdict


@dataclass(frozen=True)
class Standing:
    """What is known of a case so far, and what it needs next.

    ``settled`` cases get no more samples.  A settled verdict is final, but for one thing: a case whose looks are all
    spent is settled as ``inconclusive``, and another case's rejection may still carry it over the bar of the false
    discovery rate.  ``stage`` is where the next sample belongs: a suspect's on "own", and never back.
    ``next_look`` counts that stage's samples; ``missing`` says how many of them are still to come: 0 for a settled
    case, and for one that has come to its first look while others have not.  ``excess`` is a suspect's size, as in
    ``Course``: what to spend a time budget on first.
    """

    verdict: Verdict
    stage: Stage
    suspect: bool
    settled: bool
    next_look: int | None
    missing: int
    excess: float | None = field(default=None, compare=False)


def standing(
    cases: Sequence[Case],
    samples: Mapping[str, Sequence[PairSample]],
    failures: Mapping[str, Failure],
    looks: Looks,
    alpha: float = 0.05,
    priors: Mapping[str, Prior] | None = None,
) -> dict[str, Standing]:
    """The standing of each case, by id, after any number of rounds.

    Every look takes exactly the first n_k samples of its stage, in the order given, so that asking more or less
    often changes nothing.  Until every case of a metric has failed or reached the first look on the screen, none of
    them is settled or a suspect, failed cases apart.

    Raises:
        ValueError: as ``assess``.
    """
    assessments = assess(cases, samples, failures, looks, alpha, closing=False, priors=priors)
    return {
        assessment.case.id: _standing(assessment, looks.of_metric(assessment.case.metric)) for assessment in assessments
    }


def _standing(assessment: Assessment, looks: Looks) -> Standing:
    course = assessment.course
    if assessment.verdict == "failed":
        return Standing("failed", course.stage, False, True, None, 0)
    if not assessment.ready:
        first = looks.screen[0]
        missing = max(0, first - course.n) if course.stage == "screen" else 0
        return Standing("inconclusive", "screen", False, False, first, missing)
    if assessment.verdict != "inconclusive" or course.exhausted or course.given_up:
        return Standing(assessment.verdict, course.stage, course.suspect, True, None, 0)
    next_look = looks.next_after(course.stage, course.n)
    missing = next_look - course.n if next_look is not None else 0
    return Standing("inconclusive", course.stage, course.suspect, False, next_look, missing, course.excess)
