"""One case made ready on both sides of a pair, step by step, so that it can be done while another case is measured."""

import random

from opduel.harness.blocks import CaseRequest, Processes, time_left
from opduel.harness.channel import Steps, complete
from opduel.harness.cpus import CpuPlan
from opduel.harness.pair_pool import Pair
from opduel.harness.process import CaseProcess
from opduel.harness.worker_errors import AskError, merged_error
from opduel.records.measurement import SIDES, Side


class Preparation:
    """A case on its way to being measured. ``processes`` are those begun so far."""

    def __init__(self, pair: Pair, request: CaseRequest, fork: bool, deadline: float, rng: random.Random) -> None:
        self.request = request
        self.processes: Processes = {}
        self._pair = pair
        self._fork = fork
        self._deadline = deadline
        self._order = rng.sample(SIDES, 2)
        self._steps = self._preparing()
        self._call_ns: dict[Side, float] | None = None
        self._error: AskError | None = None

    def advance(self) -> None:
        """Go on as far as it goes without waiting. ``finish`` raises what goes wrong."""
        if self._call_ns is not None or self._error is not None:
            return
        try:
            next(self._steps)
        except StopIteration as end:
            self._call_ns = end.value
        except AskError as error:
            self._error = error

    def finish(self, cpus: CpuPlan) -> dict[Side, float]:
        """Wait until both sides are ready, on all processors meanwhile; nanoseconds a call of each.

        Raises:
            CaseRefusedError, CaseLostError, WorkerLostError: with the side, or "both".
        """
        if self._error is not None:
            raise self._error
        if self._call_ns is None:
            self._pin(cpus.start)
            self._call_ns = complete(self._steps)
            self._pin(cpus.prepare)
        return self._call_ns

    def _pin(self, cpus: frozenset[int]) -> None:
        for worker in self._pair.values():  # what it forks meanwhile, too
            worker.pin(cpus)
        for process in self.processes.values():
            process.pin(cpus)

    def end(self, rng: random.Random) -> None:
        """Ask the processes to end; they do so on their own time."""
        for side in rng.sample(SIDES, 2):
            if side in self.processes:
                self.processes[side].end()

    def _preparing(self) -> Steps[dict[Side, float]]:
        """When one side fails, or its worker is lost, the other is still asked: "both" is worth knowing."""
        call_ns: dict[Side, float] = {}
        errors: dict[Side, AskError] = {}
        for side in self._order:
            try:
                process: CaseProcess = yield from self._pair[side].beginning(self._fork)
                self.processes[side] = process
                timeout_s = time_left(self.request.case, self._deadline)
                call_ns[side] = (yield from process.asking(self.request.message(side), timeout_s))["call_ns"]
            except AskError as error:
                errors[side] = error
        if errors:
            raise merged_error(errors)
        return call_ns
