"""What a report says of its run and its host: JSON objects, whose documented keys are typed attributes.

docs/reference/report.md says what the keys mean. All of an object stays as it was read: keys that this version does
not know are kept, and so is a value of another type than it should have, whose attribute is as if it were missing.
"""

import functools
from collections.abc import Callable, Iterator, Mapping
from typing import Any, Literal, Self, get_type_hints

from opduel.records.configuration import RunConfiguration
from opduel.records.typed import UNKNOWN, fitting


class JsonObject(Mapping[str, Any]):
    """A JSON object. Subclasses annotate its keys: with the type, and the value where the key is missing."""

    def __init__(self, values: Mapping[str, Any] | None = None, **more: Any) -> None:
        object.__setattr__(self, "_values", {**(values or {}), **more})
        for name, kind in _kinds(type(self)).items():
            value = fitting(self[name], kind) if name in self else UNKNOWN
            if value is not UNKNOWN:
                object.__setattr__(self, name, value)

    @classmethod
    def of(cls, values: Mapping[str, Any]) -> Self:
        """``values``, or the object that they are already."""
        return values if type(values) is cls else cls(values)

    def __getitem__(self, key: str) -> Any:
        values: Mapping[str, Any] = self.__dict__["_values"]
        return values[key]

    def __iter__(self) -> Iterator[str]:
        return iter(self.__dict__["_values"])

    def __len__(self) -> int:
        return len(self.__dict__["_values"])

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.__dict__['_values']!r})"

    def __setattr__(self, name: str, value: Any) -> None:
        raise AttributeError(f"{type(self).__name__} is immutable: make another one")

    @classmethod
    def __get_pydantic_core_schema__(cls, source: Any, handler: Callable[[Any], Any]) -> Any:
        """For pydantic it is any JSON object; the record that holds it makes it one of these."""
        return handler(dict[str, Any])


@functools.cache
def _kinds(record: type[JsonObject]) -> dict[str, Any]:
    return get_type_hints(record)


class FailureRecord(JsonObject):
    """Why something could not be measured, as ``opduel.records.Failure``."""

    side: Literal["control", "treatment", "both"] = "both"
    kind: str = "unknown"
    reason: str = ""
    output_tail: str = ""


class IncidentRecord(JsonObject):
    """A process that was lost in mid-run, and what came of it."""

    round: int | None = None
    case_id: str | None = None
    failure: FailureRecord = FailureRecord()
    consequence: str = ""


class AACheckRecord(JsonObject):
    """A case measured on the control against itself."""

    case: str | None = None
    ratio: float | None = None
    ci: tuple[float, ...] = ()
    threshold: float | None = None
    rounds: int | None = None
    flagged: bool = False


class ValidityRecord(JsonObject):
    """Whether the run can be trusted, and by what that was judged."""

    valid: bool | None = None
    hold: bool | None = None
    reasons: tuple[str, ...] = ()
    aa_checks: tuple[AACheckRecord, ...] = ()

    @property
    def is_biased(self) -> bool:
        """Whether an A/A check found a difference: something favoured a side, and ratios may all be off."""
        return any(check.flagged for check in self.aa_checks)


class CpusRecord(JsonObject):
    """Which processors measured, and at which priority."""

    measure: tuple[int, ...] = ()
    start: tuple[int, ...] = ()
    nice: int | None = None


class BudgetRecord(JsonObject):
    """The time budget that would settle most of the open cases."""

    time_budget: float | None = None
    settles: int | None = None
    open: int | None = None


class RunNoiseRecord(JsonObject):
    """The noise of a run by level, medians over cases; how far the processor's speed ranged, as a ratio; how many times
    a quiet host's effort it took; and that in words."""

    quad_sd: float | None = None
    fork_sd: float | None = None
    pair_sd: float | None = None
    speed_range: float | None = None
    effort: float | None = None
    words: str | None = None


class PriorRunsRecord(JsonObject):
    """What ``--prior_runs`` knew, and the length that was expected of the run."""

    reports: int | None = None
    skipped: int | None = None
    known: int | None = None
    expected_s: float | None = None
    expected_rounds: Mapping[str, int] = {}


class ProfilesRecord(JsonObject):
    """What ``--profile_output`` wrote."""

    folder: str = ""
    written: int = 0
    problems: tuple[str, ...] = ()


class SkippedRecord(JsonObject):
    """A case that both builds skipped, and why."""

    case: str = ""
    reason: str = ""


class SuiteRecord(JsonObject):
    """The suite that was run: what was asked for, and the version of it that both sides ran."""

    requested: str = ""
    pinned: str = ""  # the same with the commit that it came to; a folder's absolute path
    commit: str | None = None
    dirty: bool | None = None
    digest: str = ""
    problems: tuple[str, ...] = ()


class ForksRecord(JsonObject):
    """How many cases were measured in forks, how many each in a process pair; of these, what was found, if anything."""

    forked: int = 0
    alone: int = 0
    reason: str | None = None


class FleetHostRecord(JsonObject):
    """A host of a fleet, and its part in the run."""

    name: str = ""
    kind: str | None = None
    shards: int = 0
    cases: int = 0
    rounds: int = 0
    wall_s: float = 0.0
    valid: bool | None = None


class FleetKindRecord(JsonObject):
    """A kind of host whose hosts measured all cases; ``stop_reason``: why they did not measure all of them."""

    name: str = ""
    hosts: tuple[str, ...] = ()
    stop_reason: str | None = None


class FleetRecord(JsonObject):
    """The hosts that a run was measured on; their kinds, if each kind measured all cases."""

    hosts: tuple[FleetHostRecord, ...] = ()
    kinds: tuple[FleetKindRecord, ...] = ()


class RunRecord(JsonObject):
    """How a run went; what it was asked for is in ``configuration``."""

    id: str | None = None
    started: str | None = None
    finished: str | None = None
    command: tuple[str, ...] = ()
    spec: str | None = None
    spec_path: str | None = None
    branch: str | None = None
    framework: str | None = None
    seed: int | None = None
    spec_seed: int | None = None  # that drew the spec's random sizes, where that is another
    environment: Mapping[str, str] = {}
    cpus: CpusRecord = CpusRecord()
    complete: bool | None = None
    resumable: bool = False
    aborted: bool = False
    interrupted: bool = False
    stop_reason: str | None = None
    forecast: BudgetRecord | None = None
    expected_s: float | None = None  # of wall time for all cases without a time budget, as the first rounds had it
    noise: RunNoiseRecord | None = None
    prior_runs: PriorRunsRecord | None = None
    fleet: FleetRecord | None = None
    continues: bool = False
    not_broken_down: int = 0
    rounds: int | None = None
    wall_s: float | None = None
    timed_s: float | None = None
    spent_s: Mapping[str, float] = {}
    incidents: tuple[IncidentRecord, ...] = ()
    validity: ValidityRecord = ValidityRecord()
    profile_output: ProfilesRecord | None = None
    suite: SuiteRecord | None = None
    forks: ForksRecord | None = None
    skipped: tuple[SkippedRecord, ...] = ()

    @property
    def configuration(self) -> RunConfiguration:
        """What the run was asked for; an option that the report doesn't state has its default."""
        values = self.get("configuration")
        return RunConfiguration.of(values if isinstance(values, Mapping) else {})

    @property
    def is_cut_short(self) -> bool:
        """Whether it is known to have ended before every case was settled."""
        return self.complete is False

    @property
    def why_stopped(self) -> str:
        """The reason in words, of a run that was cut short."""
        return self.stop_reason or "stopped early"


class SingleRunRecord(RunRecord):
    """The same of a single-build run."""

    threads: int | None = None
    warmup: int | None = None
    runs: int | None = None


class MeasureRecord(JsonObject):
    """One measure of the host's noise: the extremes over the samples, and the mean."""

    min: float | None = None
    max: float | None = None
    mean: float | None = None


class NoiseRecord(JsonObject):
    """The host's noise over a time."""

    steal: MeasureRecord = MeasureRecord()
    other_cpu: MeasureRecord = MeasureRecord()


class HostRecord(JsonObject):
    """The machine and its noise."""

    name: str | None = None
    cpu_model: str | None = None
    gpus: tuple[str, ...] = ()
    logical_cpus: int | None = None
    machine: str | None = None
    kernel: str | None = None
    governors: tuple[str, ...] | None = None
    hypervisor: bool = False
    memory_total: float | None = None
    roofline: Mapping[str, Any] | None = None
    before: NoiseRecord = NoiseRecord()
    during: NoiseRecord = NoiseRecord()
    verifying: NoiseRecord = NoiseRecord()
