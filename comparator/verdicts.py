"""The comparisons of a run that has ended."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from opduel.comparator.effect_estimate import EffectEstimate, as_ratio, minimal_detectable_change
from opduel.comparator.empirical_bayes import Prior
from opduel.comparator.explanations import explain
from opduel.comparator.looks import Looks
from opduel.comparator.modes import in_words as modes_in_words
from opduel.comparator.modes import modes_of
from opduel.comparator.predictive_power import Terms, project
from opduel.comparator.run_analysis import CaseAnalysis, analyse_run
from opduel.records import FLAGGED, ONE_SIDED, Case, Comparison, Failure, Forecast, PairSample, Verdict


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
    """Return the comparison of each case, in the order of ``cases``, when no more samples will come.

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
        family = [analysis for analysis in analyses if (analysis.case.id in apart) == separate]
        flagged = sum(analysis.verdict in FLAGGED for analysis in family)
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
        comparisons.append(bare if bare.failure else _with_all(bare, analysis, looks.of_metric(case.metric), run))
    return comparisons


@dataclass(frozen=True)
class _Run:
    """A family of comparisons: its level, its size, how many of this run's cases in it are flagged, and whether they
    are a replication."""

    alpha: float
    family: int
    flagged: int
    retest: bool


def _with_all(bare: Comparison, analysis: CaseAnalysis, looks: Looks, run: _Run) -> Comparison:
    """Return the comparison with its figures and, if it is open, the reason and a forecast."""
    comparison = _with_figures(bare, analysis, looks, run)
    suspected = _suspected(comparison)
    if suspected == "regressed" and comparison.verdict == "not_better":  # which would hide the suspicion
        comparison = replace(comparison, verdict="inconclusive")
    note = explain(analysis, looks, run.family, run.alpha, suspected)
    is_open = suspected is not None or comparison.verdict == "inconclusive"
    modes = modes_of(comparison.samples) if is_open and comparison.measure.noisy else {}
    note = "; ".join(filter(None, (modes_in_words(modes), note)))
    forecast = _forecast(analysis, looks, run, suspected is not None) if is_open else None
    return replace(comparison, suspected=suspected, forecast=forecast, two_modes=modes, note=note)


def _with_figures(bare: Comparison, analysis: CaseAnalysis, looks: Looks, run: _Run) -> Comparison:
    """Return the comparison with its figures. The minimum detectable effect is that of one look at as many samples as
    the figures have, as if this case alone had changed."""
    test, figures = analysis.test, _evidence_of_verdict(analysis)
    if figures is None:
        if not test.n:
            return bare
        only = bare.samples[-1]
        return replace(bare, ratio=as_ratio(only.log_ratio), control=only.control, treatment=only.treatment)
    alpha = run.alpha / run.family * looks.weight(figures.n)
    stages = [sample.stage for sample in bare.samples]
    return replace(
        bare,
        ratio=as_ratio(figures.trimmed_mean.estimate),
        ci=(as_ratio(figures.interval[0]), as_ratio(figures.interval[1])),
        confidence=1 - run.alpha,
        p_value=test.p_value if test.looked else None,
        q_value=analysis.q_value if test.looked else None,
        mde=minimal_detectable_change(figures.trimmed_mean, bare.threshold, alpha),
        control=figures.control,
        treatment=figures.treatment,
        decided_on="confirmation" if run.retest else stages[figures.n - 1],
    )


def _evidence_of_verdict(analysis: CaseAnalysis) -> EffectEstimate | None:
    """Return the estimate that goes with the verdict; for a flagged case, at the look that flagged it."""
    if analysis.verdict in FLAGGED:
        return analysis.test.decisive
    if analysis.verdict in ONE_SIDED:
        return analysis.not_worse if analysis.verdict == "not_worse" else analysis.not_better
    return analysis.test.figures


def _suspected(comparison: Comparison) -> Verdict | None:
    """Return the verdict that an open case looks like: its interval, or else its ratio, lies beyond the threshold."""
    if comparison.verdict not in ("inconclusive", *ONE_SIDED) or comparison.ratio is None:
        return None
    low, high = comparison.ci or (comparison.ratio, comparison.ratio)
    better = comparison.measure.lower_is_better
    if low > 1 + comparison.threshold:
        return "regressed" if better else "improved"
    if high < 1 / (1 + comparison.threshold):
        return "improved" if better else "regressed"
    return None


def _forecast(analysis: CaseAnalysis, looks: Looks, run: _Run, suspected: bool) -> Forecast | None:
    """Return what would settle a case; None if it gets no more rounds."""
    test = analysis.test
    if test.exhausted or test.futile or test.figures is None:
        return None
    terms = Terms(math.log1p(analysis.case.threshold), looks, run.alpha, (1 + run.flagged) / run.family)
    return project(test.figures.trimmed_mean, test.n, terms, suspected)
