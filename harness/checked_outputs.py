"""The part of a run that compares outputs: its cases come first, and leave the others the rest of the time."""

import dataclasses
import math
import time
from collections.abc import Callable, Sequence

from opduel.harness.measurement_plan import MeasurementPlan, MeasurementResult, Progress
from opduel.harness.output_check import OutputCheck
from opduel.harness.pair_pool import Bench
from opduel.harness.run_request import RunRequest
from opduel.records import SAMPLED, Comparison

# of the time that is left, at most, for comparing outputs, if there is anything else to measure
OUTPUT_CHECK_SHARE = 0.5


class CheckedOutputs:
    """Compares the outputs of the cases whose metric is not sampled."""

    def __init__(self, request: RunRequest, bench: Bench, order: MeasurementPlan) -> None:
        self._request, self._bench, self._plan = request, bench, order
        self._cases = [case for case in request.cases if case.metric not in SAMPLED]
        self._output_check: OutputCheck | None = None
        self._comparisons: list[Comparison] = []

    def compare(self, tell: Callable[[Progress], None], earlier_s: float) -> MeasurementPlan:
        """Compare them; returns the order that is left. ``earlier_s``: what earlier starts took of the time budget."""
        if not self._cases:
            return self._plan
        began, cases = time.monotonic() - self._plan.spent_s, len(self._request.cases)
        budget = self._plan.time_budget
        share = OUTPUT_CHECK_SHARE if self._plan.cases else 1.0

        def on_case(left: int) -> None:
            tell(Progress(0, left + len(self._plan.cases), cases, time.monotonic() - began, 0.0))

        self._output_check = OutputCheck(
            self._bench,
            self._request.seed,
            self._plan.can_fork,
            math.inf if budget is None else began + share * max(0.0, budget - earlier_s),
            on_case,
            self._request.golden,
        )
        self._comparisons = self._output_check.compare(self._cases)
        return dataclasses.replace(self._plan, spent_s=time.monotonic() - began)

    @property
    def stopped(self) -> BaseException | None:
        """What ended the run while numbers were compared."""
        return self._output_check.stopped if self._output_check else None

    @property
    def found(self) -> bool:
        """Whether any case came to something."""
        return any(one.rounds or one.failure for one in self._comparisons)

    def note(self, findings: MeasurementResult) -> None:
        """Note in ``findings`` that something ended the run here, if it did."""
        if self.stopped is not None:
            findings.stop(self.stopped)

    def note_time(self, findings: MeasurementResult) -> None:
        """Note in ``findings``, when all is measured, that some cases were not come to: the next start may."""
        if self._output_check and self._output_check.out_of_time:
            findings.stopped = findings.stopped or f"{self._plan.budget} was spent"
            findings.closed = False

    def among(self, others: Sequence[Comparison]) -> list[Comparison]:
        """All the run's comparisons, in the order of its cases."""
        known = {one.case: one for one in (*others, *self._comparisons)}
        return [known[case.id] for case in self._request.cases]
