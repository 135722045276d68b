"""The comparison of a case in a run that has ended: its figures, and why it is open if it is.

All reporters show the note beside what would settle the case (``Comparison.forecast``).
"""

from dataclasses import dataclass, replace

from opduel.comparator.case_analysis import CaseAnalysis
from opduel.comparator.case_values import Values
from opduel.comparator.effect_estimate import EffectEstimate, as_ratio, minimal_detectable_change
from opduel.comparator.looks import FRESH_PAIRS
from opduel.comparator.modes import describe_modes, modes_of
from opduel.comparator.predictive_power import project
from opduel.records import ONE_SIDED, Comparison, Forecast, Metric, Verdict
from opduel.support.text import counted


@dataclass(frozen=True)
class Family:
    """The family of a comparison: its level, its size, how many of this run's cases in it are flagged, whether they
    are a replication, and the comparison's own weight in the correction, 1 on average."""

    alpha: float
    size: int
    flagged: int
    is_replication: bool
    weight: float

    def share(self, flagged: int) -> float:
        """Return the share of the error with which the comparison would be flagged as one of so many."""
        return min(1.0, flagged * self.weight / self.size)


def compare_case(bare: Comparison, analysis: CaseAnalysis, family: Family) -> Comparison:
    """Return the comparison with its figures and, if it is open, the reason and a forecast."""
    comparison = _with_figures(bare, analysis, family)
    suspected = _suspected(comparison, analysis)
    if suspected == "regressed" and comparison.verdict == "not_better":  # which would hide the suspicion
        comparison = replace(comparison, verdict="inconclusive")
    note = _explain(analysis, family.size, suspected)
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
    alpha = family.alpha * family.share(1) * analysis.looks.weight(figures.n)
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
    flagged_at = family.share(1 + family.flagged) if suspected else None
    return project(test.figures.trimmed_mean, test.figures.bound, analysis.looks, family.alpha, flagged_at)


def _explain(analysis: CaseAnalysis, family: int, suspected: Verdict | None) -> str:
    """Return the note of a case in a run of ``family`` cases; empty where there is nothing to add."""
    side = analysis.not_worse if analysis.verdict == "not_worse" else analysis.not_better
    if analysis.verdict in ONE_SIDED and side is not None and not suspected:
        return _range_in_words(side, analysis.case.measure)
    if analysis.verdict not in ("inconclusive", *ONE_SIDED):
        return ""
    if analysis.test.looked:
        why = _why_open(analysis, family)
    elif n := analysis.test.n:
        then = f", and then {FRESH_PAIRS} that agree" if suspected and analysis.case.measure.noisy else ""
        enough = f"a verdict takes {analysis.looks.counts[0]}{then}"
        why = f"{counted(n, 'round')} {'is' if n == 1 else 'are'} too few: {enough}"
    else:
        why = "not measured before the run ended"
    return f"looks {suspected}, but {why}" if suspected else why


def _range_in_words(effect: EffectEstimate, measure: Metric) -> str:
    """Return ``faster by 0.4 to 2.2 % (threshold 2 %)``, ``between 2.2 % faster and 1.1 % slower`` likewise, or
    differences."""
    is_open = max(map(abs, effect.interval)) > effect.bound > 0
    beyond = f" (threshold {_bound_in_words(effect, measure)})" if is_open else ""
    if effect.reference is not None:
        low_words, high_words = (f"{effect.as_change(limit):+.3g} {measure.unit}".rstrip() for limit in effect.interval)
        return f"between {low_words} and {high_words}{beyond}"
    low, high = (100 * (as_ratio(limit) - 1) for limit in effect.interval)
    digits = 1 if max(-low, high) >= 1 else 2
    rise, fall = _directions(measure)
    if low < 0 < high:
        return f"between {-low:.{digits}f} % {fall} and {high:.{digits}f} % {rise}{beyond}"
    near, far = sorted((abs(low), abs(high)))
    return f"{rise if low >= 0 else fall} by {near:.{digits}f} to {far:.{digits}f} %{beyond}"


def _bound_in_words(effect: EffectEstimate, measure: Metric) -> str:
    if effect.reference is None:
        return f"{100 * (as_ratio(effect.bound) - 1):.3g} %"
    return f"{effect.as_change(effect.bound):.3g} {measure.unit}".rstrip()


def _directions(measure: Metric) -> tuple[str, str]:
    return (measure.worse, measure.better) if measure.lower_is_better else (measure.better, measure.worse)


def _why_open(analysis: CaseAnalysis, family: int) -> str:
    """Return what the case lacks for a verdict, and why it gets no more rounds."""
    test, threshold, measure = analysis.test, analysis.case.threshold, analysis.case.measure
    figures = test.figures
    if figures is None:
        return ""
    (low, high), bound = figures.interval, figures.bound
    rise, fall = _directions(measure)
    directions = [word for word, may_be in ((rise, high > bound), (fall, low < -bound)) if may_be]
    if low > bound or high < -bound:
        enough = f"not clearly enough among {family} cases" if family > 1 else "not clearly enough"
        lacking = enough if test.confirmed else f"{FRESH_PAIRS} rounds after those that show it have to agree"
    elif threshold == 0:
        lacking = "it may be equal, and with a threshold of 0 nothing can be shown to be unchanged"
    elif figures.reference is None:
        lacking = f"may be more than {_bound_in_words(figures, measure)} {' or '.join(directions)}"
    else:
        lacking = f"may differ by more than {_bound_in_words(figures, measure)}"
    if test.exhausted:
        return f"{lacking}; all {test.n} rounds are used"
    return f"{lacking}; given up after {test.n} rounds" if test.futile else lacking
