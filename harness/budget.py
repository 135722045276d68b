"""Time budgets: which cases still get to their next look, the largest suspects first; and what would settle the cases
that a run left open, in seconds and as a time budget."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from opduel.comparator import Looks, in_words
from opduel.harness.blocks import CaseRequest
from opduel.harness.round_duration import Load, RoundDuration
from opduel.records import Case, Comparison

SPENT_S = 1.0  # with less left than this, a budget is spent
# What is kept of a time budget for profiles, which are made after measuring: no more than a share, and no more than
# starting two workers takes on a busy machine, and profiling each case.
PROFILING_SHARE = 0.25
PROFILING_START_S = 10.0
PROFILING_CASE_S = 3.0
MOST = 0.8  # of the cases that can be settled: what a run's time budget is named for
ROUNDED_TO_S = 10
NO_TIME_LEFT = "the time budget was spent"


@dataclass(frozen=True)
class Trip:
    """A case on its way to its next look.

    ``missing``: rounds to it. ``excess``: of a suspect, by how much the interval that made it one lies beyond the
    threshold (a log ratio, negative if it doesn't); None of a case that is being screened.  ``closes``: whether its
    stage has had a look, so that rounds that don't take it to the next one count all the same (``Looks.closing``).
    """

    request: CaseRequest
    missing: int
    excess: float | None
    closes: bool


def affordable(trips: Sequence[Trip], left_s: float, pace: RoundDuration, resumable: bool) -> list[Trip]:
    """Those that the time left takes to their next look; all of them, if it does.

    Else the suspects, the largest first, and then the others in the order given, each as long as there is time for it.
    Nothing here depends on samples that a coming look will test: a suspect's size is that of its screening, and the
    others' order must be drawn without looking at them.  So the data under test don't choose the times of looks.

    Where no case gets to its next look, those for which single rounds count, as many as one round has time for:
    ``resumable`` says that a later start goes on with them, so that all rounds do.
    """
    if pace.seconds((trip.request.case, trip.missing) for trip in trips) <= left_s:
        return list(trips)
    ordered = sorted(trips, key=lambda trip: (trip.excess is None, -(trip.excess or 0.0)))
    whole = _fitting([(trip, trip.missing) for trip in ordered], left_s, pace)
    return whole or _fitting([(trip, 1) for trip in ordered if trip.closes or resumable], left_s, pace)


def _fitting(trips: Sequence[tuple[Trip, int]], left_s: float, pace: RoundDuration) -> list[Trip]:
    """Those that fit, one after the other, each for so many rounds."""
    load, chosen = Load(pace), []
    for trip, rounds in trips:
        more = load.with_case(trip.request.case, rounds)
        if more.seconds <= left_s:
            load = more
            chosen.append(trip)
    return chosen


def kept_for_profiling(time_budget: float | None, cases: int) -> float:
    """Seconds of a time budget that measuring leaves for profiling so many cases after it; 0 without a budget."""
    if time_budget is None or not cases:
        return 0.0
    return min(PROFILING_SHARE * time_budget, PROFILING_START_S + PROFILING_CASE_S * cases)


def with_profiling(measuring_s: float, cases: int) -> float:
    """The time budget that leaves so many seconds for measuring: the reverse of ``kept_for_profiling``."""
    if not cases:
        return measuring_s
    return min(measuring_s / (1 - PROFILING_SHARE), measuring_s + PROFILING_START_S + PROFILING_CASE_S * cases)


def spent_words(budget: str, left_s: float, needed_s: float | None) -> str:
    """Why a run ended: ``budget`` names it ("the time budget of 90 s"); ``needed_s``: what the shortest round takes."""
    if needed_s is None or left_s < SPENT_S:
        return f"{budget} was spent"
    return f"{left_s:.0f} s of {budget} are left, and the next round takes about {needed_s:.0f} s"


def with_seconds(
    comparisons: Sequence[Comparison], cases: Mapping[str, Case], pace: RoundDuration | None, looks: Looks
) -> list[Comparison]:
    """The comparisons, the forecasts of open ones with the time that they take, in figures and in the note."""
    needs = [(cases[one.case], one.forecast.rounds) for one in comparisons if one.forecast and one.forecast.rounds]
    until = pace.until(needs) if pace and pace.usual_s else {}
    result = []
    for one in comparisons:
        if one.forecast is not None:
            forecast = replace(one.forecast, seconds=until.get(one.case))
            words = in_words(forecast, looks.of_metric(one.metric).confirmation[-1])
            one = replace(one, forecast=forecast, note="; ".join(filter(None, (one.note, words))))
        result.append(one)
    return result


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
