"""How long rounds take, and time budgets.

The former is learnt from rounds that were run.  It says which cases still get to their next look, the largest suspects
first, and what would settle those that a run left open.  Pure: no clock, seconds in and out.
"""

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import accumulate

from opduel.comparator import Looks, describe_forecast
from opduel.harness.processes.case_request import CaseRequest
from opduel.harness.rounds.pair import RoundResult
from opduel.records import Case, Comparison
from opduel.records.run_record import BudgetRecord

SPENT_S = 1.0  # with less left than this, a budget is spent
# What is kept of a time budget for profiles, which are made after measuring: no more than a share, and no more than
# starting two workers takes on a busy machine, and profiling each case.
PROFILING_SHARE = 0.25
PROFILING_START_S = 10.0
PROFILING_CASE_S = 3.0
EXPLAINED_METRICS = ("time", "instructions")  # whose changes get causes
# A time budget keeps time for so many causes, each of which takes as long as so many profiles (ten: less than 180 s).
MOST_EXPLAINED = 5
PROFILES_PER_CAUSE = 6
MOST = 0.8  # of the cases that can be settled: what a run's time budget is named for
ROUNDED_TO_S = 10
NO_TIME_LEFT = "the time budget was spent"

CanFork = Callable[[Case], bool]


@dataclass
class RoundDuration:
    """What starting a pair and measuring a case in a round took lately, by metric and by case; 0 before the first
    round."""

    can_fork: CanFork
    whole_start_s: dict[str, float] = field(default_factory=dict)  # with nothing measured meanwhile, at most
    last_start_s: dict[str, float] = field(default_factory=dict)  # what was left to wait for
    measured_s: dict[str, float] = field(default_factory=dict)  # what the last round took beside that
    case_s: dict[str, float] = field(default_factory=dict)  # by case id: in one round, as it is measured next
    usual_s: dict[str, float] = field(default_factory=dict)  # by metric: of a case that has not been measured

    def note(self, result: RoundResult, metric: str) -> None:
        """Take note of a round: what went into each case, all the rest of its time shared out evenly."""
        if not result.samples:
            return
        whole_s = result.start_s + self.measured_s.get(metric, 0.0)  # it went on while the round before was measured
        self.whole_start_s[metric] = min(whole_s, self.whole_start_s.get(metric, math.inf))
        self.last_start_s[metric] = result.start_s
        self.measured_s[metric] = result.wall_s - result.start_s
        measured = [sample.case_id for sample in result.samples]
        own_s = {case_id: _case_s(result, case_id) for case_id in measured}
        rest_s = max(0.0, result.wall_s - result.start_s - sum(own_s.values())) / len(measured)
        seconds = {case_id: own + rest_s for case_id, own in own_s.items()}
        self.case_s |= seconds
        self.usual_s[metric] = sum(seconds.values()) / len(seconds)

    def expect(self, case_id: str, seconds: float) -> None:
        """Take note of what the case's next round is planned to take."""
        self.case_s[case_id] = seconds

    def of(self, case: Case) -> float:
        """Seconds that a round spends on a case."""
        return self.case_s.get(case.id, self.usual_s.get(case.metric, 0.0))

    def start_s(self, metric: str, measured_s: float) -> float:
        """Seconds to wait for a pair whose start overlaps with so many seconds of measuring."""
        full_start_s = self.whole_start_s.get(metric, 0.0)
        return max(min(self.last_start_s.get(metric, 0.0), full_start_s), full_start_s - measured_s)

    def least_s(self, case: Case) -> float:
        """Seconds that the shortest round that measures a case takes."""
        return self.last_start_s.get(case.metric, 0.0) + self.of(case)

    def seconds(self, needs: Iterable[tuple[Case, int]]) -> float:
        """Seconds until each case has had so many further rounds, all of them being measured together."""
        load = Load(self)
        for case, rounds in needs:
            load.add(case, rounds)
        return load.seconds

    def until(self, needs: Sequence[tuple[Case, int]]) -> dict[str, float]:
        """By case id, the seconds until it has had its rounds, all of them being measured together."""
        load = Load(self)
        for case, rounds in needs:
            load.add(case, rounds)
        seconds_after_rounds = [0.0, *accumulate(map(sum, zip(load.alone_s, load.together_s, strict=True)))]
        return {case.id: seconds_after_rounds[rounds] for case, rounds in needs}


def _case_s(result: RoundResult, case_id: str) -> float:
    return result.times[case_id].spent_s if case_id in result.times else 0.0


class Load:
    """Rounds to come, filled case by case."""

    def __init__(self, pace: RoundDuration) -> None:
        self._pace = pace
        self._rounds: list[dict[str, float]] = []  # by metric, the seconds of the cases that share a pair
        self.alone_s: list[float] = []  # by round: in pairs of their own
        self.together_s: list[float] = []

    @property
    def seconds(self) -> float:
        """What all of them take."""
        return sum(self.alone_s) + sum(self.together_s)

    def add(self, case: Case, rounds: int) -> None:
        """One more case in the first ``rounds`` of them."""
        pace = self._pace
        case_s = pace.of(case)
        while len(self._rounds) < rounds:
            self._rounds.append({})
            self.alone_s.append(0.0)
            self.together_s.append(0.0)
        if not pace.can_fork(case):  # a pair for each case and round
            for place in range(rounds):
                self.alone_s[place] += pace.start_s(case.metric, 0.0) + case_s
            return
        for place in range(rounds):
            measured_s = self._rounds[place]
            measured_s[case.metric] = measured_s.get(case.metric, 0.0) + case_s
            self.together_s[place] = sum(pace.start_s(metric, own) + own for metric, own in measured_s.items())

    def with_case(self, case: Case, rounds: int) -> "Load":
        """These rounds with one more case, to be looked at apart."""
        other = Load(self._pace)
        other._rounds = [dict(measured_s) for measured_s in self._rounds]
        other.alone_s, other.together_s = list(self.alone_s), list(self.together_s)
        other.add(case, rounds)
        return other


@dataclass(frozen=True)
class CaseNeed:
    """A case on its way to its next look.

    ``missing``: rounds to it. ``excess``: of a suspect, by how much the interval that made it one lies beyond the
    threshold (a log ratio, negative if it doesn't); None of a case that is being screened.  ``closes``: whether it has
    had a look, so that rounds that don't take it to the next one count all the same (``Looks.closing``).
    """

    request: CaseRequest
    missing: int
    excess: float | None
    closes: bool


def affordable(trips: Sequence[CaseNeed], left_s: float, pace: RoundDuration, resumable: bool) -> list[CaseNeed]:
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
    with_all_rounds = _fitting([(trip, trip.missing) for trip in ordered], left_s, pace)
    return with_all_rounds or _fitting([(trip, 1) for trip in ordered if trip.closes or resumable], left_s, pace)


def least_needed(trips: Sequence[CaseNeed], pace: RoundDuration, resumable: bool) -> tuple[float, str]:
    """What ``affordable`` finds no time for, in seconds, and its name: the shortest round that counts for a case, or
    where no single one does the rounds to a case's next look."""
    needs = []
    for trip in trips:
        counts = trip.closes or resumable or trip.missing == 1
        seconds = pace.seconds([(trip.request.case, 1 if counts else trip.missing)])
        needs.append((seconds, "the next round" if counts else "the next look of a case"))
    return min(needs)


def _fitting(trips: Sequence[tuple[CaseNeed, int]], left_s: float, pace: RoundDuration) -> list[CaseNeed]:
    """Those that fit, one after the other, each for so many rounds."""
    load, chosen = Load(pace), []
    for trip, rounds in trips:
        more = load.with_case(trip.request.case, rounds)
        if more.seconds <= left_s:
            load = more
            chosen.append(trip)
    return chosen


def looked_at(trips: Sequence[CaseNeed], left_s: float, pace: RoundDuration) -> list[CaseNeed]:
    """As many of the first of them as the time left takes to their next look."""
    load, most = Load(pace), 0
    for count, trip in enumerate(trips, 1):
        load.add(trip.request.case, trip.missing)
        most = count if load.seconds <= left_s else most
    return list(trips[:most])


def kept_for_profiling(time_budget: float | None, cases: int) -> float:
    """Seconds of a time budget that measuring leaves for profiling so many cases after it; 0 without a budget."""
    if time_budget is None or not cases:
        return 0.0
    return min(PROFILING_SHARE * time_budget, PROFILING_START_S + PROFILING_CASE_S * cases)


def count_cause_profiles(cases: Sequence[Case], explain: str, confirms: bool) -> int:
    """Return as how many profiles a time budget counts the causes of a run with ``--explain`` so; how many causes there
    will be isn't known before the cases are measured. ``confirms``: the run has a second measurement, or is one."""
    if explain == "none" or (explain == "confirmed" and not confirms):
        return 0
    return PROFILES_PER_CAUSE * min(MOST_EXPLAINED, sum(case.metric in EXPLAINED_METRICS for case in cases))


def with_profiling(measuring_s: float, cases: int) -> float:
    """The time budget that leaves so many seconds for measuring: the reverse of ``kept_for_profiling``."""
    if not cases:
        return measuring_s
    return min(measuring_s / (1 - PROFILING_SHARE), measuring_s + PROFILING_START_S + PROFILING_CASE_S * cases)


def spent_words(budget: str, left_s: float, needed_s: float, needed_by: str = "the next round") -> str:
    """Why a run ended: ``budget`` names it ("the time budget of 90 s"); ``needed_s``: what the shortest round takes, or
    else what ``needed_by`` names."""
    if left_s < SPENT_S:
        return f"{budget} was spent"
    return f"{left_s:.0f} s of {budget} are left, and {needed_by} takes about {needed_s:.0f} s"


def with_seconds(
    comparisons: Sequence[Comparison], cases: Mapping[str, Case], pace: RoundDuration | None, looks: Looks
) -> list[Comparison]:
    """The comparisons, the forecasts of open ones with the time that they take, in figures and in the note."""
    needs = [
        (cases[comparison.case], comparison.forecast.rounds)
        for comparison in comparisons
        if comparison.forecast and comparison.forecast.rounds
    ]
    until = pace.until(needs) if pace and pace.usual_s else {}
    result = []
    for comparison in comparisons:
        if comparison.forecast is not None:
            forecast = replace(comparison.forecast, seconds=until.get(comparison.case))
            words = describe_forecast(forecast, looks.of_metric(comparison.metric).counts[-1])
            comparison = replace(comparison, forecast=forecast, note="; ".join(filter(None, (comparison.note, words))))
        result.append(comparison)
    return result


def budget_for(
    comparisons: Sequence[Comparison], wall_s: float, share: float, profiled: int = 0
) -> BudgetRecord | None:
    """The time budget that would settle most of the open cases that can be settled.

    ``wall_s`` is what the run has taken; ``share``: the part of a budget that its first measurement gets; ``profiled``:
    how many cases are profiled after it.
    """
    open_cases = [comparison for comparison in comparisons if comparison.forecast]
    seconds_to_settle = sorted(
        comparison.forecast.seconds
        for comparison in open_cases
        if comparison.forecast and comparison.forecast.seconds is not None
    )
    if not seconds_to_settle:
        return None
    settles = math.ceil(MOST * len(seconds_to_settle))
    budget_s = with_profiling((wall_s + seconds_to_settle[settles - 1]) / share, profiled)
    budget = ROUNDED_TO_S * math.ceil(budget_s / ROUNDED_TO_S)
    return BudgetRecord(time_budget=float(budget), settles=settles, open=len(open_cases))
