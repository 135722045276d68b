"""The report: one versioned document with everything about a run, which every reporter reads."""

import dataclasses
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal

from opduel.records.build import Build
from opduel.records.case import METRICS, NOISY, VALUE, Case, Metric, measure_of, without_kind
from opduel.records.cause import Cause
from opduel.records.configuration import RunConfiguration
from opduel.records.host_record import HostRecord
from opduel.records.measurement import FROM_OUTSIDE, MISSING, SKIPPED, Failure, PairSample, Side
from opduel.records.run_record import RunRecord
from opduel.records.work import Work
from opduel.support.redaction import redact_data, redact_inputs

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
    """The second measurement of a flagged case, by fresh samples alone; its family is the flagged cases.

    Figures are as in ``Comparison``.
    """

    first: Verdict
    """the verdict of the first measurement"""
    verdict: Verdict | None = None
    """that of the second; null if the case was not measured again"""
    ratio: float | None = None
    ci: tuple[float, float] | None = None
    difference: float | None = None
    difference_ci: tuple[float, float] | None = None
    p_value: float | None = None
    q_value: float | None = None
    mde: float | None = None
    control: float | None = None
    treatment: float | None = None
    rounds: int = 0
    """rounds that measured the case again"""
    failure: Failure | None = None
    """why it could not be measured again"""
    note: str = ""
    samples: tuple[PairSample, ...] = ()


@dataclass(frozen=True)
class Forecast:
    """What would settle an open case."""

    chance: float | None
    """probability that the case is settled after ``rounds`` more; if that is null, after all that it may have; null for
    a case that has hardly been measured"""
    rounds: int | None
    """further rounds of the case; null if no allowed number is likely to settle it"""
    seconds: float | None = None
    """their duration, with all open cases measured together; null if unknown"""


@dataclass(frozen=True)
class Effort:
    """How a case was measured, and the noise that decided it. A standard deviation is that of a log ratio; it is null
    if unknown."""

    forks: int
    """forks of each process pair, in the last round"""
    quads: int
    """quads of each fork, in the last round"""
    quad_sd: float | None
    """standard deviation of a quad within a fork"""
    fork_sd: float | None
    """of a fork, without what its quads add"""
    pair_sd: float | None
    """of a process pair, without what its forks add"""
    quad_s: float
    """seconds of another quad"""
    prepare_s: float
    """seconds of preparing another fork"""
    fork_s: float
    """seconds of that fork beside preparing and quads"""
    pair_s: float
    """seconds of another process pair beside its forks"""
    seconds: float
    """all that were spent on the case"""


@dataclass(frozen=True)
class TwoModes:
    """The two groups that a side's values fall into: one value of each process pair, or of each fork where pairs have
    several."""

    low: float
    """median of the group of lower values, in the comparison's ``unit``"""
    high: float
    """median of the other group"""
    low_pairs: int
    """values in the lower group"""
    high_pairs: int
    """values in the other"""


@dataclass(frozen=True)
class OperatorTime:
    """The time of one operator within a case."""

    name: str
    """the profiler's name of it"""
    count: float
    """how often one call of the case runs it, median over calls"""
    ns: float
    """nanoseconds of one call in all of these, median over calls"""
    share: float
    """of all operators' time, 0 to 1"""


@dataclass(frozen=True)
class Breakdown:
    """A case's time by operator on each side, by the framework's own profiler, the slowest first. It never influences a
    verdict."""

    control: tuple[OperatorTime, ...]
    """empty if this side could not be profiled"""
    treatment: tuple[OperatorTime, ...]
    note: str = ""
    """why a side could not be profiled"""


@dataclass(frozen=True)
class Comparison:
    """The result of one case. What could not be computed is null."""

    case: str
    """the case's id, unique in the run"""
    operator: str
    """as the spec names it"""
    direction: str
    """``forward``, ``backward`` or ``both``; empty for what has none"""
    metric: str
    unit: str
    """of ``control`` and ``treatment``: ``ns``, ``instructions``, ``bytes``, ``tol``, or a benchmark's own"""
    verdict: Verdict
    ratio: float | None = None
    """treatment / control"""
    ci: tuple[float, float] | None = None
    """interval of ``ratio``, valid although the data are looked at several times"""
    difference: float | None = None
    """treatment - control, in ``unit``, where a value is 0 or below: there are no ratios then, and ``threshold`` is a
    share of the larger side's mean absolute value"""
    difference_ci: tuple[float, float] | None = None
    """interval of ``difference``"""
    p_value: float | None = None
    """tests "the change is within the threshold", over all looks, before the correction over the run; 1 until fresh
    samples confirm a change"""
    q_value: float | None = None
    """the p value after the false discovery correction over the run"""
    threshold: float = field(kw_only=True)
    """a share"""
    mde: float | None = None
    """the smallest change, a share, that the data would have shown with 80 % power; null with ``difference``"""
    control: float | None = None
    """median of the samples, in ``unit``"""
    treatment: float | None = None
    """median of the samples, in ``unit``"""
    rounds: int = 0
    """rounds that measured the case"""
    decided_on: str | None = None
    """the stage of the last sample that the figures include; they include all before it"""
    failure: Failure | None = None
    """why the case could not be measured"""
    injected: bool = False
    """whether the treatment was slowed on purpose"""
    note: str = ""
    """in words, why a case is open, and what instructions and causes show"""
    held_back: Verdict | None = None
    """the verdict that a disturbed run does not support"""
    verification: Verification | None = None
    """the second measurement of a flagged case, with ``--verify``"""
    work: Work | None = None
    """of one call, for ``time``, if known"""
    breakdown: Breakdown | None = None
    """the case's time by operator, if profiled"""
    cause: Cause | None = None
    """why the case changed, if that was examined"""
    confidence: float | None = None
    """of ``ci``, over all looks together"""
    suspected: Verdict | None = None
    """``regressed`` or ``improved`` for an inconclusive case whose interval (or ratio) lies beyond the threshold"""
    forecast: Forecast | None = None
    """what would settle an open case"""
    unreached: bool = False
    """whether the run ended before it came to the case, of which there is no forecast"""
    lower_is_better: bool | None = None
    """of ``value``; null if lower is better, and for other metrics"""
    host: str | None = None
    """the host of a fleet that measured the case"""
    kind: str | None = None
    """the kind of host, if each kind measured all cases; ``case`` then has it: ``add/forward@avx2``"""
    two_modes: Mapping[Side, TwoModes] = field(default_factory=dict)
    """the sides of an inconclusive case whose values fall into two groups"""
    effort: Effort | None = None
    """null for metrics that are measured without blocks"""
    samples: tuple[PairSample, ...] = ()
    """one of each round, without those of the second measurement"""

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
        """Return the comparison of ``case`` without any figures."""
        return cls(
            *(case.id, case.operator, case.direction, case.metric, case.measure.unit, verdict),
            threshold=case.threshold,
            rounds=len(samples),
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
    def part(self) -> str:
        """What a breakdown's parts are: operators where the case has a direction, else functions."""
        return "operator" if self.direction else "function"

    @property
    def is_open_suspect(self) -> bool:
        """Whether it looks changed, and may be a regression: "not worse" is settled, however much better it looks."""
        return self.suspected is not None and self.verdict != "not_worse"

    @property
    def is_untested(self) -> bool:
        """Whether it came to no verdict, nor to a test that could have given one."""
        is_tested = self.p_value is not None or self.held_back is not None or self.verification is not None
        return self.verdict == "inconclusive" and not is_tested

    @property
    def is_unreached(self) -> bool:
        """Whether the run ended too early to test it, and not because its outputs, say, can't be compared."""
        return self.is_untested and (self.unreached or self.forecast is not None)

    @property
    def any_kind(self) -> str:
        """The case's id without the kind of host."""
        return without_kind(self.case, self.kind)

    @property
    def is_broken_by_treatment(self) -> bool:
        """Whether the treatment alone fails, and not from an outside cause: that is worse than running slower."""
        return self.failure is not None and self.failure.side == "treatment" and self.failure.kind not in FROM_OUTSIDE

    @property
    def is_absent_from_control(self) -> bool:
        """Whether the control alone skips the case by its own word, or doesn't have it, as one that is new."""
        return self.failure is not None and self.failure.side == "control" and self.failure.kind in (SKIPPED, MISSING)

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
    """Everything about one run."""

    run: RunRecord
    """the request and the course of the run"""
    control: Build
    """the older build"""
    treatment: Build
    """the newer build"""
    host: HostRecord
    """the machine and its noise"""
    comparisons: Sequence[Comparison]
    """one for each case"""
    schema_version: int = SCHEMA_VERSION
    """raised by incompatible changes; the first key of the document"""
    cases: Sequence[Case] = field(default_factory=tuple)
    """the definitions of all cases"""

    def without_secrets(self) -> "Report":
        """Return the report with what looks like a secret masked in ``run``, and in the command lines and variables of
        ``cases``: whoever makes a report calls it once."""
        cases = tuple(dataclasses.replace(case, inputs=redact_inputs(case.inputs)) for case in self.cases)
        return dataclasses.replace(self, run=redact_data(self.run), cases=cases)

    @property
    def configuration(self) -> RunConfiguration:
        """What the run was asked for."""
        return self.run.configuration

    @property
    def open_suspects(self) -> list[Comparison]:
        """The cases that look changed, and that the run ended too early to settle; none of a complete run."""
        return [comparison for comparison in self.comparisons if self.run.is_cut_short and comparison.is_open_suspect]

    @property
    def nothing_compared(self) -> bool:
        """Whether no case came to a verdict, or to a test that could have given one."""
        return all(comparison.failure or comparison.is_untested for comparison in self.comparisons)

    @property
    def nothing_decided(self) -> bool:
        """Whether no case came to a verdict."""
        return all(comparison.verdict in ("failed", "inconclusive") for comparison in self.comparisons)

    @property
    def uncompared(self) -> list[Comparison]:
        """The cases that fail on both sides, on the control (unless it has no such case), or from outside."""
        failed = [comparison for comparison in self.comparisons if comparison.verdict == "failed"]
        return [comparison for comparison in failed if not (comparison.is_worse or comparison.is_absent_from_control)]

    @property
    def standing(self) -> list[Comparison]:
        """The comparisons of noisy metrics with a verdict that was not held back."""
        return [each for each in self.comparisons if each.verdict in CLAIMS and each.metric in NOISY]

    def withholds(self, *verdicts: Verdict) -> bool:
        """Return whether one of these verdicts was held back, or any verdict if no others stand."""
        withheld_verdicts = {comparison.held_back for comparison in self.comparisons if comparison.held_back}
        return bool(withheld_verdicts) and (not self.standing or not withheld_verdicts.isdisjoint(verdicts))

    @property
    def is_biased(self) -> bool:
        """Whether all ratios may be off, by what A/A checks found."""
        return bool(self.comparisons) and all(map(self.may_be_off, self.comparisons))

    def may_be_off(self, comparison: Comparison) -> bool:
        """Return whether verdicts are held back in this run, and an A/A check found a difference where this comparison
        was measured: on a fleet, on its own host."""
        validity = self.run.validity
        return bool(validity.hold) and validity.is_biased and self._is_of_disturbed_host(comparison)

    def can_be_trusted(self, comparison: Comparison) -> bool:
        """Return whether the host on which this comparison was measured was not disturbed."""
        return self.run.validity.valid is not False or not self._is_of_disturbed_host(comparison)

    def _is_of_disturbed_host(self, comparison: Comparison) -> bool:
        """Return whether this comparison of a disturbed run was measured on a disturbed host: without a fleet there is
        only one."""
        hosts = self.run.fleet.hosts if self.run.fleet else ()
        return not hosts or any(host.name == comparison.host and host.valid is False for host in hosts)

    @property
    def is_open(self) -> bool:
        """Whether its time was too short: a case that looks changed is not settled, or no case was tested at all."""
        cut_short = self.run.is_cut_short and not self.run.aborted
        return cut_short and not self.withholds(*FLAGGED) and (bool(self.open_suspects) or self.nothing_compared)

    def count(self, verdict: Verdict) -> int:
        """Return how many comparisons have this verdict."""
        return sum(comparison.verdict == verdict for comparison in self.comparisons)
