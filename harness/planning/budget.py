"""How long rounds take, learnt from rounds that were run, and time budgets: which cases still get to their next look,
the largest suspects first, and what would settle those that a run left open."""

import math
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import accumulate

from opduel.harness.planning.effort_planner import PLANNED_SHARE
from opduel.harness.processes.case_request import CaseRequest
from opduel.harness.rounds.pair import RoundResult
from opduel.records import Case, Comparison
from opduel.records.run_record import BudgetRecord

# What is left of a time budget for profiles, which are made after measuring: no more than a share, and no more than
# starting two workers takes on a busy machine, and profiling each case.
PROFILING_SHARE = 0.25
PROFILING_START_S = 10.0
PROFILING_CASE_S = 3.0
EXPLAINED_METRICS = ("time", "instructions")  # whose changes get causes
# A time budget leaves time for so many causes, each of which takes as long as so many profiles (ten: less than 180 s).
MOST_EXPLAINED = 5
PROFILES_PER_CAUSE = 6
MOST = 0.8  # of the cases that can be settled: what a run's time budget is named for
ROUNDED_TO_S = 10
NO_TIME_LEFT = "the time budget was spent"


@dataclass
class BudgetClock:
    """Tells how long a measurement has taken, and what is left of its time budget: infinitely much without one. ``now``
    tells the time, in seconds, and ``began`` is such a time."""

    began: float
    budget_s: float | None
    now: Callable[[], float] = time.monotonic

    @property
    def elapsed_s(self) -> float:
        """Seconds since it began."""
        return self.now() - self.began

    @property
    def deadline(self) -> float:
        """The time at which the budget ends."""
        return math.inf if self.budget_s is None else self.began + self.budget_s

    @property
    def left_s(self) -> float:
        """Seconds that are left, below 0 afterwards."""
        return self.deadline - self.now()


@dataclass
class RoundDurations:
    """What starting a pair and measuring a case in a round took lately, in seconds, by metric and by case id.

    ``full_start_s``: a pair's start with nothing measured meanwhile, at most; ``last_start_s``: what was left of it to
    wait for; ``measured_s``: what the last round took beside that. ``case_s``: of a case in its next round;
    ``usual_s``: of a case of the metric that has not been measured.
    """

    can_fork: Callable[[Case], bool]
    full_start_s: dict[str, float] = field(default_factory=dict)
    last_start_s: dict[str, float] = field(default_factory=dict)
    measured_s: dict[str, float] = field(default_factory=dict)
    case_s: dict[str, float] = field(default_factory=dict)
    usual_s: dict[str, float] = field(default_factory=dict)

    def note(self, result: RoundResult, metric: str) -> None:
        """Take note of a round: what went into each case, all the rest of its time shared out evenly."""
        if not result.samples:
            return
        full_s = result.start_s + self.measured_s.get(metric, 0.0)  # it went on while the round before was measured
        self.full_start_s[metric] = min(full_s, self.full_start_s.get(metric, math.inf))
        self.last_start_s[metric] = result.start_s
        self.measured_s[metric] = result.wall_s - result.start_s
        own_s = {
            sample.case_id: result.times[sample.case_id].spent_s if sample.case_id in result.times else 0.0
            for sample in result.samples
        }
        rest_s = max(0.0, result.wall_s - result.start_s - sum(own_s.values())) / len(result.samples)
        seconds = {case_id: own + rest_s for case_id, own in own_s.items()}
        self.case_s |= seconds
        self.usual_s[metric] = sum(seconds.values()) / len(seconds)

    def knows(self, case: Case) -> bool:
        """Return whether something is known of what a round spends on the case itself."""
        return case.id in self.case_s

    def at_least(self, least_s: Mapping[str, float]) -> "RoundDurations":
        """Return the durations with these of cases, by id, where they are shorter."""
        shorter_s = {case_id: min(seconds, self.case_s.get(case_id, seconds)) for case_id, seconds in least_s.items()}
        return replace(self, case_s=self.case_s | shorter_s)

    def of_case(self, case: Case) -> float:
        """Return the seconds that a round spends on a case."""
        return self.case_s.get(case.id, self.usual_s.get(case.metric, 0.0))

    def of_start(self, metric: str, measured_s: float) -> float:
        """Return the seconds to wait for a pair whose start overlaps with so many seconds of measuring."""
        full_start_s = self.full_start_s.get(metric, 0.0)
        return max(min(self.last_start_s.get(metric, 0.0), full_start_s), full_start_s - measured_s)

    def of_shortest_round(self, case: Case) -> float:
        """Return the seconds that the shortest round that measures a case takes."""
        return self.last_start_s.get(case.metric, 0.0) + self.of_case(case)

    def of_rounds(self, needs: Iterable[tuple[Case, int]]) -> float:
        """Return the seconds until each case has had so many further rounds, all of them being measured together."""
        return self._load(needs).seconds

    def until_settled(self, needs: Sequence[tuple[Case, int]]) -> dict[str, float]:
        """Return, by case id, the seconds until it has had its rounds, all of them being measured together."""
        load = self._load(needs)
        seconds_after_rounds = [0.0, *accumulate(map(sum, zip(load.alone_s, load.together_s, strict=True)))]
        return {case.id: seconds_after_rounds[rounds] for case, rounds in needs}

    def _load(self, needs: Iterable[tuple[Case, int]]) -> "Load":
        load = Load(self)
        for case, rounds in needs:
            load.add(case, rounds)
        return load


@dataclass
class Load:
    """Rounds to come, filled case by case; ``alone_s`` and ``together_s``: by round, the seconds of cases in pairs of
    their own, and of those that share pairs; ``shared_s``: of the latter, by metric, without the pairs' starts."""

    durations: RoundDurations
    shared_s: list[dict[str, float]] = field(default_factory=list)
    alone_s: list[float] = field(default_factory=list)
    together_s: list[float] = field(default_factory=list)

    @property
    def seconds(self) -> float:
        """What all of them take."""
        return sum(self.alone_s) + sum(self.together_s)

    def add(self, case: Case, rounds: int) -> None:
        """Add a case to the first ``rounds`` of them."""
        durations, metric = self.durations, case.metric
        case_s = durations.of_case(case)
        while len(self.shared_s) < rounds:
            self.shared_s.append({})
            self.alone_s.append(0.0)
            self.together_s.append(0.0)
        if not durations.can_fork(case):  # a pair for each case and round
            for place in range(rounds):
                self.alone_s[place] += durations.of_start(metric, 0.0) + case_s
            return
        for place in range(rounds):
            shared_s = self.shared_s[place]
            shared_s[metric] = shared_s.get(metric, 0.0) + case_s
            self.together_s[place] = sum(durations.of_start(name, own) + own for name, own in shared_s.items())

    def with_case(self, case: Case, rounds: int) -> "Load":
        """Return these rounds with one more case, and leave these as they are."""
        shared_s = [dict(by_metric) for by_metric in self.shared_s]
        load = Load(self.durations, shared_s, list(self.alone_s), list(self.together_s))
        load.add(case, rounds)
        return load


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

    @property
    def rounds(self) -> tuple[Case, int]:
        """The case, and the rounds to its next look."""
        return self.request.case, self.missing


def affordable(needs: Sequence[CaseNeed], left_s: float, durations: RoundDurations, resumable: bool) -> list[CaseNeed]:
    """Return those that the time left takes to their next look; all of them, if it does; if it only just does, the
    suspects, whose last round before a verdict must not be lost to others.

    Else the suspects, the largest first, and then the others in the order given, each as long as there is time for it.
    A suspect's size is that of its screening, and the others' order must be drawn without looking at samples: so the
    data under test don't choose the times of looks.

    Where no case gets to its next look, return those for which single rounds count, as many as one round has time for:
    ``resumable`` says that a later start goes on with them, so that all rounds do.
    """
    needed_s = durations.of_rounds(need.rounds for need in needs)
    if needed_s <= left_s:
        suspects = [need for need in needs if need.excess is not None]
        return suspects if suspects and needed_s > PLANNED_SHARE * left_s else list(needs)
    ordered = sorted(needs, key=lambda need: (need.excess is None, -(need.excess or 0.0)))
    with_all_rounds = _fitting([(need, need.missing) for need in ordered], left_s, durations)
    return with_all_rounds or _fitting([(need, 1) for need in ordered if need.closes or resumable], left_s, durations)


def _fitting(needs: Sequence[tuple[CaseNeed, int]], left_s: float, durations: RoundDurations) -> list[CaseNeed]:
    """Return those that fit, one after the other, each for so many rounds."""
    load, chosen = Load(durations), []
    for need, rounds in needs:
        more = load.with_case(need.request.case, rounds)
        if more.seconds <= left_s:
            load = more
            chosen.append(need)
    return chosen


def first_affordable(needs: Sequence[CaseNeed], left_s: float, durations: RoundDurations) -> list[CaseNeed]:
    """Return those for whose missing rounds there is time, in the order given."""
    return _fitting([(need, need.missing) for need in needs], left_s, durations)


def profiling_seconds(time_budget: float | None, cases: int) -> float:
    """Return how much of a time budget measuring leaves for profiling so many cases after it; 0 without a budget."""
    if time_budget is None or not cases:
        return 0.0
    return min(PROFILING_SHARE * time_budget, PROFILING_START_S + PROFILING_CASE_S * cases)


def with_profiling(measuring_s: float, cases: int) -> float:
    """Return the time budget that leaves so many seconds for measuring: the reverse of ``profiling_seconds``."""
    if not cases:
        return measuring_s
    return min(measuring_s / (1 - PROFILING_SHARE), measuring_s + PROFILING_START_S + PROFILING_CASE_S * cases)


def count_cause_profiles(cases: Sequence[Case], explain: str, replicates: bool) -> int:
    """Return as how many profiles a time budget counts the causes of a run with ``--explain`` so; how many causes there
    will be isn't known before the cases are measured. ``replicates``: the run has a second measurement, or is one."""
    if explain == "none" or (explain == "confirmed" and not replicates):
        return 0
    return PROFILES_PER_CAUSE * min(MOST_EXPLAINED, sum(case.metric in EXPLAINED_METRICS for case in cases))


def with_seconds(
    comparisons: Sequence[Comparison], cases: Mapping[str, Case], durations: RoundDurations | None
) -> list[Comparison]:
    """Return the comparisons, the forecasts of open ones with the time that a further start takes for them; without one
    where nothing is known of what the case takes."""
    seconds = dict[str, float]()
    if durations and durations.usual_s:
        needs = [
            (cases[comparison.case], comparison.forecast.rounds)
            for comparison in comparisons
            if comparison.forecast and comparison.forecast.rounds and durations.knows(cases[comparison.case])
        ]
        for case_id, until_s in durations.until_settled(needs).items():
            seconds[case_id] = durations.full_start_s.get(cases[case_id].metric, 0.0) + until_s
    return [
        replace(comparison, forecast=replace(comparison.forecast, seconds=seconds.get(comparison.case)))
        if comparison.forecast
        else comparison
        for comparison in comparisons
    ]


def budget_for(
    comparisons: Sequence[Comparison], wall_s: float, share: float, profiled: int = 0, own_s: float | None = None
) -> BudgetRecord | None:
    """Return the time budget that would settle most of the open cases that can be settled. ``wall_s`` is what the run
    has taken; ``share``: the part of a budget that its first measurement gets; ``profiled``: how many cases are
    profiled after it; ``own_s``: the time budget of this start, if a further one goes on from its rounds; it gets the
    same where nothing is known of what cases take."""
    forecasts = [comparison.forecast for comparison in comparisons if comparison.forecast]
    seconds_to_settle = sorted(forecast.seconds for forecast in forecasts if forecast.seconds is not None)
    if not seconds_to_settle:
        is_open = bool(forecasts) and own_s is not None
        return BudgetRecord(further=own_s, settles=0, open=len(forecasts)) if is_open else None
    settles = math.ceil(MOST * len(seconds_to_settle))
    more_s = seconds_to_settle[settles - 1] / PLANNED_SHARE  # of which the rounds are planned to take that share

    def rounded_budget(measuring_s: float) -> float:
        return float(ROUNDED_TO_S * math.ceil(with_profiling(measuring_s / share, profiled) / ROUNDED_TO_S))

    return BudgetRecord(
        time_budget=rounded_budget(wall_s + more_s),
        further=None if own_s is None else rounded_budget(more_s),
        settles=settles,
        open=len(forecasts),
    )
