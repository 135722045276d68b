"""Verification: the flagged cases of a run are measured again, later, in fresh processes."""

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from opduel.comparator import FLAGGED, apply_replication, fit_priors
from opduel.harness.checkpoint import Checkpoint
from opduel.harness.comparisons import build_comparisons
from opduel.harness.host import HostMonitor
from opduel.harness.pair_pool import Bench
from opduel.harness.schedule import FirstMeasurement, MeasurementPlan, MeasurementResult, Progress, Schedule
from opduel.records import Comparison

FIRST_SHARE = 0.7  # of a time budget, for the first measurement; the second has what is left of the whole
ENDED = "the run ended before"


def first_order(order: MeasurementPlan, after_s: float = 0.0) -> MeasurementPlan:
    """The order of a first measurement that leaves time for a wait of ``after_s`` and a second one."""
    if order.time_budget is None:
        return order
    words = f"the first measurement's share, {FIRST_SHARE:.0%} of {order.budget}"
    words += f" less a wait of {after_s:g} s," if after_s else ","
    return replace(order, time_budget=FIRST_SHARE * max(0.0, order.time_budget - after_s), budget_words=words)


@dataclass
class Verifier:
    """Measures flagged cases again.

    ``order`` is the whole run's, its time budget included; ``began`` is when that began (``time.monotonic``);
    ``after_s`` is how long to wait before. ``host`` is the noise meanwhile, as in ``HostMonitor.summary``. Of a
    verification that ``checkpoint`` knows, what was kept is taken over, and nobody waits again.
    """

    bench: Bench
    order: MeasurementPlan
    began: float
    after_s: float
    on_progress: Callable[[Progress], None]
    host: dict[str, Any] | None = None
    checkpoint: Checkpoint = field(default_factory=lambda: Checkpoint(None, ""))

    def verify(self, findings: MeasurementResult, comparisons: Sequence[Comparison]) -> list[Comparison]:
        """The comparisons, of which only what is replicated stays flagged; what the second measurement found and cost
        is
        added to ``findings``.

        The screening's samples and the run's priors are taken over: they made the cases suspects. The samples that
        decide are fresh.
        """
        flagged = {one.case for one in comparisons if one.verdict in FLAGGED}
        if not flagged or findings.aborted:
            return apply_replication(comparisons, {}, ENDED)
        try:
            self._begin(findings, len(flagged))
            order = self._second_order(findings, flagged)
            second = self._measure(order)
            again = build_comparisons(order, second)
            self._add(findings, second)
        except KeyboardInterrupt as error:
            findings.stop(error)
            return apply_replication(comparisons, {}, ENDED)
        return apply_replication(comparisons, {one.case: one for one in again})

    def _begin(self, findings: MeasurementResult, cases: int) -> None:
        """Wait, and keep that the first measurement is over, and why."""
        if self.checkpoint.verifying:
            self.began = time.monotonic() - self.checkpoint.verifying.elapsed_s - self.order.spent_s
            return
        self._wait(findings, cases)
        self.checkpoint.begin_verifying(time.monotonic() - self.began, findings.stopped)

    def _wait(self, findings: MeasurementResult, cases: int) -> None:
        end = time.monotonic() + self.after_s
        while (left := end - time.monotonic()) > 0:
            self.on_progress(Progress(findings.rounds, cases, cases, time.monotonic() - self.began, left, True))
            time.sleep(min(left, 1.0))

    def _second_order(self, findings: MeasurementResult, flagged: set[str]) -> MeasurementPlan:
        order = self.order
        screens = {
            case_id: [sample for sample in findings.samples[case_id] if sample.stage == "screening"]
            for case_id in flagged
        }
        first_measurement = FirstMeasurement(
            samples=screens,
            priors=fit_priors(order.cases, findings.samples, order.looks),
            injected=order.injected,
            aa_cases=tuple(case for case in order.chosen_aa_cases if case.id in findings.aa_cases),
            rounds=findings.rounds,
        )
        budget = order.time_budget
        left = None if budget is None else budget - (time.monotonic() - self.began)
        cases = [case for case in order.cases if case.id in flagged]
        words = "" if budget is None else order.budget
        return replace(
            order, cases=cases, time_budget=left, first_measurement=first_measurement, spent_s=0.0, budget_words=words
        )

    def _measure(self, order: MeasurementPlan) -> MeasurementResult:
        monitor = HostMonitor(allowed=self.bench.cpus.measure | self.bench.cpus.control)
        monitor.begin()
        kept = self.checkpoint.phase("verify", monitor)
        before_s = time.monotonic() - self.began

        def tell(progress: Progress) -> None:
            monitor.sample()
            self.on_progress(replace(progress, elapsed_s=before_s + progress.elapsed_s))

        second = Schedule(self.bench, order, tell, kept).run()
        self.began = time.monotonic() - before_s - second.wall_s
        self.host = kept.noise()
        return second

    def _add(self, findings: MeasurementResult, second: MeasurementResult) -> None:
        """Add the second measurement's to the run's; the samples that the first verdicts rest on stay as they are."""
        for case_id, samples in second.aa_cases.items():
            findings.aa_cases.setdefault(case_id, []).extend(samples)
        findings.mhz += second.mhz
        findings.incidents += second.incidents
        findings.rounds = second.rounds
        findings.timed_s += second.timed_s
        for name, seconds in second.spent_s.items():
            findings.spent_s[name] = findings.spent_s.get(name, 0.0) + seconds
        findings.wall_s = time.monotonic() - self.began
        if second.aborted:
            findings.stopped, findings.aborted, findings.interrupted = second.stopped, True, second.interrupted
        elif second.stopped:
            findings.stopped = f"{second.stopped} while verifying"
        else:
            findings.closed = True
