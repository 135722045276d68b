"""The run: screen every case on shared process pairs, then spend rounds only where the verdict is still open."""

import random
import time
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

from comparator import Looks, Standing, standing
from harness.blocks import CaseRequest
from harness.pair import Bench, Round, RoundResult, run_round
from records import Case, Failure, Incident, PairSample, RunError, Stage

CROWD = 50  # cases that share one process pair at most: what a lost worker can hold up
LOST_FOR_GOOD = 2  # workers that a case may cost, the last in a pair of its own, before it has failed
FAILED_STARTS = 3  # in a row


@dataclass(frozen=True)
class Order:
    """What a run is asked to do.

    ``time_budget`` is in seconds of wall time (None: no bound); ``inject`` is the share by which the treatment side
    of every second case is slowed (0: none).
    """

    cases: Sequence[Case]
    looks: Looks
    alpha: float
    seed: int
    time_budget: float | None = None
    inject: float = 0.0

    @property
    def injected(self) -> frozenset[str]:
        """The ids of the cases that are slowed on purpose: every second one."""
        return frozenset(case.id for case in self.cases[1::2]) if self.inject else frozenset()


@dataclass(frozen=True)
class Progress:
    """Told after every round: seconds, counts of cases and process pairs."""

    rounds: int
    open_cases: int
    cases: int
    elapsed_s: float
    left_s: float  # to the next look of the open cases, or to the end of the budget if that comes first


@dataclass
class Findings:
    """All that a run has measured so far. ``stopped`` says why it ended early; None when every verdict is settled
    or its looks are spent."""

    samples: dict[str, list[PairSample]] = field(default_factory=dict)
    failures: dict[str, Failure] = field(default_factory=dict)
    incidents: list[Incident] = field(default_factory=list)
    rounds: int = 0
    timed_s: float = 0.0
    wall_s: float = 0.0
    stopped: str | None = None
    broken: bool = False  # stopped by something other than the budget: the run could not be completed


class _OutOfTime(Exception):
    """The budget leaves no room for another process pair."""


class Schedule:
    """Runs rounds until every case is settled, or the time is up."""

    def __init__(self, bench: Bench, order: Order, on_progress: Callable[[Progress], None] = lambda _: None) -> None:
        self.findings = Findings(samples={case.id: [] for case in order.cases})
        self._bench = bench
        self._order = order
        self._on_progress = on_progress
        self._coin = random.Random(order.seed)
        self._began = time.monotonic()
        self._lost: Counter[str] = Counter()  # workers that each case has cost
        self._failed_starts = 0
        self._pair_s: dict[bool, float] = {}  # what a pair took lately, by whether its case was alone

    def run(self) -> Findings:
        """Run to the end, and whatever ends it early (an interrupt, workers that won't start): all that was measured
        is returned."""
        try:
            while batches := self._next_wave():
                for batch, stage in batches:
                    self._run_batch(batch, stage)
                    self._tell()
        except _OutOfTime:
            self.findings.stopped = f"the time budget of {self._order.time_budget:g} s was spent"
        except (KeyboardInterrupt, RunError) as error:
            self.findings.stopped = str(error) or "interrupted"
            self.findings.broken = True
        self.findings.wall_s = self._elapsed()
        return self.findings

    def standings(self) -> Mapping[str, Standing]:
        """Where every case stands."""
        order, findings = self._order, self.findings
        return standing(order.cases, findings.samples, findings.failures, order.looks, order.alpha)

    def _next_wave(self) -> list[tuple[list[Case], Stage]]:
        """One round for every open case: crowds first, then those that want a pair of their own."""
        standings = self.standings()
        wanting = [case for case in self._order.cases if standings[case.id].missing]
        alone = [case for case in wanting if standings[case.id].stage == "own" or self._lost[case.id]]
        crowd = [case for case in wanting if case not in alone]
        self._coin.shuffle(alone)
        self._coin.shuffle(crowd)
        batches: list[tuple[list[Case], Stage]] = [
            (crowd[start : start + CROWD], "screen") for start in range(0, len(crowd), CROWD)
        ]
        return batches + [([case], standings[case.id].stage) for case in alone]

    def _run_batch(self, batch: Sequence[Case], stage: Stage) -> None:
        """Run a batch, in as many process pairs as lost workers make necessary."""
        requests = [self._request(case) for case in batch]
        while requests:
            self._check_time(alone=len(requests) == 1)
            result = RoundResult()
            number = self.findings.rounds
            plan = Round(requests, stage, number, self._deadline())
            try:
                run_round(self._bench, plan, self._coin, result)
            finally:
                self._absorb(result, number, alone=len(requests) == 1)
            requests = result.unmeasured if result.lost else []

    def _request(self, case: Case) -> CaseRequest:
        inject = self._order.inject if case.id in self._order.injected else 0.0
        return CaseRequest(case, self._order.seed, inject)

    def _absorb(self, result: RoundResult, number: int, alone: bool) -> None:
        findings = self.findings
        findings.rounds += 1
        findings.timed_s += result.timed_s
        findings.failures.update(result.refused)
        for sample in result.samples:
            findings.samples[sample.case_id].append(sample)
        if result.wall_s:
            self._pair_s[alone] = result.wall_s
        if result.lost is None:
            self._failed_starts = 0
        else:
            self._absorb_loss(*result.lost, number, alone)

    def _absorb_loss(self, case_id: str | None, failure: Failure, number: int, alone: bool) -> None:
        findings = self.findings
        if case_id is None:
            self._failed_starts += 1
            findings.incidents.append(Incident(number, None, failure, "a fresh pair was started"))
            if self._failed_starts >= FAILED_STARTS:
                self._give_up(failure)
            return
        self._failed_starts = 0
        self._lost[case_id] += 1
        if alone and self._lost[case_id] >= LOST_FOR_GOOD:
            findings.failures[case_id] = failure
            consequence = "the case has failed"
        else:
            consequence = "the round's sample is missing; the case goes on in process pairs of its own"
        findings.incidents.append(Incident(number, case_id, failure, consequence))

    def _give_up(self, failure: Failure) -> None:
        words = failure.last_words.splitlines()
        raise RunError(
            f"the {failure.side} worker could not be started {FAILED_STARTS} times in a row: {failure.reason}"
            + (f"; its last words: {words[-1]}" if words else "")
        )

    def _elapsed(self) -> float:
        return time.monotonic() - self._began

    def _deadline(self) -> float:
        budget = self._order.time_budget
        return float("inf") if budget is None else self._began + budget

    def _check_time(self, alone: bool) -> None:
        """No pair is started that would come too late to measure anything; but the first one always is."""
        expected = self._pair_s.get(True, 0.0) if alone else 0.0
        if self.findings.rounds and time.monotonic() + expected >= self._deadline():
            raise _OutOfTime

    def _tell(self) -> None:
        standings = self.standings().values()
        own = [one.missing for one in standings if one.stage == "own" and one.missing]
        shared = [one.missing for one in standings if one.stage == "screen" and one.missing]
        crowd_s = self._pair_s.get(False, self._pair_s.get(True, 0.0))
        left_s = max(shared, default=0) * crowd_s + sum(own) * self._pair_s.get(True, crowd_s)
        if self._order.time_budget is not None:
            left_s = min(left_s, max(0.0, self._order.time_budget - self._elapsed()))
        open_cases = sum(not one.settled for one in standings)
        self._on_progress(Progress(self.findings.rounds, open_cases, len(self._order.cases), self._elapsed(), left_s))
