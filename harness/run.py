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

from comparator import SentinelCheck, check_sentinels, fit_priors, hold_back, plan_looks, read_together
from frameworks import Framework, recorded_environment, run_environment
from harness.agreement import Agreement
from harness.breakdown import add_breakdowns, to_break_down
from harness.budget import kept_for_profiling
from harness.caches import plan_wiping
from harness.cpus import CpuPlan, plan_cpus, this_thread_on
from harness.golden import Golden
from harness.host import HostMonitor, host_fingerprint
from harness.instructions import plan_counting, threads_of
from harness.judging import judged
from harness.outlook import budget_for, with_seconds
from harness.profiles import Subject, write_profiles
from harness.recall import Recall, RoundLog, Start, fingerprint
from harness.roofline import measure_roofline
from harness.schedule import Findings, Order, Progress, Schedule
from harness.sentinels import usual_count
from harness.supply import Bench
from harness.trust import Frequency, distrust, sentinel_reasons
from harness.verification import FIRST_SHARE, Verifier, first_order
from records import DEFAULT_METRIC, SAMPLED, Build, Case, Comparison, Report, RunError
from records.measurement import Side

AGREEMENT_SHARE = 0.5  # of the time that is left, at most, for comparing numbers, if there is anything else to measure


@dataclass(frozen=True)
class RunRequest:
    """What to measure, on what, and within which bounds.

    ``alpha``: the false discovery rate of the run. ``inject``: a share, 0 for none. ``time_budget``: seconds.
    ``labels``: further keys of the report's ``run`` (spec, platform, command...). ``sentinels``: how many; None for
    the usual count. ``hold``: whether a run that can't be trusted holds its verdicts back. ``verify_after``: measure
    flagged cases again, so many seconds later; None for not at all. ``log``: where rounds are kept, and where those of
    an earlier start are found, if it measured the same cases on the same builds in the same way; None: nowhere. The
    time budget may differ. ``roofline``: measure the host's before anything else. ``breakdown``: profile every case,
    not networks alone, operator by operator, after measuring, in what is kept of the time budget. ``wipe_cache``:
    evict the processor's caches before each timed call. ``golden``: outputs that stand in for the control, which is
    the build that they are of; for cases of the metric "error" alone. ``suspects_only``: measure no case on that is
    being screened, beyond its first look. ``env``: variables that the workers of both sides get besides their own.
    ``profile_output``: an absolute path, where the framework's own profile of every case is put, after measuring, in
    what is kept of the time budget; None for nowhere.
    """

    framework: Framework
    control: Build
    treatment: Build
    cases: Sequence[Case]
    seed: int
    alpha: float
    threads: int
    max_rounds: int
    time_budget: float | None
    inject: float
    labels: Mapping[str, Any]
    sentinels: int | None = None
    hold: bool = True
    verify_after: float | None = None
    log: RoundLog | None = None
    roofline: bool = False
    breakdown: bool = False
    wipe_cache: bool = False
    golden: Golden | None = None
    suspects_only: bool = False
    env: Mapping[str, str] = field(default_factory=dict)
    profile_output: Path | None = None


class InterruptedRunError(RunError):
    """A signal ended the run before anything was measured."""


def run_ab(request: RunRequest, on_progress: Callable[[Progress], None] = lambda _: None) -> Report:
    """Measure both builds against each other.

    The report's ``run["complete"]`` is false when the run ended before every case was settled, and
    ``run["broken"]`` is true when that was for another reason than its own time budget; ``run["interrupted"]`` when
    that was a signal.

    A run that has a log goes on where the last start with it ended, however that was: with every round that was kept,
    counted and timed as if it had been run now. ``run["resumable"]`` says whether a further start could measure more.

    Raises:
        UsageError: the host has fewer processors than threads are asked for, or ``env`` has a variable that is ours.
        InterruptedRunError: a signal ended it before anything was measured.
        RunError: nothing at all could be measured.
    """
    cpus = plan_cpus(request.threads)
    builds: dict[Side, Build] = {"control": request.control, "treatment": request.treatment}
    environment = run_environment(request.framework, request.threads, request.env, list(builds.values()))
    counts = any(case.metric == "instructions" for case in request.cases)
    counting = plan_counting(request.framework, request.env) if counts else None
    wiping = plan_wiping() if request.wipe_cache else None
    storage = request.framework.memory_environment()
    bench = Bench(builds, request.framework.adaptor, environment, cpus, counting, wiping, storage)
    order = _order(request)
    monitor = HostMonitor(allowed=cpus.measure | cpus.control)
    monitor.begin()

    def tell(progress: Progress) -> None:
        monitor.sample()
        on_progress(progress)

    began = time.monotonic()
    roofline = measure_roofline(cpus, request.threads, environment) if request.roofline else None
    order = dataclasses.replace(order, spent_s=time.monotonic() - began if request.roofline else 0.0)
    agreement = _Agreed(request, bench, order)
    host = {**host_fingerprint(), "roofline": roofline}
    recall = Recall(request.log, _identity(request, order, bench, host))
    start = _begin(recall)
    kept = recall.phase("first", monitor)
    with this_thread_on(cpus.control):
        order = agreement.compare(tell, recall.elapsed_s)
        findings = Findings(samples={case.id: [] for case in order.cases}, wall_s=order.spent_s)
        if agreement.stopped is None and order.cases:
            after_s = request.verify_after
            findings = Schedule(bench, order if after_s is None else first_order(order, after_s), tell, kept).run()
        agreement.note(findings)
        during = kept.noise()
        if findings.broken and not any(findings.samples.values()) and not agreement.found:
            error = InterruptedRunError if findings.interrupted else RunError
            raise error(f"nothing was measured: {findings.stopped}")
        began = time.monotonic() - findings.wall_s
        verifier = Verifier(bench, order, began, request.verify_after or 0.0, on_progress, recall=recall)
        comparisons = judged(order, findings)
        if request.verify_after is not None:
            comparisons = verifier.verify(findings, comparisons)
        agreement.note_time(findings)
        comparisons = with_seconds(comparisons, {case.id: case for case in order.cases}, findings.pace, order.looks)
        ends = math.inf if request.time_budget is None else verifier.began + request.time_budget
        comparisons = add_breakdowns(
            comparisons,
            request.cases,
            findings,
            bench,
            request.framework,
            seed=request.seed,
            threads=request.threads,
            every_case=request.breakdown,
            deadline=ends,
        )
        profiles = _profiles(request, comparisons, findings, bench, ends)
    noise = {**monitor.summary(), "during": during, "verifying": verifier.host}
    trust = _trust(request, order, findings, noise, cpus)
    if request.hold and not trust["trusted"]:
        comparisons = hold_back(comparisons)
    comparisons = _with_work(request, agreement.among(read_together(comparisons)))
    run = _run_record(request, order, findings, start, recall.resumed, bench, trust)
    if findings.stopped is not None:
        share = 1.0 if request.verify_after is None else FIRST_SHARE
        run["forecast"] = budget_for(comparisons, findings.wall_s, share, _profiled(request))
    run["profile_output"] = profiles
    return Report(run, request.control, request.treatment, {**host, **noise}, comparisons, cases=tuple(request.cases))


def _profiles(
    request: RunRequest, comparisons: Sequence[Comparison], findings: Findings, bench: Bench, deadline: float
) -> dict[str, Any] | None:
    """Write the profiles that were asked for, unless the run was cut short; returns what the report keeps of them.

    None is made after ``deadline``, of the monotonic clock.
    """
    if request.profile_output is None:
        return None
    failed = {one.case: one.failure.reason for one in comparisons if one.failure is not None}
    subject = Subject(bench.builds, request.framework, bench.environment, bench.cpus, request.threads, request.seed)
    profiles = write_profiles(request.profile_output, request.cases, failed, subject, findings.broken, deadline)
    if profiles.stopped is not None:
        findings.stop(profiles.stopped)
    return profiles.record()


class _Agreed:
    """The part of a run that compares numbers: its cases come first, and leave the others the rest of the time."""

    def __init__(self, request: RunRequest, bench: Bench, order: Order) -> None:
        self._request, self._bench, self._order = request, bench, order
        self._cases = [case for case in request.cases if case.metric not in SAMPLED]
        self._agreement: Agreement | None = None
        self._comparisons: list[Comparison] = []

    def compare(self, tell: Callable[[Progress], None], earlier_s: float) -> Order:
        """Compare them; returns the order that is left. ``earlier_s``: what earlier starts took of the time budget."""
        if not self._cases:
            return self._order
        began, cases = time.monotonic() - self._order.spent_s, len(self._request.cases)
        budget = self._order.time_budget
        share = AGREEMENT_SHARE if self._order.cases else 1.0

        def on_case(left: int) -> None:
            tell(Progress(0, left + len(self._order.cases), cases, time.monotonic() - began, 0.0))

        self._agreement = Agreement(
            self._bench,
            self._request.seed,
            self._order.can_fork,
            math.inf if budget is None else began + share * max(0.0, budget - earlier_s),
            on_case,
            self._request.golden,
        )
        self._comparisons = self._agreement.compare(self._cases)
        return dataclasses.replace(self._order, spent_s=time.monotonic() - began)

    @property
    def stopped(self) -> BaseException | None:
        """What ended the run while numbers were compared."""
        return self._agreement.stopped if self._agreement else None

    @property
    def found(self) -> bool:
        """Whether any case came to something."""
        return any(one.rounds or one.failure for one in self._comparisons)

    def note(self, findings: Findings) -> None:
        """Note in ``findings`` that something ended the run here, if it did."""
        if self.stopped is not None:
            findings.stop(self.stopped)

    def note_time(self, findings: Findings) -> None:
        """Note in ``findings``, when all is measured, that some cases were not come to: the next start may."""
        if self._agreement and self._agreement.out_of_time:
            findings.stopped = findings.stopped or f"{self._order.budget} was spent"
            findings.closed = False

    def among(self, others: Sequence[Comparison]) -> list[Comparison]:
        """All the run's comparisons, in the order of its cases."""
        known = {one.case: one for one in (*others, *self._comparisons)}
        return [known[case.id] for case in self._request.cases]


def without_measuring(request: RunRequest, why: str) -> Report:
    """The report of two builds that are the same: every case ``unchanged`` and not measured; ``why`` is its note.

    Raises:
        UsageError: the host has fewer processors than threads are asked for.
    """
    cpus = plan_cpus(request.threads)
    environment = run_environment(request.framework, request.threads, request.env)
    bench = Bench({}, request.framework.adaptor, environment, cpus)
    order, findings = _order(request), Findings()
    monitor = HostMonitor(allowed=cpus.measure | cpus.control)
    monitor.begin()
    noise = {**monitor.summary(), "verifying": None}
    trust = {"trusted": True, "hold": request.hold, "reasons": [], "frequency_mhz": None, "sentinels": []}
    run = _run_record(request, order, findings, _begin(Recall(None, "")), [], bench, trust)
    comparisons = [_unmeasured(case, why) for case in request.cases]
    host = {**host_fingerprint(), "roofline": None, **noise}
    return Report(run, request.control, request.treatment, host, comparisons, cases=request.cases)


def _with_work(request: RunRequest, comparisons: Sequence[Comparison]) -> list[Comparison]:
    """The comparisons of time with the work of a call, where it is known."""
    known = {case.id: request.framework.work(case) for case in request.cases if case.metric == DEFAULT_METRIC}
    return [dataclasses.replace(one, work=known.get(one.case)) for one in comparisons]


def _unmeasured(case: Case, why: str) -> Comparison:
    return Comparison.without_figures(case, "unchanged", note=why)


def _run_record(
    request: RunRequest,
    order: Order,
    findings: Findings,
    start: Start,
    resumed: Sequence[Any],
    bench: Bench,
    trust: Mapping[str, Any],
) -> dict[str, Any]:
    """The report's ``run``: what was asked for, and how it went."""
    return {
        "id": start.id,
        "started": start.started,
        "finished": datetime.now(UTC).isoformat(timespec="seconds"),
        "resumed": resumed,
        **request.labels,
        "framework": request.framework.name,
        "seed": request.seed,
        "alpha": request.alpha,
        "threads": request.threads,
        "max_rounds": request.max_rounds,
        "time_budget": request.time_budget,
        "inject": request.inject or None,
        "verify_after": request.verify_after,
        "breakdown": "all" if request.breakdown else "networks",
        "sentinels": len(order.sentinel_cases),
        "looks": dataclasses.asdict(order.looks),
        "environment": _recorded(request, bench.environment),
        "env": sorted(request.env),
        "counting": _counting(request, bench),
        "wipe_cache": bench.wiping.size if bench.wiping else None,
        "golden": str(request.golden.folder) if request.golden else None,
        "cpus": {"measure": sorted(bench.cpus.measure), "start": sorted(bench.cpus.start)},
        **_summary(findings, request.log is not None),
        "trust": trust,
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


def _identity(request: RunRequest, order: Order, bench: Bench, host: Mapping[str, Any]) -> str:
    """What has to be the same for a start to go on with the rounds of another."""
    return fingerprint(
        {
            "framework": request.framework.name,
            "builds": {side: build.digest for side, build in bench.builds.items()},
            "cases": list(map(dataclasses.asdict, order.cases)),
            "sentinels": [case.id for case in order.sentinel_cases],
            "looks": dataclasses.asdict(order.looks),
            "alpha": order.alpha,
            "seed": order.seed,
            "inject": order.inject,
            "verifies": request.verify_after is not None,
            "threads": request.threads,
            "environment": dict(bench.environment),
            "cpu": host["cpu_model"],
            **({"wipe_cache": bench.wiping.size} if bench.wiping else {}),
        }
    )


def _begin(recall: Recall) -> Start:
    """The run's first start: this one, if there was none before."""
    now = datetime.now(UTC)
    return recall.begin(f"{now:%Y%m%dT%H%M%SZ}-{secrets.token_hex(3)}", now.isoformat(timespec="seconds"))


def _profiled(request: RunRequest) -> int:
    """How many cases are profiled after measuring, if time is left: for breakdowns and for ``profile_output``."""
    broken_down = len(to_break_down(request.cases, request.framework, request.breakdown))
    return broken_down + (0 if request.profile_output is None else len({case.time_id for case in request.cases}))


def _order(request: RunRequest) -> Order:
    timed = [case.metric == DEFAULT_METRIC for case in request.cases]
    budget, kept = request.time_budget, kept_for_profiling(request.time_budget, _profiled(request))
    return Order(
        [case for case in request.cases if case.metric in SAMPLED],
        plan_looks(request.max_rounds),
        request.alpha,
        request.seed,
        None if budget is None else budget - kept,
        request.inject,
        can_fork=lambda case: request.framework.can_fork(threads_of(case, request.threads), case.context),
        sentinels=usual_count(sum(timed)) if request.sentinels is None else request.sentinels,
        suspects_only=request.suspects_only,
        budget_words="" if budget is None else f"the time budget of {budget:g} s",
    )


def _trust(
    request: RunRequest, order: Order, findings: Findings, noise: Mapping[str, Any], cpus: CpuPlan
) -> dict[str, Any]:
    """Whether the run can be trusted, and all that this was judged by."""
    spare = max(0, len(cpus.measure | cpus.control) - request.threads - 1)  # one for controller and starting workers
    frequency = Frequency.of(findings.mhz)
    checks = _checks(order, findings)
    timed = any(case.metric == DEFAULT_METRIC for case in request.cases)  # nothing disturbs counts
    reasons = [
        *distrust(noise["during"], spare, frequency),
        *(f"{reason}, while verifying" for reason in distrust(noise["verifying"], spare, None)),
        *sentinel_reasons(checks),
    ]
    reasons = reasons if timed else []
    return {
        "trusted": not reasons,
        "hold": request.hold,
        "reasons": reasons,
        "frequency_mhz": frequency and dataclasses.asdict(frequency),
        "sentinels": [
            {**dataclasses.asdict(check), "samples": list(map(dataclasses.asdict, findings.sentinels[check.case]))}
            for check in checks
        ],
    }


def _checks(order: Order, findings: Findings) -> list[SentinelCheck]:
    """What the sentinels say: those that were measured at all."""
    cases = [case for case in order.sentinel_cases if case.id in findings.sentinels]
    return check_sentinels(cases, findings.sentinels, fit_priors(order.cases, findings.samples, order.looks))


def _summary(findings: Findings, logged: bool) -> dict[str, Any]:
    """The keys of the report's ``run`` that tell how it went; ``logged``: its rounds were kept."""
    return {
        "complete": findings.stopped is None,
        "resumable": logged and findings.resumable,
        "broken": findings.broken,
        "interrupted": findings.interrupted,
        "stopped": findings.stopped,
        "forecast": None,
        "not_broken_down": findings.not_broken_down,
        "continues": False,
        "rounds": findings.rounds,
        "wall_s": findings.wall_s,
        "timed_s": findings.timed_s,
        "spent_s": findings.spent_s,
        "incidents": [dataclasses.asdict(incident) for incident in findings.incidents],
    }
