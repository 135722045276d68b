"""What one build alone was measured to do: a single-build run, and how it compares with an earlier one."""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Literal

from opduel.records.build import Build
from opduel.records.case import Mode
from opduel.records.host_record import HostRecord
from opduel.records.measurement import Failure
from opduel.records.run_record import SingleRunRecord
from opduel.records.work import Work
from opduel.support.redaction import redact_data, redact_inputs

SINGLE_SCHEMA_VERSION = 2  # of the document that SingleReport is written as
BaselineVerdict = Literal["slower", "faster", "within", "failed", "new", "gone", "incomparable"]


@dataclass(frozen=True)
class Distribution:
    """Timed calls summed up, in ns a call; ``stdev`` is that of a sample (0 for one call)."""

    mean: float
    p50: float
    p90: float
    p99: float
    min: float
    max: float
    stdev: float


@dataclass(frozen=True)
class ProfiledOperator:
    """One operator within a case's profiled calls: how often it ran, and for how long in all."""

    count: int
    total_ns: float


@dataclass(frozen=True)
class SingleResult:
    """One case on one build. A case that failed after some rounds has both ``time`` and ``failure``."""

    case: str
    operator: str
    direction: str
    dtype: str
    context: str
    inputs: Mapping[str, Any]
    time: Distribution | None  # over all timed calls of all rounds; None if there were none
    calls: int  # timed
    rounds: int  # processes in which it was timed
    process_p50: tuple[float, ...]  # ns a call: the median of each process, in order
    memory: Mapping[str, float] | None  # device -> bytes that a call held at most; None: the profiler didn't tell
    operators: Mapping[str, ProfiledOperator] | None  # with --profiler native
    failure: Failure | None
    work: Work | None = None  # of one call, where it is known
    mode: Mode | None = None  # how a block ran; None of a network
    note: str = ""  # why there is no time, where nothing failed


@dataclass(frozen=True)
class SingleReport:
    """A single-build run: ``run`` (asked for, and how it went), the build, the host, and a result for each case."""

    run: SingleRunRecord
    build: Build
    host: HostRecord
    cases: tuple[SingleResult, ...]
    schema_version: int = field(default=SINGLE_SCHEMA_VERSION)

    def without_secrets(self) -> "SingleReport":
        """Return the report with what looks like a secret masked in ``run`` and in commands, as ``Report`` does."""
        cases = tuple(replace(case, inputs=redact_inputs(case.inputs)) for case in self.cases)
        return replace(self, run=redact_data(self.run), cases=cases)


@dataclass(frozen=True)
class BaselineComparison:
    """One case against an earlier result. ``ratio``: of the medians over processes, now / then."""

    case: str
    verdict: BaselineVerdict
    then_ns: float | None
    now_ns: float | None
    ratio: float | None
    note: str = ""
    failed_then: bool = False

    @property
    def is_worse(self) -> bool:
        """Slower beyond the threshold, or failing now and not then."""
        return self.verdict == "slower" or (self.verdict == "failed" and not self.failed_then)
