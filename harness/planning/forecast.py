"""The time that a run is likely to take, by what earlier runs and its own rounds say of its cases' costs and noise.

For planning and telling alone: no verdict depends on it.
"""

import math
import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from opduel.comparator import Looks
from opduel.harness.planning.effort import RoundsToGoal, most_informative
from opduel.harness.planning.effort_planner import EffortPlanner
from opduel.records import DEFAULT_METRIC, Case, PairSample
from opduel.support.text import counted, duration, rough_duration

# Cases take so many times as long as their rounds to the usual precision, in the median of 33 runs (proof.md): some
# take a further look, and the first forks of others say too little of their noise.
FURTHER_LOOKS = 2.0
LONG_S = 600.0  # from which on a run needs a time budget more than patience


@dataclass(frozen=True)
class RunForecast:
    """What measuring cases is likely to take, if none has changed and there is no time budget.

    ``rounds``: by case id, those to come until the case is precise enough for its threshold, or given up; ``settles``:
    the ids of the cases that come to it; ``seconds``: by case id, of the measuring processor; ``total_s``: of wall time
    for all of them; ``known_cases``: how many cases something is known of.
    """

    rounds: Mapping[str, int]
    settles: frozenset[str]
    seconds: Mapping[str, float]
    total_s: float
    known_cases: int


def forecast_run(
    planner: EffortPlanner, cases: Sequence[Case], samples: Mapping[str, Sequence[PairSample]], looks: Looks
) -> RunForecast | None:
    """Return what is to come for these cases; None if nothing is known of any.

    A case that nothing is known of, or that is measured without blocks, is taken to need what the others of its metric
    need, or its first look.
    """
    known_cases = [case for case in cases if planner.knows(case)]
    if not known_cases:
        return None
    rounds, seconds, settles = dict[str, int](), dict[str, float](), set[str]()
    for case in known_cases:
        measured, counts = len(samples.get(case.id, ())), looks.of_metric(case.metric).counts
        to_look = max(0, next((count for count in counts if count > measured), counts[-1]) - measured)
        needed = planner.rounds_to_goal(case, samples.get(case.id, ()), counts)
        rounds[case.id] = max(needed.rounds, to_look) if needed else to_look
        if needed and needed.rounds >= to_look:
            seconds[case.id] = _at_most_s(planner, case, counts[-1] - measured, needed)
        else:
            seconds[case.id] = to_look * _round_s(planner, case)
        settles |= {case.id} if needed else set()
    usual_rounds, usual_s = statistics.median_high(rounds.values()), statistics.median(seconds.values())
    for case in cases:
        if case.id not in rounds:
            first = max(0, looks.of_metric(case.metric).counts[0] - len(samples.get(case.id, ())))
            rounds[case.id] = max(first, usual_rounds) if case.metric == DEFAULT_METRIC else first
            seconds[case.id] = usual_s
    most = max(rounds.values())
    waiting_s = most * planner.start_s  # of each round: its pair starts while the one before is measured
    total_s = max(waiting_s, FURTHER_LOOKS * sum(seconds.values()))
    return RunForecast(rounds, frozenset(settles), seconds, total_s, len(known_cases))


def _at_most_s(planner: EffortPlanner, case: Case, rounds_left: int, needed: RoundsToGoal) -> float:
    """Return the seconds of the rounds to the goal; where pairs vary by nearly all that the goal allows, ever more
    forks would be needed: then no more than all of the case's rounds take as they bring the most information."""
    noise, costs = planner.noise[case.id], planner.costs[case.id]
    return min(needed.seconds, max(0, rounds_left) * costs.of_round(most_informative(noise, costs)))


def _round_s(planner: EffortPlanner, case: Case) -> float:
    return planner.round_s(case.id) if case.id in planner.planned else planner.costs[case.id].of_pilot()


def settled_first(cases: Sequence[Case], forecast: RunForecast) -> list[Case]:
    """Return the cases, those first that are likely to be settled, the cheapest of them first."""
    return sorted(cases, key=lambda case: forecast.seconds[case.id] if case.id in forecast.settles else math.inf)


def outlook_words(
    forecast: RunForecast,
    cases: Sequence[Case],
    planner: EffortPlanner,
    left_s: float,
) -> str:
    """Say which cases this host can settle in which time, and what to change if that is not all of them.

    ``left_s``: of the time budget; infinite without one.
    """
    timed = [case for case in cases if planner.knows(case)]
    open_for_good = [case for case in timed if case.id not in forecast.settles]
    hopeless = [case for case in open_for_good if case.threshold > 0]  # within 0 % nothing can be shown to lie
    total = rough_duration(forecast.total_s)  # as the first rounds have it
    count = len(forecast.rounds) - len(open_for_good)
    of_all = f"{count} of {counted(len(forecast.rounds), 'case')}"
    words = f"{total} more to settle {of_all} if none has changed"
    if forecast.total_s > left_s:
        left = duration(max(0, math.ceil(left_s)))
        words += f", {left} left: give a larger --time_budget, a larger --threshold or fewer cases"
    elif forecast.total_s > LONG_S and left_s == math.inf:
        words += ": --time_budget SECONDS ends it before, and answers first what is cheapest"
    if hopeless:
        named = hopeless[0].id if len(hopeless) == 1 else f"{hopeless[0].id} and {len(hopeless) - 1} more"
        words += f"; too noisy for their --threshold: {named}"
    return words
