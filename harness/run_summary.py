"""What a report keeps of its run: what was asked for, how it went, and whether it can be trusted."""

import dataclasses
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from typing import Any

from opduel.comparator import AACheck, fit_priors, run_aa_checks
from opduel.frameworks import recorded_environment
from opduel.harness.checkpoint import Start
from opduel.harness.cpus import CpuPlan
from opduel.harness.measurement_plan import MeasurementPlan, MeasurementResult
from opduel.harness.pair_pool import Bench
from opduel.harness.run_request import RunRequest
from opduel.harness.validity import Frequency, aa_problems, validity_problems
from opduel.records import DEFAULT_METRIC


def run_record(
    request: RunRequest,
    order: MeasurementPlan,
    findings: MeasurementResult,
    start: Start,
    resumed: Sequence[Any],
    bench: Bench,
    validity: Mapping[str, Any],
) -> dict[str, Any]:
    """The report's ``run``: what was asked for, and how it went."""
    asked = request.configuration
    return {
        "id": start.id,
        "started": start.started,
        "finished": datetime.now(UTC).isoformat(timespec="seconds"),
        "resumed": resumed,
        "configuration": dataclasses.asdict(asked),
        "platform": asked.platform,
        "threshold": asked.threshold.get(DEFAULT_METRIC),
        "user_identifier": asked.user_identifier,
        "run_type": asked.run_type,
        **request.labels,
        "framework": request.framework.name,
        "seed": request.seed,
        "alpha": asked.alpha,
        "threads": asked.threads,
        "max_rounds": asked.max_rounds,
        "time_budget": asked.time_budget,
        "inject": asked.inject or None,
        "verify_after": asked.verifies_after,
        "breakdown": "all" if asked.breakdown else "networks",
        "aa_cases": len(order.chosen_aa_cases),
        "looks": dataclasses.asdict(order.looks),
        "environment": _recorded(request, bench.environment),
        "env": sorted(request.env),
        "counting": _counting(request, bench),
        "wipe_cache": bench.wiping.size if bench.wiping else None,
        "golden": str(request.golden.folder) if request.golden else None,
        "cpus": {"measure": sorted(bench.cpus.measure), "start": sorted(bench.cpus.start)},
        **_summary(findings, request.log is not None),
        "validity": validity,
        "profile_output": None,
    }


def _recorded(request: RunRequest, environment: Mapping[str, str]) -> dict[str, str]:
    """Variables as the report has them: without the user's secrets."""
    return recorded_environment(environment, request.env, request.framework.name)


def _counting(request: RunRequest, bench: Bench) -> dict[str, Any] | None:
    """How instructions were counted, if any were."""
    if bench.counting is None:
        return None
    return {**dataclasses.asdict(bench.counting), "environment": _recorded(request, bench.counting.environment)}


def _summary(findings: MeasurementResult, logged: bool) -> dict[str, Any]:
    """The keys of the report's ``run`` that tell how it went; ``logged``: its rounds were kept."""
    return {
        "complete": findings.stopped is None,
        "resumable": logged and findings.resumable,
        "aborted": findings.aborted,
        "interrupted": findings.interrupted,
        "stop_reason": findings.stopped,
        "forecast": None,
        "continues": False,
        "not_broken_down": findings.not_broken_down,
        "rounds": findings.rounds,
        "wall_s": findings.wall_s,
        "timed_s": findings.timed_s,
        "spent_s": findings.spent_s,
        "incidents": [dataclasses.asdict(incident) for incident in findings.incidents],
    }


def judge_validity(
    request: RunRequest, order: MeasurementPlan, findings: MeasurementResult, noise: Mapping[str, Any], cpus: CpuPlan
) -> dict[str, Any]:
    """Whether the run can be trusted, and all that this was judged by."""
    asked = request.configuration
    spare = max(0, len(cpus.measure | cpus.control) - asked.threads - 1)  # one for controller and starting workers
    frequency = Frequency.of(findings.mhz)
    checks = _checks(order, findings)
    timed = any(case.metric == DEFAULT_METRIC for case in request.cases)  # nothing disturbs counts
    reasons = [
        *validity_problems(noise["during"], spare, frequency),
        *(f"{reason}, while verifying" for reason in validity_problems(noise["verifying"], spare, None)),
        *aa_problems(checks),
    ]
    reasons = reasons if timed else []
    return {
        "valid": not reasons,
        "hold": asked.holds,
        "reasons": reasons,
        "frequency_mhz": frequency and dataclasses.asdict(frequency),
        "aa_checks": [
            {**dataclasses.asdict(check), "samples": list(map(dataclasses.asdict, findings.aa_cases[check.case]))}
            for check in checks
        ],
    }


def _checks(order: MeasurementPlan, findings: MeasurementResult) -> list[AACheck]:
    """What the A/A checks say: those that were measured at all."""
    cases = [case for case in order.chosen_aa_cases if case.id in findings.aa_cases]
    first = order.first_measurement
    priors = first.priors if first else fit_priors(order.cases, findings.samples, order.looks)
    return run_aa_checks(cases, findings.aa_cases, priors)
