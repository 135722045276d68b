"""One build asked about cases, each in a process of its own; whatever dies or hangs costs its case alone."""

import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any

from opduel.harness.processes.case_request import time_left
from opduel.harness.processes.channel import complete
from opduel.harness.processes.process import Worker
from opduel.harness.processes.worker_errors import CaseLostError, CaseRefusedError, WorkerLostError
from opduel.records import Build, Case, Failure, RunError
from opduel.records.measurement import Side

FAILED_STARTS = 3  # in a row

# What is asked; or a function that makes it of the answers so far.
Question = Mapping[str, Any] | Callable[[Sequence[Mapping[str, Any]]], Mapping[str, Any]]


class RestartingWorker(AbstractContextManager["RestartingWorker"]):
    """Workers of one build, one at a time: the next is started when one was lost. Use as a context manager.

    ``environment`` is the whole environment that a worker gets, but for the build's own variables, and ``cpus`` those
    that it may use.
    """

    def __init__(
        self, side: Side, build: Build, adaptor: Path, environment: Mapping[str, str], cpus: frozenset[int]
    ) -> None:
        self.side: Side = side
        self._build = build
        self._how = (adaptor, environment, cpus)
        self._worker: Worker | None = None
        self._failed_starts = 0

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """End the worker, if there is one."""
        if self._worker is not None:
            self._worker.close()
        self._worker = None

    def ask(
        self, requests: Sequence[Question], timeout_s: float, *, fork: bool = True
    ) -> list[dict[str, Any]] | Failure:
        """Return the worker's answers to ``requests`` in one process, fresh but for the import; or why there are none.

        ``timeout_s`` bounds each of them. Without ``fork`` the worker itself is that process, and ends with it. Raises
        RunError: workers can't be started."""
        try:
            case = requests[0].get("case") if requests and not callable(requests[0]) else None
            process = complete(self._ready().beginning(fork, case))
            answers: list[dict[str, Any]] = []
            try:
                for request in requests:
                    answers.append(process.ask(request(answers) if callable(request) else request, timeout_s))
            finally:
                process.end()
            return answers
        except (CaseRefusedError, CaseLostError, WorkerLostError) as error:
            return error.failure
        finally:
            if not fork:
                self.close()

    def ask_until(
        self, deadline: float, case: Case, requests: Sequence[Question], *, fork: bool
    ) -> list[dict[str, Any]] | Failure | None:
        """Ask about a case within its timeout; None when ``deadline`` (of the monotonic clock) came first."""
        if time.monotonic() >= deadline:  # before a worker is started
            return None
        answers = self.ask(requests, time_left(case, deadline), fork=fork)
        is_timeout = isinstance(answers, Failure) and answers.kind == "timeout"
        return None if is_timeout and time.monotonic() >= deadline else answers

    def _ready(self) -> Worker:
        """Return the worker, once the framework is imported. Raises WorkerLostError: it could not be started;
        RunError: that happened several times in a row."""
        if self._worker is not None and not self._worker.closed:
            return self._worker
        try:
            self._worker = Worker(self.side, self._build, *self._how)
            self._worker.wait_ready()
        except WorkerLostError as error:
            self._failed_starts += 1
            if self._failed_starts >= FAILED_STARTS:
                raise RunError(
                    f"{self._build.requested}: the worker could not be started {FAILED_STARTS} times in a row: "
                    f"{error.failure.reason}"
                ) from None
            raise
        self._failed_starts = 0
        return self._worker
