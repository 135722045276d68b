"""One build alone: every case in fresh processes, round by round; in comes a request, out goes a report.

There is no other side to take turns with: what the machine does between two such runs is in their difference.
"""

import random
import secrets
import statistics
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import numpy as np

from opduel.frameworks import Framework, recorded_environment, run_environment
from opduel.frameworks.environment import HASH_SEED, HASH_SEEDS
from opduel.harness.machine.cpus import WIPING_VARIABLE, measure_roofline, plan_cpus, plan_wiping, this_thread_on
from opduel.harness.machine.host import HostMonitor, host_fingerprint
from opduel.harness.measurement_plan import MeasurementResult
from opduel.harness.numerics.outputs import FOR_GOOD
from opduel.harness.planning.budget import NO_TIME_LEFT, BudgetClock, profiling_seconds
from opduel.harness.processes.case_request import CaseRequest, shuffled
from opduel.harness.processes.forking import forks_record, with_checked_forks
from opduel.harness.processes.pair_pool import Bench
from opduel.harness.processes.restarting_worker import Question, RestartingWorker
from opduel.harness.profiles import Profiles, Profiling, write_profiles
from opduel.harness.rounds.counter_round import storage_question
from opduel.records import Build, Case, Failure, RunConfiguration, RunError, RunLabels
from opduel.records.run_record import SingleRunRecord
from opduel.records.single import Distribution, ProfiledOperator, SingleReport, SingleResult

DEFAULT_ROUNDS = 5
CASE_NS = 50_000_000  # timed calls of one case in one process, about
LEAST_CALLS, MOST_CALLS = 5, 1000
DEFAULT_WARMUP = 2  # calls before the timed ones; preparing has warmed up already
MEMORY_CALLS = 3
REPEATED_SETTINGS = ("platform", "user_identifier", "profiler", "threads", "runs", "time_budget")  # in the run's record
# Why the framework's profiler has no time for a case.
UNSEEN = "the framework's profiler saw no operator in it: it is Python code, or returns a view; use --profiler python"
TOO_SHORT = "most calls are shorter than a tick of the framework's profiler: use --profiler python"


@dataclass(frozen=True)
class SingleRequest:
    """What to measure, on what, and within which bounds: as ``RunRequest``. Without the configuration's ``runs``, each
    process makes as many timed calls as fit into 50 ms, 5 to 1000."""

    framework: Framework
    build: Build
    cases: Sequence[Case]
    seed: int
    configuration: RunConfiguration = field(default_factory=RunConfiguration)
    labels: RunLabels = field(default_factory=RunLabels)
    env: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class SingleProgress:
    """After a case in a round: how far the run has come."""

    round: int  # from 1
    rounds: int
    cases_done: int  # cases of this round
    cases: int
    elapsed_s: float


@dataclass
class _CaseOutcome:
    """What is known of one case so far."""

    processes: list[list[float]] = field(default_factory=list)  # ns a call, a list for each process
    memory: dict[str, float] | None = None
    operators: dict[str, list[float]] = field(default_factory=dict)  # name -> ns, each time that it ran
    failures: list[Failure] = field(default_factory=list)
    note: str = ""
    asked_for_memory: bool = False

    @property
    def failed(self) -> bool:
        """Whether it is given up."""
        return len(self.failures) > 1 or any(failure.kind in FOR_GOOD for failure in self.failures)


class _OutOfTime(Exception):
    """The budget is spent."""


def run_single(request: SingleRequest, on_progress: Callable[[SingleProgress], None] = lambda _: None) -> SingleReport:
    """Measure one build.

    A signal, a lost worker or the end of the time budget cost what was in progress and nothing before it: the report's
    ``run.complete`` is false then, and ``run.aborted`` true unless it was the budget. Raises UsageError: the host has
    fewer processors than threads are asked for, or ``env`` has a variable that is ours. RunError: nothing at all could
    be measured.
    """
    return _Run(request, on_progress).run()


class _Run:
    def __init__(self, request: SingleRequest, on_progress: Callable[[SingleProgress], None]) -> None:
        self._request = request
        self._configuration = configuration = request.configuration
        self._warmup = DEFAULT_WARMUP if configuration.warmup is None else configuration.warmup
        self._on_progress = on_progress
        self._cpus = plan_cpus(configuration.threads)
        profiling = request.framework.profiling.variables if configuration.profiler == "native" else {}
        ours = run_environment(request.framework, configuration.threads, request.env, [request.build])
        self._wiping = plan_wiping() if configuration.wipe_cache else None
        wiping = {WIPING_VARIABLE: str(self._wiping.size)} if self._wiping else {}
        environment = {**ours, **request.framework.preparation(request.cases), **profiling, **wiping}
        self._bench = Bench({"treatment": request.build}, request.framework.adaptor, environment, self._cpus)
        self._framework = request.framework
        self._outcomes = {case.id: _CaseOutcome() for case in request.cases}
        self._monitor = HostMonitor(allowed=self._cpus.measure | self._cpus.control)
        self._clock = BudgetClock(time.monotonic(), configuration.time_budget)
        profiled = 0 if configuration.profile_output is None else len({case.time_id for case in request.cases})
        profiling_s = profiling_seconds(configuration.time_budget, profiled)
        self._deadline = self._clock.deadline - profiling_s  # of measuring

    def run(self) -> SingleReport:
        started = datetime.now(UTC)
        request, configuration, environment = self._request, self._configuration, self._bench.environment
        roofline = measure_roofline(self._cpus, configuration.threads, environment) if configuration.roofline else None
        host = replace(host_fingerprint(), roofline=roofline)
        course = MeasurementResult()
        try:
            with this_thread_on(self._cpus.control):
                self._measure()
        except _OutOfTime:
            course.stopped = NO_TIME_LEFT
        except (KeyboardInterrupt, RunError) as error:
            course.stop(error)
        if course.aborted and not any(outcome.processes for outcome in self._outcomes.values()):
            raise RunError(f"nothing was measured: {course.stopped}")
        profiles = self._profiles(course.aborted)
        if profiles is not None and profiles.stopped is not None:
            course.stop(profiles.stopped)
        run = SingleRunRecord(
            **vars(request.labels),
            id=f"{started:%Y%m%dT%H%M%SZ}-{secrets.token_hex(3)}",
            started=started.isoformat(timespec="seconds"),
            finished=datetime.now(UTC).isoformat(timespec="seconds"),
            configuration=configuration,
            **{name: getattr(configuration, name) for name in REPEATED_SETTINGS},
            framework=request.framework.name,
            seed=request.seed,
            rounds=configuration.rounds or DEFAULT_ROUNDS,
            warmup=self._warmup,
            environment=recorded_environment(environment, request.env, request.framework.name),
            env=tuple(sorted(request.env)),
            forks=forks_record(self._framework, request.cases, configuration.threads),
            cpus=tuple(sorted(self._cpus.measure)),
            complete=course.stopped is None,
            aborted=course.aborted,
            interrupted=course.interrupted,
            stop_reason=course.stopped,
            wall_s=self._clock.elapsed_s,
            profile_output=profiles.record() if profiles else None,
        )
        cases = tuple(_result(case, self._outcomes[case.id], request.framework) for case in request.cases)
        host = replace(host, before=self._monitor.before, during=self._monitor.during)
        return SingleReport(run, request.build, host, cases).without_secrets()

    def _measure(self) -> None:
        """Measure all rounds, each with a fresh worker and the cases in an order of its own. Raises _OutOfTime: the
        time budget is spent; RunError: workers can't be started."""
        request, bench = self._request, self._bench
        self._framework = with_checked_forks(request.framework, bench, request.cases, self._configuration.threads)
        rng = random.Random(request.seed)
        rounds = self._configuration.rounds or DEFAULT_ROUNDS
        for number in range(1, rounds + 1):
            open_cases = [case for case in request.cases if not self._outcomes[case.id].failed]
            order = shuffled(open_cases, lambda case: case, rng)
            environment = {HASH_SEED: str(rng.randrange(HASH_SEEDS)), **bench.environment}
            for_storage = {**environment, **request.framework.profiling.memory_variables}
            with (
                bench.worker("treatment", environment, self._cpus.measure) as timing,
                bench.worker("treatment", for_storage, self._cpus.measure) as storage,
            ):
                for position, case in enumerate(order, 1):
                    self._measure_case(timing, storage, case)
                    self._monitor.sample()
                    self._on_progress(SingleProgress(number, rounds, position, len(order), self._clock.elapsed_s))

    def _profiles(self, aborted: bool) -> Profiles | None:
        request, configuration = self._request, self._configuration
        if configuration.profile_output is None:
            return None
        failed = {name: outcome.failures[-1].reason for name, outcome in self._outcomes.items() if outcome.failed}
        profiling = Profiling(self._bench, self._framework, configuration.threads, request.seed, self._clock.deadline)
        with this_thread_on(self._cpus.control):
            return write_profiles(Path(configuration.profile_output), request.cases, failed, profiling, aborted)

    def _measure_case(self, timing: RestartingWorker, storage: RestartingWorker, case: Case) -> None:
        """Time one case in a process of its own; with the first such, also what memory it takes, in another."""
        outcome = self._outcomes[case.id]
        prepare = CaseRequest(case, self._request.seed).message("control")  # nothing is slowed
        answer = self._ask(timing, case, [prepare, self._timing_question])
        if isinstance(answer, Failure):
            outcome.failures.append(answer)
            return
        if self._configuration.profiler == "native":
            _take_profile(outcome, answer[-1]["calls"][self._warmup :])
        else:
            outcome.processes.append([float(value) for value in answer[-1]["ns"]])
        if not outcome.asked_for_memory:
            outcome.asked_for_memory = True
            outcome.memory = self._memory(storage, case)

    def _memory(self, worker: RestartingWorker, case: Case) -> dict[str, float] | None:
        """Return what a call needs, device -> bytes; None where that can't be measured, which costs nothing else.
        Raises _OutOfTime: as ``_ask``."""
        try:
            answer = self._ask(worker, case, [storage_question(CaseRequest(case, self._request.seed), MEMORY_CALLS)])
        except RunError:
            return None
        return None if isinstance(answer, Failure) else {name: float(size) for name, size in answer[0]["bytes"].items()}

    def _ask(
        self, worker: RestartingWorker, case: Case, requests: Sequence[Question]
    ) -> list[dict[str, Any]] | Failure:
        """Ask about the case, in a process of its own. Raises _OutOfTime: there is no time left, or it ended in
        between."""
        fork = self._framework.can_fork(self._configuration.threads, case.context)
        answers = worker.ask_until(self._deadline, case, requests, fork=fork)
        if answers is None:
            raise _OutOfTime
        return answers

    def _timing_question(self, answers: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
        """Return what a case that was prepared is asked: as many calls as the user says, or as fit."""
        calls = self._configuration.runs
        if calls is None:
            wipe_ns = self._wiping.ns if self._wiping else 0.0
            fitting = round(CASE_NS / (float(answers[0]["call_ns"]) + wipe_ns))
            calls = max(LEAST_CALLS, min(MOST_CALLS, fitting))
        if self._configuration.profiler == "native":
            return {"op": "profile", "calls": self._warmup + calls}
        return {"op": "block", "discard": self._warmup, "calls": calls, "inner": 1}


def _take_profile(outcome: _CaseOutcome, calls: Sequence[Mapping[str, Any]]) -> None:
    """Add a process's profiled calls: a call's time is that of all operators that it ran. Without any there is no
    time."""
    if any(call["operators"] for call in calls):
        outcome.processes.append([float(sum(map(sum, call["operators"].values()))) for call in calls])
    else:
        outcome.note = UNSEEN
    for call in calls:
        for name, times in call["operators"].items():
            outcome.operators.setdefault(name, []).extend(times)


def _result(case: Case, outcome: _CaseOutcome, framework: Framework) -> SingleResult:
    calls = [value for process in outcome.processes for value in process]
    if calls and statistics.median(calls) == 0:
        outcome, calls = replace(outcome, processes=[], note=TOO_SHORT), []
    operators = {name: ProfiledOperator(len(times), sum(times)) for name, times in outcome.operators.items()}
    return SingleResult(
        case=case.id,
        operator=case.operator,
        direction=case.direction,
        dtype=case.dtype,
        context=case.context,
        inputs=case.inputs,
        time=distribution(calls) if calls else None,
        calls=len(calls),
        rounds=len(outcome.processes),
        process_p50=tuple(statistics.median(process) for process in outcome.processes),
        memory=outcome.memory,
        operators=operators or None,
        failure=outcome.failures[-1] if outcome.failed or (outcome.failures and not calls) else None,
        work=framework.work(case),
        mode=None if framework.cases.is_network(case) else case.mode or None,  # a network's inputs say it
        note="" if calls else outcome.note,
    )


def distribution(calls: Sequence[float]) -> Distribution:
    """Sum up one call or more, in ns; percentiles between two calls are interpolated."""
    p50, p90, p99 = map(float, np.percentile(calls, (50, 90, 99)))
    stdev = statistics.stdev(calls) if len(calls) > 1 else 0.0
    return Distribution(statistics.fmean(calls), p50, p90, p99, min(calls), max(calls), stdev)
