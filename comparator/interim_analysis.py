"""Where every case stands in mid-run: what the scheduler reads after each round."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from opduel.comparator.empirical_bayes import Prior
from opduel.comparator.looks import Looks
from opduel.comparator.run_analysis import CaseAnalysis, analyse_run
from opduel.records import Case, Failure, PairSample, Stage, Verdict


@dataclass(frozen=True)
class InterimAnalysis:
    """What is known of a case so far, and what it needs next.

    ``settled`` cases get no more samples.  A settled verdict is final, but for one thing: a case whose looks are all
    spent is settled as ``inconclusive``, and another case's rejection may still carry it over the bar of the false
    discovery rate.  ``stage`` is where the next sample belongs: a suspect's on "own", and never back.
    ``next_look`` counts that stage's samples; ``missing`` says how many of them are still to come: 0 for a settled
    case, and for one that has come to its first look while others have not.  ``excess`` is a suspect's size, as in
    ``SequentialTest``: what to spend a time budget on first.
    """

    verdict: Verdict
    stage: Stage
    suspect: bool
    settled: bool
    next_look: int | None
    missing: int
    excess: float | None = field(default=None, compare=False)


def analyse_interim(
    cases: Sequence[Case],
    samples: Mapping[str, Sequence[PairSample]],
    failures: Mapping[str, Failure],
    looks: Looks,
    alpha: float = 0.05,
    priors: Mapping[str, Prior] | None = None,
    apart: frozenset[str] = frozenset(),
) -> dict[str, InterimAnalysis]:
    """The interim analysis of each case, by id, after any number of rounds.

    Every look takes exactly the first n_k samples of its stage, in the order given, so that asking more or less
    often changes nothing.  Until every case of a metric has failed or reached the first look at screening, none of
    them is settled or a suspect, failed cases apart.
    ``priors`` and ``apart`` are those of a replication, as in ``analyse_run``.

    Raises:
        ValueError: as ``analyse_run``.
    """
    analyses = analyse_run(cases, samples, failures, looks, alpha, closing=False, priors=priors, apart=apart)
    return {
        analysis.case.id: _interim_analysis(analysis, looks.of_metric(analysis.case.metric)) for analysis in analyses
    }


def _interim_analysis(analysis: CaseAnalysis, looks: Looks) -> InterimAnalysis:
    test = analysis.test
    if analysis.verdict == "failed":
        return InterimAnalysis("failed", test.stage, False, True, None, 0)
    if not analysis.ready:
        first = looks.screening[0]
        missing = max(0, first - test.n) if test.stage == "screening" else 0
        return InterimAnalysis("inconclusive", "screening", False, False, first, missing)
    if analysis.verdict != "inconclusive" or test.exhausted or test.futile:
        return InterimAnalysis(analysis.verdict, test.stage, test.suspect, True, None, 0)
    next_look = looks.next_after(test.stage, test.n)
    missing = next_look - test.n if next_look is not None else 0
    return InterimAnalysis("inconclusive", test.stage, test.suspect, False, next_look, missing, test.excess)
