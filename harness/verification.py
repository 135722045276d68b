"""Replication: the flagged cases of a run are measured again, later, in fresh processes.

``Verifier`` does it at the end of a run (``--verify``); ``first_measurement_of`` prepares a run that replicates the
flagged cases of an earlier report (the driver's). Both take over the same things: their statistics are the same.
"""

import time
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from opduel.comparator import Looks, apply_replication, fit_priors
from opduel.harness.checkpoint import Checkpoint, Verifying
from opduel.harness.machine.host import HostMonitor
from opduel.harness.measurement_plan import (
    FirstMeasurement,
    Measurement,
    MeasurementPlan,
    MeasurementResult,
    Progress,
)
from opduel.harness.planning.schedule import Schedule
from opduel.harness.processes.pair_pool import Bench
from opduel.records import FLAGGED, SAMPLED, Case, Comparison, PairSample, Report

FIRST_SHARE = 0.7  # of a time budget, for the first measurement; the second has what is left of the whole
ENDED = "the run ended before"
NO_FIGURES: dict[str, Any] = dict.fromkeys(
    ("ratio", "ci", "difference", "difference_ci", "confidence", "mde", "control", "treatment", "decided_on")
)


def build_comparisons(plan: MeasurementPlan, result: MeasurementResult) -> list[Comparison]:
    """Return the comparisons of what was measured; an interrupt is noted in ``result`` and ignored."""
    try:
        return plan.analysis(result).comparisons()
    except KeyboardInterrupt as error:
        result.stop(error)
        return build_comparisons(plan, result)


def without_first_measurement(comparison: Comparison) -> Comparison:
    """Return the comparison of a replication with its own samples alone, and with figures that are based on them."""
    samples = tuple(sample for sample in comparison.samples if sample.stage == "confirmation")
    comparison = replace(comparison, samples=samples, rounds=len(samples))
    if comparison.decided_on == "confirmation" or (comparison.decided_on is None and samples):
        return comparison
    return replace(comparison, **NO_FIGURES)


def plan_first_measurement(plan: MeasurementPlan, after_s: float = 0.0) -> MeasurementPlan:
    """Return the plan of a first measurement that leaves time for a wait of ``after_s`` and a second one."""
    if plan.time_budget is None:
        return plan
    first_s = FIRST_SHARE * max(0.0, plan.time_budget - after_s)
    return replace(plan, time_budget=first_s, budget_words="the first measurement's share of the time budget")


def first_measurement_of(
    report: Report, cases: Sequence[Case], looks: Looks, again: Collection[str], most_aa_cases: int
) -> FirstMeasurement:
    """Return what a later run needs of ``report`` to replicate the cases ``again`` (ids). ``cases``: all cases of the
    report, in its order. The new run repeats the report's A/A checks, ``most_aa_cases`` at most."""
    comparisons = {comparison.case: comparison for comparison in report.comparisons}
    samples = {case_id: comparison.samples for case_id, comparison in comparisons.items()}
    checked = {check.case for check in report.run.validity.aa_checks}
    return FirstMeasurement(
        _screening(samples, [case.id for case in cases if case.id in again and case.metric in SAMPLED]),
        fit_priors([case for case in cases if case.metric in SAMPLED], samples, looks),
        frozenset(case_id for case_id, comparison in comparisons.items() if comparison.injected),
        tuple(case for case in cases if case.id in checked)[:most_aa_cases],
        failed=frozenset(case_id for case_id in again if case_id in comparisons and comparisons[case_id].failure),
    )


def _screening(samples: Mapping[str, Sequence[PairSample]], again: Iterable[str]) -> dict[str, list[PairSample]]:
    """Return the screening's samples of the cases ``again`` (ids): they made these suspects."""
    return {
        case_id: [sample for sample in samples.get(case_id, ()) if sample.stage == "screening"] for case_id in again
    }


@dataclass
class Verifier:
    """Measures flagged cases again.

    ``plan``: of the whole run, with its time budget. ``began``: when the run began, by the monotonic clock.
    ``second``: the second measurement; None before there is one.
    """

    bench: Bench
    plan: MeasurementPlan
    began: float
    on_progress: Callable[[Progress], None]
    checkpoint: Checkpoint = field(default_factory=lambda: Checkpoint(None, ""))
    second: Measurement | None = None

    def verify(
        self, result: MeasurementResult, comparisons: Sequence[Comparison], after_s: float = 0.0
    ) -> list[Comparison]:
        """Return the comparisons, of which only what is replicated stays flagged; what the second measurement cost is
        added to ``result``. Wait ``after_s`` seconds first, unless the checkpoint has rounds of this verification. The
        screening's samples and the run's priors are taken over: they made the cases suspects. The samples that decide
        are fresh."""
        flagged = {comparison.case for comparison in comparisons if comparison.verdict in FLAGGED}
        if not flagged or result.aborted:
            return apply_replication(comparisons, {}, ENDED)
        try:
            self._begin(result, len(flagged), after_s)
            self.second = self._measure(self._plan_second(result, flagged))
            again = build_comparisons(self.second.plan, self.second.result)
            self._add(result, self.second.result)
        except KeyboardInterrupt as error:
            result.stop(error)
            return apply_replication(comparisons, {}, ENDED)
        return apply_replication(comparisons, {comparison.case: comparison for comparison in again})

    def _begin(self, result: MeasurementResult, cases: int, after_s: float) -> None:
        """Wait, and keep that the first measurement is over, and why."""
        checkpoint = self.checkpoint
        if checkpoint.verifying:
            self.began = time.monotonic() - checkpoint.verifying.elapsed_s - self.plan.spent_s
            return
        end = time.monotonic() + after_s
        while (left_s := end - time.monotonic()) > 0:
            self.on_progress(Progress(result.rounds, cases, cases, time.monotonic() - self.began, left_s, True))
            time.sleep(min(left_s, 1.0))
        checkpoint.keep(Verifying(checkpoint.run, time.monotonic() - self.began, result.stopped))

    def _plan_second(self, result: MeasurementResult, flagged: set[str]) -> MeasurementPlan:
        plan = self.plan
        cases = [case for case in plan.cases if case.id in flagged]
        first = FirstMeasurement(
            _screening(result.samples, [case.id for case in cases]),
            fit_priors(plan.cases, result.samples, plan.looks),
            plan.injected,
            tuple(case for case in plan.aa_cases if case.id in result.aa_samples),
            result.rounds,
        )
        second_plan = replace(plan, cases=cases, first_measurement=first, spent_s=0.0, other_comparisons=0)
        if plan.time_budget is None:
            return second_plan
        left_s = plan.time_budget - (time.monotonic() - self.began)
        return replace(second_plan, time_budget=left_s)

    def _measure(self, plan: MeasurementPlan) -> Measurement:
        monitor = HostMonitor(allowed=self.bench.cpus.measure | self.bench.cpus.control)
        phase = self.checkpoint.phase("verify", monitor)
        before_s = time.monotonic() - self.began

        def watch_host(progress: Progress) -> None:
            monitor.sample()
            self.on_progress(replace(progress, elapsed_s=before_s + progress.elapsed_s))

        result = Schedule(self.bench, plan, watch_host, phase).run()
        self.began = time.monotonic() - before_s - result.wall_s
        return Measurement(plan, result, phase.noise())

    def _add(self, result: MeasurementResult, second: MeasurementResult) -> None:
        """Add the second measurement's to the run's; the samples that the first verdicts rest on stay as they are."""
        for case_id, samples in second.aa_samples.items():
            result.aa_samples.setdefault(case_id, []).extend(samples)
        result.mhz += second.mhz
        result.incidents += second.incidents
        result.rounds = second.rounds
        result.timed_s += second.timed_s
        result.add_spent(second.spent_s)
        result.wall_s = time.monotonic() - self.began
        if second.aborted:
            result.stopped, result.aborted, result.interrupted = second.stopped, True, second.interrupted
        elif second.stopped:
            result.stopped = f"{second.stopped} while verifying"
        else:
            result.closed = True
