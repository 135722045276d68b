"""What earlier runs on this host say of cases: what they cost, and how noisy they were.

For planning alone: the forecast of a run's length, and which cases a short time budget is spent on.  No verdict depends
on it.  Pure: reports in, figures out.
"""

import math
import statistics
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from opduel.comparator import InterimAnalysis, Looks, expected_rounds
from opduel.comparator.empirical_bayes import NO_PRIOR, Prior, fit_prior, shrink_variance
from opduel.comparator.trimmed_mean import TrimmedMean, estimate_trimmed_mean
from opduel.harness.budget import RoundDuration
from opduel.records import DEFAULT_METRIC, Case, Comparison, HostRecord, PairSample, Report

HOST_KEYS = ("cpu_model", "gpus", "logical_cpus", "machine")  # what a report knows its host by
USUAL_CONTEXT = "cpu"  # of cases in reports that don't hold their cases

CaseKey = tuple[str, str]  # a case's id, and its context


@dataclass(frozen=True)
class Setting:
    """What runs must share for one to say something of the other: the framework, the threads of each worker, whether
    caches are wiped, and the host (``host_fingerprint``)."""

    framework: str
    threads: int
    wipe_cache: bool
    host: HostRecord

    def covers(self, report: Report) -> bool:
        """Whether the report's run shares all of it."""
        asked = report.configuration
        return (report.run.framework, asked.threads, asked.wipe_cache) == (
            self.framework,
            self.threads,
            self.wipe_cache,
        ) and all(getattr(report.host, key) == getattr(self.host, key) for key in HOST_KEYS)


@dataclass(frozen=True)
class CaseHistory:
    """A case in earlier runs: seconds that one fork of it takes (the median over runs), and for each run with two
    samples or more its log ratios' trimmed mean, from which its noise is taken."""

    fork_s: float
    spreads: Sequence[TrimmedMean] = ()

    @property
    def noise(self) -> TrimmedMean | None:
        """An unchanged case with the variance of all runs together: that of one sample, on their degrees of freedom.
        None without any."""
        freedom = sum(one.degrees_of_freedom for one in self.spreads)
        if not freedom:
            return None
        variance = sum(one.degrees_of_freedom * one.variance for one in self.spreads) / freedom
        return TrimmedMean(0.0, math.sqrt(variance), freedom, 1)


@dataclass(frozen=True)
class PriorRuns:
    """What was learnt of earlier runs. ``start_s``: seconds that a round waited for its process pair, the median over
    runs; ``reports``: how many were learnt from; ``skipped``: how many were of another ``Setting``."""

    cases: Mapping[CaseKey, CaseHistory] = field(default_factory=dict)
    start_s: float = 0.0
    reports: int = 0
    skipped: int = 0

    def of(self, case: Case) -> CaseHistory | None:
        """The case's history."""
        return self.cases.get((case.id, case.context))

    def record(self, expected: "RunForecast | None") -> dict[str, Any]:
        """What a report's ``run["prior_runs"]`` says: docs/reference/report.md."""
        return {
            "reports": self.reports,
            "skipped": self.skipped,
            "known": expected.known if expected else 0,
            "expected_s": expected and expected.seconds,
            "expected_rounds": dict(expected.rounds) if expected else {},
        }

    def pace(self, cases: Iterable[Case], can_fork: Callable[[Case], bool]) -> RoundDuration:
        """How long rounds of these cases took, until this run's own rounds say it better."""
        seconds: defaultdict[str, dict[str, float]] = defaultdict(dict)
        for case in cases:
            if known := self.of(case):
                seconds[case.metric][case.id] = known.fork_s
        fork_s = {case_id: one for known in seconds.values() for case_id, one in known.items()}
        return RoundDuration(
            can_fork,
            last_start_s=dict.fromkeys(seconds, self.start_s),
            fork_s=fork_s,
            expected=set(fork_s),
            usual_s={metric: statistics.fmean(known.values()) for metric, known in seconds.items()},
        )


@dataclass(frozen=True)
class RunForecast:
    """What a run is likely to take. ``rounds``: by case id, until the case is settled or given up, if it has not
    changed; ``settles``: the ids of those that are likely to be settled; ``known``: how many cases have a history;
    ``seconds``: of wall time for all, without a time budget."""

    rounds: Mapping[str, int]
    settles: frozenset[str]
    known: int
    seconds: float

    def left(self, now: Mapping[str, InterimAnalysis], made: Mapping[str, int]) -> dict[str, int]:
        """By case id, the rounds still to come after those ``made``; of open cases no fewer than to their next look."""
        return {
            case_id: 0 if now[case_id].settled else max(now[case_id].missing, rounds - made[case_id])
            for case_id, rounds in self.rounds.items()
        }


def learn(reports: Iterable[Report], setting: Setting) -> PriorRuns:
    """What these reports say of cases, each run once; cases that a run slowed on purpose are left out."""
    forks: defaultdict[CaseKey, list[float]] = defaultdict(list)
    spreads: defaultdict[CaseKey, list[TrimmedMean]] = defaultdict(list)
    starts, seen, skipped = [], set[str | None](), 0
    for report in reports:
        if report.run.id in seen:  # a copy, such as the latest run's
            continue
        seen.add(report.run.id)
        if not setting.covers(report):
            skipped += 1
            continue
        contexts = {case.id: case.context for case in report.cases}
        start_s, fork_s = _costs(report)
        starts.append(start_s)
        for one in report.comparisons:
            if one.case not in fork_s or one.injected:
                continue
            key = (one.case, contexts.get(one.case, USUAL_CONTEXT))
            forks[key].append(fork_s[one.case])
            ratios = [sample.log_ratio for sample in one.samples if math.isfinite(sample.log_ratio)]
            if len(ratios) >= 2:
                spreads[key].append(estimate_trimmed_mean(ratios))
    cases = {key: CaseHistory(statistics.median(row), tuple(spreads[key])) for key, row in forks.items()}
    return PriorRuns(cases, statistics.median(starts) if starts else 0.0, len(starts), skipped)


def _costs(report: Report) -> tuple[float, dict[str, float]]:
    """Seconds that a round waited for its pair, and by case id what one fork took.

    As in ``RoundDuration.note``, but over the whole run: each case's timed calls, and the rest of the measuring time
    shared out evenly among all forks.
    """
    samples = {one.case: rows for one in report.comparisons if (rows := _all_samples(one))}
    forks = {case: sum(max(1, one.forks) for one in rows) for case, rows in samples.items()}
    times = {one.case for one in report.comparisons if one.metric == DEFAULT_METRIC}
    timed = {case: _timed_s(rows) if case in times else 0.0 for case, rows in samples.items()}
    spent = report.run.spent_s
    start_s = spent.get("waiting for a pair", 0.0)
    whole_s = sum(spent.values()) or report.run.wall_s or 0.0
    rest_s = max(0.0, whole_s - start_s - sum(timed.values())) / max(1, sum(forks.values()))
    fork_s = {case: timed[case] / forks[case] + rest_s for case in samples}
    return start_s / max(1, report.run.rounds or 0), {case: one for case, one in fork_s.items() if math.isfinite(one)}


def _all_samples(one: Comparison) -> list[PairSample]:
    again = one.verification.samples if one.verification else ()
    return [*one.samples, *again]


def _timed_s(samples: Sequence[PairSample]) -> float:
    return sum(1e-9 * one.calls * (one.control + one.treatment) for one in samples)


def forecast_run(
    prior: PriorRuns,
    cases: Sequence[Case],
    looks: Looks,
    alpha: float,
    can_fork: Callable[[Case], bool],
) -> RunForecast | None:
    """What measuring these cases is likely to take, if none has changed; None if no earlier run knows any of them.

    A case without a history is taken to cost what the others of its metric cost on average, and to need the median of
    their rounds.
    """
    known = {case.id: history for case in cases if (history := prior.of(case))}
    if not known:
        return None
    fitted = _fitted(cases, known)
    rounds, settles = dict[str, int](), set[str]()
    for case in cases:
        if noise := known[case.id].noise if case.id in known else None:
            noise = shrink_variance(noise, fitted[case.metric])
            bound, planned = math.log1p(case.threshold), looks.of_metric(case.metric)
            needed = expected_rounds(noise.variance, fitted[case.metric].degrees_of_freedom, bound, planned, alpha)
            rounds[case.id] = needed.rounds
            settles |= {case.id} if needed.settles else set()
    for metric in {case.metric for case in cases}:
        found = [rounds[case.id] for case in cases if case.metric == metric and case.id in rounds]
        usual = statistics.median_high(found) if found else looks.of_metric(metric).counts[0]
        for case in cases:
            if case.metric == metric:
                rounds.setdefault(case.id, usual)
    seconds = prior.pace(cases, can_fork).seconds((case, rounds[case.id]) for case in cases)
    return RunForecast(rounds, frozenset(settles), len(known), seconds)


def _fitted(cases: Sequence[Case], known: Mapping[str, CaseHistory]) -> dict[str, Prior]:
    """By metric, about what the run's own empirical-Bayes prior will be: how much cases will tell of each other."""
    noises = defaultdict(list)
    for case in cases:
        if noise := known[case.id].noise if case.id in known else None:
            noises[case.metric].append(noise)
    return defaultdict(lambda: NO_PRIOR, {metric: fit_prior(row) for metric, row in noises.items()})


def settled_first(cases: Sequence[Case], forecast: RunForecast, pace: RoundDuration) -> list[Case]:
    """The cases, those first that are likely to be settled, the cheapest of them first; the others as they were."""
    return sorted(
        cases,
        key=lambda case: forecast.rounds[case.id] * pace.of(case) if case.id in forecast.settles else math.inf,
    )
