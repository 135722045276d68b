"""A case made ready on both sides of a process pair, while another case is measured."""

import math
import random
import time
from dataclasses import replace
from typing import Any

from opduel.harness.machine.cpus import CpuPlan
from opduel.harness.processes.case_request import CaseRequest, time_left
from opduel.harness.processes.channel import Background, Steps
from opduel.harness.processes.pair_pool import Pair
from opduel.harness.processes.process import CaseProcess
from opduel.harness.processes.worker_errors import AskError, merged_error
from opduel.harness.rounds.blocks import Processes
from opduel.records.measurement import SIDES, Side


class Preparation:
    """Makes a case ready on both sides of a pair, step by step, so that it can be done while another is measured.

    ``processes`` are those begun so far, or all that ``before`` has left, and ``answers`` what they said. ``measured``:
    the ids of the cases that they have measured, this one included. A side has ``most_s`` seconds at most.
    """

    def __init__(
        self,
        pair: Pair,
        request: CaseRequest,
        fork: bool,
        deadline: float,
        rng: random.Random,
        before: "Preparation | None" = None,
        most_s: float = math.inf,
    ) -> None:
        self.request = request
        self.processes: Processes = dict(before.processes) if before else {}
        self.measured: set[str] = {request.case.id} | (before.measured if before else set())
        self.answers: dict[Side, dict[str, Any]] = {}
        self._pair, self._fork, self._deadline, self._most_s = pair, fork, deadline, most_s
        self._order = rng.sample(SIDES, 2)
        self.took_s = 0.0  # in the end
        self.steps = Background(self._preparing(), AskError)

    def finish(self, cpus: CpuPlan) -> dict[Side, float]:
        """Wait until both sides are ready: on all processors, or, for a case on a device, on those that will measure
        it, because what its calls take depends on where their threads run. Return nanoseconds a call of each side.
        Raises AskError: with the side, or "both"."""
        if self.steps.over:
            return self.steps.finish()
        self._pin(cpus.start if self.request.case.on_processor else cpus.measure)
        try:
            return self.steps.finish()
        finally:
            self._pin(cpus.prepare)

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
        """Prepare both sides; when one fails, or its worker is lost, still ask the other: "both" is worth knowing."""
        errors: dict[Side, AskError] = {}
        began = time.monotonic()
        for side in self._order:
            try:
                if side not in self.processes:
                    self.processes[side] = yield from self._pair[side].beginning(self._fork, self.request.description())
                process: CaseProcess = self.processes[side]
                timeout_s = min(self._most_s, time_left(self.request.case, self._deadline))
                self.answers[side] = yield from process.asking(self.request.message(side), timeout_s)
            except AskError as error:
                errors[side] = self._advised(error)
        self.took_s = time.monotonic() - began
        if errors:
            raise merged_error(errors)
        return {side: answer["call_ns"] for side, answer in self.answers.items()}

    def _advised(self, error: AskError) -> AskError:
        """Return the error, with what helps where a side would have had longer in a larger time budget. It counts for
        both sides then: near a limit that the budget sets, chance decides which side is over it."""
        failure = error.failure
        if failure.kind != "timeout" or self._most_s >= time_left(self.request.case, math.inf):
            return error
        reason = f"{failure.reason}; a larger --time_budget gives it more"
        return type(error)(replace(failure, side="both", reason=reason))
