"""Why a case stays open, in plain words; the one place for them: screens, pages and files show ``Comparison.note``."""

from opduel.comparator.effect_estimate import as_ratio
from opduel.comparator.looks import Looks
from opduel.comparator.run_analysis import CaseAnalysis
from opduel.records import Forecast, Verdict

LOOKS_LIKE: dict[Verdict, str] = {"regressed": "looks regressed", "improved": "looks improved"}


def explain(
    analysis: CaseAnalysis, looks: Looks, family: int, alpha: float, suspected: Verdict | None, retest: bool = False
) -> str:
    """The note of a case in a run of ``family`` cases; empty where there is nothing to add.

    ``retest``: the run is a verification.
    """
    if analysis.verdict != "inconclusive":
        return ""
    test = analysis.test
    if test.looked and (test.stage == "screening" or test.n >= looks.confirmation[0]):
        why = _why_open(analysis, looks, family, alpha)
    elif test.stage == "confirmation":
        why = ("" if retest else _unclear(family)) + _unconfirmed(test.n, looks.confirmation[0])
    else:
        why = _untested(test.n, looks.screening[0])
    return f"{LOOKS_LIKE[suspected]}, but is not settled: {why}" if suspected else why


def in_words(forecast: Forecast, most: int) -> str:
    """What it would take to settle an open case; ``most``: the rounds that a case may have in a stage."""
    if forecast.rounds is None:
        return f"with all {most} rounds of a stage, the chance to settle it is {forecast.chance:.0%}"
    rounds = f"{forecast.rounds} more round{'' if forecast.rounds == 1 else 's'}"
    if forecast.seconds is None:
        return f"about {rounds} would likely settle it"
    return f"about {duration(forecast.seconds)} more ({rounds}) would likely settle it"


def duration(seconds: float) -> str:
    """``40 s``, ``3 min``, ``2.5 h``: rounded up to what a forecast can claim to know."""
    if seconds < 90:
        return f"{max(5, 5 * -(-int(seconds) // 5))} s"
    if seconds < 90 * 60:
        return f"{-(-int(seconds) // 60)} min"
    return f"{seconds / 3600:.1f} h"


def _untested(made: int, first: int) -> str:
    """Of a case that has not come to its first look."""
    if not made:
        return f"the run ended before this case was measured; its first test takes {first} rounds"
    return f"its first test takes {first} rounds, and {_were(made)} made before the run ended"


def _were(made: int) -> str:
    return f"{made} was" if made == 1 else f"{made} were"


def _unclear(family: int) -> str:
    """Of a suspect: why the screening didn't settle it."""
    among = f" among {family} cases" if family > 1 else ""
    return f"looked changed at screening, but not clearly enough to be sure{among}; "


def _unconfirmed(made: int, first: int) -> str:
    """Of a case whose confirmation has not come to its first look."""
    return f"confirming it takes {first} fresh rounds, and {_were(made)} made before the run ended"


def _why_open(analysis: CaseAnalysis, looks: Looks, family: int, alpha: float) -> str:
    """Of a case that a look at its stage has left open: what its interval lacks, and why there are no more rounds."""
    test, threshold = analysis.test, analysis.case.threshold
    figures = test.figures
    if figures is None:
        return ""
    low, high = (as_ratio(limit) - 1 for limit in figures.interval)
    interval = f"the interval, {low:+.1%} to {high:+.1%},"
    up, down = threshold, 1 / (1 + threshold) - 1
    if low > up or high < down:
        lacking = f"{interval} lies beyond the threshold of {up if low > up else down:+.1%}, " + _not_enough(
            analysis, family, alpha
        )
    elif threshold == 0:
        lacking = f"{interval} includes 0, and with a threshold of 0 nothing can be shown to be unchanged"
    elif low < down and high > up:
        lacking = f"too noisy: {interval} reaches beyond the threshold on both sides"
    else:
        lacking = f"{interval} includes the threshold of {up if high > up else down:+.1%}"
    return f"{lacking}; {_rounds_made(analysis, looks)}"


def _not_enough(analysis: CaseAnalysis, family: int, alpha: float) -> str:
    """Why a case whose interval lies beyond the threshold isn't called changed."""
    if family == 1:
        return f"but p = {analysis.test.p_value:.2g} is not below {alpha:g}"
    return f"but not clearly enough among {family} cases (q = {analysis.q_value:.2g}, needed: {alpha:g})"


def _rounds_made(analysis: CaseAnalysis, looks: Looks) -> str:
    test = analysis.test
    stage = "screening" if test.stage == "screening" else "confirmation"
    made = f"{test.n} {stage} rounds"
    if test.exhausted:
        return f"all {made} were used"
    if test.futile:
        return f"stopped after {made}: more are unlikely to settle it"
    return f"{made} were made before the run ended"
