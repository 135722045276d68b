"""What a run keeps of itself while it goes on, so that one that was cut short can be resumed: JSON texts in a log.

The log belongs to the caller.  What is read back from it is taken or passed over, never trusted: a damaged text costs
its own round and no other.

What is lost favours no side.  A kill costs the round in progress, a signal the fork or sample of the case in progress;
cases come in random order, and a fork's value is there only with all its quads, in which both sides have their turn.
That a long fork is likelier to be cut off hangs on the time of both sides together.
"""

import hashlib
import json
import logging
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Annotated, Any, Literal, Protocol

from pydantic import Field, TypeAdapter, ValidationError

from opduel.harness.machine.host import HostMonitor, merged_noise
from opduel.harness.measurement_plan import FirstMeasurement, MeasurementPlan
from opduel.harness.processes.case_request import CaseRequest
from opduel.harness.processes.pair_pool import Bench
from opduel.harness.rounds.pair import Round, RoundResult
from opduel.records import HostRecord, RunConfiguration, Stage
from opduel.records.host_record import NoiseRecord
from opduel.support.validation import explain

FORMAT = 2  # raised when older texts would be misread
Phase = Literal["first", "verify"]
NotNegative = Annotated[float, Field(ge=0, allow_inf_nan=False)]
Count = Annotated[int, Field(ge=0)]

log = logging.getLogger(__name__)


class RoundLog(Protocol):
    """Where a run keeps its rounds: one log a run, given again (``RunRequest.log``) to the start that resumes it. Texts
    are JSON without line feeds. To try once more after workers would not start, give it an empty log."""

    def rounds(self) -> Sequence[str]:
        """Return the texts that were kept, in order. A text may be damaged, and may stand there twice."""

    def keep(self, text: str) -> None:
        """Append a text; it is durable when this returns. Raises OSError: it could not be kept; the run warns and goes
        on without."""


@dataclass(frozen=True)
class Start:
    """A process began with the run, or went on with it, at the round ``round``. The run's ``id`` and beginning
    (``started``, ISO 8601, UTC) are those of the first; ``run``: the ``fingerprint`` of what is measured."""

    run: str
    id: str
    started: str
    round: Count
    kind: Literal["start"] = "start"


@dataclass(frozen=True)
class StoredRound:
    """One round as ``Schedule`` absorbs it, ``result`` without unmeasured requests. Cases are named by id and stage,
    and looked up in the plan. ``elapsed_s``: of the phase, all processes together. ``noise``: of the host, since this
    process began the phase."""

    run: str
    phase: Phase
    number: Count
    fork: bool
    planned: tuple[tuple[str, Stage], ...]
    aa_ids: tuple[str, ...]
    unmeasured: tuple[tuple[str, Stage], ...]
    result: RoundResult
    elapsed_s: NotNegative
    noise: NoiseRecord | None
    kind: Literal["round"] = "round"

    def is_of(self, plan: MeasurementPlan) -> bool:
        """Return whether all cases that it names are the plan's."""
        case_ids, aa_case_ids = {case.id for case in plan.cases}, {case.id for case in plan.aa_cases}
        planned = {case_id for case_id, _ in (*self.planned, *self.unmeasured)}
        aa_result = self.result.aa_result or RoundResult()
        return planned | self.result.case_ids <= case_ids and {*self.aa_ids} | aa_result.case_ids <= aa_case_ids

    def restore(self, plan: MeasurementPlan) -> tuple[Round, RoundResult]:
        """Return the round and its result, as they were when it had been run."""
        cases = {case.id: case for case in (*plan.aa_cases, *plan.cases)}
        requests, unmeasured = (
            [plan.request(cases[case_id], stage) for case_id, stage in named]
            for named in (self.planned, self.unmeasured)
        )
        aa_requests = plan.aa_requests([cases[case_id] for case_id in self.aa_ids])
        this_round = Round(requests, self.number, self.fork, aa_requests=aa_requests)
        return this_round, replace(self.result, unmeasured=unmeasured)


@dataclass(frozen=True)
class Verifying:
    """The first measurement is over for good, ``elapsed_s`` after the run began, the wait included; ``stopped`` as in
    ``MeasurementResult``: in the words of the start that ended it, which may have had another budget."""

    run: str
    elapsed_s: NotNegative
    stopped: str | None
    kind: Literal["verifying"] = "verifying"


Entry = Start | StoredRound | Verifying
_ADAPTER: TypeAdapter[Entry] = TypeAdapter(Annotated[Entry, Field(discriminator="kind")])


def fingerprint(parts: Mapping[str, Any]) -> str:
    """Return what identifies these ``parts`` (JSON data) of a run: rounds of one fingerprint can be pooled."""
    text = json.dumps({"format": FORMAT, **parts}, sort_keys=True)
    return hashlib.sha256(text.encode()).hexdigest()[:16]


def identity_of(
    framework: str, configuration: RunConfiguration, plan: MeasurementPlan, bench: Bench, host: HostRecord
) -> str:
    """Return the fingerprint of all that has to be the same for a start to go on with the rounds of another."""
    return fingerprint(
        {
            "framework": framework,
            "builds": {side: build.digest for side, build in bench.builds.items()},
            "cases": [case.measured_by() for case in plan.cases],
            "aa_cases": [case.id for case in plan.aa_cases],
            "looks": asdict(plan.looks),
            "alpha": plan.alpha,
            "seed": plan.seed,
            "inject": plan.inject,
            "verifies": configuration.verifies_after is not None,
            "threads": configuration.threads,
            "environment": dict(bench.environment),
            "cpu": host.cpu_model,
            **({"wipe_cache": bench.wiping.size} if bench.wiping else {}),
            **({"other_comparisons": plan.other_comparisons} if plan.other_comparisons else {}),
            **({"replicates": _identity_of_first(plan.first_measurement)} if plan.first_measurement else {}),
        }
    )


def _identity_of_first(first: FirstMeasurement) -> dict[str, Any]:
    """Return what a replication takes over, as plain data: its verdicts depend on it, but not on ``fork_values``."""
    samples = {
        case_id: [{**asdict(sample), "fork_values": None} for sample in samples]
        for case_id, samples in first.samples.items()
    }
    return {
        "samples": samples,
        "priors": {metric: asdict(prior) for metric, prior in first.priors.items()},
        "injected": sorted(first.injected),
        "failed": sorted(first.failed),
    }


def to_text(entry: Entry) -> str:
    """Return JSON on one line. Numbers that are not finite are JavaScript's words; a lone surrogate becomes "?"."""
    return json.dumps(asdict(entry), ensure_ascii=False).encode("utf-8", "replace").decode("utf-8")


def from_text(text: str) -> Entry:
    """Read what ``to_text`` wrote. Raises ValueError: the text is damaged, or none of ours."""
    try:
        return _ADAPTER.validate_json(text, strict=True)
    except ValidationError as error:
        raise ValueError(explain(error, "the entry")) from None


def count_rounds(round_log: RoundLog) -> int:
    """Return how many rounds a log has, beside the starts of processes."""
    return sum(text.endswith('"kind": "round"}') for text in round_log.rounds())


class Checkpoint:
    """A run's log, read once and written on. Without a log it remembers nothing and keeps nothing."""

    def __init__(self, round_log: RoundLog | None, run: str) -> None:
        self._log, self.run = round_log, run
        self.keeps = round_log is not None
        self.entries = [] if round_log is None else _read(round_log.rounds(), run)
        self.starts = [entry for entry in self.entries if isinstance(entry, Start)]

    @property
    def verifying(self) -> Verifying | None:
        """That the first measurement was over."""
        return next((entry for entry in self.entries if isinstance(entry, Verifying)), None)

    def begin(self, run_id: str, started: str) -> Start:
        """Note that this process begins with the run or goes on with it; return the run's first start."""
        numbers = [entry.number for entry in self.entries if isinstance(entry, StoredRound)]
        self.starts.append(Start(self.run, run_id, started, max(numbers, default=-1) + 1))
        self.keep(self.starts[-1])
        return self.starts[0]

    @property
    def resumed(self) -> list[int]:
        """The rounds at which the run was resumed."""
        return [start.round for start in self.starts[1:]]

    @property
    def elapsed_s(self) -> float:
        """What the run had taken when it last kept something, all processes together."""
        verifying = self.verifying
        round_ends = [stored.elapsed_s for part in self.parts("verify" if verifying else "first") for stored in part]
        return (verifying.elapsed_s if verifying else 0.0) + max(round_ends, default=0.0)

    def parts(self, phase: Phase) -> list[list[StoredRound]]:
        """Return the phase's rounds by the process that ran them, without those of a verification of which no
        beginning is known."""
        parts: list[list[StoredRound]] = [[]]
        for entry in self.entries:
            if isinstance(entry, Start):
                parts.append([])
            elif isinstance(entry, StoredRound) and entry.phase == phase and (phase == "first" or self.verifying):
                parts[-1].append(entry)
        return [part for part in parts if part]

    def phase(self, phase: Phase, monitor: HostMonitor | None = None) -> "PhaseCheckpoint":
        """Return the part of the log that one measurement reads and writes; ``monitor`` watches the host meanwhile."""
        return PhaseCheckpoint(self, phase, monitor)

    def keep(self, entry: Entry) -> None:
        """Keep an entry; an interrupt meanwhile is raised when that is done."""
        if self._log is None:
            return
        text = to_text(entry)
        try:
            self._log.keep(text)
        except KeyboardInterrupt:  # nobody knows how far it came: a text that stands there twice counts once
            self._log.keep(text)
            raise
        except OSError as error:
            log.warning("a round could not be saved; a resumed run will measure it again: %s", error)


class PhaseCheckpoint:
    """What was kept of one of a run's measurements, the first or the verification, and what is kept of it now."""

    def __init__(self, checkpoint: Checkpoint, phase: Phase, monitor: HostMonitor | None) -> None:
        self._checkpoint, self._phase, self._monitor = checkpoint, phase, monitor
        self.keeps = checkpoint.keeps  # whether rounds are kept, so that a later start goes on with them

    @property
    def over(self) -> Verifying | None:
        """Set when another measurement has begun since: this one has all its rounds."""
        return self._checkpoint.verifying if self._phase == "first" else None

    def rounds(self, plan: MeasurementPlan) -> list[StoredRound]:
        """Return the rounds to take in again, in the order of their numbers: those of the plan's cases, each once."""
        round_by_number: dict[int, StoredRound] = {}
        for stored in (stored for part in self._checkpoint.parts(self._phase) for stored in part):
            if stored.is_of(plan):
                round_by_number.setdefault(stored.number, stored)
            else:
                log.warning("round log: round %d is of other cases: skipped", stored.number)
        return [round_by_number[number] for number in sorted(round_by_number)]

    def keep(self, result: RoundResult, this_round: Round, elapsed_s: float) -> None:
        """Keep a finished round, or what there is of one that was cut short."""
        if not self.keeps:
            return
        aa_result = None if result.aa_result is None else replace(result.aa_result, unmeasured=[])
        stored = StoredRound(
            run=self._checkpoint.run,
            phase=self._phase,
            number=this_round.number,
            fork=this_round.fork,
            planned=_named(this_round.requests),
            aa_ids=tuple(request.case.id for request in this_round.aa_requests),
            unmeasured=_named(result.unmeasured),
            result=replace(result, unmeasured=[], aa_result=aa_result),
            elapsed_s=elapsed_s,
            noise=self._noise(),
        )
        self._checkpoint.keep(stored)

    def _noise(self) -> NoiseRecord | None:
        """Return the host's noise in this process, until now."""
        if self._monitor is None:
            return None
        self._monitor.sample()
        return self._monitor.during

    def noise(self) -> NoiseRecord | None:
        """Return the host's noise over all processes that measured this phase: of each until its last round was kept,
        and of this one until now."""
        return merged_noise([*(part[-1].noise for part in self._checkpoint.parts(self._phase)), self._noise()])


def _named(requests: Sequence[CaseRequest]) -> tuple[tuple[str, Stage], ...]:
    return tuple((request.case.id, request.stage) for request in requests)


def _read(texts: Sequence[str], run: str) -> list[Entry]:
    """Return the entries of this run; what is damaged or another's is passed over with a warning."""
    entries: list[Entry] = []
    foreign = 0
    for number, text in enumerate(texts):
        try:
            entry = from_text(text)
        except ValueError as error:
            log.warning("round log: entry %d is damaged (%s): skipped", number, error)
            continue
        if entry.run == run:
            entries.append(entry)
        else:
            foreign += 1
    if foreign:
        log.warning("round log: %d of %d entries are of other cases, builds or settings: skipped", foreign, len(texts))
    return entries
