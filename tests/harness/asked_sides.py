"""Sides that answer as often as a test says, and then fail."""

from collections.abc import Iterator
from typing import Any

from opduel.harness.processes.worker_errors import AskError
from opduel.records import Failure
from opduel.records.measurement import Side


def failure(side: Side, kind: str = "crash", reason: str = "killed by SIGABRT") -> Failure:
    """By default a crash."""
    return Failure(side, kind, reason)


class Asked:
    """A worker and the process of its case: begins, answers ``answers`` blocks, then fails."""

    def __init__(self, side: Side, error: type[AskError], answers: float = 0) -> None:
        self.side, self.error, self.answers = side, error, answers
        self.blocks = 0

    def beginning(self, fork: bool, case: Any = None) -> Iterator[Any]:
        yield from ()
        return self

    def asking(self, request: Any, timeout_s: float) -> Iterator[Any]:
        yield from ()
        return self.ask(request, timeout_s)

    def pin(self, cpus: frozenset[int]) -> None:
        """It is no process."""

    def ask(self, request: Any, timeout_s: float, while_waiting: object = None) -> dict[str, Any]:
        self.blocks += 1
        if self.blocks > self.answers:
            raise self.error(failure(self.side))
        return {"low": 100.0, "timed_ns": 500.0, "calls": 5, "call_ns": 100.0}


def asked_pair(error: type[AskError], control: float, treatment: float) -> Any:
    """A pair; how many blocks each side answers."""
    return {"control": Asked("control", error, control), "treatment": Asked("treatment", error, treatment)}
