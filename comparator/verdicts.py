"""The end of a run: samples in, comparisons out."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from opduel.comparator.effect_estimate import EffectEstimate, as_ratio, minimal_detectable_change
from opduel.comparator.empirical_bayes import Prior
from opduel.comparator.explanations import explain
from opduel.comparator.looks import Looks
from opduel.comparator.modes import in_words as modes_in_words
from opduel.comparator.modes import modes_of
from opduel.comparator.predictive_power import CaseState, Terms, project
from opduel.comparator.run_analysis import CaseAnalysis, analyse_run
from opduel.records import FLAGGED, Case, Comparison, Failure, Forecast, PairSample, Stage, Verdict


def compare_cases(
    cases: Sequence[Case],
    samples: Mapping[str, Sequence[PairSample]],
    failures: Mapping[str, Failure],
    looks: Looks,
    alpha: float = 0.05,
    injected: frozenset[str] = frozenset(),
    priors: Mapping[str, Prior] | None = None,
    apart: frozenset[str] = frozenset(),
    others: Sequence[float] = (),
) -> list[Comparison]:
    """The comparison of each case, in the order of ``cases``, when no more samples will come.

    It repeats every verdict that ``analyse_interim`` called settled (as long as the case got no sample since), and may
    settle more: samples beyond a case's last look take part in a closing one (``Looks.closing``).  Of a failed
    case only samples and failure are given; of one with fewer than 2 samples the ratio, if there is one.
    ``priors`` and ``apart`` are those of a replication, and ``others`` are comparisons made elsewhere, as in
    ``analyse_run``.

    Raises:
        ValueError: as ``analyse_run``.
    """
    analyses = analyse_run(cases, samples, failures, looks, alpha, True, priors, apart, others)
    runs = {}
    for separate in (False, True):
        family = [one for one in analyses if (one.case.id in apart) == separate]
        flagged = sum(one.verdict in FLAGGED for one in family)
        size = len(family) + (0 if separate else len(others))
        runs[separate] = _Run(alpha, size, flagged, priors is not None)
    comparisons = []
    for analysis in analyses:
        case, verdict = analysis.case, analysis.verdict
        measured, failure = samples.get(case.id, ()), failures.get(case.id)
        bare = Comparison.without_figures(
            case, verdict, samples=measured, failure=failure, injected=case.id in injected
        )
        run = runs[case.id in apart]
        comparisons.append(bare if bare.failure else _whole(bare, analysis, looks.of_metric(case.metric), run))
    return comparisons


@dataclass(frozen=True)
class _Run:
    """What a comparison takes from the run: its level, the size of its family, how many of the run's own cases in it
    are flagged, and whether it is a replication."""

    alpha: float
    family: int
    flagged: int
    retest: bool


def _whole(bare: Comparison, analysis: CaseAnalysis, looks: Looks, run: _Run) -> Comparison:
    """The comparison with all that could be computed, and why it is open if it is."""
    one = _with_figures(bare, analysis, looks, run)
    suspected = _suspected(one)
    note = explain(analysis, looks, run.family, run.alpha, suspected, run.retest)
    modes = modes_of(one.samples) if one.verdict == "inconclusive" and one.measure.noisy else {}
    note = "; ".join(filter(None, (modes_in_words(modes), note)))
    return replace(one, suspected=suspected, forecast=_forecast(analysis, looks, run), two_modes=modes, note=note)


def _with_figures(bare: Comparison, analysis: CaseAnalysis, looks: Looks, run: _Run) -> Comparison:
    """The comparison with its figures. The smallest detectable change is that of one confirmation look at as many
    samples as the figures have, for this case alone in its run."""
    figures, stage, confidence = _shown(analysis, looks, run.alpha)
    if figures is None:
        if not bare.samples:
            return bare
        only = bare.samples[-1]
        return replace(bare, ratio=as_ratio(only.log_ratio), control=only.control, treatment=only.treatment)
    test = analysis.test
    share = (looks.weight if run.retest else looks.tested)("confirmation", figures.n)
    return replace(
        bare,
        ratio=as_ratio(figures.trimmed_mean.estimate),
        ci=(as_ratio(figures.interval[0]), as_ratio(figures.interval[1])),
        confidence=confidence,
        p_value=test.p_value if test.looked else None,
        q_value=analysis.q_value if test.looked else None,
        mde=minimal_detectable_change(figures.trimmed_mean, bare.threshold, run.alpha / run.family * share),
        control=figures.control,
        treatment=figures.treatment,
        decided_on=stage,
    )


def _suspected(one: Comparison) -> Verdict | None:
    """What a case looks like that stays open: its interval, or without one its ratio, lies beyond the threshold."""
    if one.verdict != "inconclusive" or one.ratio is None:
        return None
    low, high = one.ci or (one.ratio, one.ratio)
    better = one.measure.lower_is_better
    if low > 1 + one.threshold:
        return "regressed" if better else "improved"
    if high < 1 / (1 + one.threshold):
        return "improved" if better else "regressed"
    return None


def _forecast(analysis: CaseAnalysis, looks: Looks, run: _Run) -> Forecast | None:
    """What would settle a case that may have more rounds."""
    test = analysis.test
    spent = test.exhausted or test.futile
    if analysis.verdict != "inconclusive" or spent or test.figures is None or test.shown is None:
        return None
    terms = Terms(math.log1p(analysis.case.threshold), looks, run.alpha, (1 + run.flagged) / run.family)
    return project(CaseState(test.figures.trimmed_mean, test.shown, test.stage, test.n), terms)


def _shown(analysis: CaseAnalysis, looks: Looks, alpha: float) -> tuple[EffectEstimate | None, Stage | None, float]:
    """The evidence that goes with the verdict, the stage that it is of, and its interval's confidence: of a flagged
    case, the look that flagged it."""
    test = analysis.test
    if analysis.verdict in FLAGGED and test.decisive:
        stage = test.decisive.stage
        share = looks.screening_share if stage == "screening" else 1.0
        return test.decisive.effect(), stage, 1 - share * alpha
    return test.figures, test.shown, 1 - alpha
