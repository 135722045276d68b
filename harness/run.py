"""One A/B run: two builds, the cases of a spec, a budget; in comes a request, out goes a report."""

import dataclasses
import math
import secrets
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from opduel.comparator import attribute_changes, plan_looks, withhold_verdicts
from opduel.frameworks import Framework, recorded_environment, run_environment
from opduel.harness.aa_selection import usual_count
from opduel.harness.budget import budget_for, kept_for_profiling, with_seconds
from opduel.harness.checkpoint import Checkpoint, RoundLog, Start, identity_of
from opduel.harness.cpus import measure_roofline, plan_cpus, plan_wiping, this_thread_on
from opduel.harness.explain.causes import Explaining, add_causes, as_profiles
from opduel.harness.forecast import RunForecast
from opduel.harness.forking import forks_record, with_checked_forks
from opduel.harness.golden import Golden
from opduel.harness.host import HostMonitor, host_fingerprint
from opduel.harness.instructions import plan_counting, threads_of
from opduel.harness.output_check import check_outputs
from opduel.harness.pair_pool import Bench
from opduel.harness.prior_runs import PriorRuns
from opduel.harness.profiles import Profiles, Profiling, add_breakdowns, to_break_down, write_profiles
from opduel.harness.same_inputs import INPUT_CHECK_SHARE, with_other_inputs
from opduel.harness.schedule import FirstMeasurement, MeasurementPlan, MeasurementResult, Progress, Schedule
from opduel.harness.validity import Frequency, Measurement, judge_validity, standing_despite, validity_problems
from opduel.harness.verification import FIRST_SHARE, Verifier, build_comparisons, first_order, without_first_measurement
from opduel.records import (
    DEFAULT_METRIC,
    SAMPLED,
    USUAL_ROUNDS,
    Build,
    Case,
    Comparison,
    Failure,
    HostRecord,
    Report,
    RunConfiguration,
    RunError,
    RunRecord,
)
from opduel.records.measurement import SIDES, SKIPPED, Side


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
    ``prior_runs``: what earlier runs on this host say of the cases, for planning alone. ``elsewhere``: as in
    ``MeasurementPlan``. ``callgrind``: the folder of callgrind's files of explained cases, if no ``profile_output`` is
    asked for; None: they are not kept. ``usual_rounds``: the most rounds of a case, unless ``configuration`` has them.
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
    prior_runs: PriorRuns | None = None
    elsewhere: int = 0
    callgrind: Path | None = None
    usual_rounds: int = USUAL_ROUNDS

    @property
    def max_rounds(self) -> int:
        """The most rounds of a case."""
        return self.configuration.max_rounds or self.usual_rounds

    def configured(self, **changes: Any) -> "RunRequest":
        """The same request with these fields of its configuration changed."""
        return dataclasses.replace(self, configuration=dataclasses.replace(self.configuration, **changes))


class InterruptedRunError(RunError):
    """A signal ended the run before anything was measured."""


def run_ab(request: RunRequest, on_progress: Callable[[Progress], None] = lambda _: None) -> Report:
    """Measure both builds against each other.

    The report's ``run["complete"]`` is false when the run ended before every case was settled, and
    ``run["aborted"]`` is true when that was for another reason than its own time budget; ``run["interrupted"]`` when
    that was a signal.

    A run that has a log goes on where the last start with it ended, however that was: with every round that was kept,
    counted and timed as if it had been run now. ``run["resumable"]`` says whether a further start could measure more.

    Raises:
        UsageError: the host has fewer processors than threads are asked for, or ``env`` has a variable that is ours.
        InterruptedRunError: a signal ended it before anything was measured.
        RunError: nothing at all could be measured.
    """
    began, bench = time.monotonic(), _bench_of(request)
    asked, started = request.configuration, SIDES[1:] if request.golden else SIDES
    framework = with_checked_forks(request.framework, bench, request.cases, asked.threads, started)
    request = whole = dataclasses.replace(request, framework=framework)
    host, order = host_fingerprint(), _plan_of(request)
    # Of all cases: what is left of them may differ between starts, for the check of inputs may run out of time.
    checkpoint = Checkpoint(request.log, identity_of(request.framework.name, asked, order, bench, host))
    request, other_inputs = _with_the_same_inputs(request, bench, checkpoint.elapsed_s)
    monitor = HostMonitor(allowed=bench.cpus.measure | bench.cpus.control)
    monitor.begin()
    roofline = measure_roofline(bench.cpus, asked.threads, bench.environment) if asked.roofline else None
    counts = asked.roofline or request.framework.two_sided or asked.threads > 1  # what comes before the rounds
    sampled = {case.id for case in order.cases}
    failed = {one.case: one.failure for one in other_inputs if one.failure is not None and one.case in sampled}
    # One processor is for the controller and for workers that start.
    spare = max(0, len(bench.cpus.measure | bench.cpus.control) - asked.threads - 1)

    def is_disturbed(noise: Mapping[str, Any] | None, mhz: Sequence[float]) -> bool:
        return asked.holds and bool(validity_problems(noise, spare, Frequency.of(mhz)))

    spent_s = time.monotonic() - began if counts else 0.0
    order = dataclasses.replace(order, failed=failed, spent_s=spent_s, is_disturbed=is_disturbed)
    start = _begin(checkpoint)
    with this_thread_on(bench.cpus.control):
        made = _measure(request, order, bench, checkpoint, monitor, on_progress)
    noise = {**monitor.summary(), **made.noise}
    timed = any(case.measure.noisy for case in request.cases)
    validity = {"valid": True, "hold": asked.holds, **judge_validity(made.order, made.findings, noise, spare, timed)}
    comparisons = made.comparisons
    if asked.holds and not validity["valid"]:
        first = made.order, made.findings
        comparisons = withhold_verdicts(comparisons, *standing_despite(validity, first, made.second, noise, spare))
    comparisons = [dataclasses.replace(one, effort=made.findings.effort.get(one.case)) for one in comparisons]
    comparisons = _explained(attribute_changes(comparisons), request, bench, made)
    comparisons = _with_work(whole, [*comparisons, *made.outputs, *other_inputs])
    run = _run_record(request, made.order, made.findings, start, checkpoint.resumed, bench, validity)
    if made.findings.stopped is not None:
        share = 1.0 if asked.verifies_after is None else FIRST_SHARE
        run["forecast"] = budget_for(comparisons, made.findings.wall_s, share, _count_profiled(request))
    run["profile_output"] = made.profiles and made.profiles.record()
    skipped = {one.case: one.failure.reason for one in comparisons if one.failure and is_skip(one.failure)}
    run["skipped"] = [{"case": case, "reason": reason} for case, reason in skipped.items()]
    comparisons = [one for one in comparisons if one.case not in skipped]
    cases = tuple(case for case in whole.cases if case.id not in skipped)
    sides = request.control, request.treatment
    return Report(RunRecord(run), *sides, HostRecord({**host, "roofline": roofline, **noise}), comparisons, cases=cases)


def _explained(
    comparisons: Sequence[Comparison], request: RunRequest, bench: Bench, made: "_Measured"
) -> list[Comparison]:
    """The comparisons, those that are to be explained with a cause, in what is left of the time budget."""
    asked = request.configuration
    profiling = Profiling(bench, request.framework, asked.threads, request.seed, made.ends)
    replicates = request.first_measurement is not None
    folder = request.callgrind if asked.profile_output is None else Path(asked.profile_output)
    explaining = Explaining(profiling, asked.explain, replicates, request.env, folder, request.cases)
    with this_thread_on(bench.cpus.control):
        return add_causes(comparisons, request.cases, made.findings, explaining)


def is_skip(failure: Failure) -> bool:
    """Whether both sides skipped the case, so that nothing went wrong."""
    return failure.side == "both" and failure.kind == SKIPPED


def _with_the_same_inputs(request: RunRequest, bench: Bench, earlier_s: float) -> tuple[RunRequest, list[Comparison]]:
    """The request without the cases that have other inputs on either side, and what these came to. Frameworks make
    their own inputs alike on both sides: it is asked where a run has two. ``earlier_s``: what earlier starts took of
    the time budget."""
    if not request.framework.two_sided:
        return request, []
    budget = request.configuration.time_budget
    share_s = None if budget is None else INPUT_CHECK_SHARE * max(0.0, budget - earlier_s)
    with this_thread_on(bench.cpus.control):
        found = with_other_inputs(request.cases, bench, request.seed, _forking(request), share_s)
    failed = {one.case for one in found}
    return dataclasses.replace(request, cases=[case for case in request.cases if case.id not in failed]), found


def _bench_of(request: RunRequest) -> Bench:
    """What measures: both builds, their environment, the processors. Raises UsageError: as ``run_ab``."""
    asked = request.configuration
    builds: dict[Side, Build] = {"control": request.control, "treatment": request.treatment}
    environment = run_environment(request.framework, asked.threads, request.env, list(builds.values()))
    environment |= request.framework.preparation(request.cases)
    counts = any(case.metric == "instructions" for case in request.cases)
    return Bench(
        builds,
        request.framework.adaptor,
        environment,
        plan_cpus(asked.threads),
        plan_counting(request.framework, request.env, request.cases) if counts else None,
        plan_wiping() if asked.wipe_cache else None,
        request.framework.memory_environment(),
    )


@dataclass
class _Measured:
    """What a run has measured, and the comparisons that follow from it: of outputs, and of all else."""

    order: MeasurementPlan
    findings: MeasurementResult
    comparisons: Sequence[Comparison]
    outputs: Sequence[Comparison]
    profiles: Profiles | None
    noise: Mapping[str, Any]  # the host's while rounds were made, and while they were verified
    second: Measurement | None  # the verification
    ends: float  # of the time budget, by the monotonic clock


def _measure(
    request: RunRequest,
    order: MeasurementPlan,
    bench: Bench,
    checkpoint: Checkpoint,
    monitor: HostMonitor,
    on_progress: Callable[[Progress], None],
) -> _Measured:
    """Compare outputs, make rounds, verify what they flag, and profile. Raises RunError: as ``run_ab``."""
    asked = request.configuration

    def tell(progress: Progress) -> None:
        monitor.sample()
        on_progress(progress)

    kept = checkpoint.phase("first", monitor)
    output_check, order = check_outputs(request.cases, request.golden, bench, order, tell, checkpoint.elapsed_s)
    findings = MeasurementResult({case.id: [] for case in order.cases}, wall_s=order.spent_s)
    findings.failures |= order.failed
    if output_check.stopped is None and order.cases:
        after_s = asked.verifies_after
        findings = Schedule(bench, order if after_s is None else first_order(order, after_s), tell, kept).run()
    if output_check.stopped is not None:
        findings.stop(output_check.stopped)
    during = kept.noise()
    compared = any(one.rounds or one.failure for one in output_check.comparisons)
    if findings.aborted and not _measured(order, findings) and not compared:
        error = InterruptedRunError if findings.interrupted else RunError
        raise error(f"nothing was measured: {findings.stopped}")
    began = time.monotonic() - findings.wall_s
    verifier = Verifier(bench, order, began, asked.verifies_after or 0.0, on_progress, checkpoint=checkpoint)
    comparisons = build_comparisons(order, findings)
    if order.first_measurement is not None:
        comparisons = list(map(without_first_measurement, comparisons))
    if asked.verifies_after is not None:
        comparisons = verifier.verify(findings, comparisons)
    if output_check.out_of_time:  # some cases were not come to: the next start may
        findings.stopped = findings.stopped or f"{order.budget} was spent"
        findings.closed = False
    comparisons = with_seconds(comparisons, {case.id: case for case in order.cases}, findings.pace, order.looks)
    ends = math.inf if asked.time_budget is None else verifier.began + asked.time_budget
    profiling = Profiling(bench, request.framework, asked.threads, request.seed, ends)
    comparisons = add_breakdowns(comparisons, request.cases, findings, profiling, asked.breakdown)
    profiles = None
    if asked.profile_output is not None:
        failed = {one.case: one.failure.reason for one in comparisons if one.failure is not None}
        folder = Path(asked.profile_output)
        profiles = write_profiles(folder, request.cases, failed, profiling, findings.aborted)
        if profiles.stopped is not None:
            findings.stop(profiles.stopped)
    noise = {"during": during, "verifying": verifier.host}
    return _Measured(order, findings, comparisons, output_check.comparisons, profiles, noise, verifier.made, ends)


def without_measuring(request: RunRequest, why: str) -> Report:
    """The report of two builds that are the same: every case ``unchanged`` and not measured; ``why`` is its note.

    Raises:
        UsageError: the host has fewer processors than threads are asked for.
    """
    asked = request.configuration
    cpus = plan_cpus(asked.threads)
    bench = Bench({}, request.framework.adaptor, run_environment(request.framework, asked.threads, request.env), cpus)
    order, findings = _plan_of(request), MeasurementResult()
    monitor = HostMonitor(allowed=cpus.measure | cpus.control)
    monitor.begin()
    validity = {"valid": True, "hold": asked.holds, "reasons": [], "frequency_mhz": None, "aa_checks": []}
    run = _run_record(request, order, findings, _begin(Checkpoint(None, "")), [], bench, validity)
    comparisons = [Comparison.without_figures(case, "unchanged", note=why) for case in request.cases]
    host = {**host_fingerprint(), "roofline": None, **monitor.summary(), "verifying": None}
    return Report(
        RunRecord(run), request.control, request.treatment, HostRecord(host), comparisons, cases=request.cases
    )


def _plan_of(request: RunRequest) -> MeasurementPlan:
    """What a run is asked to measure in rounds, in what profiling leaves of the time budget."""
    asked, budget = request.configuration, request.configuration.time_budget
    timed = [case.metric == DEFAULT_METRIC for case in request.cases]
    return MeasurementPlan(
        [case for case in request.cases if case.metric in SAMPLED],
        plan_looks(request.max_rounds),
        asked.alpha,
        request.seed,
        None if budget is None else budget - kept_for_profiling(budget, _count_profiled(request)),
        asked.inject,
        can_fork=_forking(request),
        aa_cases=usual_count(sum(timed)) if asked.sentinels is None else asked.sentinels,
        suspects_only=request.suspects_only,
        budget_words="" if budget is None else f"the time budget of {budget:g} s",
        first_measurement=request.first_measurement,
        prior_runs=request.prior_runs,
        elsewhere=request.elsewhere,
    )


def _forking(request: RunRequest) -> Callable[[Case], bool]:
    """Whether a case runs in a fork."""
    threads = request.configuration.threads
    return lambda case: request.framework.can_fork(threads_of(case, threads), case.context)


def _count_profiled(request: RunRequest) -> int:
    """How many cases are profiled after measuring, if time is left: for breakdowns, ``profile_output`` and causes."""
    asked = request.configuration
    broken_down = len(to_break_down(request.cases, request.framework, asked.breakdown))
    confirms = asked.verify or request.first_measurement is not None
    broken_down += as_profiles(request.cases, asked.explain, confirms)
    return broken_down + (0 if asked.profile_output is None else len({case.time_id for case in request.cases}))


def _run_record(
    request: RunRequest,
    order: MeasurementPlan,
    findings: MeasurementResult,
    start: Start,
    resumed: Sequence[int],
    bench: Bench,
    validity: Mapping[str, Any],
) -> dict[str, Any]:
    """The report's ``run``: what was asked for, and how it went."""
    asked, counting = request.configuration, bench.counting

    def recorded(environment: Mapping[str, str]) -> dict[str, str]:  # without the user's secrets
        return recorded_environment(environment, request.env, request.framework.name)

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
        "spec_seed": request.labels.get("spec_seed"),
        **{name: getattr(asked, name) for name in ("alpha", "threads")},
        "max_rounds": request.max_rounds,
        "time_budget": asked.time_budget,
        "inject": asked.inject or None,
        "verify_after": asked.verifies_after,
        "breakdown": "all" if asked.breakdown else "networks",
        "aa_cases": len(order.chosen_aa_cases),
        "looks": dataclasses.asdict(order.looks),
        "environment": recorded(bench.environment),
        "env": sorted(request.env),
        "counting": counting and {**dataclasses.asdict(counting), "environment": recorded(counting.environment)},
        "wipe_cache": bench.wiping.size if bench.wiping else None,
        "golden": str(request.golden.folder) if request.golden else None,
        "forks": forks_record(request.framework, request.cases, asked.threads) if bench.builds else None,
        "cpus": {"measure": sorted(bench.cpus.measure), "start": sorted(bench.cpus.start), "nice": findings.nice},
        "complete": findings.stopped is None,
        "resumable": request.log is not None and findings.resumable,
        "aborted": findings.aborted,
        "interrupted": findings.interrupted,
        "stop_reason": findings.stopped,
        "forecast": None,
        "expected_s": findings.expected_s,
        "noise": findings.noise or None,
        "prior_runs": order.prior_runs and order.prior_runs.record(order.forecast),
        "fleet": None,
        "continues": False,
        **{name: getattr(findings, name) for name in ("not_broken_down", "rounds", "wall_s", "timed_s", "spent_s")},
        "incidents": [dataclasses.asdict(incident) for incident in findings.incidents],
        "validity": validity,
        "profile_output": None,
    }


def forecast(request: RunRequest) -> RunForecast | None:
    """What the run is likely to take; None if earlier runs say nothing of its cases."""
    return _plan_of(request).forecast


def _with_work(request: RunRequest, comparisons: Sequence[Comparison]) -> list[Comparison]:
    """The comparisons, in the order of the run's cases; those of time with the work of a call, where it is known."""
    known = {case.id: request.framework.work(case) for case in request.cases if case.metric == DEFAULT_METRIC}
    found = {one.case: dataclasses.replace(one, work=known.get(one.case)) for one in comparisons}
    return [found[case.id] for case in request.cases]


def _begin(checkpoint: Checkpoint) -> Start:
    """The run's first start: this one, if there was none before."""
    now = datetime.now(UTC)
    return checkpoint.begin(f"{now:%Y%m%dT%H%M%SZ}-{secrets.token_hex(3)}", now.isoformat(timespec="seconds"))


def _measured(order: MeasurementPlan, findings: MeasurementResult) -> bool:
    """Whether the run has samples of its own."""
    first = order.first_measurement.samples if order.first_measurement else {}
    return any(len(samples) > len(first.get(case_id, ())) for case_id, samples in findings.samples.items())
