"""Every case once, on one build: does it run, how long does a call take, about, and which operators run in it?"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from opduel.frameworks import Framework, run_environment
from opduel.harness.machine.cpus import plan_cpus
from opduel.harness.processes.case_request import CaseRequest
from opduel.harness.processes.restarting_worker import RestartingWorker
from opduel.records import VALUE, Build, Case, Failure

LIMIT_S = 10.0  # for one case, inputs and several calls
PROFILE = {"op": "profile", "calls": 1}


@dataclass(frozen=True)
class SmokeCheck:
    """How one case went."""

    case: Case
    call_ns: float | None  # the lower quartile of some calls; None if it failed, or reports a value of its own
    failure: Failure | None = None
    operators: frozenset[str] = frozenset()  # that the framework's profiler saw, by its names, where it was asked

    @property
    def reason(self) -> str | None:
        """Why it failed."""
        return self.failure.reason if self.failure else None


def smoke_check(
    build: Build,
    framework: Framework,
    cases: Sequence[Case],
    *,
    seed: int = 0,
    limit_s: float = LIMIT_S,
    profile: bool = False,
    env: Mapping[str, str] | None = None,
) -> Iterator[SmokeCheck]:
    """Try each case in a process of its own, which may crash, or hang for ``limit_s`` at most; in order, as they come.

    ``profile``: ask the framework's profiler about one more call, too. ``env``: variables of the user's. Raises
    RunError: the build can't be started. UsageError: as ``run_environment``."""
    environment = {**run_environment(framework, 1, env or {}, [build]), **framework.preparation(cases)}
    if profile:
        environment.update(framework.profiling.variables)
    with RestartingWorker("treatment", build, framework.adaptor, environment, plan_cpus(1).start) as worker:
        for case in cases:
            request, fork = CaseRequest(case, seed), framework.can_fork(1, case.context)
            reports = {"op": VALUE, "case": request.description(), "seed": seed}
            prepare = reports if case.metric == VALUE else request.message("treatment")
            answer = worker.ask([prepare, PROFILE] if profile else [prepare], limit_s, fork=fork)
            if profile and isinstance(answer, Failure):  # perhaps of the profiler alone
                answer = worker.ask([prepare], limit_s, fork=fork)
            if isinstance(answer, Failure):
                yield SmokeCheck(case, None, answer)
                continue
            operators = frozenset(name for call in answer[-1].get("calls", ()) for name in call["operators"])
            yield SmokeCheck(case, answer[0].get("call_ns"), None, operators)
