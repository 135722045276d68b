"""What earlier runs on this host say of cases: what they cost, and how noisy they were at each level.

For planning alone: no verdict depends on it.  Pure: reports in, figures out.
"""

import math
import statistics
from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from opduel.harness.planning.effort import Costs, Noise
from opduel.harness.planning.effort_planner import EffortPlanner
from opduel.harness.planning.forecast import RunForecast
from opduel.records import Case, Effort, HostRecord, Report
from opduel.records.run_record import PriorRunsRecord

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
        """Return whether the report's run shares all of it."""
        settings = (report.run.framework, report.configuration.threads, report.configuration.wipe_cache)
        hosts_agree = all(getattr(report.host, key) == getattr(self.host, key) for key in HOST_KEYS)
        return hosts_agree and settings == (self.framework, self.threads, self.wipe_cache)


@dataclass(frozen=True)
class CaseHistory:
    """A case in earlier runs: the medians over runs of its noise by level and of its costs; ``seconds``: of a run."""

    noise: Noise
    costs: Costs
    seconds: float


@dataclass(frozen=True)
class PriorRuns:
    """What was learnt of earlier runs. ``reports``: how many were learnt from; ``skipped``: how many were of another
    ``Setting``."""

    cases: Mapping[CaseKey, CaseHistory] = field(default_factory=dict)
    reports: int = 0
    skipped: int = 0

    def of(self, case: Case) -> CaseHistory | None:
        """Return the case's history."""
        return self.cases.get((case.id, case.context))

    def record(self, expected: RunForecast | None) -> PriorRunsRecord:
        """Return what the report says of it."""
        return PriorRunsRecord(
            reports=self.reports,
            skipped=self.skipped,
            known=expected.known_cases if expected else 0,
            expected_s=expected.total_s if expected else None,
            expected_rounds=dict(expected.rounds) if expected else {},
        )

    def planner(self, cases: Iterable[Case]) -> EffortPlanner:
        """Return a planner that knows what is known of these cases' costs and noise before this run's own rounds say
        it better."""
        histories = {case.id: history for case in cases if (history := self.of(case))}
        return EffortPlanner(
            {case_id: history.costs for case_id, history in histories.items()},
            {case_id: history.noise for case_id, history in histories.items()},
        )


def learn(reports: Iterable[Report], setting: Setting) -> PriorRuns:
    """Return what these reports say of cases, each run once; cases that a run slowed on purpose are left out."""
    efforts: defaultdict[CaseKey, list[Effort]] = defaultdict(list)
    run_ids, used, skipped = set[str | None](), 0, 0
    for report in reports:
        if report.run.id in run_ids:  # a copy, such as the latest run's
            continue
        run_ids.add(report.run.id)
        if not setting.covers(report):
            skipped += 1
            continue
        used += 1
        contexts = {case.id: case.context for case in report.cases}
        for comparison in report.comparisons:
            if comparison.effort and _is_usable(comparison.effort) and not comparison.injected:
                key = (comparison.case, contexts.get(comparison.case, USUAL_CONTEXT))
                efforts[key].append(comparison.effort)
    return PriorRuns({key: _history(of_runs) for key, of_runs in efforts.items()}, used, skipped)


def _is_usable(effort: Effort) -> bool:
    """Return whether a case can be planned by it: what divides is there, finite and above 0."""
    divisors = (effort.quad_sd, effort.fork_sd, effort.pair_sd, effort.quad_s, effort.fork_s)
    costs = (effort.prepare_s, effort.pair_s, effort.seconds)
    return all(value is not None and 0 < value < math.inf for value in divisors) and all(
        0 <= value < math.inf for value in costs
    )


def _history(efforts: list[Effort]) -> CaseHistory:
    def median(name: str) -> float:
        return float(statistics.median(getattr(effort, name) for effort in efforts))

    noise = Noise(median("quad_sd") ** 2, median("fork_sd") ** 2, median("pair_sd") ** 2)
    costs = Costs(median("quad_s"), median("prepare_s"), median("fork_s"), median("pair_s"))
    return CaseHistory(noise, costs, median("seconds"))
