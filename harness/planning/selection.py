"""Which cases get a further round: the open ones, those of them that the time is best spent on, and doubtful ones."""

import math
import random
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from statistics import fmean

from opduel.comparator import InterimAnalysis
from opduel.comparator.looks import FRESH_PAIRS
from opduel.harness.checkpoint import PhaseCheckpoint
from opduel.harness.measurement_plan import MeasurementPlan, MeasurementResult
from opduel.harness.planning import budget
from opduel.harness.planning.effort_planner import EffortPlanner
from opduel.harness.planning.forecast import forecast_run, settled_first
from opduel.harness.planning.noise_by_level import quads_of
from opduel.harness.processes.case_request import CaseRequest, one_of_each_first
from opduel.records import CLAIMS, FLAGGED, Case
from opduel.support.text import counted

SPENT_S = 1.0  # with less left than this, a budget is spent
LIKELY_ERRORS = 2.0  # standard errors beyond its threshold, from which on a case looks changed

Interim = Mapping[str, InterimAnalysis]


@dataclass(frozen=True)
class Selection:
    """The cases that get a round now: open ones, and settled ones whose verdicts a disturbed host makes doubtful.
    ``stop_reason``: why open cases are left out for good, if they are."""

    open: Sequence[CaseRequest]
    doubtful: Sequence[CaseRequest]
    stop_reason: str | None


class CaseSelector:
    """Selects cases by what they still need, by what rounds take, and by the time that is left."""

    def __init__(
        self,
        plan: MeasurementPlan,
        result: MeasurementResult,
        effort: EffortPlanner,
        durations: budget.RoundDurations,
        clock: budget.BudgetClock,
        checkpoint: PhaseCheckpoint,
    ) -> None:
        self._plan, self._result, self._effort = plan, result, effort
        self._durations, self._clock, self._checkpoint = durations, clock, checkpoint
        self.goes_on = checkpoint.keeps and not plan.is_awaited  # at a later start, with what this one has begun
        self._cases = _likeliest_first(
            random.Random(f"turn {plan.seed}").sample(list(plan.cases), len(plan.cases)), plan.likeliest
        )
        if plan.forecast and plan.time_budget is not None:
            self._cases = settled_first(self._cases, plan.forecast)

    def select(self, interim: Interim) -> Selection:
        """Return the cases of the next round of the run."""
        requests, stop_reason = self._select_open(interim)
        doubtful = self._select_doubtful(interim, alone=not requests, stopped=stop_reason is not None)
        return Selection(requests, doubtful, stop_reason)

    def describe_want_of_time(self) -> str:
        """Say that the budget leaves no room for another round."""
        left_s, words = self._clock.left_s, self._plan.budget_words
        return f"{words} was spent" if left_s < SPENT_S else f"{left_s:.0f} s of {words} are too few for another round"

    def _select_open(self, interim: Interim) -> tuple[list[CaseRequest], str | None]:
        """Return the open cases, or those of them that the time budget is spent on, and why if it is on none."""
        plan = self._plan
        open_cases = [case for case in self._cases if interim[case.id].samples_needed]
        reached = [case for case in open_cases if case.id in plan.reached and interim[case.id].may_be_worse]
        urgent = [case for case in open_cases if self._is_urgent(case, interim)]
        open_cases = (reached if plan.time_budget is not None else []) or urgent or open_cases
        samples, set_aside = self._result.samples, self._result.set_aside
        open_cases = [case for case in open_cases if samples[case.id] or case.id not in set_aside] or open_cases
        requests = [plan.request(case, interim[case.id].stage) for case in open_cases]
        if plan.suspects_only and requests:
            requests = [
                request
                for request in requests
                if request.stage == "confirmation" or not self._was_looked_at(request.case)
            ]
            if not requests:
                return [], f"no suspect is left; {counted(len(open_cases), 'other case')} undecided"
        if plan.time_budget is None or not requests or not (self._result.rounds or plan.forecast):
            return requests, None
        needs = []
        for request in requests:
            state = interim[request.case.id]
            excess = state.excess if request.stage == "confirmation" else None
            was_looked_at = self._was_looked_at(request.case)
            needs.append(budget.CaseNeed(request, state.samples_needed, excess, was_looked_at))
        left_s, resumable = self._clock.left_s, self.goes_on
        if any(need.request.stage == "screening" and not need.closes for need in needs):
            return self._select_first_looks(needs, left_s)
        chosen = budget.affordable(needs, left_s, self._durations, resumable)
        chosen = chosen or budget.affordable(needs, left_s, self._shortest_durations(), resumable)
        return [need.request for need in chosen], None if chosen else self.describe_want_of_time()

    def _shortest_durations(self) -> budget.RoundDurations:
        """Return the durations with the shortest rounds of cases before their second look, to which the next efforts
        are shortened if the time left asks for that (``EffortPlanner.plan``)."""
        samples, least_s = self._plan.decisive_samples(self._result), dict[str, float]()
        for case in self._cases:
            second_look = self._plan.looks.of_metric(case.metric).counts[:2][-1]
            seconds = self._effort.least_round_s(case) if len(samples[case.id]) < second_look else None
            if seconds is not None:
                least_s[case.id] = seconds
        return self._durations.at_least(least_s)

    def _is_urgent(self, case: Case, interim: Interim) -> bool:
        """Return whether a case could still be a regression. One that lies at its threshold, and is as precise as that
        asks for, isn't measured before all others, nor is one that the time left can't make so precise; but all share
        the rounds to their first look."""
        state = interim[case.id]
        if not state.may_be_worse or (state.excess or 0.0) > 0 or not self._was_looked_at(case):
            return state.may_be_worse
        if not self._effort.knows(case):
            return True
        counts = self._plan.looks.of_metric(case.metric).counts
        needed = self._effort.rounds_to_goal(case, self._plan.decisive(self._result.samples[case.id]), counts)
        return needed is not None and 0 < needed.seconds < self._clock.left_s

    def _select_first_looks(
        self, needs: Sequence[budget.CaseNeed], left_s: float
    ) -> tuple[list[CaseRequest], str | None]:
        """Select the cases that come to a verdict in the time left: those first that look changed so far, which need
        ``FRESH_PAIRS`` rounds after their first look, then those that were begun, then those that are settled soonest.
        The others keep p values of 1, so that this choice makes no false flag likelier.

        If that is none, select all in a run that a later start goes on with, or before the first round; and in a run
        that has tested no case yet the first one, since what is known of its costs may be too high.
        """
        durations = self._durations
        changed_cases = {need.request.case.id for need in needs if self._looks_changed(need.request.case)}

        def to_verdict(need: budget.CaseNeed) -> budget.CaseNeed:
            is_due = need.request.case.id in changed_cases and not need.closes
            return replace(need, missing=need.missing + FRESH_PAIRS) if is_due else need

        if durations.of_rounds(need.rounds for need in map(to_verdict, needs)) > left_s:
            cases, samples = [need.request.case for need in needs], self._plan.decisive_samples(self._result)
            if expected := forecast_run(self._effort, cases, samples, self._plan.looks):
                need_by_case = {need.request.case.id: need for need in needs}
                needs = [need_by_case[case.id] for case in settled_first(cases, expected)]
            suspects = [need for need in needs if need.request.stage == "confirmation"]  # before what is not begun
            needs = sorted(
                suspects or needs, key=lambda need: (need.request.case.id not in changed_cases, need.missing)
            )
        chosen = budget.first_affordable([*map(to_verdict, needs)], left_s, durations)
        chosen = chosen or budget.first_affordable(needs, left_s, durations)
        chosen = chosen or budget.first_affordable(needs, left_s, self._shortest_durations())
        if not chosen and not any(need.closes for need in needs):
            chosen = list(needs[:1])
        if not chosen and self._result.rounds and not self.goes_on:
            return [], self.describe_want_of_time()
        return [need.request for need in chosen or needs], None

    def set_aside(self) -> None:
        """Set aside the cases without a first look as long as the time left isn't enough for it beside the rounds that
        those need which look changed at theirs: or else these would wait for it until the time is up. Of what a case
        takes that no round came to measuring, nothing is known but that it may be all there is."""
        plan, result = self._plan, self._result
        if plan.time_budget is None or self.goes_on:
            return
        samples = plan.decisive_samples(result)
        to_first_look = [
            (case, plan.looks.of_metric(case.metric).counts[0] - len(samples[case.id]))
            for case in self._cases
            if case.id not in result.failures
        ]
        unlooked = [(case, missing) for case, missing in to_first_look if missing > 0]
        suspects = [
            (case, FRESH_PAIRS + missing)
            for case, missing in to_first_look
            if -FRESH_PAIRS < missing <= 0 and self._looks_changed(case)
        ]
        is_short = (
            not all(samples[case.id] for case, _ in unlooked)
            or self._durations.of_rounds([*suspects, *unlooked]) > self._clock.left_s
        )
        result.set_aside = {case.id for case, _ in unlooked} if suspects and is_short else set()

    def _looks_changed(self, case: Case) -> bool:
        """Tell whether the mean of a case's samples lies beyond its threshold by more than they are likely to vary."""
        samples = self._plan.decisive(self._result.samples[case.id])
        if not samples:
            return False
        noise = self._effort.noise.get(case.id)  # none of metrics without blocks
        variances = [noise.of_sample(sample.forks, quads_of(sample)) for sample in samples] if noise else [0.0]
        excess = abs(fmean(sample.log_ratio for sample in samples)) - math.log1p(case.threshold)
        return excess > LIKELY_ERRORS * math.sqrt(sum(variances)) / len(samples)

    def _select_doubtful(self, interim: Interim, alone: bool, stopped: bool) -> list[CaseRequest]:
        """Return, on a host that is disturbed, the settled cases whose verdicts don't stand yet, as long as they have
        looks left.  Those that changed share the rounds of open cases; the others come when they have them ``alone``,
        in a time budget after those that changed, and not where the budget leaves open cases behind."""
        plan, result = self._plan, self._result
        if not plan.is_disturbed(self._checkpoint.noise(), result.mhz):
            return []
        stand, decisive = plan.analysis(result).standing_cases(closing=False), plan.decisive_samples(result)
        doubtful = [
            plan.request(case, result.samples[case.id][-1].stage)
            for case in self._cases
            if case.id not in stand
            and interim[case.id].verdict in CLAIMS
            and case.measure.noisy
            and len(decisive[case.id]) < plan.looks.of_metric(case.metric).counts[-1]
        ]
        changed = [request for request in doubtful if interim[request.case.id].verdict in FLAGGED]
        if not alone or stopped or (changed and plan.time_budget is not None):
            return changed
        return doubtful

    def _was_looked_at(self, case: Case) -> bool:
        samples = self._plan.decisive(self._result.samples[case.id])
        return len(samples) >= self._plan.looks.of_metric(case.metric).counts[0]


def _likeliest_first(cases: Sequence[Case], likeliest: Sequence[str]) -> list[Case]:
    """Return one case of each benchmark before the others, each in the order of these ids, then as they are: a budget
    that is too short for all cases shows something of each benchmark."""
    places = {case_id: place for place, case_id in enumerate(likeliest)}
    return one_of_each_first(sorted(cases, key=lambda case: places.get(case.id, len(places))))
