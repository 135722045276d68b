"""A run that is ready to measure, and what it has measured: what its stages hand on to each other."""

import dataclasses
from collections.abc import Sequence
from dataclasses import dataclass

from opduel.harness.checkpoint import Checkpoint, Start
from opduel.harness.machine.host import HostMonitor
from opduel.harness.measurement_plan import MeasurementPlan, MeasurementResult
from opduel.harness.processes.pair_pool import Bench
from opduel.harness.profiles import Profiles
from opduel.harness.run_request import RunRequest
from opduel.harness.validity import Measurement
from opduel.records import Comparison, HostRecord
from opduel.records.host_record import NoiseRecord


@dataclass(frozen=True)
class PreparedRun:
    """A run that is about to measure.

    ``request``: all cases, with what is known of forking. ``other_inputs``: the comparisons of cases that get other
    inputs on either side, which aren't measured. ``spare``: processors that neighbours may use without disturbing.
    ``host``: the host, with its peak rates if they were measured.
    """

    request: RunRequest
    bench: Bench
    plan: MeasurementPlan
    checkpoint: Checkpoint
    start: Start
    monitor: HostMonitor
    other_inputs: Sequence[Comparison]
    spare: int
    host: HostRecord

    @property
    def measured_request(self) -> RunRequest:
        """The request with the cases that are measured."""
        unlike = {comparison.case for comparison in self.other_inputs}
        cases = [case for case in self.request.cases if case.id not in unlike]
        return dataclasses.replace(self.request, cases=cases)


@dataclass
class RunMeasurement:
    """What a run has measured, and the comparisons that follow from it.

    ``comparisons``: of the sampled metrics; ``output_comparisons``: of the metric "error". ``noise_during``
    and ``noise_verifying``: of the host while rounds were made, and while flagged cases were verified. ``second``: the
    verification. ``budget_end``: the end of the time budget, by the monotonic clock.
    """

    plan: MeasurementPlan
    findings: MeasurementResult
    comparisons: Sequence[Comparison]
    output_comparisons: Sequence[Comparison]
    noise_during: NoiseRecord | None
    noise_verifying: NoiseRecord | None
    second: Measurement | None
    budget_end: float
    profiles: Profiles | None = None
