"""The notes of cases that are still open: why, and what would settle them.

All reporters show them as ``Comparison.note``.
"""

import math

from opduel.comparator.case_analysis import CaseAnalysis
from opduel.comparator.effect_estimate import EffectEstimate, as_ratio
from opduel.comparator.group_sequential import SequentialTest
from opduel.comparator.looks import FRESH_PAIRS
from opduel.records import ONE_SIDED, Forecast, Metric, Verdict
from opduel.support.text import duration


def explain(analysis: CaseAnalysis, family: int, alpha: float, suspected: Verdict | None) -> str:
    """Return the note of a case in a run of ``family`` cases; empty where there is nothing to add."""
    side = analysis.not_worse if analysis.verdict == "not_worse" else analysis.not_better
    if analysis.verdict in ONE_SIDED and side is not None and not suspected:
        return _range_in_words(side, analysis.case.measure)
    if analysis.verdict not in ("inconclusive", *ONE_SIDED):
        return ""
    test = analysis.test
    if test.looked:
        why = _why_open(analysis, family, alpha)
    elif test.n:
        rounds_made = f"{test.n} {'was' if test.n == 1 else 'were'} made before the run ended"
        why = f"its first look takes {analysis.looks.counts[0]} rounds, and {rounds_made}"
    else:
        why = f"the run ended before this case was measured; its first look takes {analysis.looks.counts[0]} rounds"
    return f"looks {suspected}, but is not settled: {why}" if suspected else why


def _range_in_words(effect: EffectEstimate, measure: Metric) -> str:
    """Return ``faster by 0.4 to 2.2 %``, ``between 2.2 % faster and 1.1 % slower``, or differences."""
    if effect.reference is not None:
        low_words, high_words = (_in_words(limit, effect, measure.unit) for limit in effect.interval)
        return f"between {low_words} and {high_words}"
    low, high = (100 * (as_ratio(limit) - 1) for limit in effect.interval)
    more, less = (measure.worse, measure.better) if measure.lower_is_better else (measure.better, measure.worse)
    digits = 1 if max(-low, high) >= 1 else 2
    if low < 0 < high:
        return f"between {-low:.{digits}f} % {less} and {high:.{digits}f} % {more}"
    near, far = sorted((abs(low), abs(high)))
    return f"{more if low >= 0 else less} by {near:.{digits}f} to {far:.{digits}f} %"


def describe_forecast(forecast: Forecast, most: int) -> str:
    """Return in words what would settle an open case; ``most``: the rounds that a case may have."""
    if forecast.rounds is None and forecast.chance < 0.005:
        return f"the {most} rounds that a case may have would not settle it: allow more with --max_rounds"
    if forecast.rounds is None:
        return f"with all {most} rounds, the chance to settle it is {forecast.chance:.0%}"
    rounds = f"{forecast.rounds} more round{'' if forecast.rounds == 1 else 's'}"
    if forecast.seconds is None:
        return f"about {rounds} would likely settle it"
    return f"about {duration(math.ceil(forecast.seconds))} more ({rounds}) would likely settle it"


def _why_open(analysis: CaseAnalysis, family: int, alpha: float) -> str:
    """Return what the interval lacks for a verdict, and why the case gets no more rounds."""
    test, threshold = analysis.test, analysis.case.threshold
    figures = test.figures
    if figures is None:
        return ""
    low, high = figures.interval
    up, down = figures.bound, -figures.bound
    low_words, high_words, up_words, down_words = (
        _in_words(effect, figures, analysis.case.measure.unit) for effect in (low, high, up, down)
    )
    interval = f"the interval, {low_words} to {high_words},"
    if low > up or high < down:
        lacking = f"{interval} lies beyond the threshold of {up_words if low > up else down_words}, but "
        if not test.confirmed:
            lacking += f"at least {FRESH_PAIRS} later rounds have to agree"
        elif family == 1:
            lacking += f"p = {test.p_value:.2g} is not below {alpha:g}"
        else:
            lacking += f"not clearly enough among {family} cases (q = {analysis.q_value:.2g}, needed: {alpha:g})"
    elif threshold == 0:
        lacking = f"{interval} includes 0, and with a threshold of 0 nothing can be shown to be unchanged"
    elif low < down and high > up:
        lacking = f"too noisy: {interval} reaches beyond the threshold on both sides"
    else:
        lacking = f"{interval} includes the threshold of {up_words if high > up else down_words}"
    return f"{lacking}; {_rounds_made(test)}"


def _in_words(effect: float, figures: EffectEstimate, unit: str) -> str:
    """Return an effect as ``+5.3%``, or as a difference, ``+3 copies``."""
    change = figures.as_change(effect)
    return f"{change - 1:+.1%}" if figures.reference is None else f"{change:+.3g} {unit}".rstrip()


def _rounds_made(test: SequentialTest) -> str:
    rounds = f"{test.n} rounds"
    if test.exhausted:
        return f"all {rounds} were used"
    if test.futile:
        return f"stopped after {rounds}: more are unlikely to settle it"
    return f"{rounds} were made before the run ended"
