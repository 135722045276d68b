"""Tells a test of every worker that is started, and of what it is asked."""

from collections.abc import Callable, Mapping
from typing import Any

import pytest

from opduel.harness.processes.process import CaseProcess, Worker


class Watch:
    """Functions to call: before a worker is started (with its side and its environment) and afterwards (with the
    worker), before a process of a case is asked (with the process and the request) and when it has answered."""

    def __init__(self, patch: pytest.MonkeyPatch) -> None:
        self.starting: list[Callable[[str, Mapping[str, str]], object]] = []
        self.started: list[Callable[[Worker], object]] = []
        self.asking: list[Callable[[CaseProcess, Mapping[str, Any]], object]] = []
        self.answered: list[Callable[[CaseProcess, Mapping[str, Any]], object]] = []
        self._start, self._ask = Worker.__init__, CaseProcess.asking
        patch.setattr(Worker, "__init__", lambda *arguments, **named: self._started(*arguments, **named))
        patch.setattr(CaseProcess, "asking", lambda *arguments: self._asking(*arguments))

    def interrupt(self, op: str, processes: int = 0) -> None:
        """Interrupt once, when so many processes have been asked to do this and another one is to be."""
        pids: set[int] = set()

        def note(process: CaseProcess, request: Mapping[str, Any]) -> None:
            if request["op"] == op:
                pids.add(process.pid)
            if len(pids) > processes:
                self.asking.remove(note)
                raise KeyboardInterrupt("stopped by SIGTERM")

        self.asking.append(note)

    def _started(self, worker: Worker, side: Any, *arguments: Any, **named: Any) -> None:
        for hear in self.starting:
            hear(side, arguments[2])
        self._start(worker, side, *arguments, **named)
        for tell in self.started:
            tell(worker)

    def _asking(self, process: CaseProcess, request: Mapping[str, Any], timeout_s: float) -> Any:
        for hear in self.asking:
            hear(process, request)
        answer = yield from self._ask(process, request, timeout_s)
        for hear in self.answered:
            hear(process, request)
        return answer
