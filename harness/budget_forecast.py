"""What would settle the cases that a run left open: rounds become seconds, and seconds a time budget."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from opduel.comparator import Looks, in_words
from opduel.harness.budget import with_profiling
from opduel.harness.round_duration import RoundDuration
from opduel.records import Case, Comparison

MOST = 0.8  # of the cases that can be settled: what a run's time budget is named for
ROUNDED_TO_S = 10


def with_seconds(
    comparisons: Sequence[Comparison], cases: Mapping[str, Case], pace: RoundDuration | None, looks: Looks
) -> list[Comparison]:
    """The comparisons, the forecasts of open ones with the time that they take, in figures and in the note."""
    needs = [(cases[one.case], one.forecast.rounds) for one in comparisons if one.forecast and one.forecast.rounds]
    until = pace.until(needs) if pace and pace.usual_s else {}
    return [_told(one, until.get(one.case), looks) for one in comparisons]


def budget_for(
    comparisons: Sequence[Comparison], wall_s: float, share: float, profiled: int = 0
) -> dict[str, Any] | None:
    """The report's ``run["forecast"]``: the time budget that would settle most of the open cases that can be settled.

    ``wall_s`` is what the run has taken; ``share``: the part of a budget that its first measurement gets; ``profiled``:
    how many cases are profiled after it.
    """
    open_cases = [one for one in comparisons if one.forecast]
    ends = sorted(one.forecast.seconds for one in open_cases if one.forecast and one.forecast.seconds is not None)
    if not ends:
        return None
    settles = math.ceil(MOST * len(ends))
    whole = with_profiling((wall_s + ends[settles - 1]) / share, profiled)
    budget = ROUNDED_TO_S * math.ceil(whole / ROUNDED_TO_S)
    return {"time_budget": float(budget), "settles": settles, "open": len(open_cases)}


def _told(one: Comparison, seconds: float | None, looks: Looks) -> Comparison:
    if one.forecast is None:
        return one
    forecast = replace(one.forecast, seconds=seconds)
    words = in_words(forecast, looks.of_metric(one.metric).confirmation[-1])
    return replace(one, forecast=forecast, note="; ".join(filter(None, (one.note, words))))
