"""Whether going on with a case is worth it: the chance that its last look will have settled it."""

import math

from scipy import special

from comparator.location import TRIMMED_FROM_EACH_END, Location

# Below this chance a case is given up: of those that would have been settled, at most that share is lost.
HOPELESS = 0.05


def chance_of_settling(location: Location, last: int, bound: float, tail: float, fresh: bool) -> float:
    """The predictive probability that ``last`` samples settle a case, given what ``location.n`` of them say.

    Settled is a case whose interval at the last look (``tail`` on either side) then lies within ``bound``, or wholly
    beyond it; ``fresh`` says that the latter takes ``last`` further samples (a case on the screen, which must become
    a suspect first).  The estimate at the last look is predicted by a t distribution about the present one, with a
    flat prior (predictive power: Spiegelhalter, Freedman and Blackburn 1986, Controlled Clinical Trials 7, 8-17).
    The case alone counts, at the full level ``tail``, not the level that the other cases of its run leave it:
    the chance is rather too high than too low.

    Stopping for want of a chance flags nothing and clears nothing, so that no error rate rises.
    """
    n, now = location.n, location.standard_error**2
    then = now * n / last
    kept = 1 - 2 / TRIMMED_FROM_EACH_END
    reach = -float(special.stdtrit(location.degrees_of_freedom + kept * (last - n), tail)) * math.sqrt(then)
    size = abs(location.estimate)
    room = bound - reach
    unchanged = 0.0
    if room > 0:
        spread = math.sqrt(max(now - then, 1e-300))
        unchanged = _below(location, (room - size) / spread) - _below(location, (-room - size) / spread)
    spread = math.sqrt(now + then if fresh else max(now - then, 1e-300))
    changed = 1 - _below(location, (bound + reach - size) / spread) + _below(location, (-bound - reach - size) / spread)
    return min(1.0, unchanged + changed)


def _below(location: Location, value: float) -> float:
    return float(special.stdtr(location.degrees_of_freedom, value))
