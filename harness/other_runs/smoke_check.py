"""Try every case once on one build: does it run?"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from opduel.frameworks import Framework, run_environment
from opduel.harness.machine.cpus import plan_cpus
from opduel.harness.processes.case_request import CaseRequest
from opduel.harness.processes.restarting_worker import RestartingWorker
from opduel.records import VALUE, Build, Case, Failure

LIMIT_S = 10.0  # for one case, inputs and several calls


@dataclass(frozen=True)
class SmokeCheck:
    """How one case went."""

    case: Case
    failure: Failure | None = None

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
    env: Mapping[str, str] | None = None,
) -> Iterator[SmokeCheck]:
    """Try each case in a process of its own, which may crash, or hang for ``limit_s`` at most; in order, as they come.

    ``env``: variables of the user's.

    Raises:
        RunError: the build can't be started.
        UsageError: as ``run_environment``.
    """
    environment = {**run_environment(framework, 1, env or {}, [build]), **framework.preparation(cases)}
    with RestartingWorker("treatment", build, framework.adaptor, environment, plan_cpus(1).start) as worker:
        for case in cases:
            request, fork = CaseRequest(case, seed), framework.can_fork(1, case.context)
            reports = {"op": VALUE, "case": request.description(), "seed": seed}
            prepare = reports if case.metric == VALUE else request.message("treatment")
            answer = worker.ask([prepare], limit_s, fork=fork)
            yield SmokeCheck(case, answer if isinstance(answer, Failure) else None)
