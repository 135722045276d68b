"""What the harness brings home from a process pair: samples, failures and incidents."""

from dataclasses import dataclass
from typing import Literal

from opduel.records.redaction import redact

Side = Literal["control", "treatment"]
SIDES: tuple[Side, Side] = ("control", "treatment")

# "screen": the first look at every case. "own": samples taken after the case became a suspect, and for its own sake.
Stage = Literal["screening", "confirmation"]
STAGES: tuple[Stage, Stage] = ("screening", "confirmation")

Profiler = Literal["python", "native"]  # how calls are timed: by a clock, or by the framework's own profiler

SKIPPED = "skipped"  # the kind of a failure that is none where both sides have it
FROM_OUTSIDE = ("killed", "out-of-memory")  # kinds of failure that the machine may have to answer for


@dataclass(frozen=True)
class PairSample:
    """One case measured in one process pair: the unit of inference.

    ``control`` and ``treatment`` are process values in the metric's unit (for time: median over blocks of the
    lower decile of calls, ns a call).  ``log_ratio`` is ln(treatment / control) of neighbouring blocks, so that
    slow drift cancels: a trimmed mean over them.  A pair with few cases measures each in several ``forks``;
    all three are then means over the middle half of them, and ``fork_values`` has control and treatment of each.
    ``fork_ratios`` has each fork's log ratio and the standard error of it that the fork's own blocks show, of one fork,
    too; it is empty for metrics that are measured without blocks.
    """

    case_id: str
    stage: Stage
    round: int  # counts process pairs over the whole run, from 0
    control: float
    treatment: float
    log_ratio: float
    blocks: int  # per side
    calls: int  # timed calls per side
    forks: int = 1
    fork_values: tuple[tuple[float, float], ...] = ()
    fork_ratios: tuple[tuple[float, float], ...] = ()


@dataclass(frozen=True)
class Failure:
    """Why a case could not be measured.

    ``kind`` is one of "error" (the framework raised), "missing" (no such operator in that build), "crash",
    "timeout", "killed" (SIGKILL from outside), "out-of-memory", "start" (the process could not even be started),
    "skipped" (the benchmark doesn't want to be run with that build).
    """

    side: Literal["control", "treatment", "both"]
    kind: str
    reason: str  # one line
    output_tail: str = ""  # the tail of what the worker printed

    def __post_init__(self) -> None:
        """A framework may print anything, and reasons quote it: secrets are taken out."""
        object.__setattr__(self, "reason", redact(self.reason))
        object.__setattr__(self, "output_tail", redact(self.output_tail))


@dataclass(frozen=True)
class Incident:
    """A process was lost in mid-run, or a case refused that had been measured before, and what became of it.

    Incidents never vanish from the report.
    """

    round: int
    case_id: str | None  # None: while starting up
    failure: Failure
    consequence: str
