"""From findings to comparisons, even if Ctrl-C is pressed meanwhile: judging takes a moment, measuring took minutes."""

from comparator import judge
from harness.schedule import Findings, Order
from records import Comparison


def judged(order: Order, findings: Findings) -> list[Comparison]:
    """The verdicts on what was found; an interrupt is noted in ``findings``, and costs nothing."""
    priors = order.earlier.priors if order.earlier else None
    try:
        return judge(order.cases, findings.samples, findings.failures, order.looks, order.alpha, order.injected, priors)
    except KeyboardInterrupt as error:
        findings.stop(error)
        return judged(order, findings)
