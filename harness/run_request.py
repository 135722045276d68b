"""What a run is asked to measure, and what follows from that before anything is measured."""

import dataclasses
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from opduel.comparator import plan_looks
from opduel.frameworks import Framework, run_environment
from opduel.harness.checkpoint import RoundLog
from opduel.harness.machine.cpus import plan_cpus, plan_wiping
from opduel.harness.measurement_plan import FirstMeasurement, MeasurementPlan, MeasurementResult
from opduel.harness.numerics.golden import Golden
from opduel.harness.planning.aa_selection import usual_count
from opduel.harness.planning.budget import count_cause_profiles, profiling_seconds
from opduel.harness.planning.forecast import RunForecast
from opduel.harness.prior_runs import PriorRuns
from opduel.harness.processes.pair_pool import Bench
from opduel.harness.profiles import Profiling, to_break_down
from opduel.harness.rounds.instructions import plan_counting, threads_of
from opduel.records import (
    DEFAULT_METRIC,
    SAMPLED,
    USUAL_ROUNDS,
    Build,
    Case,
    Comparison,
    Failure,
    RunConfiguration,
    RunLabels,
)
from opduel.records.measurement import Side
from opduel.records.run_record import UNKNOWN


@dataclass(frozen=True)
class RunRequest:
    """Two builds, the cases to measure on both, and the bounds within which to measure them.

    ``configuration``: the settings that the report stores. ``labels``: what the report says of the request besides,
    such as the spec and the command. ``log``: where rounds are stored, and read if an earlier start measured the same.
    ``golden``: stored outputs that replace the control, for cases of the metric "error" alone. ``suspects_only``: after
    its first look, measure only cases that look changed. ``is_awaited``: as in ``MeasurementPlan``.
    ``env``: variables for the workers of both sides, whose values may be secrets. ``first_measurement``: the earlier
    run whose flagged cases this run replicates. ``prior_runs``: earlier runs on this host, for planning alone.
    ``other_comparisons``: as in ``MeasurementPlan``. ``callgrind``: the folder for files of explained cases unless
    ``profile_output`` is set. ``failures``: of cases that are known to fail on both sides, and aren't measured.
    ``usual_rounds``: the most rounds of a case, unless ``configuration`` sets them. ``find_causes``: what adds causes
    to the run's comparisons (``opduel.causes``), if any.
    """

    framework: Framework
    control: Build
    treatment: Build
    cases: Sequence[Case]
    seed: int
    configuration: RunConfiguration = field(default_factory=RunConfiguration)
    labels: RunLabels = field(default_factory=RunLabels)
    log: RoundLog | None = None
    golden: Golden | None = None
    suspects_only: bool = False
    is_awaited: bool = False
    env: Mapping[str, str] = field(default_factory=dict)
    first_measurement: FirstMeasurement | None = None
    prior_runs: PriorRuns | None = None
    other_comparisons: int = 0
    callgrind: Path | None = None
    failures: Mapping[str, Failure] = field(default_factory=dict)
    usual_rounds: int = USUAL_ROUNDS
    find_causes: "FindCauses | None" = None

    @property
    def max_rounds(self) -> int:
        """The most rounds of a case."""
        return self.configuration.max_rounds or self.usual_rounds

    def configured(self, **changes: Any) -> "RunRequest":
        """Return the same request with these fields of its configuration changed."""
        return dataclasses.replace(self, configuration=dataclasses.replace(self.configuration, **changes))

    def can_fork(self, case: Case) -> bool:
        """Return whether the case is measured in a fork of a worker."""
        return self.framework.can_fork(threads_of(case, self.configuration.threads), case.context)


FindCauses = Callable[
    [Sequence[Comparison], RunRequest, MeasurementResult, Profiling], list[Comparison]
]  # as ``opduel.causes.find_causes``


def make_bench(request: RunRequest) -> Bench:
    """Return the builds, environment and processors that measure. Raises UsageError: the host has fewer processors than
    threads, or ``env`` sets a variable of opduel's own."""
    configuration = request.configuration
    builds: dict[Side, Build] = {"control": request.control, "treatment": request.treatment}
    environment = run_environment(request.framework, configuration.threads, request.env, list(builds.values()))
    environment |= request.framework.preparation(request.cases)
    counts_instructions = any(case.metric == "instructions" for case in request.cases)
    return Bench(
        builds,
        request.framework.adaptor,
        environment,
        plan_cpus(configuration.threads),
        plan_counting(request.framework, request.env, request.cases) if counts_instructions else None,
        plan_wiping() if configuration.wipe_cache else None,
        request.framework.profiling.memory_variables,
    )


def plan_measurement(request: RunRequest) -> MeasurementPlan:
    """Return the plan of the rounds, within what profiling leaves of the time budget."""
    configuration, budget = request.configuration, request.configuration.time_budget
    timed = sum(case.metric == DEFAULT_METRIC for case in request.cases)
    reasons = request.labels.left_out.reached if request.labels.left_out else {}
    return MeasurementPlan(
        [case for case in request.cases if case.metric in SAMPLED],
        plan_looks(request.max_rounds),
        configuration.alpha,
        request.seed,
        None if budget is None else budget - profiling_seconds(budget, count_profiled(request)),
        configuration.inject,
        can_fork=request.can_fork,
        aa_count=usual_count(timed) if configuration.sentinels is None else configuration.sentinels,
        suspects_only=request.suspects_only,
        is_awaited=request.is_awaited,
        first_measurement=request.first_measurement,
        prior_runs=request.prior_runs,
        other_comparisons=request.other_comparisons,
        failed=request.failures,
        unrunnable=frozenset(request.failures),
        reached=frozenset(case_id for case_id, why in reasons.items() if not why.startswith(UNKNOWN)),
        likeliest=tuple(reasons),
    )


def count_profiled(request: RunRequest) -> int:
    """Return how many cases are profiled after measuring if time is left: for breakdowns, profiles and causes."""
    configuration = request.configuration
    broken_down = len(to_break_down(request.cases, request.framework, configuration.breakdown))
    replicates = configuration.verify or request.first_measurement is not None
    explained = 0
    if request.find_causes is not None:
        explained = count_cause_profiles(request.cases, configuration.explain, replicates)
    profiled = 0 if configuration.profile_output is None else len({case.time_id for case in request.cases})
    return broken_down + explained + profiled


def forecast(request: RunRequest) -> RunForecast | None:
    """Return what the run is likely to take; None if no earlier run tells anything about its cases."""
    return plan_measurement(request).forecast
