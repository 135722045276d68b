"""Whether going on with a case is worth it: the chance that its last look will have settled it."""

import math

from scipy import special

from opduel.comparator.trimmed_mean import TRIMMED_FROM_EACH_END, TrimmedMean

# Below this chance a case is given up: of those that would have been settled, at most that share is lost.
FUTILE_BELOW = 0.05


def conditional_power(trimmed_mean: TrimmedMean, last: int, bound: float, tail: float, fresh: bool) -> float:
    """The predictive probability that ``last`` samples settle a case, given what ``trimmed_mean.n`` of them say.

    Settled is a case whose interval at the last look (``tail`` on either side) then lies within ``bound``, or wholly
    beyond it; ``fresh`` says that the latter takes ``last`` further samples (a case at screening, which must become
    a suspect first).  The estimate at the last look is predicted by a t distribution about the present one, with a
    flat prior (predictive power: Spiegelhalter, Freedman and Blackburn 1986, Controlled Clinical Trials 7, 8-17).
    The case alone counts, at the full level ``tail``, not the level that the other cases of its run leave it:
    the chance is rather too high than too low.

    Stopping for want of a chance flags nothing and clears nothing, so that no error rate rises.
    """
    n, now = trimmed_mean.n, trimmed_mean.standard_error**2
    then = now * n / last
    kept = 1 - 2 / TRIMMED_FROM_EACH_END
    reach = -float(special.stdtrit(trimmed_mean.degrees_of_freedom + kept * (last - n), tail)) * math.sqrt(then)
    size = abs(trimmed_mean.estimate)
    room = bound - reach
    unchanged = 0.0
    if room > 0:
        spread = math.sqrt(max(now - then, 1e-300))
        unchanged = _below(trimmed_mean, (room - size) / spread) - _below(trimmed_mean, (-room - size) / spread)
    spread = math.sqrt(now + then if fresh else max(now - then, 1e-300))
    changed = (
        1
        - _below(trimmed_mean, (bound + reach - size) / spread)
        + _below(trimmed_mean, (-bound - reach - size) / spread)
    )
    return min(1.0, unchanged + changed)


def _below(trimmed_mean: TrimmedMean, value: float) -> float:
    return float(special.stdtr(trimmed_mean.degrees_of_freedom, value))
