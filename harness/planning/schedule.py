"""The run: screen every case on a few rounds, then spend further ones only where the verdict is still open."""

import math
import random
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace

from opduel.comparator import InterimAnalysis
from opduel.harness.checkpoint import Checkpoint, PhaseCheckpoint
from opduel.harness.collector import Collector
from opduel.harness.measurement_plan import Batch, FirstMeasurement, MeasurementPlan, MeasurementResult, Progress
from opduel.harness.planning.aa_selection import Turns
from opduel.harness.planning.budget import CaseNeed, RoundDuration, affordable, least_needed, looked_at, spent_words
from opduel.harness.planning.forecast import forecast_run, outlook_words, settled_first
from opduel.harness.planning.noise_words import describe_noise
from opduel.harness.processes.case_request import CaseRequest
from opduel.harness.processes.pair_pool import Bench, PairPool
from opduel.harness.rounds.counter_round import run_memory_round, run_value_round
from opduel.harness.rounds.instructions import run_counting_round
from opduel.harness.rounds.pair import Round, RoundResult, run_round
from opduel.records import CLAIMS, DEFAULT_METRIC, FLAGGED, METRICS, VALUE, Case, PairSample, RunError, Stage
from opduel.support.text import counted

__all__ = ["Batch", "FirstMeasurement", "MeasurementPlan", "MeasurementResult", "Progress", "Schedule"]

QUICK_S, ANALYSES = 0.1, 50  # an analysis of all cases that takes longer is made for progress in 2 % of the time
FEW = 4  # of a run's cases one in so many is tried where the time is likely to be too short for any
LONG_ROUND_S = 60.0  # a round of all open cases that takes longer has suspects measured on their own in between
# Cases that a process pair measures; more are shared out to several, so that a killed run loses a minute, not them all.
MOST_TOGETHER = 400
ROUNDS = {  # metric -> what a process pair does for it
    "time": run_round,
    "instructions": run_counting_round,
    "memory": run_memory_round,
    "process_memory": run_memory_round,
    "cpu_time": run_value_round,
    VALUE: run_value_round,
}


class Schedule:
    """Runs rounds until every case is settled, or the time is up.

    Rounds that ``checkpoint`` has from an earlier process are taken in first, as if they had just been run, and those
    that follow are kept there.
    """

    def __init__(
        self,
        bench: Bench,
        plan: MeasurementPlan,
        on_progress: Callable[[Progress], None] = lambda _: None,
        checkpoint: PhaseCheckpoint | None = None,
    ) -> None:
        self._checkpoint = checkpoint or Checkpoint(None, "").phase("first")
        self._stored = self._checkpoint.rounds(plan.cases, plan.chosen_aa_cases)
        first = plan.first_measurement  # what made a replication's cases suspects is there before it begins
        samples = {case.id: list(first.samples[case.id]) if first else [] for case in plan.cases}
        failures = {case_id: failure for case_id, failure in plan.failed.items() if case_id in samples}
        self.findings = MeasurementResult(samples=samples, failures=failures, rounds=first.rounds if first else 0)
        self._turns = Turns(plan.chosen_aa_cases, sum(case.metric == DEFAULT_METRIC for case in plan.cases))
        self._plan = plan
        self._on_progress = on_progress
        seed = f"verify {plan.seed}" if first else plan.seed
        # one that resumes a run doesn't repeat the random choices of those before
        self._rng = random.Random(f"{seed} resumed after {len(self._stored)}" if self._stored else seed)
        on_device = not all(case.on_processor for case in plan.cases)
        self._pool = PairPool(bench, random.Random(f"pairs {self._rng.random()}"), keeps_arrays=on_device)
        self._began = time.monotonic() - plan.spent_s
        self._collector = Collector(self.findings, self._turns)
        self._pace = RoundDuration(plan.can_fork)
        self.findings.pace = self._pace
        self._effort = plan.planner()
        for case_id, costs in self._effort.costs.items():
            self._pace.expect(case_id, costs.of_pilot())
        self._in_turn = random.Random(f"turn {plan.seed}").sample(list(plan.cases), len(plan.cases))
        if plan.forecast and plan.time_budget is not None:
            self._in_turn = settled_first(self._in_turn, plan.forecast)
        self._outlook = _Outlook()
        self._measured_on = set[str]()  # settled cases in this wave, because the host is disturbed
        self._for_suspects_s = 0.0  # how long suspects may still have the machine to themselves
        self._wave_s, self._in_wave = 0.0, set[str]()  # of cases at screening: what they took, and which they are

    def run(self) -> MeasurementResult:
        """Run to the end, and whatever ends it early (an interrupt, workers that won't start): all that was measured
        is returned."""
        try:
            self._take_in_stored()
            with self._pool:
                while not self._checkpoint.over and (batches := self._next_wave()):
                    needed = [self._run_batch(batch) for batch in batches]
                    if None not in needed:
                        if self.findings.stopped is None:
                            self._stop_for_want_of_time(min(seconds for seconds in needed if seconds is not None))
                        break
        except (KeyboardInterrupt, RunError) as error:
            self.findings.stop(error)
        except Exception as error:  # a fault of ours, or of the machine, must not cost what was measured
            self.findings.stop(RuntimeError(f"{type(error).__name__}: {' '.join(str(error).split())}"))
        self.findings.wall_s = self._elapsed()
        efforts = {case_id: self._effort.effort(case_id, rows) for case_id, rows in self.findings.samples.items()}
        self.findings.effort = {case_id: effort for case_id, effort in efforts.items() if effort}
        self.findings.noise = describe_noise(self._plan.cases, self.findings.samples, self._effort, self._plan.looks)
        return self.findings

    def _take_in_stored(self) -> None:
        """Absorb the rounds of earlier processes, which leaves all as it was after the last of them. Raises RunError:
        it had given up then."""
        if self._stored:
            self._began -= self._stored[-1].elapsed_s
        cases = {case.id: case for case in self._plan.cases}
        watched = {case.id: case for case in self._plan.chosen_aa_cases}
        for stored in self._stored:
            requests = [self._request(cases[case_id], stage) for case_id, stage in stored.planned]
            aa_cases = self._watch([watched[case_id] for case_id in stored.aa_cases])
            unmeasured = [self._request(cases[case_id], stage) for case_id, stage in stored.unmeasured]
            if stored.metric == DEFAULT_METRIC:
                self._turns.replay([stage for _, stage in stored.planned], stored.aa_cases, stored.fork)
            plan = Round(requests, stored.number, stored.fork, aa_cases=aa_cases)
            self._absorb(replace(stored.result, unmeasured=unmeasured), plan, stored.metric)
        if self._checkpoint.over:
            self.findings.stopped = self._checkpoint.over.stopped
        if self._stored:
            self._report_progress()

    def interim(self) -> Mapping[str, InterimAnalysis]:
        """Return the interim analysis of each case, by id."""
        return self._plan.analysis(self.findings).interim()

    def _next_wave(self) -> list[Batch]:
        """One round for every open case, or for those that there is time for, in as few process pairs as can be."""
        interim = self.interim()
        self._effort.learn(self.findings.samples)
        wanting = self._before_long_rounds(self._in_budget(interim))
        doubtful = self._doubtful(interim, alone=not wanting)
        self._measured_on = {request.case.id for request in doubtful}
        wanting = [*wanting, *doubtful]
        batches: list[Batch] = []
        for metric in METRICS:
            of_metric = [request for request in wanting if request.case.metric == metric]
            forked = [request for request in of_metric if self._plan.can_fork(request.case)]
            for part in self._parts(forked):
                self._plan_effort(part, metric)
                batches.append(Batch(part, True, self._watch(self._turns.within(part))))
            for request in of_metric:
                if not self._plan.can_fork(request.case):
                    self._plan_effort([request], metric)
                    batches.append(Batch([request], fork=False))
                    due = self._turns.alone(request.stage) if metric == DEFAULT_METRIC else []
                    batches += [Batch([], False, self._watch([case])) for case in due]
        self._rng.shuffle(batches)
        return batches

    def _counted(self) -> Mapping[str, Sequence[PairSample]]:
        """Return the samples that looks count, by case id: in a replication the fresh ones."""
        if self._plan.first_measurement is None:
            return self.findings.samples
        return {
            case_id: [sample for sample in samples if sample.stage == "confirmation"]
            for case_id, samples in self.findings.samples.items()
        }

    def _parts(self, forked: list[CaseRequest]) -> list[list[CaseRequest]]:
        """The cases, by the process pair that measures them: as many of each, in every wave with others."""
        count = math.ceil(len(forked) / MOST_TOGETHER)
        drawn = self._rng.sample(forked, len(forked)) if count > 1 else forked
        return [drawn[number::count] for number in range(count)]

    def _plan_effort(self, requests: Sequence[CaseRequest], metric: str) -> None:
        """Decide how often a round that these cases share measures each of them."""
        if metric != DEFAULT_METRIC:
            return
        counts = self._plan.looks.of_metric(metric).counts
        for case_id in self._effort.plan([request.case for request in requests], self._counted(), counts):
            self._pace.expect(case_id, self._effort.round_s(case_id))

    def _in_budget(self, interim: Mapping[str, InterimAnalysis]) -> list[CaseRequest]:
        """The open cases, or those of them that the time budget is spent on; notes in ``findings`` why none of them is
        measured on."""
        plan, self.findings.stopped = self._plan, None  # that of the wave before: more may be known of the time now
        open_cases = [case for case in self._in_turn if interim[case.id].samples_needed]
        open_cases = [case for case in open_cases if self._is_urgent(case, interim)] or open_cases
        requests = [self._request(case, interim[case.id].stage) for case in open_cases]
        if plan.suspects_only and requests:
            requests = [
                request
                for request in requests
                if request.stage == "confirmation" or not self._was_looked_at(request.case, interim)
            ]
            if not requests:
                self.findings.stopped = f"no suspect is left; {counted(len(open_cases), 'other case')} undecided"
        if plan.time_budget is None or not requests or not (self.findings.rounds or plan.forecast):
            return requests
        trips = []
        for request in requests:
            state = interim[request.case.id]
            excess = state.excess if request.stage == "confirmation" else None
            trips.append(CaseNeed(request, state.samples_needed, excess, self._was_looked_at(request.case, interim)))
        unlooked = any(trip.request.stage == "screening" and not trip.closes for trip in trips)
        left_s = self._deadline() - time.monotonic()
        if unlooked:
            return self._first_looks(trips, left_s)
        chosen = affordable(trips, left_s, self._pace, resumable=self._checkpoint.keeps)
        if not chosen:
            self._stop_for_want_of_time(*least_needed(trips, self._pace, self._checkpoint.keeps))
        return [trip.request for trip in chosen]

    def _is_urgent(self, case: Case, interim: Mapping[str, InterimAnalysis]) -> bool:
        """Whether a case could still be a regression. One that lies at its threshold, and is as precise as that asks
        for, isn't measured before all others, nor is one that the time left can't make so precise; but all share the
        rounds to their first look."""
        state = interim[case.id]
        if not state.may_be_worse or (state.excess or 0.0) > 0 or not self._was_looked_at(case, interim):
            return state.may_be_worse
        counts = self._plan.looks.of_metric(case.metric).counts
        needed_s = self._effort.seconds_to_goal(case, self._counted()[case.id], counts)
        return needed_s is None or 0 < needed_s < self._deadline() - time.monotonic()

    def _first_looks(self, trips: Sequence[CaseNeed], left_s: float) -> list[CaseRequest]:
        """As many cases as come to their first look in the time left, those first that are settled soonest.

        All if that is none in a run that a later start goes on with, or before the first round; and of a run that has
        tested no case yet a few, since what is known of its costs may be too high.
        """
        if self._pace.seconds((trip.request.case, trip.missing) for trip in trips) > left_s:
            trips = self._cheapest_first(trips)
        chosen = looked_at(trips, left_s, self._pace)
        if not chosen and not any(trip.closes for trip in trips):
            chosen = list(trips[: max(1, len(trips) // FEW)])
        if not chosen and self.findings.rounds and not self._checkpoint.keeps:
            needed_s = min(self._pace.seconds([(trip.request.case, trip.missing)]) for trip in trips)
            self._stop_for_want_of_time(needed_s, "the first look of another case")
            return []
        return [trip.request for trip in chosen or trips]

    def _cheapest_first(self, trips: Sequence[CaseNeed]) -> list[CaseNeed]:
        cases = [trip.request.case for trip in trips]
        expected = forecast_run(self._effort, cases, self._counted(), self._plan.looks)
        if expected is None:
            return list(trips)
        by_id = {trip.request.case.id: trip for trip in trips}
        return [by_id[case.id] for case in settled_first(cases, expected)]

    def _doubtful(self, interim: Mapping[str, InterimAnalysis], alone: bool) -> list[CaseRequest]:
        """On a host that is disturbed, the settled cases whose verdicts don't stand yet, as long as they have looks
        left.  Those that changed share the rounds of open cases; the others come when they have them ``alone``, in a
        time budget after those that changed, and not where the budget leaves open cases behind."""
        plan, findings = self._plan, self.findings
        noise = self._checkpoint.noise()
        if not plan.is_disturbed(noise, findings.mhz):
            return []
        stand = plan.analysis(findings).standing_cases(closing=False)
        doubtful = []
        for case in self._in_turn:
            samples = findings.samples[case.id]
            if case.id in stand or interim[case.id].verdict not in CLAIMS or not case.measure.noisy:
                continue
            stage = samples[-1].stage
            if len(self._counted()[case.id]) < plan.looks.of_metric(case.metric).counts[-1]:
                doubtful.append(self._request(case, stage))
        changed = [request for request in doubtful if interim[request.case.id].verdict in FLAGGED]
        if not alone or findings.stopped is not None or (changed and plan.time_budget is not None):
            return changed
        return doubtful

    def _stop_for_want_of_time(self, needed_s: float, needed_by: str = "the next round") -> None:
        """Note that the budget leaves no room for what ``needed_by`` names: the shortest one takes ``needed_s``."""
        left_s = self._deadline() - time.monotonic()
        self.findings.stopped = spent_words(self._plan.budget, left_s, needed_s, needed_by)

    def _was_looked_at(self, case: Case, interim: Mapping[str, InterimAnalysis]) -> bool:
        """Whether it has had a look."""
        state, first = interim[case.id], self._plan.looks.of_metric(case.metric).counts[0]
        return (state.next_look or 0) - state.samples_needed >= first

    def _before_long_rounds(self, wanting: list[CaseRequest]) -> list[CaseRequest]:
        """All of ``wanting``; where a round of them is long, the suspects alone as long as it is their turn.

        Of thousands of cases some hundred are suspects, which their own rounds decide: they get as much time as the
        round before them took.  A run whose budget ends before the last look then says what changed, not only where.
        """
        suspects = [request for request in wanting if request.stage == "confirmation"]
        needed_s = self._pace.seconds((request.case, 1) for request in wanting)
        return suspects if suspects and self._for_suspects_s > 0 and needed_s > LONG_ROUND_S else wanting

    def _run_batch(self, batch: Batch) -> float | None:
        """Run a batch, in as many process pairs as lost workers make necessary; returns what its shortest round takes
        if there is no time for that: there may still be some for another metric's.

        No pair is started that would come too late to measure anything; the first one is started in any case, unless
        what came before it took all the time.
        """
        requests, aa_cases = batch.requests, batch.aa_cases
        while requests or aa_cases:
            needed_s = min(self._pace.least_s(request.case) for request in (*requests, *aa_cases))
            if (self.findings.rounds or self._plan.spent_s) and time.monotonic() + needed_s >= self._deadline():
                return needed_s
            result = RoundResult()
            plan = Round(requests, self.findings.rounds, batch.fork, self._deadline(), aa_cases, self._effort.planned)
            try:
                ROUNDS[batch.metric](self._pool, plan, self._rng, result)
            finally:
                try:  # kept first: a round that the report knows is one that a resumed run knows
                    self._checkpoint.keep(result, plan, batch.metric, self._elapsed())
                finally:
                    self._absorb(result, plan, batch.metric)
            requests, aa_cases = result.unmeasured if result.lost_worker else [], []
        self._report_progress()
        return None

    def _request(self, case: Case, stage: Stage) -> CaseRequest:
        inject = self._plan.inject if case.id in self._plan.injected else 0.0
        return CaseRequest(case, self._plan.seed, inject, stage)

    def _watch(self, aa_cases: Sequence[Case]) -> list[CaseRequest]:
        """Sentinels are never slowed."""
        return [CaseRequest(case, self._plan.seed) for case in aa_cases]

    def _absorb(self, result: RoundResult, this_round: Round, metric: str) -> None:
        screened = {request.case.id for request in this_round.requests if request.stage == "screening"}
        if screened:
            if screened & self._in_wave:  # the next one
                self._wave_s, self._in_wave = 0.0, set()
            self._wave_s, self._in_wave = self._wave_s + result.wall_s, self._in_wave | screened
            self._for_suspects_s = max(self._for_suspects_s, self._wave_s)
        else:
            self._for_suspects_s -= result.wall_s
        self._pace.note(result, metric)
        if metric == DEFAULT_METRIC and result.times:
            aa_times = result.aa_cases.times if result.aa_cases else {}
            own_s = sum(time.spent_s for time in (*result.times.values(), *aa_times.values()))
            rest_s = max(0.0, result.wall_s - result.start_s - own_s)
            self._effort.note_round(result.times, result.start_s, rest_s, self._pool.bench.cpus.can_overlap)
        self._collector.absorb(result, this_round)

    def _elapsed(self) -> float:
        return time.monotonic() - self._began

    def _deadline(self) -> float:
        budget = self._plan.time_budget
        return float("inf") if budget is None else self._began + budget

    def _report_progress(self) -> None:
        began = time.monotonic()
        if began >= self._outlook.until:
            interim = self.interim()
            needed_s = self._pace.seconds((case, interim[case.id].samples_needed) for case in self._plan.cases)
            ends_s, words = self._expect([case for case in self._plan.cases if interim[case.id].samples_needed])
            now = time.monotonic()
            again_at = now + ANALYSES * (now - began) if now - began > QUICK_S else now
            still_open = sum(not case_state.settled for case_state in interim.values())
            measured_on = sum(interim[case_id].settled for case_id in self._measured_on)
            self._outlook = _Outlook(still_open, now + needed_s, now + ends_s, again_at, measured_on, words)
        now, most_s = time.monotonic(), max(0.0, self._deadline() - time.monotonic())
        left_s = min(max(0.0, self._outlook.settled_at - now), most_s)
        end_s = min(max(0.0, self._outlook.ends_at - now), most_s) if self._outlook.words else None
        cases, again = len(self._plan.cases), self._plan.first_measurement is not None
        rounds, elapsed_s = self.findings.rounds, self._elapsed()
        on, words = self._outlook.measured_on, self._outlook.words
        self._on_progress(
            Progress(rounds, self._outlook.open, cases, elapsed_s, left_s, again, end_s, outlook=words, measured_on=on)
        )

    def _expect(self, open_cases: Sequence[Case]) -> tuple[float, str]:
        """Seconds until the open cases are settled or given up, and in words; 0 and none before all have a round."""
        samples, looks = self.findings.samples, self._plan.looks
        self._effort.learn(samples)
        measured = all(rows or case_id in self.findings.failures for case_id, rows in samples.items())
        expects = measured or self._plan.forecast
        expected = forecast_run(self._effort, open_cases, self._counted(), looks) if expects else None
        if expected is None:
            return 0.0, ""
        if self.findings.expected_s is None:
            self.findings.expected_s = self._elapsed() + expected.total_s
        left_s = self._deadline() - time.monotonic()
        return expected.total_s, outlook_words(expected, open_cases, self._effort, looks, left_s)


@dataclass(frozen=True)
class _Outlook:
    """How many cases are open, and how many settled ones ``measured_on``; when the former come to their next look, and
    to their end, also in ``words``; good ``until`` then. Monotonic times."""

    open: int = 0
    settled_at: float = 0.0
    ends_at: float = 0.0
    until: float = 0.0
    measured_on: int = 0
    words: str = ""
