"""What a measurement is asked to do, and what it brings home: the order, a batch, progress, and all findings."""

import random
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property

from opduel.comparator import Looks, Prior, RunAnalysis
from opduel.harness.planning.aa_selection import draw_aa_cases
from opduel.harness.planning.budget import RoundDuration
from opduel.harness.planning.effort_planner import EffortPlanner
from opduel.harness.planning.forecast import RunForecast, forecast_run
from opduel.harness.prior_runs import PriorRuns
from opduel.harness.processes.case_request import CaseRequest
from opduel.records import DEFAULT_METRIC, METRICS, Case, Effort, Failure, Incident, PairSample
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

    ``time_budget`` is in seconds of wall time (None: no bound); ``inject`` is the share by which the treatment side
    of every second case is slowed (0: none); ``can_fork`` says of a case whether it can be measured in a fork;
    ``aa_cases`` counts them; ``first_measurement`` is set for a replication. ``failed``: cases that failed before the
    first round, which are not measured.  ``is_disturbed`` says of the host's noise so far (a phase of
    ``HostMonitor.summary``) and the processors' MHz whether it was disturbed: settled cases are then measured on until
    their verdicts stand nevertheless, or their looks are spent.  ``prior_runs``: what earlier runs say of the
    cases, for planning alone.  ``other_comparisons``: how many comparisons of other hosts belong to the family of this
    run's, in the false-discovery correction.
    """

    cases: Sequence[Case]
    looks: Looks
    alpha: float
    seed: int
    time_budget: float | None = None
    inject: float = 0.0
    can_fork: Callable[[Case], bool] = lambda case: True
    aa_cases: int = 0
    first_measurement: FirstMeasurement | None = None
    spent_s: float = 0.0  # of the time budget, before the first round
    suspects_only: bool = False  # beyond the first look
    failed: Mapping[str, Failure] = field(default_factory=dict)
    budget_words: str = ""  # what the time budget is called where it ends the run
    is_disturbed: Callable[[NoiseRecord | None, Sequence[float]], bool] = lambda noise, mhz: False
    prior_runs: PriorRuns | None = None
    other_comparisons: int = 0

    @property
    def others(self) -> tuple[float, ...]:
        """The p values of other hosts' comparisons. None is known: with 1 for each, what is flagged here is flagged
        whatever they turn out to be."""
        return (1.0,) * self.other_comparisons

    @property
    def budget(self) -> str:
        """The time budget in words."""
        return self.budget_words or f"the time budget of {self.time_budget:g} s"

    def planner(self) -> EffortPlanner:
        """What earlier runs say of the cases; nothing in a replication."""
        if self.prior_runs is None or self.first_measurement is not None:
            return EffortPlanner()
        return self.prior_runs.planner(self.cases)

    @cached_property
    def forecast(self) -> RunForecast | None:
        """What the run is likely to take; None if earlier runs say nothing of its cases, and for a replication."""
        return forecast_run(self.planner(), self.cases, {}, self.looks)

    @property
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

    @property
    def chosen_aa_cases(self) -> tuple[Case, ...]:
        """The cases that are measured on the control alone, too."""
        if self.first_measurement is not None:
            return self.first_measurement.aa_cases
        return draw_aa_cases(self.cases, self.aa_cases, self.seed)

    def analysis(self, findings: "MeasurementResult") -> RunAnalysis:
        """Return the analysis of what was measured so far."""
        first = self.first_measurement
        return RunAnalysis(
            self.cases,
            findings.samples,
            findings.failures,
            self.looks,
            self.alpha,
            injected=self.injected,
            priors=first.priors if first else None,
            failed_before=first.failed if first else frozenset(),
            other_p_values=self.others,
        )


@dataclass(frozen=True)
class Batch:
    """Cases of one metric that one process pair can measure, and the A/A checks that go with them (or alone)."""

    requests: Sequence[CaseRequest]
    fork: bool
    aa_cases: Sequence[CaseRequest] = ()

    @property
    def metric(self) -> str:
        """What is measured."""
        return self.requests[0].case.metric if self.requests else DEFAULT_METRIC


@dataclass(frozen=True)
class HostProgress:
    """What a host of a fleet does: of its present shard the number (None: it has none), how many of its cases are
    done, and how many there are."""

    name: str
    doing: str
    shard: int | None = None
    cases_done: int = 0
    cases: int = 0


@dataclass(frozen=True)
class Progress:
    """Told after every round: seconds, counts of cases and process pairs; and in a fleet, what each host does."""

    rounds: int
    open_cases: int
    cases: int
    elapsed_s: float
    left_s: float  # to the next look of the open cases, or to the end of the budget if that comes first
    verifying: bool = False
    end_s: float | None = None  # to the end of the measurement, where earlier runs let one expect it
    hosts: tuple[HostProgress, ...] = ()
    outlook: str = ""  # what the run is likely to come to, in words, after its first rounds
    measured_on: int = 0  # settled cases that get more rounds, because the host is disturbed


@dataclass
class MeasurementResult:
    """All that a run has measured so far. ``stopped`` says why it ended early; None when every verdict is settled
    or its looks are spent."""

    samples: dict[str, list[PairSample]] = field(default_factory=dict)
    aa_cases: dict[str, list[PairSample]] = field(default_factory=dict)  # control against control
    mhz: list[float] = field(default_factory=list)
    nice: int | None = None  # the latest pair's, the lower one of both sides
    failures: dict[str, Failure] = field(default_factory=dict)
    incidents: list[Incident] = field(default_factory=list)
    rounds: int = 0
    timed_s: float = 0.0
    wall_s: float = 0.0
    spent_s: dict[str, float] = field(default_factory=dict)  # by what the measuring processor's time went into
    pace: RoundDuration | None = None  # how long rounds took
    effort: dict[str, Effort] = field(default_factory=dict)  # by case id
    noise: RunNoiseRecord | None = None  # of the host by level, as ``describe_noise`` has it
    expected_s: float | None = None  # how long it would take, as the first rounds had it
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
