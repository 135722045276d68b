"""Which verdicts of a run on a disturbed host stand, by tests that a disturbance doesn't mislead.

On a disturbed host the noise differs from round to round by any factor, but it does not favour a side: both sides of
a round bear it, in an order drawn at random. A verdict of a disturbed run stands if a test of its rounds alone, which
borrows nothing from other cases, supports it at the same looks, with the same corrections for looks, directions and
cases. There are two, at half of the error each. A signed-rank test is exact for whatever noise is symmetric, but
finds nothing in few rounds. Student's t test does; it rejects no more often than it should where each round is normal
with a variance of its own (Bakirov and Szekely 2006, Journal of Mathematical Sciences 139, 6497-6505; Ibragimov and
Müller 2010, Journal of Business & Economic Statistics 28, 453-468), as a round's mean over many calls is. After a
bias (A/A checks found a difference) a change stands if it is larger than the biases of that run's cases are likely to
be.
"""

import math
from collections.abc import Collection, Sequence
from dataclasses import replace

import numpy as np
from scipy import special

from opduel.comparator.aa_checks import Bias
from opduel.comparator.case_analysis import CaseAnalysis
from opduel.comparator.case_values import Values
from opduel.comparator.looks import Looks, p_over_looks
from opduel.comparator.signed_rank import signed_rank_p
from opduel.records import CLAIMS, DEFAULT_METRIC, FLAGGED, NOISY, ONE_SIDED, Case, Comparison, Verdict


def worst_p_value(analysis: CaseAnalysis, test: "LoadTests | None", bias: Bias | None) -> float:
    """Return the largest p value of a flagged case against "the change is within the threshold"; 1 for any other.

    There are up to three: the run's own; after load, that of the ``test`` over its looks; and after a ``bias``,
    the probability of one as large as the distance from the threshold to the nearer end of the case's interval, 1 for a
    metric other than ``time``, since A/A checks are of time.
    """
    if analysis.verdict not in FLAGGED:
        return 1.0
    p_values = [analysis.test.p_value]
    if analysis.case.measure.noisy:
        p_values += [test.p_value(analysis.test.rises)] if test else []
        if bias:
            is_time = analysis.case.metric == DEFAULT_METRIC
            p_values.append(bias.p_value(_excess(analysis)) if is_time else 1.0)
    return max(p_values)


def stands_on_disturbed_host(analysis: CaseAnalysis, test: "LoadTests | None") -> bool:
    """Return whether a case is unchanged, or on one side of its threshold, by the ``test``, too."""
    if analysis.verdict not in ("unchanged", *ONE_SIDED):
        return False
    return test is None or test.shows(analysis.verdict, analysis.case.measure.lower_is_better)


def _excess(analysis: CaseAnalysis) -> float:
    """Return how far the nearer end of a flagged case's interval lies beyond its threshold, a log ratio."""
    low, high = analysis.test.decisive.interval if analysis.test.decisive else (0.0, 0.0)
    return max(low, -high) - math.log1p(analysis.case.threshold)


class LoadTests:
    """The tests of one case that load doesn't mislead, at all looks that it has come to."""

    def __init__(
        self,
        case: Case,
        values: Values,
        looks: Looks,
        alpha: float,
        closing: bool = True,
        is_replication: bool = False,
    ) -> None:
        self._bound = values.bound(case.threshold)
        self._alpha = alpha
        schedule = looks.of_metric(case.metric)
        effects = (values.of_stage("confirmation") if is_replication else values).effects
        counts = (schedule.closing if closing else schedule.reached)(len(effects))
        self._looks = [effects[:count] for count in counts]
        self._weights = [schedule.weight(count) for count in counts]

    def p_value(self, rises: bool) -> float:
        """Return the p value against "the change is within the threshold", two-sided, over all looks."""
        return min(1.0, 2 * self._one_sided(1 if rises else -1, self._bound))

    def shows(self, verdict: Verdict, lower_is_better: bool) -> bool:
        """Return whether the change is shown to lie within the threshold (``unchanged``), or on a side of it, with
        alpha / 2 for each side over the looks, as the interval has."""
        fall = {"unchanged": (True, False), "not_worse": (lower_is_better,), "not_better": (not lower_is_better,)}
        return all(self._one_sided(-1 if below else 1, -self._bound) <= self._alpha / 2 for below in fall[verdict])

    def _one_sided(self, sign: int, bound: float) -> float:
        """Return the p value over all looks against "the signed change is at most ``bound``"."""
        looks = [tuple(sign * effect - bound for effect in effects) for effects in self._looks]
        p_values = [min(1.0, 2 * min(signed_rank_p(excesses), student_p(excesses))) for excesses in looks]
        return p_over_looks(p_values, self._weights)


def student_p(values: Sequence[float]) -> float:
    """Return the one-sided p value of ``values`` (shape (n,)) against "their mean is at most 0", by Student's t test; 1
    where they don't differ, as at fewer than two. If they are normal with a variance each, it is one up to 0.04."""
    deviation = float(np.std(values, ddof=1)) if len(values) > 1 else 0.0
    if not deviation:
        return 1.0
    return float(special.stdtr(len(values) - 1, -float(np.mean(values)) * math.sqrt(len(values)) / deviation))


def withhold_verdicts(
    comparisons: Sequence[Comparison], standing: Collection[str], why: str, caution: str = ""
) -> list[Comparison]:
    """Return the comparisons, with the claims of cases that are not ``standing`` (ids) made ``inconclusive``.

    Their notes say ``why``, ``held_back`` has the verdict withheld, and all figures stay.  The notes of claims that
    stand begin with ``caution``.  Failures, counts and memory keep their verdicts: a disturbance doesn't change them.
    """

    def judged(comparison: Comparison) -> Comparison:
        if comparison.verdict not in CLAIMS or comparison.metric not in NOISY:
            return comparison
        if comparison.case in standing:
            return _with_note(comparison, caution)
        withheld = replace(comparison, verdict="inconclusive", held_back=comparison.verdict)
        return _with_note(withheld, f"held back: would be {comparison.verdict_words}; {why}")

    return [judged(comparison) for comparison in comparisons]


def _with_note(comparison: Comparison, note: str) -> Comparison:
    return replace(comparison, note="; ".join(filter(None, (note, comparison.note))))
