"""The comparison of a case in a run that has ended: its figures, and why it is open if it is."""

from dataclasses import dataclass, replace

from opduel.comparator.case_analysis import CaseAnalysis
from opduel.comparator.case_values import Values
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
    suspected = _suspected(comparison, analysis)
    if suspected == "regressed" and comparison.verdict == "not_better":  # which would hide the suspicion
        comparison = replace(comparison, verdict="inconclusive")
    note = explain(analysis, family.size, suspected)
    is_open = suspected is not None or comparison.verdict == "inconclusive"
    modes = modes_of(comparison.samples) if is_open and comparison.measure.noisy else {}
    note = "; ".join(filter(None, (describe_modes(modes), note)))
    forecast = _forecast(analysis, family, suspected is not None) if is_open else None
    return replace(comparison, suspected=suspected, forecast=forecast, two_modes=modes, note=note)


def _with_figures(bare: Comparison, analysis: CaseAnalysis, family: Family) -> Comparison:
    """Return the comparison with its figures. The minimum detectable effect is that of one look at as many samples as
    the figures have, as if this case alone had changed; there is none of differences."""
    test, figures = analysis.test, analysis.evidence
    if figures is None:
        if not test.n:
            return bare
        only = bare.samples[-1]
        bare = replace(bare, control=only.control, treatment=only.treatment)
        if Values.of(bare.samples).reference is None:
            return replace(bare, ratio=as_ratio(only.log_ratio))
        return replace(bare, difference=only.treatment - only.control)
    alpha = family.alpha / family.size * analysis.looks.weight(figures.n)
    stages = [sample.stage for sample in bare.samples]
    change, low, high = figures.changes
    if figures.reference is None:
        mde = minimal_detectable_change(figures.trimmed_mean, bare.threshold, alpha)
        bare = replace(bare, ratio=change, ci=(low, high), mde=mde)
    else:
        bare = replace(bare, difference=change, difference_ci=(low, high))
    return replace(
        bare,
        confidence=1 - family.alpha,
        p_value=test.p_value if test.looked else None,
        q_value=analysis.q_value if test.looked else None,
        control=figures.control,
        treatment=figures.treatment,
        decided_on="confirmation" if family.is_replication else stages[figures.n - 1],
    )


def _suspected(comparison: Comparison, analysis: CaseAnalysis) -> Verdict | None:
    """Return the verdict that an open case looks like: its interval, or else its only value, lies beyond the
    threshold."""
    if comparison.verdict not in ("inconclusive", *ONE_SIDED) or not analysis.test.n:
        return None
    values = Values.of(comparison.samples)
    low, high = analysis.evidence.interval if analysis.evidence else (values.effects[-1],) * 2
    better, bound = comparison.measure.lower_is_better, values.bound(comparison.threshold)
    if low > bound:
        return "regressed" if better else "improved"
    if high < -bound:
        return "improved" if better else "regressed"
    return None


def _forecast(analysis: CaseAnalysis, family: Family, suspected: bool) -> Forecast | None:
    """Return what would settle a case; None if it gets no more rounds."""
    test = analysis.test
    if test.exhausted or test.futile:
        return None
    if test.figures is None:  # nothing is known of its noise, and two looks settle most cases
        counts = analysis.looks.counts
        return Forecast(None, counts[min(1, len(counts) - 1)] - test.n)
    terms = Terms(test.figures.bound, analysis.looks, family.alpha, (1 + family.flagged) / family.size)
    return project(test.figures.trimmed_mean, test.n, terms, suspected)
