"""A report's ``run``: what was to be measured and how it went, with what the fields mean."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from opduel.records.configuration import RunConfiguration
from opduel.records.host_record import HostRecord, Record
from opduel.records.measurement import Incident, PairSample, Profiler


@dataclass(frozen=True, kw_only=True)
class AACheckRecord(Record):
    """A case measured on the control against itself."""

    case: str | None = None
    """the case's id"""
    ratio: float | None = None
    """second process / first process; null with fewer than 2 rounds"""
    ci: tuple[float, float] | None = None
    """interval of ``ratio``, with confidence 99 % for all A/A checks of the run together"""
    p_value: float | None = None
    """tests "within the threshold", corrected for the number of A/A checks"""
    threshold: float | None = None
    """that of the case, a share"""
    rounds: int | None = None
    """rounds that measured it"""
    flagged: bool = False
    """whether ``p_value`` is at most 0.01: a difference where there is none"""
    samples: tuple[PairSample, ...] = ()
    """``treatment`` is the second process"""


@dataclass(frozen=True, kw_only=True)
class ValidityRecord(Record):
    """Whether the run can be trusted, and why not."""

    valid: bool | None = None
    """false if the host was busy or an A/A check found a difference"""
    hold: bool | None = None
    """whether verdicts that an invalid run doesn't support are held back (``--busy_host``)"""
    reasons: tuple[str, ...] = ()
    """what disturbed the run"""
    frequency_mhz: Mapping[str, float | None] | None = None
    """``low`` and ``high`` of the measuring CPUs, the 10th and 90th percentile of readings; null on most VMs"""
    aa_checks: tuple[AACheckRecord, ...] = ()
    """those that could be measured"""

    @property
    def is_biased(self) -> bool:
        """Whether an A/A check found a difference: something favoured a side, and ratios may all be off."""
        return any(check.flagged for check in self.aa_checks)


@dataclass(frozen=True, kw_only=True)
class CpusRecord(Record):
    """The processors of the run."""

    measure: tuple[int, ...] = ()
    """those that timed calls ran on"""
    start: tuple[int, ...] = ()
    """those that workers started on"""
    nice: int | None = None
    """the workers' nice value, -20 where the system allows it"""


@dataclass(frozen=True, kw_only=True)
class BudgetRecord(Record):
    """The time budget that would settle most open cases."""

    time_budget: float | None = None
    """seconds, for a run with the same options that begins from zero"""
    further: float | None = None
    """seconds, for a further start, which goes on from the rounds of this run; null where none can"""
    settles: int | None = None
    """cases that it would settle"""
    open: int | None = None
    """open cases"""


@dataclass(frozen=True, kw_only=True)
class RunNoiseRecord(Record):
    """The host's noise in the run: standard deviations of a log ratio, medians over cases."""

    quad_sd: float | None = None
    fork_sd: float | None = None
    pair_sd: float | None = None
    speed_range: float | None = None
    """how far the processor's speed ranged, as a ratio"""
    words: str | None = None
    """the line ``noise:`` of the outputs"""


@dataclass(frozen=True, kw_only=True)
class PriorRunsRecord(Record):
    """What ``--prior_runs`` knew."""

    reports: int | None = None
    """earlier reports that were used"""
    skipped: int | None = None
    """those of another host, framework or setting"""
    known: int | None = None
    """cases with a history"""
    expected_s: float | None = None
    """seconds expected for measuring if no case has changed, without a time budget"""
    expected_rounds: Mapping[str, int] = field(default_factory=dict)
    """process pairs by case id"""


@dataclass(frozen=True, kw_only=True)
class ProfilesRecord(Record):
    """What ``--profile_output`` wrote."""

    folder: str = ""
    written: int = 0
    """profiles in it"""
    problems: tuple[str, ...] = ()
    """a line for each that could not be written"""


@dataclass(frozen=True, kw_only=True)
class SkippedRecord(Record):
    """A case that both builds skipped, and why."""

    case: str = ""
    reason: str = ""


UNKNOWN = "unknown: "  # begins the reason why a case is measured though nothing is known to reach it


@dataclass(frozen=True, kw_only=True)
class LeftOutRecord(Record):
    """The cases that were not measured because the change can't reach them."""

    cases: tuple[str, ...] = ()
    """their ids"""
    total: int = 0
    """cases in all"""
    changed: tuple[str, ...] = ()
    """what differs between the builds: ``path:function`` where only functions do, else ``path``"""
    reached: Mapping[str, str] = field(default_factory=dict)
    """why each measured case is, the likeliest first: the first part of the change that it runs or imports, or that
    another case of its benchmark does, or why that is unknown"""


@dataclass(frozen=True, kw_only=True)
class SuiteRecord(Record):
    """The suite that both sides ran."""

    requested: str = ""
    """what ``--suite`` was given"""
    pinned: str = ""
    """the same with its commit; a folder's absolute path"""
    folder: str | None = None
    """where its benchmarks were"""
    name: str | None = None
    """the project, by ``asv.conf.json``, or the folder"""
    digest: str = ""
    """SHA-256 of the names and contents of its files"""
    commit: str | None = None
    dirty: bool | None = None
    """whether the folder differed from the commit"""
    requirements: tuple[str, ...] = ()
    """what ``matrix`` in ``asv.conf.json`` had installed"""
    benchmarks: Mapping[str, Any] = field(default_factory=dict)
    """by name: ``version``, ``kind`` (``time``, ``timeraw``, ``track``, ``mem``, ``peakmem``, ``test``) and
    ``pretty_name``"""
    one_sided: Mapping[str, str] = field(default_factory=dict)
    """cases that only one build's suite has: case to side"""
    skipped_by_parameters: int = 0
    """sets of parameters that benchmarks skip by ``skip_params``"""
    problems: tuple[str, ...] = ()
    """modules, benchmarks and ``setup_cache`` that failed, a line each"""


@dataclass(frozen=True, kw_only=True)
class ForksRecord(Record):
    """How cases were measured."""

    forked: int = 0
    """cases measured in forks"""
    alone: int = 0
    """cases measured each in a process pair of its own"""
    reason: str | None = None
    """why none is forked, with several threads"""


@dataclass(frozen=True, kw_only=True)
class FleetHostRecord(Record):
    """A host of a fleet, and its part in the run."""

    name: str = ""
    kind: str | None = None
    shards: int = 0
    """shards that it measured"""
    cases: int = 0
    rounds: int = 0
    wall_s: float = 0.0
    """seconds of its shards"""
    valid: bool | None = None
    """whether it was undisturbed"""
    host: HostRecord = field(default_factory=HostRecord)
    """as the report's ``host``"""


@dataclass(frozen=True, kw_only=True)
class FleetKindRecord(Record):
    """A kind of host whose hosts measured all cases."""

    name: str = ""
    hosts: tuple[str, ...] = ()
    """their names"""
    stop_reason: str | None = None
    """why cases were left out"""


@dataclass(frozen=True, kw_only=True)
class FleetRecord(Record):
    """The hosts of a run on a fleet."""

    hosts: tuple[FleetHostRecord, ...] = ()
    kinds: tuple[FleetKindRecord, ...] = ()
    """if each kind of host measured all cases"""
    given_up: int = 0
    """comparisons that were begun on a slow host and made on another"""


@dataclass(frozen=True, kw_only=True)
class LooksRecord(Record):
    """The planned looks."""

    counts: tuple[int, ...] = ()
    """numbers of samples, of both stages together, at which a case is analysed"""
    suspect_level: float | None = None
    """the p value against "no change at all" that makes a case a suspect"""
    by_metric: Mapping[str, "LooksRecord"] = field(default_factory=dict)
    """the same keys for metrics with looks of their own"""


@dataclass(frozen=True, kw_only=True)
class CountingRecord(Record):
    """How instructions were counted."""

    valgrind: str | None = None
    """its path"""
    functions: tuple[str, ...] = ()
    """patterns of the functions that are counted"""
    environment: Mapping[str, str] = field(default_factory=dict)
    """that of the counting workers"""


@dataclass(frozen=True, kw_only=True)
class RunLabels(Record):
    """What is known of a run before it begins."""

    spec: str | None = None
    """the spec's name; ``inputs`` if all inputs came from the command line"""
    spec_path: str | None = None
    """the spec's file"""
    branch: str | None = None
    """the treatment's branch, in runs of ``repo_driver.py``"""
    command: tuple[str, ...] = ()
    """the command line; possible secrets are ``***``"""
    info: Any = None
    """both builds in AI-PEP's format, in runs of ``repo_driver.py``"""
    suite: SuiteRecord | None = None
    """with ``--suite``"""
    spec_seed: int | None = None
    """the seed that drew the spec's random sizes, if that is another"""
    replicates: str | None = None
    """in a run of the driver that measures flagged cases again: the ``id`` of the report with these cases"""
    left_out: LeftOutRecord | None = None
    """null if all cases were to be measured"""
    earlier_budget: float | None = None
    """seconds of ``time_budget`` that earlier starts had, from whose rounds this run goes on"""


@dataclass(frozen=True, kw_only=True)
class CommonRunRecord(RunLabels):
    """The request and the course of a run, of two builds or of one."""

    id: str | None = None
    """unique name of the run"""
    started: str | None = None
    """ISO 8601, UTC; for a resumed run, as ``id``, that of its first start"""
    finished: str | None = None
    """ISO 8601, UTC"""
    configuration: RunConfiguration = field(default_factory=RunConfiguration)
    platform: str | None = None
    """the platform's name, ``host`` unless given"""
    user_identifier: str | None = None
    """the user's own name for the run"""
    framework: str | None = None
    seed: int | None = None
    """of all random choices"""
    threads: int | None = None
    """compute threads of each worker"""
    rounds: int | None = None
    """process pairs that were run"""
    time_budget: float | None = None
    """seconds"""
    environment: Mapping[str, str] = field(default_factory=dict)
    """variables of both sides' workers; possible secrets are ``***``"""
    env: tuple[str, ...] = ()
    """names of those given with ``--env``"""
    forks: ForksRecord | None = None
    """null if nothing was measured"""
    complete: bool | None = None
    """false if the run ended before every case was settled or had all its rounds"""
    aborted: bool = False
    """whether it ended early for another reason than its time budget"""
    interrupted: bool = False
    """whether that reason was a signal"""
    stop_reason: str | None = None
    """the reason in words"""
    wall_s: float | None = None
    """seconds that the run took, without pauses between the parts of a resumed run"""
    profile_output: ProfilesRecord | None = None
    """with ``--profile_output``"""

    @property
    def is_cut_short(self) -> bool:
        """Whether it is known to have ended before every case was settled."""
        return self.complete is False

    @property
    def why_stopped(self) -> str:
        """The reason in words, of a run that was cut short."""
        return self.stop_reason or "stopped early"


@dataclass(frozen=True, kw_only=True)
class RunRecord(CommonRunRecord):
    """The request and the course of a run that compares two builds."""

    resumed: tuple[int, ...] = ()
    """rounds at which the run was resumed"""
    threshold: float | None = None
    """the share given for time; null if none was. Each comparison has its own"""
    run_type: str | None = None
    """``benchmark``, ``verify`` or ``regress``"""
    alpha: float | None = None
    """the false discovery rate"""
    max_rounds: int | None = None
    """the most rounds of a case; ``looks`` has those of counts"""
    inject: float | None = None
    """the injected slowdown, a share"""
    verify_after: float | None = None
    """seconds between measuring and verifying; null without ``--verify``"""
    breakdown: str | None = None
    """which cases were profiled by operator: ``networks``, or ``all`` with ``--breakdown``"""
    aa_cases: int | None = None
    """cases chosen for A/A checks"""
    looks: LooksRecord = field(default_factory=LooksRecord)
    counting: CountingRecord | None = None
    """null if no instructions were counted"""
    wipe_cache: int | None = None
    """bytes that were read before each timed call to evict the caches, with ``--wipe_cache``"""
    golden: str | None = None
    """the folder of golden outputs in place of the control, which is then the build that wrote them"""
    cpus: CpusRecord = field(default_factory=CpusRecord)
    resumable: bool = False
    """whether the rounds were kept (``--round_log``) and resuming could measure more"""
    forecast: BudgetRecord | None = None
    """null if no case is open, or the time is unknown"""
    expected_s: float | None = None
    """seconds expected for all cases without a time budget, after the first rounds"""
    noise: RunNoiseRecord | None = None
    """null if nothing was measured in blocks"""
    prior_runs: PriorRunsRecord | None = None
    """with ``--prior_runs``"""
    fleet: FleetRecord | None = None
    """of a run on a fleet"""
    continues: bool = False
    """whether the driver's next pass resumes the run"""
    not_broken_down: int = 0
    """cases without a ``breakdown`` because the time budget was spent"""
    timed_s: float | None = None
    """seconds inside timed calls"""
    spent_s: Mapping[str, float] = field(default_factory=dict)
    """the rounds' seconds by activity"""
    incidents: tuple[Incident, ...] = ()
    validity: ValidityRecord = field(default_factory=ValidityRecord)
    skipped: tuple[SkippedRecord, ...] = ()
    """cases that both builds skipped, which have no comparison"""


@dataclass(frozen=True, kw_only=True)
class SingleRunRecord(CommonRunRecord):
    """The request and the course of a single-build run."""

    profiler: Profiler = "python"
    warmup: int | None = None
    runs: int | None = None
    cpus: tuple[int, ...] = ()
    """those that timed calls ran on"""
