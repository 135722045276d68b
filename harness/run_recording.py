"""A run's report: its request, how measuring went, and its comparisons."""

import dataclasses
import secrets
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from typing import Any

from opduel.frameworks import recorded_environment, run_environment
from opduel.harness.budget import budget_for
from opduel.harness.checkpoint import Checkpoint, Start
from opduel.harness.cpus import plan_cpus
from opduel.harness.forking import forks_record
from opduel.harness.host import HostMonitor, host_fingerprint
from opduel.harness.measurement_plan import MeasurementResult
from opduel.harness.pair_pool import Bench
from opduel.harness.prepared_run import PreparedRun, RunMeasurement
from opduel.harness.run_request import RunRequest, count_profiled, plan_measurement
from opduel.harness.verification import FIRST_SHARE
from opduel.records import DEFAULT_METRIC, Comparison, Failure, HostRecord, Report, RunRecord
from opduel.records.measurement import SKIPPED

UNDISTURBED = {"valid": True, "reasons": [], "frequency_mhz": None, "aa_checks": []}


def begin_run(checkpoint: Checkpoint) -> Start:
    """Note that the run begins or goes on; return its first start, which has its id."""
    now = datetime.now(UTC)
    return checkpoint.begin(f"{now:%Y%m%dT%H%M%SZ}-{secrets.token_hex(3)}", now.isoformat(timespec="seconds"))


def make_report(
    run: PreparedRun, measurement: RunMeasurement, validity: Mapping[str, Any], comparisons: Sequence[Comparison]
) -> Report:
    """Return the report, with its comparisons in the order of the run's cases, without those that both sides skip."""
    request = run.request
    record = _describe_run(run, measurement, validity)
    comparison_by_case = {comparison.case: comparison for comparison in comparisons}
    comparisons = [comparison_by_case[case.id] for case in request.cases]
    if measurement.findings.stopped is not None:
        share = 1.0 if request.configuration.verifies_after is None else FIRST_SHARE
        profiled = count_profiled(run.measured_request)
        record["forecast"] = budget_for(comparisons, measurement.findings.wall_s, share, profiled)
    reasons = {
        comparison.case: comparison.failure.reason
        for comparison in comparisons
        if comparison.failure and is_skip(comparison.failure)
    }
    record["skipped"] = [{"case": case_id, "reason": reason} for case_id, reason in reasons.items()]
    return Report(
        RunRecord(record),
        request.control,
        request.treatment,
        HostRecord({**run.host, **run.monitor.summary(), **measurement.noise}),
        [comparison for comparison in comparisons if comparison.case not in reasons],
        cases=tuple(case for case in request.cases if case.id not in reasons),
    )


def is_skip(failure: Failure) -> bool:
    """Return whether both sides skipped the case, so that nothing went wrong."""
    return failure.side == "both" and failure.kind == SKIPPED


def without_measuring(request: RunRequest, why: str) -> Report:
    """Return the report of two builds that are the same: every case ``unchanged`` and not measured, with ``why`` as
    its note.

    Raises:
        UsageError: the host has fewer processors than threads.
    """
    threads = request.configuration.threads
    cpus = plan_cpus(threads)
    bench = Bench({}, request.framework.adaptor, run_environment(request.framework, threads, request.env), cpus)
    monitor = HostMonitor(allowed=cpus.measure | cpus.control)
    monitor.begin()
    checkpoint, plan = Checkpoint(None, ""), plan_measurement(request)
    host = {**host_fingerprint(), "roofline": None}
    run = PreparedRun(request, bench, plan, checkpoint, begin_run(checkpoint), monitor, (), 0, host)
    measurement = RunMeasurement(plan, MeasurementResult(), (), (), {"verifying": None}, None, 0.0)
    comparisons = [Comparison.without_figures(case, "unchanged", note=why) for case in request.cases]
    return make_report(run, measurement, {**UNDISTURBED, "hold": request.configuration.holds}, comparisons)


def _describe_run(run: PreparedRun, measurement: RunMeasurement, validity: Mapping[str, Any]) -> dict[str, Any]:
    """Return the report's ``run``: what the run was to do, and how it went."""
    request, bench, plan, findings = run.measured_request, run.bench, measurement.plan, measurement.findings
    configuration, counting = request.configuration, bench.counting

    def recorded(environment: Mapping[str, str]) -> dict[str, str]:  # without the user's secrets
        return recorded_environment(environment, request.env, request.framework.name)

    return {
        "id": run.start.id,
        "started": run.start.started,
        "finished": datetime.now(UTC).isoformat(timespec="seconds"),
        "resumed": run.checkpoint.resumed,
        "configuration": dataclasses.asdict(configuration),
        "platform": configuration.platform,
        "threshold": configuration.threshold.get(DEFAULT_METRIC),
        "user_identifier": configuration.user_identifier,
        "run_type": configuration.run_type,
        **request.labels,
        "framework": request.framework.name,
        "seed": request.seed,
        "spec_seed": request.labels.get("spec_seed"),
        **{name: getattr(configuration, name) for name in ("alpha", "threads")},
        "max_rounds": request.max_rounds,
        "time_budget": configuration.time_budget,
        "inject": configuration.inject or None,
        "verify_after": configuration.verifies_after,
        "breakdown": "all" if configuration.breakdown else "networks",
        "aa_cases": len(plan.chosen_aa_cases),
        "looks": dataclasses.asdict(plan.looks),
        "environment": recorded(bench.environment),
        "env": sorted(request.env),
        "counting": counting and {**dataclasses.asdict(counting), "environment": recorded(counting.environment)},
        "wipe_cache": bench.wiping.size if bench.wiping else None,
        "golden": str(request.golden.folder) if request.golden else None,
        "forks": forks_record(request.framework, request.cases, configuration.threads) if bench.builds else None,
        "cpus": {"measure": sorted(bench.cpus.measure), "start": sorted(bench.cpus.start), "nice": findings.nice},
        "complete": findings.stopped is None,
        "resumable": request.log is not None and findings.resumable,
        "aborted": findings.aborted,
        "interrupted": findings.interrupted,
        "stop_reason": findings.stopped,
        "forecast": None,
        "expected_s": findings.expected_s,
        "noise": findings.noise or None,
        "prior_runs": plan.prior_runs and plan.prior_runs.record(plan.forecast),
        "fleet": None,
        "continues": False,
        **{name: getattr(findings, name) for name in ("not_broken_down", "rounds", "wall_s", "timed_s", "spent_s")},
        "incidents": [dataclasses.asdict(incident) for incident in findings.incidents],
        "validity": dict(validity),
        "profile_output": measurement.profiles and measurement.profiles.record(),
    }
