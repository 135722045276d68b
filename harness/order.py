"""What a measurement is asked to do, and what it brings home: the order, a batch, progress, and all findings."""

import random
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

from comparator import Looks, Prior
from harness.blocks import CaseRequest
from harness.pace import Pace
from harness.sentinels import draw_sentinels
from records import DEFAULT_METRIC, METRICS, Case, Failure, Incident, PairSample


@dataclass(frozen=True)
class Earlier:
    """What a verification takes over from the run that it verifies.

    ``samples`` (of the screen) made its cases suspects, and ``priors`` are the run's, by metric; ``injected`` and
    ``sentinels`` are those of that run; ``rounds`` counts its process pairs.
    """

    samples: Mapping[str, Sequence[PairSample]]
    priors: Mapping[str, Prior]
    injected: frozenset[str]
    sentinels: tuple[Case, ...]
    rounds: int


@dataclass(frozen=True)
class Order:
    """What a run is asked to do.

    ``time_budget`` is in seconds of wall time (None: no bound); ``inject`` is the share by which the treatment side
    of every second case is slowed (0: none); ``can_fork`` says of a case whether it can be measured in a fork;
    ``sentinels`` counts them; ``earlier`` is set for a verification.
    """

    cases: Sequence[Case]
    looks: Looks
    alpha: float
    seed: int
    time_budget: float | None = None
    inject: float = 0.0
    can_fork: Callable[[Case], bool] = lambda case: True
    sentinels: int = 0
    earlier: Earlier | None = None
    spent_s: float = 0.0  # of the time budget, before the first round
    suspects_only: bool = False  # beyond the first look
    budget_words: str = ""  # what the time budget is called where it ends the run

    @property
    def budget(self) -> str:
        """The time budget in words."""
        return self.budget_words or f"the time budget of {self.time_budget:g} s"

    @property
    def injected(self) -> frozenset[str]:
        """The ids of the cases that are slowed on purpose: of the first two one, of the next two one, and so on.

        Which one is drawn from the seed: forward and backward cases often take turns in a spec.  Each metric's cases
        are drawn alike, so that cases which differ in the metric alone are slowed together.
        """
        if self.earlier is not None:
            return self.earlier.injected
        chosen: set[str] = set()
        for metric in (name for name, metric in METRICS.items() if self.inject and metric.injectable):
            coin = random.Random(f"inject {self.seed}")
            cases = [case for case in self.cases if case.metric == metric]
            chosen |= {coin.choice(pair).id for pair in zip(cases[::2], cases[1::2], strict=False)}
        return frozenset(chosen)

    @property
    def sentinel_cases(self) -> tuple[Case, ...]:
        """The cases that are measured on the control alone, too."""
        if self.earlier is not None:
            return self.earlier.sentinels
        return draw_sentinels(self.cases, self.sentinels, self.seed)


@dataclass(frozen=True)
class Batch:
    """Cases of one metric that one process pair can measure, and the sentinels that go with them (or alone)."""

    requests: Sequence[CaseRequest]
    fork: bool
    sentinels: Sequence[CaseRequest] = ()

    @property
    def metric(self) -> str:
        """What is measured."""
        return self.requests[0].case.metric if self.requests else DEFAULT_METRIC


@dataclass(frozen=True)
class Progress:
    """Told after every round: seconds, counts of cases and process pairs."""

    rounds: int
    open_cases: int
    cases: int
    elapsed_s: float
    left_s: float  # to the next look of the open cases, or to the end of the budget if that comes first
    verifying: bool = False


@dataclass
class Findings:
    """All that a run has measured so far. ``stopped`` says why it ended early; None when every verdict is settled
    or its looks are spent."""

    samples: dict[str, list[PairSample]] = field(default_factory=dict)
    sentinels: dict[str, list[PairSample]] = field(default_factory=dict)  # control against control
    mhz: list[float] = field(default_factory=list)
    failures: dict[str, Failure] = field(default_factory=dict)
    incidents: list[Incident] = field(default_factory=list)
    rounds: int = 0
    timed_s: float = 0.0
    wall_s: float = 0.0
    spent_s: dict[str, float] = field(default_factory=dict)  # by what the measuring processor's time went into
    pace: Pace | None = None  # how long rounds took
    stopped: str | None = None
    broken: bool = False  # stopped by something other than the budget: the run could not be completed
    interrupted: bool = False  # and that was a signal
    not_broken_down: int = 0  # cases whose breakdown the time budget had no room for
    closed: bool = False  # the verification has ended, and with it the run: the first measurement is not taken up again

    @property
    def resumable(self) -> bool:
        """Whether a further start with the same log could measure more."""
        return self.stopped is not None and (self.broken or not self.closed)

    def stop(self, error: BaseException) -> None:
        """Note that this ended the run early."""
        self.stopped, self.broken = str(error) or "interrupted", True
        self.interrupted = isinstance(error, KeyboardInterrupt)
