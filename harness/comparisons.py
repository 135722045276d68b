"""From findings to comparisons, even if Ctrl-C is pressed meanwhile: judging takes a moment, measuring took minutes."""

from opduel.comparator import compare_cases
from opduel.harness.schedule import MeasurementPlan, MeasurementResult
from opduel.records import Comparison


def build_comparisons(order: MeasurementPlan, findings: MeasurementResult) -> list[Comparison]:
    """The verdicts on what was found; an interrupt is noted in ``findings``, and costs nothing."""
    priors = order.first_measurement.priors if order.first_measurement else None
    try:
        return compare_cases(
            order.cases, findings.samples, findings.failures, order.looks, order.alpha, order.injected, priors
        )
    except KeyboardInterrupt as error:
        findings.stop(error)
        return build_comparisons(order, findings)
