"""What the stages of a run hand on to each other, and the report that they come to."""

import dataclasses
import secrets
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime

from opduel.comparator import Looks
from opduel.frameworks import recorded_environment, run_environment
from opduel.harness.checkpoint import Checkpoint, Start
from opduel.harness.machine.cpus import plan_cpus
from opduel.harness.machine.host import HostMonitor, host_fingerprint
from opduel.harness.measurement_plan import Measurement, MeasurementPlan, MeasurementResult
from opduel.harness.planning.budget import budget_for
from opduel.harness.processes.forking import forks_record
from opduel.harness.processes.pair_pool import Bench
from opduel.harness.profiles import Profiles
from opduel.harness.run_request import RunRequest, count_profiled, plan_measurement
from opduel.harness.verification import FIRST_SHARE
from opduel.records import DEFAULT_METRIC, Comparison, Failure, HostRecord, Report, RunRecord
from opduel.records.measurement import SKIPPED
from opduel.records.run_record import (
    BudgetRecord,
    CountingRecord,
    CpusRecord,
    LooksRecord,
    SkippedRecord,
    ValidityRecord,
)

# What a run's record has from its configuration, and from its result, by the same names.
REPEATED_SETTINGS = ("platform", "user_identifier", "run_type", "alpha", "threads", "time_budget")
RESULTS = ("aborted", "interrupted", "expected_s", "noise", "not_broken_down", "rounds", "wall_s", "timed_s", "spent_s")


@dataclass(frozen=True)
class PreparedRun:
    """A run that is about to measure. ``request``: all cases, with what is known of forking. ``other_inputs``: the
    comparisons of cases that get other inputs on either side, which aren't measured. ``spare``: processors that
    neighbours may use without disturbing. ``host``: the host, with its peak rates if they were measured."""

    request: RunRequest
    bench: Bench
    plan: MeasurementPlan
    checkpoint: Checkpoint
    start: Start
    monitor: HostMonitor
    other_inputs: Sequence[Comparison]
    spare: int
    host: HostRecord

    @property
    def measured_request(self) -> RunRequest:
        """The request with the cases that are measured."""
        unlike = {comparison.case for comparison in self.other_inputs}
        cases = [case for case in self.request.cases if case.id not in unlike]
        return dataclasses.replace(self.request, cases=cases)


@dataclass
class RunMeasurement:
    """What a run has measured, and the comparisons that follow from it: ``first``, with what both took, and ``second``
    if flagged cases were verified. ``output_comparisons``: of the metric "error". ``budget_end``: the end of the time
    budget, by the monotonic clock."""

    first: Measurement
    second: Measurement | None
    comparisons: Sequence[Comparison]
    output_comparisons: Sequence[Comparison]
    budget_end: float
    profiles: Profiles | None = None


def begin_run(checkpoint: Checkpoint) -> Start:
    """Note that the run begins or goes on; return its first start, which has its id."""
    now = datetime.now(UTC)
    return checkpoint.begin(f"{now:%Y%m%dT%H%M%SZ}-{secrets.token_hex(3)}", now.isoformat(timespec="seconds"))


def make_report(
    run: PreparedRun, measurement: RunMeasurement, validity: ValidityRecord, comparisons: Sequence[Comparison]
) -> Report:
    """Return the report, with its comparisons in the order of the run's cases, without those that both sides skip."""
    request = run.request
    comparison_by_case = {comparison.case: comparison for comparison in comparisons}
    comparisons = [comparison_by_case[case.id] for case in request.cases]
    reasons = {
        comparison.case: comparison.failure.reason
        for comparison in comparisons
        if comparison.failure and is_skip(comparison.failure)
    }
    return Report(
        dataclasses.replace(
            _describe_run(run, measurement),
            forecast=_forecast(run, measurement, comparisons),
            validity=validity,
            skipped=tuple(SkippedRecord(case=case_id, reason=reason) for case_id, reason in reasons.items()),
        ),
        request.control,
        request.treatment,
        dataclasses.replace(
            run.host,
            before=run.monitor.before,
            during=measurement.first.noise,
            verifying=measurement.second.noise if measurement.second else None,
        ),
        [comparison for comparison in comparisons if comparison.case not in reasons],
        cases=tuple(case for case in request.cases if case.id not in reasons),
    ).without_secrets()


def _forecast(run: PreparedRun, measurement: RunMeasurement, comparisons: Sequence[Comparison]) -> BudgetRecord | None:
    result = measurement.first.result
    if result.stopped is None:
        return None
    share = 1.0 if run.request.configuration.verifies_after is None else FIRST_SHARE
    request = run.measured_request
    configuration, own_s = request.configuration, None
    # The driver goes on with a benchmark when its command is repeated, and then adds a time budget.
    if request.is_awaited and request.log is not None and result.resumable and configuration.run_type == "benchmark":
        budget_s = configuration.time_budget
        own_s = None if budget_s is None else budget_s - (request.labels.earlier_budget or 0.0)
    return budget_for(comparisons, result.wall_s, share, count_profiled(request), own_s)


def is_skip(failure: Failure) -> bool:
    """Return whether both sides skipped the case, so that nothing went wrong."""
    return failure.side == "both" and failure.kind == SKIPPED


def without_measuring(request: RunRequest, why: str) -> Report:
    """Return the report of two builds that are the same: every case ``unchanged`` and not measured, with ``why`` as its
    note. Raises UsageError: the host has fewer processors than threads."""
    threads = request.configuration.threads
    cpus = plan_cpus(threads)
    bench = Bench({}, request.framework.adaptor, run_environment(request.framework, threads, request.env), cpus)
    monitor = HostMonitor(allowed=cpus.measure | cpus.control)
    checkpoint, plan = Checkpoint(None, ""), plan_measurement(request)
    run = PreparedRun(request, bench, plan, checkpoint, begin_run(checkpoint), monitor, (), 0, host_fingerprint())
    measurement = RunMeasurement(Measurement(plan, MeasurementResult(), monitor.during), None, (), (), 0.0)
    comparisons = [Comparison.without_figures(case, "unchanged", note=why) for case in request.cases]
    return make_report(run, measurement, ValidityRecord(valid=True, hold=request.configuration.holds), comparisons)


def _describe_run(run: PreparedRun, measurement: RunMeasurement) -> RunRecord:
    request, bench = run.measured_request, run.bench
    plan, result = measurement.first.plan, measurement.first.result
    configuration, counting, cpus = request.configuration, bench.counting, bench.cpus

    def recorded(environment: Mapping[str, str]) -> dict[str, str]:  # without the user's secrets
        return recorded_environment(environment, request.env, request.framework.name)

    counting_record = None
    if counting is not None:
        functions, environment = tuple(counting.functions), recorded(counting.environment)
        counting_record = CountingRecord(valgrind=counting.valgrind, functions=functions, environment=environment)
    return RunRecord(
        **vars(request.labels),
        **{name: getattr(configuration, name) for name in REPEATED_SETTINGS},
        **{name: getattr(result, name) for name in RESULTS},
        id=run.start.id,
        started=run.start.started,
        finished=datetime.now(UTC).isoformat(timespec="seconds"),
        resumed=tuple(run.checkpoint.resumed),
        configuration=configuration,
        threshold=configuration.threshold.get(DEFAULT_METRIC),
        framework=request.framework.name,
        seed=request.seed,
        max_rounds=request.max_rounds,
        inject=configuration.inject or None,
        verify_after=configuration.verifies_after,
        breakdown="all" if configuration.breakdown else "networks",
        aa_cases=len(plan.aa_cases),
        looks=_looks_record(plan.looks),
        environment=recorded(bench.environment),
        env=tuple(sorted(request.env)),
        counting=counting_record,
        wipe_cache=bench.wiping.size if bench.wiping else None,
        golden=str(request.golden.folder) if request.golden else None,
        forks=forks_record(request.framework, request.cases, configuration.threads) if bench.builds else None,
        cpus=CpusRecord(measure=tuple(sorted(cpus.measure)), start=tuple(sorted(cpus.start)), nice=result.nice),
        complete=result.stopped is None,
        resumable=request.log is not None and result.resumable,
        stop_reason=result.stopped,
        prior_runs=plan.prior_runs.record(plan.forecast) if plan.prior_runs else None,
        incidents=tuple(result.incidents),
        profile_output=measurement.profiles.record() if measurement.profiles else None,
    )


def _looks_record(looks: Looks) -> LooksRecord:
    return LooksRecord(
        counts=looks.counts,
        suspect_level=looks.suspect_level,
        by_metric={metric: _looks_record(own_looks) for metric, own_looks in looks.by_metric.items()},
    )
