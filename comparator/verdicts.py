"""The comparison of a case in a run that has ended: its figures, and why it is open if it is."""

import math
from dataclasses import dataclass, replace

from opduel.comparator.case_analysis import CaseAnalysis
from opduel.comparator.effect_estimate import as_ratio, minimal_detectable_change
from opduel.comparator.explanations import explain
from opduel.comparator.modes import describe_modes, modes_of
from opduel.comparator.predictive_power import Terms, project
from opduel.records import ONE_SIDED, Comparison, Forecast, Verdict


@dataclass(frozen=True)
class Family:
    """A family of comparisons: its level, its size, how many of this run's cases in it are flagged, and whether they
    are a replication."""

    alpha: float
    size: int
    flagged: int
    is_replication: bool


def compare_case(bare: Comparison, analysis: CaseAnalysis, family: Family) -> Comparison:
    """Return the comparison with its figures and, if it is open, the reason and a forecast."""
    comparison = _with_figures(bare, analysis, family)
    suspected = _suspected(comparison)
    if suspected == "regressed" and comparison.verdict == "not_better":  # which would hide the suspicion
        comparison = replace(comparison, verdict="inconclusive")
    note = explain(analysis, family.size, family.alpha, suspected)
    is_open = suspected is not None or comparison.verdict == "inconclusive"
    modes = modes_of(comparison.samples) if is_open and comparison.measure.noisy else {}
    note = "; ".join(filter(None, (describe_modes(modes), note)))
    forecast = _forecast(analysis, family, suspected is not None) if is_open else None
    return replace(comparison, suspected=suspected, forecast=forecast, two_modes=modes, note=note)


def _with_figures(bare: Comparison, analysis: CaseAnalysis, family: Family) -> Comparison:
    """Return the comparison with its figures. The minimum detectable effect is that of one look at as many samples as
    the figures have, as if this case alone had changed."""
    test, figures = analysis.test, analysis.evidence
    if figures is None:
        if not test.n:
            return bare
        only = bare.samples[-1]
        return replace(bare, ratio=as_ratio(only.log_ratio), control=only.control, treatment=only.treatment)
    alpha = family.alpha / family.size * analysis.looks.weight(figures.n)
    stages = [sample.stage for sample in bare.samples]
    return replace(
        bare,
        ratio=as_ratio(figures.trimmed_mean.estimate),
        ci=figures.ratio_interval,
        confidence=1 - family.alpha,
        p_value=test.p_value if test.looked else None,
        q_value=analysis.q_value if test.looked else None,
        mde=minimal_detectable_change(figures.trimmed_mean, bare.threshold, alpha),
        control=figures.control,
        treatment=figures.treatment,
        decided_on="confirmation" if family.is_replication else stages[figures.n - 1],
    )


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


def _forecast(analysis: CaseAnalysis, family: Family, suspected: bool) -> Forecast | None:
    """Return what would settle a case; None if it gets no more rounds."""
    test = analysis.test
    if test.exhausted or test.futile or test.figures is None:
        return None
    terms = Terms(math.log1p(analysis.case.threshold), analysis.looks, family.alpha, (1 + family.flagged) / family.size)
    return project(test.figures.trimmed_mean, test.n, terms, suspected)
