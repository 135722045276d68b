"""Workers in builds of MXNet: each is started once, and forks a process for each test that asks it."""

from contextlib import ExitStack
from typing import Any

from build_oracle import ENVIRONMENT, MXNET

from opduel.harness.machine.cpus import plan_cpus
from opduel.harness.processes.case_request import CaseRequest
from opduel.harness.processes.restarting_worker import RestartingWorker
from opduel.records import Build, Case, Failure


class MXNetWorkers:
    """Workers by build and environment; they end with ``stack``."""

    def __init__(self, stack: ExitStack) -> None:
        self._stack = stack
        self._workers: dict[tuple[str, tuple[tuple[str, str], ...]], RestartingWorker] = {}

    def worker(self, build: Build, **variables: str) -> RestartingWorker:
        """Return the worker in a build, with these variables added to its environment."""
        key = build.interpreter, tuple(sorted(variables.items()))
        if key not in self._workers:
            environment = {**ENVIRONMENT, **variables}
            worker = RestartingWorker("treatment", build, MXNET.adaptor, environment, plan_cpus(1).start)
            self._workers[key] = self._stack.enter_context(worker)
        return self._workers[key]

    def profiling(self, build: Build) -> RestartingWorker:
        """Return the worker in a build that runs one operator at a time, and logs what oneDNN does."""
        return self.worker(build, **MXNET.profiling.variables, DNNL_VERBOSE="1")


def prepare(case: Case) -> dict[str, Any]:
    """Return the request to prepare a case, with the seed 1."""
    return dict(CaseRequest(case, 1).message("treatment"))


def answers(worker: RestartingWorker, *requests: dict[str, Any], timeout_s: float = 60.0) -> list[dict[str, Any]]:
    """Return a worker's answers in one process, none of which may be a failure."""
    result = worker.ask(requests, timeout_s)
    assert not isinstance(result, Failure), result
    return result
