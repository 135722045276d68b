"""The chance that further rounds settle an open case, given the samples so far.

``conditional_power``: whether going on with a case is worth it.  ``project``: how many more rounds it needs.
"""

import math

from scipy import special

from opduel.comparator.looks import Looks
from opduel.comparator.trimmed_mean import TRIMMED_FROM_EACH_END, TrimmedMean
from opduel.records import Forecast

# Below this chance a case is given up: at most this share of the cases that would have been settled is lost.
FUTILE_BELOW = 0.05
LIKELY = 0.8  # the chance at which a forecast names a number of rounds
UNTRIMMED = 1 - 2 / TRIMMED_FROM_EACH_END  # share of future samples that adds to the degrees of freedom


def conditional_power(
    trimmed_mean: TrimmedMean, last: int, bound: float, tail: float, one_side_settles: bool = False
) -> float:
    """Return the predictive probability that a case is settled at ``last`` samples, given those so far.

    A case is settled if its interval at the last look (``tail`` on either side) lies within ``bound``, or entirely
    beyond it; if ``one_side_settles``, also if it lies entirely on one side of ``bound`` or of its negative.  The
    estimate at the last look is predicted by a t distribution about the present one, with a flat prior (predictive
    power: Spiegelhalter, Freedman and Blackburn 1986, Controlled Clinical Trials 7, 8-17).  Stopping for futility flags
    and clears nothing, so that it raises no error rate.
    """
    n, variance_now = trimmed_mean.n, trimmed_mean.standard_error**2
    variance_then = variance_now * n / last
    freedom = trimmed_mean.degrees_of_freedom + UNTRIMMED * (last - n)
    reach = _quantile(freedom, tail) * math.sqrt(variance_then)
    spread = math.sqrt(max(variance_now - variance_then, 1e-300))
    size, room = abs(trimmed_mean.estimate), bound - reach

    def below(value: float) -> float:
        return float(special.stdtr(trimmed_mean.degrees_of_freedom, (value - size) / spread))

    if one_side_settles:
        return 1 - max(0.0, below(-room) - below(room))
    unchanged = below(room) - below(-room) if room > 0 else 0.0
    changed = 1 - below(bound + reach) + below(-bound - reach)
    return min(1.0, unchanged + changed)


def project(
    trimmed_mean: TrimmedMean, bound: float, looks: Looks, alpha: float, flagged_at: float | None = None
) -> Forecast:
    """Return the fewest rounds that are likely to settle a case with this trimmed mean.

    A case that looks changed is settled when it is flagged, or shown to be unchanged after all: ``flagged_at`` is the
    share of ``alpha`` at which it would be flagged. Any other is settled when it is shown to lie on one side of its
    threshold, or within it.
    """
    chance = 0.0
    for look in (count for count in looks.counts if count > trimmed_mean.n):
        tail = looks.level(look, alpha / 2)
        if flagged_at is not None:
            tail = alpha * looks.weight(look) * flagged_at / 2
        one_side_settles = flagged_at is None and bound > 0
        chance = max(chance, conditional_power(trimmed_mean, look, bound, tail, one_side_settles))
        if chance >= LIKELY:
            return Forecast(chance, look - trimmed_mean.n)
    return Forecast(chance, None)


def _quantile(freedom: float, tail: float) -> float:
    return -float(special.stdtrit(freedom, tail))
