"""The chance that further rounds settle an open case, given the samples so far.

``conditional_power``: whether going on with a case is worth it.  ``project``: how many more rounds it needs.
"""

import math
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
from scipy import special

from opduel.comparator.looks import Looks
from opduel.comparator.trimmed_mean import TRIMMED_FROM_EACH_END, TrimmedMean
from opduel.records import Forecast

# Below this chance a case is given up: at most this share of the cases that would have been settled is lost.
FUTILE_BELOW = 0.05
LIKELY = 0.8  # the chance at which a forecast names a number of rounds
TRUTHS = 101  # equally likely true changes for which the chances are computed
UNTRIMMED = 1 - 2 / TRIMMED_FROM_EACH_END  # share of future samples that adds to the degrees of freedom

Array = npt.NDArray[np.float64]


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


@dataclass(frozen=True)
class Terms:
    """The conditions under which a case is settled: its bound (an effect, >= 0), its looks, and the run's levels.

    ``flagged_at`` is the share of ``alpha`` at which the case would be flagged: (1 + flagged cases) / (all cases).
    """

    bound: float
    looks: Looks
    alpha: float
    flagged_at: float


def project(trimmed_mean: TrimmedMean, n: int, terms: Terms, suspected: bool) -> Forecast:
    """Return the fewest rounds, after ``n``, that are likely to settle a case with this trimmed mean.

    A case that looks changed (``suspected``) is settled when it is flagged, or shown to be unchanged after all; any
    other when it is shown to lie on one side of its threshold, or within it.  The true change has a t distribution
    about the present estimate, and of several looks only the most promising counts, so that the chance is rather too
    low.
    """
    shares = (np.arange(TRUTHS) + 0.5) / TRUTHS
    truths = trimmed_mean.estimate + trimmed_mean.standard_error * special.stdtrit(
        trimmed_mean.degrees_of_freedom, shares
    )
    best, chance = np.zeros(TRUTHS), 0.0
    for look in terms.looks.counts:
        if look > n:
            best = np.maximum(best, _settled(trimmed_mean, look, terms, truths, suspected))
            chance = float(np.mean(best))
            if chance >= LIKELY:
                return Forecast(chance, look - n)
    return Forecast(chance, None)


def _settled(trimmed_mean: TrimmedMean, look: int, terms: Terms, truths: Array, suspected: bool) -> Array:
    """Return for each true change (shape (``TRUTHS``,)) the chance that a look settles the case."""
    n, deviation = trimmed_mean.n, math.sqrt(trimmed_mean.variance)
    later = max(0, look - n)
    mean = (n * trimmed_mean.estimate + later * truths) / (n + later)
    spread, error = deviation * math.sqrt(later) / (n + later), deviation / math.sqrt(n + later)
    freedom = trimmed_mean.degrees_of_freedom + UNTRIMMED * later
    reach = _quantile(freedom, terms.looks.level(look, terms.alpha / 2)) * error
    if not suspected and terms.bound > 0:
        return 1 - _within(mean, spread, reach - terms.bound)
    flag_reach = _quantile(freedom, terms.alpha * terms.looks.weight(look) * terms.flagged_at / 2) * error
    return _within(mean, spread, terms.bound - reach) + 1 - _within(mean, spread, terms.bound + flag_reach)


def _within(estimate: Array, spread: float, limit: float) -> Array:
    """Return the chance that a value, normal about ``estimate``, lies in [-limit, limit]; 0 below a limit of 0."""
    spread = max(spread, 1e-300)
    inside: Array = special.ndtr((limit - estimate) / spread) - special.ndtr((-limit - estimate) / spread)
    return np.maximum(inside, 0.0)


def _quantile(freedom: float, tail: float) -> float:
    return -float(special.stdtrit(freedom, tail))
