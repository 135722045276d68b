"""What a measurement is asked to do, and what it brings home: the plan, progress, and the result."""

import math
import random
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property

from opduel.comparator import Looks, Prior, RunAnalysis
from opduel.harness.planning.aa_selection import draw_aa_cases
from opduel.harness.planning.budget import RoundDurations
from opduel.harness.planning.effort_planner import EffortPlanner
from opduel.harness.planning.forecast import RunForecast, forecast_run
from opduel.harness.prior_runs import PriorRuns
from opduel.harness.processes.case_request import CaseRequest
from opduel.records import METRICS, Case, Effort, Failure, Incident, PairSample, Stage
from opduel.records.host_record import NoiseRecord
from opduel.records.run_record import RunNoiseRecord


@dataclass(frozen=True)
class FirstMeasurement:
    """What a replication takes over from the run whose results it replicates.

    ``samples`` (of the screening) made its cases suspects, and ``priors`` are the run's, by metric; ``injected`` and
    ``aa_cases`` are those of that run. ``rounds``: the number of the replication's first process pair. ``failed``:
    the ids of cases that failed at first; they don't belong to the family of the flagged cases. ``by_kind``: of a run
    that each kind of host measured, the same for the cases of each kind.
    """

    samples: Mapping[str, Sequence[PairSample]]
    priors: Mapping[str, Prior]
    injected: frozenset[str]
    aa_cases: tuple[Case, ...]
    rounds: int = 0
    failed: frozenset[str] = frozenset()
    by_kind: Mapping[str, "FirstMeasurement"] = field(default_factory=dict)


@dataclass(frozen=True)
class MeasurementPlan:
    """What a run is asked to do.

    ``time_budget`` is in seconds of wall time (None: no bound), which messages call ``budget_words``; ``spent_s`` of
    them are spent before the first round. ``inject`` is the share by which the treatment side of every second case is
    slowed (0: none); ``can_fork`` says of a case whether it can be measured in a fork; ``aa_count``: how many A/A
    checks there are. ``first_measurement`` is set for a replication. ``suspects_only``: beyond the first look, measure
    only cases that look changed. ``failed``: cases that failed before the first round, which are not measured.
    ``is_disturbed`` says of the host's noise so far and the processors' MHz whether it was disturbed: settled cases are
    then measured on until their verdicts stand nevertheless, or their looks are spent. ``prior_runs``: what earlier
    runs say of the cases, for planning alone. ``other_comparisons``: how many comparisons of other hosts belong to the
    family of this run's, in the false-discovery correction. ``reached``: the ids of cases that the change between the
    builds is known to reach: they have more of the error than others, and in a time budget they come before others
    until none of them can be a regression any more. ``likeliest``: the ids of cases, those first that the change
    reaches most likely, as their names have it. ``is_awaited``: a time budget is to bring some cases to a verdict,
    although a later start could go on with all. ``unrunnable``: the ids of cases that neither build runs, of which no
    A/A check is made.
    """

    cases: Sequence[Case]
    looks: Looks
    alpha: float
    seed: int
    time_budget: float | None = None
    inject: float = 0.0
    can_fork: Callable[[Case], bool] = lambda case: True
    aa_count: int = 0
    first_measurement: FirstMeasurement | None = None
    spent_s: float = 0.0
    suspects_only: bool = False
    failed: Mapping[str, Failure] = field(default_factory=dict)
    budget_words: str = "the time budget"
    is_disturbed: Callable[[NoiseRecord | None, Sequence[float]], bool] = lambda noise, mhz: False
    prior_runs: PriorRuns | None = None
    other_comparisons: int = 0
    reached: frozenset[str] = frozenset()
    likeliest: Sequence[str] = ()
    is_awaited: bool = False
    unrunnable: frozenset[str] = frozenset()

    @cached_property
    def injected(self) -> frozenset[str]:
        """The ids of the cases that are slowed on purpose: of the first two one, of the next two one, and so on.

        Which one is drawn from the seed: forward and backward cases often take turns in a spec.  Each metric's cases
        are drawn alike, so that cases which differ in the metric alone are slowed together.
        """
        if self.first_measurement is not None:
            return self.first_measurement.injected
        chosen: set[str] = set()
        for metric in (name for name, metric in METRICS.items() if self.inject and metric.injectable):
            rng = random.Random(f"inject {self.seed}")
            cases = [case for case in self.cases if case.metric == metric]
            chosen |= {rng.choice(pair).id for pair in zip(cases[::2], cases[1::2], strict=False)}
        return frozenset(chosen)

    @cached_property
    def aa_cases(self) -> tuple[Case, ...]:
        """The cases of the A/A checks."""
        if self.first_measurement is not None:
            return self.first_measurement.aa_cases
        cases = [case for case in self.cases if case.id not in self.unrunnable]
        reached = [case for case in cases if case.id in self.reached] if self.time_budget is not None else []
        return draw_aa_cases(reached or cases, self.aa_count, self.seed)

    @cached_property
    def forecast(self) -> RunForecast | None:
        """What the run is likely to take; None if earlier runs say nothing of its cases, and for a replication."""
        return forecast_run(self.planner(), self.cases, {}, self.looks)

    def planner(self) -> EffortPlanner:
        """Return a planner that knows what earlier runs say of the cases; in a replication, one that knows nothing."""
        if self.prior_runs is None or self.first_measurement is not None:
            return EffortPlanner()
        return self.prior_runs.planner(self.cases)

    def request(self, case: Case, stage: Stage) -> CaseRequest:
        """Return what both sides get to measure a case."""
        return CaseRequest(case, self.seed, self.inject if case.id in self.injected else 0.0, stage)

    def aa_requests(self, cases: Sequence[Case]) -> list[CaseRequest]:
        """Return what both processes get to measure A/A checks, which are never slowed."""
        return [CaseRequest(case, self.seed) for case in cases]

    def decisive(self, samples: Sequence[PairSample]) -> Sequence[PairSample]:
        """Return those of a case's samples that looks count: in a replication the fresh ones."""
        if self.first_measurement is None:
            return samples
        return [sample for sample in samples if sample.stage == "confirmation"]

    def decisive_samples(self, result: "MeasurementResult") -> dict[str, Sequence[PairSample]]:
        """Return the samples that looks count, by case id."""
        return {case_id: self.decisive(samples) for case_id, samples in result.samples.items()}

    def start_result(self) -> "MeasurementResult":
        """Return what is there before the first round: in a replication, what made its cases suspects."""
        first = self.first_measurement
        samples = {case.id: list(first.samples[case.id]) if first else [] for case in self.cases}
        failures = {case_id: failure for case_id, failure in self.failed.items() if case_id in samples}
        return MeasurementResult(samples=samples, failures=failures, rounds=first.rounds if first else 0)

    def analysis(self, result: "MeasurementResult") -> RunAnalysis:
        """Return the analysis of what was measured so far."""
        first = self.first_measurement
        return RunAnalysis(
            self.cases,
            result.samples,
            result.failures,
            self.looks,
            self.alpha,
            injected=self.injected,
            priors=first.priors if first else None,
            failed_before=first.failed if first else frozenset(),
            # With p values of 1 for other hosts' comparisons, what is flagged is flagged whatever they turn out to be.
            other_p_values=(1.0,) * self.other_comparisons,
            set_aside=result.set_aside,
            reached=self.reached,
        )


@dataclass(frozen=True)
class Progress:
    """Reported after every round: seconds, counts of cases and process pairs; and of a fleet, the number of hosts."""

    rounds: int
    open_cases: int
    cases: int
    elapsed_s: float
    left_s: float  # to the next look of the open cases
    verifying: bool = False
    end_s: float | None = None  # to the end of the measurement, where earlier runs let one expect it
    hosts: int | None = None
    outlook: str = ""  # what the run is likely to come to, in words, after its first rounds
    measured_on: int = 0  # settled cases that get more rounds, because the host is disturbed
    budget_left_s: float = math.inf  # of the run's time budget


@dataclass
class MeasurementResult:
    """All that a run has measured so far. ``stopped`` says why it ended early; None when every verdict is settled
    or its looks are spent."""

    samples: dict[str, list[PairSample]] = field(default_factory=dict)
    aa_samples: dict[str, list[PairSample]] = field(default_factory=dict)  # control against control
    mhz: list[float] = field(default_factory=list)
    nice: int | None = None  # the latest pair's, the lower one of both sides
    failures: dict[str, Failure] = field(default_factory=dict)
    incidents: list[Incident] = field(default_factory=list)
    rounds: int = 0
    timed_s: float = 0.0
    wall_s: float = 0.0
    spent_s: dict[str, float] = field(default_factory=dict)  # by what the measuring processor's time went into
    durations: RoundDurations | None = None
    effort: dict[str, Effort] = field(default_factory=dict)  # by case id
    noise: RunNoiseRecord | None = None  # of the host by level, as ``describe_noise`` has it
    expected_s: float | None = None  # how long it would take, as the first rounds had it
    set_aside: set[str] = field(default_factory=set)  # ids of cases that there is no time for now: none waits for them
    stopped: str | None = None
    aborted: bool = False  # stopped by something other than the budget: the run could not be completed
    interrupted: bool = False  # and that was a signal
    not_broken_down: int = 0  # cases whose breakdown the time budget had no room for
    closed: bool = False  # the verification has ended, and with it the run: the first measurement is not taken up again

    @property
    def resumable(self) -> bool:
        """Whether a further start with the same log could measure more."""
        return self.stopped is not None and (self.aborted or not self.closed)

    def stop(self, error: BaseException) -> None:
        """Note that this ended the run early."""
        self.stopped, self.aborted = str(error) or "interrupted", True
        self.interrupted = isinstance(error, KeyboardInterrupt)

    def add_spent(self, spent_s: Mapping[str, float]) -> None:
        """Add seconds to what the measuring processor's time went into."""
        for name, seconds in spent_s.items():
            self.spent_s[name] = self.spent_s.get(name, 0.0) + seconds


@dataclass(frozen=True)
class Measurement:
    """A plan, what came of it, and the host's noise meanwhile."""

    plan: MeasurementPlan
    result: MeasurementResult
    noise: NoiseRecord | None
