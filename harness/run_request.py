"""What one A/B run is asked for, what follows from that for measuring, and the identity of what it measures."""

import dataclasses
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from opduel.comparator import Looks, plan_looks
from opduel.frameworks import Framework
from opduel.harness.aa_selection import usual_count
from opduel.harness.budget import kept_for_profiling
from opduel.harness.checkpoint import RoundLog, fingerprint
from opduel.harness.golden import Golden
from opduel.harness.instructions import threads_of
from opduel.harness.measurement_plan import FirstMeasurement, MeasurementPlan
from opduel.harness.pair_pool import Bench
from opduel.harness.profiles import to_break_down
from opduel.records import DEFAULT_METRIC, SAMPLED, Build, Case, RunConfiguration


@dataclass(frozen=True)
class RunRequest:
    """What to measure, on what, and within which bounds.

    ``configuration``: what was asked for; the report stores it. ``seed``: the one asked for, or drawn. ``labels``:
    further keys of the report's ``run`` (spec, command...). ``log``: where rounds are kept, and where those of an
    earlier start are found, if it measured the same cases on the same builds in the same way; None: nowhere. The time
    budget may differ. ``golden``: outputs that stand in for the control, which is the build that they are of; for cases
    of the metric "error" alone. ``suspects_only``: measure no case on that is being screened, beyond its first look.
    ``env``: variables that the workers of both sides get besides their own: their values may be secrets.
    ``first_measurement``: the run replicates the flagged cases of an earlier one, from which this is taken over.
    """

    framework: Framework
    control: Build
    treatment: Build
    cases: Sequence[Case]
    seed: int
    configuration: RunConfiguration = field(default_factory=RunConfiguration)
    labels: Mapping[str, Any] = field(default_factory=dict)
    log: RoundLog | None = None
    golden: Golden | None = None
    suspects_only: bool = False
    env: Mapping[str, str] = field(default_factory=dict)
    first_measurement: FirstMeasurement | None = None

    def configured(self, **changes: Any) -> "RunRequest":
        """The same request with these fields of its configuration changed."""
        return dataclasses.replace(self, configuration=dataclasses.replace(self.configuration, **changes))


def plan_of(request: RunRequest) -> MeasurementPlan:
    asked = request.configuration
    timed = [case.metric == DEFAULT_METRIC for case in request.cases]
    budget, kept = asked.time_budget, kept_for_profiling(asked.time_budget, count_profiled(request))
    return MeasurementPlan(
        [case for case in request.cases if case.metric in SAMPLED],
        plan_looks(asked.max_rounds),
        asked.alpha,
        request.seed,
        None if budget is None else budget - kept,
        asked.inject,
        can_fork=lambda case: request.framework.can_fork(threads_of(case, asked.threads), case.context),
        aa_cases=usual_count(sum(timed)) if asked.sentinels is None else asked.sentinels,
        suspects_only=request.suspects_only,
        budget_words="" if budget is None else f"the time budget of {budget:g} s",
        first_measurement=request.first_measurement,
    )


def count_profiled(request: RunRequest) -> int:
    """How many cases are profiled after measuring, if time is left: for breakdowns and for ``profile_output``."""
    asked = request.configuration
    broken_down = len(to_break_down(request.cases, request.framework, asked.breakdown))
    return broken_down + (0 if asked.profile_output is None else len({case.time_id for case in request.cases}))


def identity_of(request: RunRequest, order: MeasurementPlan, bench: Bench, host: Mapping[str, Any]) -> str:
    """What has to be the same for a start to go on with the rounds of another."""
    asked = request.configuration
    return fingerprint(
        {
            "framework": request.framework.name,
            "builds": {side: build.digest for side, build in bench.builds.items()},
            "cases": [case.measured_by() for case in order.cases],
            "sentinels": [case.id for case in order.chosen_aa_cases],
            "looks": _looks_of_version_1(order.looks),
            "alpha": order.alpha,
            "seed": order.seed,
            "inject": order.inject,
            "verifies": asked.verifies_after is not None,
            "threads": asked.threads,
            "environment": dict(bench.environment),
            "cpu": host["cpu_model"],
            **({"wipe_cache": bench.wiping.size} if bench.wiping else {}),
            **({"replicates": _identity_of_first(order.first_measurement)} if order.first_measurement else {}),
        }
    )


def _identity_of_first(first: FirstMeasurement) -> dict[str, Any]:
    """What a replication takes over, as plain data: its verdicts depend on it."""
    return {
        "samples": {case_id: list(map(dataclasses.asdict, samples)) for case_id, samples in first.samples.items()},
        "priors": {metric: dataclasses.asdict(prior) for metric, prior in first.priors.items()},
        "injected": sorted(first.injected),
        "failed": sorted(first.failed),
    }


def _looks_of_version_1(looks: Looks) -> dict[str, Any]:
    """The words that round logs have identified their runs by from the first version on."""
    found = dataclasses.asdict(looks)
    screening, confirmation = found.pop("screening"), found.pop("confirmation")
    by_metric = {metric: _looks_of_version_1(one) for metric, one in looks.by_metric.items()}
    return {"screen": screening, "own": confirmation, **found, "by_metric": by_metric}
