"""The notes of cases that are still open: why they are.

All reporters show them as ``Comparison.note``, beside what would settle the case (``Comparison.forecast``).
"""

from opduel.comparator.case_analysis import CaseAnalysis
from opduel.comparator.effect_estimate import EffectEstimate, as_ratio
from opduel.comparator.looks import FRESH_PAIRS
from opduel.records import ONE_SIDED, Metric, Verdict
from opduel.support.text import counted


def explain(analysis: CaseAnalysis, family: int, suspected: Verdict | None) -> str:
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
    """Return ``faster by 0.4 to 2.2 %``, ``between 2.2 % faster and 1.1 % slower``, or differences."""
    if effect.reference is not None:
        low_words, high_words = (f"{effect.as_change(limit):+.3g} {measure.unit}".rstrip() for limit in effect.interval)
        return f"between {low_words} and {high_words}"
    low, high = (100 * (as_ratio(limit) - 1) for limit in effect.interval)
    digits = 1 if max(-low, high) >= 1 else 2
    rise, fall = _directions(measure)
    if low < 0 < high:
        return f"between {-low:.{digits}f} % {fall} and {high:.{digits}f} % {rise}"
    near, far = sorted((abs(low), abs(high)))
    return f"{rise if low >= 0 else fall} by {near:.{digits}f} to {far:.{digits}f} %"


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
        lacking = f"may be more than {100 * (as_ratio(bound) - 1):.3g} % {' or '.join(directions)}"
    else:
        lacking = f"may differ by more than {figures.as_change(bound):.3g} {measure.unit}".rstrip()
    if test.exhausted:
        return f"{lacking}; all {test.n} rounds are used"
    return f"{lacking}; given up after {test.n} rounds" if test.futile else lacking
