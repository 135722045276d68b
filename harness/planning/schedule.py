"""The run: screen every case on a few rounds, then spend further ones only where the verdict is still open."""

import math
import random
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace

from opduel.comparator import InterimAnalysis
from opduel.harness.checkpoint import Checkpoint, PhaseCheckpoint
from opduel.harness.collector import Collector
from opduel.harness.measurement_plan import MeasurementPlan, MeasurementResult, Progress
from opduel.harness.planning.aa_selection import AASchedule
from opduel.harness.planning.budget import BudgetClock, RoundDurations
from opduel.harness.planning.forecast import forecast_run, outlook_words
from opduel.harness.planning.noise_words import describe_noise
from opduel.harness.planning.selection import CaseSelector
from opduel.harness.processes.case_request import CaseRequest
from opduel.harness.processes.pair_pool import Bench, PairPool
from opduel.harness.rounds.counter_round import run_memory_round, run_value_round
from opduel.harness.rounds.instructions import run_counting_round
from opduel.harness.rounds.pair import Round, RoundResult, run_round
from opduel.records import DEFAULT_METRIC, METRICS, VALUE, Case, RunError

# An analysis of all cases that takes longer, of the processor, is made for progress in 2 % of the time.
QUICK_S, ANALYSES = 0.1, 50
# Cases that a process pair measures; more are shared out to several, so that a killed run loses a minute, not them all.
MOST_TOGETHER = 400
# Of a time budget, what the first round may take to begin cases: where all of them would take longer, some come to a
# verdict, and not all to nothing.
FIRST_ROUND_SHARE = 1 / 3
# Of a time budget that nothing follows, what one side may take to prepare a case, but so long at least: a verdict takes
# ten of these.
PREPARE_SHARE, LEAST_PREPARE_S = 0.1, 10.0
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
        now: Callable[[], float] = time.monotonic,
    ) -> None:
        self._checkpoint = checkpoint or Checkpoint(None, "").phase("first")
        self._stored = self._checkpoint.rounds(plan)
        self.result = plan.start_result()
        timed_cases = sum(case.metric == DEFAULT_METRIC for case in plan.cases)
        self._aa_schedule = AASchedule(plan.aa_cases, timed_cases)
        self._plan = plan
        # one that resumes a run doesn't repeat the random choices of those before
        seed = f"verify {plan.seed}" if plan.first_measurement else plan.seed
        self._rng = random.Random(f"{seed} resumed after {len(self._stored)}" if self._stored else seed)
        self._pool = PairPool(bench, random.Random(f"pairs {self._rng.random()}"))
        self._clock = BudgetClock(now() - plan.spent_s, plan.time_budget, now)
        self._collector = Collector(self.result, self._aa_schedule)
        self._effort = plan.planner()
        pilot_s = {case_id: costs.of_pilot() for case_id, costs in self._effort.costs.items()}
        self._durations = self.result.durations = RoundDurations(plan.can_fork, case_s=pilot_s)
        self._selector = CaseSelector(plan, self.result, self._effort, self._durations, self._clock, self._checkpoint)
        self._progress: Progress | None = None
        self._progress_until = 0.0  # by the clock: the latest progress is good until then
        self._on_progress = on_progress
        self._doubtful: frozenset[str] = frozenset()  # settled cases in this wave, because the host is disturbed

    def run(self) -> MeasurementResult:
        """Run to the end, and whatever ends it early (an interrupt, workers that won't start): return all that was
        measured."""
        result = self.result
        try:
            self._take_in_stored()
            with self._pool:
                while not self._checkpoint.over and (wave := self._plan_wave()):
                    were_run = [self._run_pairs(this_round) for this_round in wave]
                    if not any(were_run):
                        result.stopped = result.stopped or self._selector.describe_want_of_time()
                        break
        except (KeyboardInterrupt, RunError) as error:
            result.stop(error)
        except Exception as error:  # a fault of ours, or of the machine, must not cost what was measured
            result.stop(RuntimeError(f"{type(error).__name__}: {' '.join(str(error).split())}"))
        result.wall_s = self._clock.elapsed_s
        efforts = {case_id: self._effort.describe(case_id, samples) for case_id, samples in result.samples.items()}
        result.effort = {case_id: effort for case_id, effort in efforts.items() if effort}
        result.noise = describe_noise(self._plan.cases, result.samples, self._effort)
        return result

    def interim(self) -> Mapping[str, InterimAnalysis]:
        """Return the interim analysis of each case, by id."""
        return self._plan.analysis(self.result).interim()

    def _take_in_stored(self) -> None:
        """Absorb the rounds of earlier processes, which leaves all as it was after the last of them. Raises RunError:
        it had given up then."""
        if self._stored:
            self._clock.began -= self._stored[-1].elapsed_s
        for stored in self._stored:
            this_round, round_result = stored.restore(self._plan)
            if this_round.metric == DEFAULT_METRIC:
                stages = [request.stage for request in this_round.requests]
                self._aa_schedule.replay(stages, stored.aa_ids, stored.fork)
            self._absorb(round_result, this_round)
        if self._checkpoint.over:
            self.result.stopped = self._checkpoint.over.stopped
        if self._stored:
            self._report_progress()

    def _plan_wave(self) -> list[Round]:
        """Plan one round of every open case, or of those that there is time for, in as few process pairs as can be."""
        self._effort.learn(self.result.samples)
        self._selector.set_aside()
        interim = self.interim()
        selection = self._selector.select(interim)
        self.result.stopped = selection.stop_reason  # not that of the wave before: more may be known of the time now
        self._doubtful = frozenset(request.case.id for request in selection.doubtful)
        requests = [*selection.open, *selection.doubtful]
        wave: list[Round] = []
        for metric in METRICS:
            of_metric = [request for request in requests if request.case.metric == metric]
            for part in self._share_out([request for request in of_metric if self._plan.can_fork(request.case)]):
                left_s = self._clock.left_s * len(part) / len(requests)
                self._plan_effort(part, metric, left_s)
                planned = self._round(part, self._aa_schedule.due_within(part), fork=True)
                most_s = FIRST_ROUND_SHARE * left_s
                wave.append(replace(planned, most_s=most_s, in_order=True) if self._tries_costs() else planned)
            for request in of_metric:
                if not self._plan.can_fork(request.case):
                    self._plan_effort([request], metric, self._clock.left_s / len(requests))
                    wave.append(self._round([request], [], fork=False))
                    due = self._aa_schedule.due_alone(request.stage) if metric == DEFAULT_METRIC else []
                    wave += [self._round([], [case], fork=False) for case in due]
        self._rng.shuffle(wave)
        return wave

    def _round(self, requests: Sequence[CaseRequest], aa_cases: Sequence[Case], fork: bool) -> Round:
        """Return a round whose number isn't known yet; its repetitions are those planned when it is run."""
        aa_requests = self._plan.aa_requests(aa_cases)
        budget_s = math.inf if self._selector.goes_on else self._plan.time_budget or math.inf
        prepare_s, planned = max(LEAST_PREPARE_S, PREPARE_SHARE * budget_s), self._effort.planned
        return Round(requests, 0, fork, self._clock.deadline, aa_requests, planned, prepare_s=prepare_s)

    def _tries_costs(self) -> bool:
        """Return whether nothing is known yet of what cases cost, in a run that has to end before a later one."""
        return not self.result.rounds and not self._plan.forecast and not self._selector.goes_on

    def _share_out(self, forked: list[CaseRequest]) -> list[list[CaseRequest]]:
        """Return the cases by the process pair that measures them: as many of each, in every wave with others."""
        count = math.ceil(len(forked) / MOST_TOGETHER)
        drawn = self._rng.sample(forked, len(forked)) if count > 1 else forked
        return [drawn[number::count] for number in range(count)]

    def _plan_effort(self, requests: Sequence[CaseRequest], metric: str, left_s: float) -> None:
        """Decide how often a round that these cases share measures each of them, in their share of the time left."""
        if metric == DEFAULT_METRIC:
            counts, samples = self._plan.looks.of_metric(metric).counts, self._plan.decisive_samples(self.result)
            planned = self._effort.plan([request.case for request in requests], samples, counts, left_s)
            self._durations.case_s |= {case_id: self._effort.round_s(case_id) for case_id in planned}

    def _run_pairs(self, this_round: Round) -> bool:
        """Run a round, in as many process pairs as lost workers make necessary; return False if there is no time for
        its shortest pair: there may still be some for another metric's.

        No pair is started that would come too late to measure anything; the first one is started in any case, unless
        what came before it took all the time.
        """
        while this_round.requests or this_round.aa_requests:
            cases = [request.case for request in (*this_round.requests, *this_round.aa_requests)]
            needed_s = min(map(self._durations.of_shortest_round, cases))
            is_first = not self.result.rounds and not self._plan.spent_s
            if not is_first and needed_s >= self._clock.left_s:
                return False
            this_round = replace(this_round, number=self.result.rounds)
            round_result = RoundResult()
            try:
                ROUNDS[this_round.metric](self._pool, this_round, self._rng, round_result)
            finally:
                try:  # kept first: a round that the report knows is one that a resumed run knows
                    self._checkpoint.keep(round_result, this_round, self._clock.elapsed_s)
                finally:
                    self._absorb(round_result, this_round)
            unmeasured = round_result.unmeasured if round_result.lost_worker else []
            this_round = replace(this_round, requests=unmeasured, aa_requests=[])
        self._report_progress()
        return True

    def _absorb(self, round_result: RoundResult, this_round: Round) -> None:
        self._durations.note(round_result, this_round.metric)
        if this_round.metric == DEFAULT_METRIC and round_result.times:
            aa_times = round_result.aa_result.times if round_result.aa_result else {}
            own_s = sum(time.spent_s for time in (*round_result.times.values(), *aa_times.values()))
            rest_s = max(0.0, round_result.wall_s - round_result.start_s - own_s)
            overlaps = self._pool.bench.cpus.can_overlap
            self._effort.note_round(round_result.times, round_result.start_cpu_s, rest_s, overlaps)
        self._collector.absorb(round_result, this_round)

    def _report_progress(self) -> None:
        now = self._clock.now()
        if self._progress is None or now >= self._progress_until:
            began = time.thread_time()
            self._progress = self._look_ahead()
            cost_s = time.thread_time() - began
            self._progress_until = now + ANALYSES * cost_s if cost_s > QUICK_S else now
        self._on_progress(replace(self._progress, rounds=self.result.rounds, elapsed_s=self._clock.elapsed_s))

    def _look_ahead(self) -> Progress:
        cases, interim = self._plan.cases, self.interim()
        end_s, words = self._expect([case for case in cases if interim[case.id].samples_needed])
        return Progress(
            rounds=self.result.rounds,
            open_cases=sum(not state.settled for state in interim.values()),
            cases=len(cases),
            elapsed_s=self._clock.elapsed_s,
            left_s=self._durations.of_rounds((case, interim[case.id].samples_needed) for case in cases),
            verifying=self._plan.first_measurement is not None,
            end_s=end_s,
            outlook=words,
            measured_on=sum(interim[case_id].settled for case_id in self._doubtful),
        )

    def _expect(self, open_cases: Sequence[Case]) -> tuple[float | None, str]:
        """Return the seconds until the open cases are settled or given up, and words; none before all have a round, and
        none of a replication, whose cases have probably changed and are settled sooner."""
        result, looks = self.result, self._plan.looks
        self._effort.learn(result.samples)
        if self._plan.first_measurement or (
            not self._plan.forecast
            and not all(samples or case_id in result.failures for case_id, samples in result.samples.items())
        ):
            return None, ""
        expected = forecast_run(self._effort, open_cases, self._plan.decisive_samples(result), looks)
        if expected is None:
            return None, ""
        if result.expected_s is None:
            result.expected_s = self._clock.elapsed_s + expected.total_s
        return expected.total_s, outlook_words(expected, open_cases, self._effort, self._clock.left_s)
