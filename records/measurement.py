"""What the harness brings home from a process pair: samples, failures and incidents."""

from dataclasses import dataclass
from typing import Literal

from opduel.support.redaction import redact

Side = Literal["control", "treatment"]
SIDES: tuple[Side, Side] = ("control", "treatment")

# "screening": until a case is cleared or looks changed. "confirmation": the fresh samples of a case that looks changed.
Stage = Literal["screening", "confirmation"]
STAGES: tuple[Stage, Stage] = ("screening", "confirmation")

Profiler = Literal["python", "native"]  # how calls are timed: by a clock, or by the framework's own profiler

SKIPPED = "skipped"  # the kind of a failure that is none where both sides have it
MISSING = "missing"  # of an operator, function or benchmark that a build doesn't have
FROM_OUTSIDE = ("killed", "out-of-memory")  # kinds of failure that the machine may have to answer for


@dataclass(frozen=True)
class PairSample:
    """The sample of one case in one round. With several forks, values are means over the middle half of them."""

    case_id: str
    """the case"""
    stage: Stage
    """``screening`` or ``confirmation``"""
    round: int
    """number of the process pair in the run, from 0"""
    control: float
    """the control's value, in the comparison's ``unit``; for time ns a call, the median of its blocks"""
    treatment: float
    """the treatment's value"""
    log_ratio: float
    """ln(treatment / control); for time the trimmed mean over neighbouring blocks, so that drift cancels; 0
    where a value is 0 or below, which has no ratio"""
    blocks: int
    """timed blocks a side; 1 for metrics without blocks"""
    calls: int
    """timed or counted calls a side"""
    forks: int = 1
    """forks a side"""
    fork_values: tuple[tuple[float, float], ...] = ()
    """with several forks, ``[control, treatment]`` of each"""
    fork_ratios: tuple[tuple[float, float], ...] = ()
    """``[log ratio, standard error]`` of each fork, the error from its own blocks; empty for metrics without blocks"""


@dataclass(frozen=True)
class Failure:
    """Why a case could not be measured."""

    side: Literal["control", "treatment", "both"]
    """one side only if the other succeeded each time"""
    kind: str
    """``error`` (the framework raised), ``missing`` (no such operator in that build), ``skipped`` (the benchmark
    excludes that build), ``crash``, ``timeout``, ``killed`` (SIGKILL from outside), ``out-of-memory``, or ``start``
    (the worker did not start)"""
    reason: str
    """one line"""
    output_tail: str = ""
    """the last lines that the worker printed"""

    def __post_init__(self) -> None:
        """Mask secrets: a framework may print anything, and reasons quote it."""
        object.__setattr__(self, "reason", redact(self.reason))
        object.__setattr__(self, "output_tail", redact(self.output_tail))


@dataclass(frozen=True)
class Incident:
    """The loss of a process during the run, or the failure of a case that had been measured before."""

    round: int
    """number of the process pair, from 0"""
    case_id: str | None
    """the case being measured; null while starting up"""
    failure: Failure
    consequence: str
    """what the run did about it"""
