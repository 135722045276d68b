"""One case made ready on both sides of a pair, step by step, so that it can be done while another case is measured."""

import random

from opduel.harness.blocks import CaseRequest, Processes, time_left
from opduel.harness.channel import Background, Steps
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
        self.steps = Background(self._preparing(), AskError)

    def advance(self) -> None:
        """Go on as far as it goes without waiting. ``finish`` raises what goes wrong."""
        self.steps.advance()

    def finish(self, cpus: CpuPlan) -> dict[Side, float]:
        """Wait until both sides are ready, on all processors meanwhile; nanoseconds a call of each.

        Raises:
            CaseRefusedError, CaseLostError, WorkerLostError: with the side, or "both".
        """
        if self.steps.over:
            return self.steps.finish()
        self._pin(cpus.start)
        call_ns = self.steps.finish()
        self._pin(cpus.prepare)
        return call_ns

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
