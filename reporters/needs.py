"""What would decide the cases that a run left undecided: time, rounds or a threshold, as the option to give."""

import math
import re

from opduel.records import SAMPLED, Comparison, Report, verdict_words
from opduel.support.text import duration

_ROUNDED_TO_S = 10  # of a time above a minute, and of a time budget
_FIRST_ROUNDS = 3  # of counts, before a first verdict
_TOO_LONG = 10  # times the time budget: then fewer cases help more than time


def needs_of(report: Report) -> dict[str, str]:
    """Return by case id what an undecided case needs: ``about 2 min more: --time_budget 180``, or ``about 7 s more:
    repeat the command`` where that goes on from the rounds of this run. Cases that the same option would decide have
    the same words."""
    most_s = _seconds_for_most(report)
    words = ((comparison.case, _needs(comparison, report, most_s)) for comparison in report.comparisons)
    return {case_id: needs for case_id, needs in words if needs}


def reason_and_needs(comparison: Comparison, needs: str, count: int = 1) -> str:
    """Return why a case, or ``count`` cases, is undecided, and what it needs; the note alone of one that needs
    nothing. What disturbed the run, so that a verdict was held back, is said of the run."""
    if comparison.held_back is not None and comparison.verdict == "inconclusive" and comparison.verification is None:
        return f"held back: would be {verdict_words(comparison.held_back, comparison.metric)} on a quieter machine"
    note = comparison.note if count == 1 else re.sub("^looks ", "look ", comparison.note)
    return "; ".join(filter(None, (note, needs and f"{'needs' if count == 1 else 'need'} {needs}")))


def time_line(report: Report) -> str:
    """Return in which time most of the undecided cases would be decided, with the option; empty if that is unknown."""
    forecast, most_s = report.run.forecast, _seconds_for_most(report)
    if forecast is None or not forecast.time_budget:
        return ""
    need = f"more time: --time_budget {forecast.time_budget:g}"
    if most_s is not None:
        need = _time_words(most_s, report, most_s)
    cases = f"{forecast.settles} of {forecast.open} undecided cases need"
    return f"{'1 undecided case needs' if forecast.open == 1 else cases} {need}"


def _seconds_for_most(report: Report) -> float | None:
    """Return the seconds after which most undecided cases would be decided, for which the report proposes a budget."""
    forecasts = [comparison.forecast for comparison in report.comparisons if comparison.forecast]
    seconds = sorted(forecast.seconds for forecast in forecasts if forecast.seconds is not None)
    settles = (report.run.forecast and report.run.forecast.settles) or len(seconds)
    return seconds[min(settles, len(seconds)) - 1] if seconds else None


def _needs(comparison: Comparison, report: Report, most_s: float | None) -> str:
    """Return what a case needs; empty if it is decided, or if that can't be said."""
    if comparison.held_back is not None and comparison.verdict == "inconclusive":
        return "a quieter machine"
    is_open = comparison.verdict == "inconclusive" or comparison.suspected is not None
    if not is_open or comparison.metric not in SAMPLED:
        return ""
    forecast = comparison.forecast
    if forecast is not None and forecast.rounds is not None:
        if forecast.seconds is None or most_s is None:
            return _unknown_time_words(comparison, report)
        return _time_words(max(forecast.seconds, most_s), report, most_s)
    if comparison.verification is not None or not comparison.rounds:
        return ""
    looks = report.run.looks.by_metric.get(comparison.metric, report.run.looks)
    most = looks.counts[-1] if looks.counts else comparison.rounds
    threshold = None if comparison.suspected or comparison.ci is None else _threshold(comparison.ci)
    options = [] if threshold is None else [f"a threshold of {threshold} %: --threshold {threshold}%"]
    if comparison.measure.noisy and (comparison.suspected or comparison.rounds >= most):
        options.append(f"more rounds: --max_rounds {2 * most}")
    return ", or ".join(options) or "a quieter machine"


def _threshold(interval: tuple[float, float]) -> int | None:
    """Return the threshold, in %, within which the interval would lie; None for one that says little."""
    low, high = interval
    percent = 100 * max(high - 1, 1 / low - 1) if low > 0 else math.inf
    return math.ceil(percent) if percent <= 50 else None


def _time_words(needed_s: float, report: Report, most_s: float) -> str:
    """Return a time, with what gives it: an option, the same command where it goes on from here, or fewer cases."""
    words = f"about {duration(math.ceil(needed_s) if needed_s <= 60 else _rounded(needed_s))} more"
    forecast = report.run.forecast
    if forecast is None or forecast.time_budget is None:
        return words
    if report.configuration.time_budget is None:
        return f"{words}: let the run end"
    own_budget_s = report.configuration.time_budget - (report.run.earlier_budget or 0.0)
    proposed_s = forecast.time_budget if forecast.further is None else forecast.further
    budget_s = _rounded(proposed_s + needed_s - most_s)
    if budget_s > _TOO_LONG * own_budget_s and (fewer := _fewer_cases(report)):
        return f"{words}: {fewer} instead"
    if forecast.further is None:
        return f"{words}: --time_budget {budget_s}"
    if budget_s > own_budget_s:
        return f"about {duration(budget_s)} more: repeat the command with --time_budget {budget_s}"
    return f"{words}: repeat the command"


def _unknown_time_words(comparison: Comparison, report: Report) -> str:
    """Return what a case needs of which it isn't known how long its rounds take."""
    if not report.configuration.time_budget:
        return "more time"
    fewer = "" if comparison.rounds else _fewer_cases(report)
    goes_on = report.run.forecast is not None and report.run.forecast.further is not None
    more = "repeat the command" if goes_on else "a larger --time_budget"
    if goes_on and not any(other.rounds for other in report.comparisons):  # it may be too short for a single round
        own_budget_s = report.configuration.time_budget - (report.run.earlier_budget or 0.0)
        more += f" with --time_budget {_rounded(_FIRST_ROUNDS * own_budget_s)}"
    return f"more time: {more}{f', or {fewer}' if fewer else ''}"


def _fewer_cases(report: Report) -> str:
    """Return how to choose some of a report's cases; empty if it has one."""
    if len(report.comparisons) < 2:
        return ""
    configuration = report.configuration
    if configuration.statement:
        return "measure fewer lines of code"
    return f"choose cases with {'--bench' if configuration.suite else '--operators'}"


def _rounded(seconds: float) -> int:
    return _ROUNDED_TO_S * math.ceil(seconds / _ROUNDED_TO_S)
