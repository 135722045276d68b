"""From findings to comparisons, even if Ctrl-C is pressed meanwhile: judging takes a moment, measuring took minutes."""

from dataclasses import replace

from opduel.comparator import compare_cases
from opduel.harness.schedule import MeasurementPlan, MeasurementResult
from opduel.records import Comparison


def build_comparisons(order: MeasurementPlan, findings: MeasurementResult) -> list[Comparison]:
    """The verdicts on what was found; an interrupt is noted in ``findings``, and costs nothing."""
    first = order.first_measurement
    try:
        return compare_cases(
            order.cases,
            findings.samples,
            findings.failures,
            order.looks,
            order.alpha,
            order.injected,
            first.priors if first else None,
            first.failed if first else frozenset(),
        )
    except KeyboardInterrupt as error:
        findings.stop(error)
        return build_comparisons(order, findings)


def without_first_measurement(one: Comparison) -> Comparison:
    """The comparison of a replication with its own samples alone, and with figures that are based on them."""
    samples = tuple(sample for sample in one.samples if sample.stage == "confirmation")
    one = replace(one, samples=samples, rounds=len(samples))
    if one.decided_on == "confirmation" or (one.decided_on is None and samples):
        return one
    return replace(one, ratio=None, ci=None, confidence=None, mde=None, control=None, treatment=None, decided_on=None)
