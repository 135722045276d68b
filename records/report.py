"""The report: one versioned document with everything about a run, which every reporter reads."""

import dataclasses
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

from opduel.records.build import Build
from opduel.records.case import METRICS, VALUE, Case, Metric, measure_of, without_kind
from opduel.records.cause import Cause
from opduel.records.configuration import RunConfiguration
from opduel.records.measurement import FROM_OUTSIDE, Failure, PairSample, Side
from opduel.records.redaction import redacted, redacted_inputs
from opduel.records.run_record import HostRecord, RunRecord
from opduel.records.work import Work

SCHEMA_VERSION = 2

# "not_worse": the interval lies wholly on the better side of the threshold, so that the case has not regressed, whether
# it has improved or not; "not_better" likewise. In words: "not slower", "not faster" (``verdict_words``).
Verdict = Literal["regressed", "improved", "unchanged", "not_worse", "not_better", "inconclusive", "failed"]
FLAGGED: tuple[Verdict, ...] = ("regressed", "improved")
ONE_SIDED: tuple[Verdict, ...] = ("not_worse", "not_better")
CLAIMS: tuple[Verdict, ...] = (*FLAGGED, "unchanged", *ONE_SIDED)  # what a disturbance of the host may have made
WORSE: tuple[Verdict, ...] = ("regressed", "failed")  # of the findings of a comparison


def verdict_words(verdict: str, metric: str = VALUE) -> str:
    """Return what people call the verdict on a case of ``metric``: ``not_worse`` of time is "not slower". Of a metric
    that this version doesn't know it is "not worse"; verdicts with two sides are their own names."""
    measure = METRICS.get(metric, METRICS[VALUE])
    words = {"not_worse": f"not {measure.worse}", "not_better": f"not {measure.better}"}
    return words.get(verdict, verdict)


@dataclass(frozen=True)
class Verification:
    """The second measurement of a case that was flagged: fresh samples alone, in a family of the flagged cases.

    ``first`` is the verdict that was to be confirmed; ``verdict`` is the second one, None when the case was not
    measured again.  The figures are as in ``Comparison``.
    """

    first: Verdict
    verdict: Verdict | None = None
    ratio: float | None = None
    ci: tuple[float, float] | None = None
    p_value: float | None = None
    q_value: float | None = None
    mde: float | None = None
    control: float | None = None
    treatment: float | None = None
    rounds: int = 0
    failure: Failure | None = None
    note: str = ""
    samples: Sequence[PairSample] = field(default_factory=tuple)


@dataclass(frozen=True)
class Forecast:
    """What it would take to settle a case that the run left open, if the run went on.

    ``rounds``: after so many more rounds of the case it is settled with a chance of ``chance``; None when no number
    within the rounds that it may have is likely to, and ``chance`` is then that of all of them.  ``seconds``: of wall
    time until then, all open cases being measured together; None where that isn't known.
    """

    chance: float
    rounds: int | None
    seconds: float | None = None


@dataclass(frozen=True)
class Effort:
    """How a case was measured, and the noise by level that decided it: what an adaptive run spends where.

    ``forks`` of each process pair and ``quads`` of each fork are those of the last round.  ``quad_sd``, ``fork_sd`` and
    ``pair_sd`` are standard deviations of a log ratio: of one quad within a fork, of one fork without what its quads
    add, and of one pair without what its forks add; None where the run could not tell.  ``quad_s`` is what one more
    quad took, ``prepare_s`` preparing one more fork, ``fork_s`` that fork beside preparing and quads, and ``pair_s``
    one more pair beside its forks; ``seconds`` is all that was spent on the case.
    """

    forks: int
    quads: int
    quad_sd: float | None
    fork_sd: float | None
    pair_sd: float | None
    quad_s: float
    prepare_s: float
    fork_s: float
    pair_s: float
    seconds: float


@dataclass(frozen=True)
class TwoModes:
    """The two groups that a side's process values fall into: their medians, and how many are in each: one of each
    process pair, or one of each fork where pairs have several."""

    low: float
    high: float
    low_pairs: int
    high_pairs: int


@dataclass(frozen=True)
class OperatorTime:
    """One operator within a case: how often one call runs it, and its nanoseconds in all of these; ``share`` of all
    operators' time."""

    name: str
    count: float  # the median over calls, so that it may lie between two
    ns: float
    share: float


@dataclass(frozen=True)
class Breakdown:
    """Where a case's time goes, by the framework's own profiler; the longest first. Empty for a side of which ``note``
    says why it could not be profiled."""

    control: Sequence[OperatorTime]
    treatment: Sequence[OperatorTime]
    note: str = ""


@dataclass(frozen=True)
class Comparison:
    """What the run says of one case.

    ``ratio`` is treatment / control and ``ci`` its interval (valid under the repeated looking), at ``confidence``.
    ``p_value`` is against "the change is within the threshold", before the false-discovery correction over the run;
    ``q_value`` after it.  ``mde`` is the smallest change, as a share, that these data would have shown with 80 % power.
    What could not be computed is None.

    ``verification`` is set for a case that was flagged in a run with a verification, and ``held_back`` is the verdict
    that the case would have if the run could be trusted; both None otherwise.  ``suspected`` is set for a case that
    stays inconclusive although its interval (its estimate, where it has none) lies beyond the threshold: the verdict
    that it looks like.  ``forecast`` is set for an open case for which more rounds may help, and ``two_modes`` has the
    sides of an inconclusive case whose process values fall into two groups.
    """

    case: str
    operator: str
    direction: str
    metric: str
    unit: str
    verdict: Verdict
    ratio: float | None
    ci: tuple[float, float] | None
    p_value: float | None
    q_value: float | None
    threshold: float
    mde: float | None
    control: float | None  # median process value, in ``unit``
    treatment: float | None
    rounds: int  # process pairs that measured this case
    decided_on: str | None  # the stage whose samples gave the figures: "screen", "own" or None
    failure: Failure | None
    injected: bool
    note: str = ""
    held_back: Verdict | None = None
    verification: Verification | None = None
    work: Work | None = None  # of one call, for the metric "time", where it is known
    breakdown: Breakdown | None = None
    cause: Cause | None = None  # of a change, where it was looked for; its sentence is also in ``note``
    confidence: float | None = None
    suspected: Verdict | None = None
    forecast: Forecast | None = None
    lower_is_better: bool | None = None  # of the metric "value"; None: the metric's own direction
    host: str | None = None  # its name in the fleet; None for a run on one host
    kind: str | None = None  # of the hosts that may measure it, which its id ends with; None: of any kind
    two_modes: Mapping[Side, TwoModes] = field(default_factory=dict)  # by side
    effort: Effort | None = None  # None of a metric that is measured without blocks
    samples: Sequence[PairSample] = field(default_factory=tuple)

    @classmethod
    def without_figures(
        cls,
        case: Case,
        verdict: Verdict,
        *,
        note: str = "",
        samples: Sequence[PairSample] = (),
        failure: Failure | None = None,
        injected: bool = False,
    ) -> "Comparison":
        """What is said of ``case`` before, or without, any computing."""
        return cls(
            case=case.id,
            operator=case.operator,
            direction=case.direction,
            metric=case.metric,
            unit=case.measure.unit,
            verdict=verdict,
            ratio=None,
            ci=None,
            p_value=None,
            q_value=None,
            threshold=case.threshold,
            mde=None,
            control=None,
            treatment=None,
            rounds=len(samples),
            decided_on=None,
            failure=failure,
            injected=injected,
            note=note,
            lower_is_better=case.lower_is_better,
            samples=tuple(samples),
        )

    @property
    def measure(self) -> Metric:
        """The metric; of ``value`` with the case's own unit and direction. KeyError: there is no such metric."""
        return measure_of(self.metric, self.unit, self.lower_is_better)

    @property
    def verdict_words(self) -> str:
        """The verdict as people call it: "not slower"."""
        return verdict_words(self.verdict, self.metric)

    @property
    def is_open_suspect(self) -> bool:
        """Whether it looks changed, and may be a regression."""
        return self.suspected is not None and self.verdict != "not_worse"

    @property
    def any_kind(self) -> str:
        """The case's id without the kind of host."""
        return without_kind(self.case, self.kind)

    @property
    def is_broken_by_treatment(self) -> bool:
        """Whether the treatment alone fails, and not from an outside cause: that is worse than running slower."""
        return self.failure is not None and self.failure.side == "treatment" and self.failure.kind not in FROM_OUTSIDE

    @property
    def finding(self) -> Verdict | None:
        """What the treatment did to the case: "regressed", "improved", or "failed" if it breaks it; else None."""
        if self.verdict == "failed":
            return "failed" if self.is_broken_by_treatment else None
        return self.verdict if self.verdict in FLAGGED else None

    @property
    def lower_is_better_here(self) -> bool:
        """Whether less of what was measured is better; taken for granted of a metric that this version doesn't know."""
        return self.metric not in METRICS or self.measure.lower_is_better

    @property
    def is_worse(self) -> bool:
        """Whether the treatment made the case slower or larger, or breaks it: the one definition of "worse"."""
        return self.finding in WORSE


@dataclass(frozen=True)
class Report:
    """One run. ``run`` and ``host`` are made of any mapping, and have its documented keys as typed attributes.

    ``cases`` are what was to be measured, in full. However a report comes about, the texts of ``run`` and the command
    lines of ``cases`` hold no secret that can be recognised, and a case's variables only values that can be none.
    """

    run: RunRecord
    control: Build
    treatment: Build
    host: HostRecord
    comparisons: Sequence[Comparison]
    schema_version: int = SCHEMA_VERSION
    cases: Sequence[Case] = field(default_factory=tuple)

    def __post_init__(self) -> None:
        """Take the secrets out."""
        object.__setattr__(self, "run", RunRecord(redacted(self.run)))
        object.__setattr__(self, "host", HostRecord.of(self.host))
        cases = [dataclasses.replace(case, inputs=redacted_inputs(case.inputs)) for case in self.cases]
        object.__setattr__(self, "cases", tuple(cases))

    @property
    def configuration(self) -> RunConfiguration:
        """What the run was asked for."""
        return self.run.configuration

    @property
    def open_suspects(self) -> list[Comparison]:
        """The cases that look changed, and that the run ended too early to settle; none of a complete run. One that is
        "not worse" is settled for whoever asks whether it is, however much better it looks."""
        if not self.run.is_cut_short:
            return []
        return [comparison for comparison in self.comparisons if comparison.is_open_suspect]

    @property
    def nothing_compared(self) -> bool:
        """Whether no case came to a verdict, or to a test that could have given one; a run of which both builds skipped
        every case left nothing undone."""
        if not self.comparisons and self.run.skipped:
            return False
        return all(one.failure or (one.verdict == "inconclusive" and _is_untested(one)) for one in self.comparisons)

    @property
    def standing(self) -> list[Comparison]:
        """Of what depends on the host's load: the comparisons with a verdict that was not held back."""
        noisy = {name for name, metric in METRICS.items() if metric.noisy}
        return [one for one in self.comparisons if one.verdict in CLAIMS and one.metric in noisy]

    def withholds(self, *verdicts: Verdict) -> bool:
        """Whether one of these verdicts was held back, or so many others that none stands."""
        held = {one.held_back for one in self.comparisons if one.held_back}
        return bool(held) and (not self.standing or not held.isdisjoint(verdicts))

    @property
    def is_biased(self) -> bool:
        """Whether all ratios may be off, by what A/A checks found."""
        return bool(self.comparisons) and all(map(self.may_be_off, self.comparisons))

    def may_be_off(self, one: Comparison) -> bool:
        """Whether verdicts were to be held back, and an A/A check found a difference where this was measured.

        On a fleet each shard has its own checks; a host of which no shard was disturbed has found nothing.
        """
        validity = self.run.validity
        return bool(validity.hold) and validity.is_biased and self._is_of_disturbed_host(one)

    def can_be_trusted(self, one: Comparison) -> bool:
        """Whether the host was not disturbed where this was measured: on a fleet, its own host."""
        return self.run.validity.valid is not False or not self._is_of_disturbed_host(one)

    def _is_of_disturbed_host(self, one: Comparison) -> bool:
        """Of a disturbed run, whether this was measured on a host that was: with no fleet there is one host."""
        fleet = self.run.fleet
        hosts = () if fleet is None else fleet.hosts
        return not hosts or any(host.name == one.host and host.valid is False for host in hosts)

    @property
    def is_open(self) -> bool:
        """Whether its time was too short: a case that looks changed is not settled, or no case was tested at all."""
        cut_short = self.run.is_cut_short and not self.run.aborted
        return cut_short and not self.withholds(*FLAGGED) and (bool(self.open_suspects) or self.nothing_compared)

    def to_json(self) -> dict[str, Any]:
        """The document as plain JSON data, ``schema_version`` first."""
        document = {**dataclasses.asdict(self), "run": dict(self.run), "host": dict(self.host)}
        return {"schema_version": document.pop("schema_version"), **document}

    def count(self, verdict: Verdict) -> int:
        """How many comparisons got this verdict."""
        return sum(comparison.verdict == verdict for comparison in self.comparisons)


def _is_untested(one: Comparison) -> bool:
    return one.p_value is None and one.held_back is None and one.verification is None
