"""A/A checks: two processes of one build compared, to see whether the run finds a difference where there is none."""

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

from scipy import special

from opduel.comparator.case_values import Values
from opduel.comparator.effect_estimate import as_ratio, estimate_effect
from opduel.comparator.empirical_bayes import NO_PRIOR, Prior
from opduel.comparator.significance import two_sided_p
from opduel.records import Case, PairSample
from opduel.records.run_record import AACheckRecord

AA_ALPHA = 0.01  # the share of runs of which the A/A checks wrongly say that they can't be trusted


@dataclass(frozen=True)
class Bias:
    """How far a run favoured a side, by A/A checks of which some found a difference.

    ``largest`` is the largest difference among the ``checks`` A/A checks, a log ratio above 0.
    """

    largest: float
    checks: int

    @classmethod
    def of(cls, checks: Iterable[AACheckRecord]) -> "Bias | None":
        """Return the bias that a run's A/A checks show; None if none of them found a difference."""
        checks = list(checks)
        if not any(check.flagged for check in checks):
            return None
        sizes = [abs(math.log(check.ratio)) for check in checks if check.ratio is not None]
        return cls(max(sizes), len(sizes)) if any(sizes) else cls(math.inf, 1)

    def p_value(self, excess: float) -> float:
        """Return the probability that a case's bias is ``excess`` (a log ratio) or more, on either side; 1 for 0 or
        less.

        If the biases of a run's cases are normal about 0, with one variance, then a case's bias over the root mean
        square of m checks' has Student's t distribution with m degrees of freedom.  The largest of these stands in for
        the root mean square, which it is never below: the p value is exact for one check, and too large for more.
        """
        return min(1.0, 2 * float(special.stdtr(self.checks, -excess / self.largest))) if excess > 0 else 1.0


def run_aa_checks(
    cases: Sequence[Case],
    samples: Mapping[str, Sequence[PairSample]],
    priors: Mapping[str, Prior],
    alpha: float = AA_ALPHA,
) -> list[AACheckRecord]:
    """Return the A/A check of each case, from all of its ``samples``, when the run is over.

    The test is the moderated t against the shifted null, as for verdicts, with the run's ``priors`` by metric.  Over
    the m cases the error is shared equally (Bonferroni): a run in which all truly lie within their thresholds has a
    flagged A/A check with probability ``alpha`` at most. Raises ValueError: a value that is not finite and positive.
    """
    return [
        _check(case, samples.get(case.id, ()), priors.get(case.metric, NO_PRIOR), len(cases), alpha) for case in cases
    ]


def _check(case: Case, samples: Sequence[PairSample], prior: Prior, family: int, alpha: float) -> AACheckRecord:
    values = Values.of(samples)
    check = AACheckRecord(case=case.id, threshold=case.threshold, rounds=len(values), samples=tuple(samples))
    if len(values) < 2:
        return check
    effect = estimate_effect(values, math.log1p(case.threshold), prior, alpha / family / 2)
    p_value = min(1.0, family * two_sided_p(effect.p_above, effect.p_below))
    return replace(
        check,
        ratio=as_ratio(effect.trimmed_mean.estimate),
        ci=effect.changes[1:],
        p_value=p_value,
        flagged=p_value <= alpha,
    )
