"""Mann and Whitney's test on process values: the test that assumes nothing about the noise."""

import math
from bisect import bisect_left
from collections.abc import Sequence
from functools import lru_cache
from itertools import accumulate
from operator import sub

import numpy as np
import numpy.typing as npt
from scipy import special

Array = npt.NDArray[np.float64]

EXACT_UP_TO = 100  # values a side: of more, exact counting costs more than it gains


def mann_whitney_p(lower: Sequence[float] | Array, upper: Sequence[float] | Array) -> float:
    """The one-sided p value of "``upper`` is not stochastically larger than ``lower``" (shapes (m,) and (n,)).

    U counts the pairs in which the upper value is the larger, ties by half.  Exact without ties (Mann and
    Whitney 1947, Ann. Math. Stat. 18, 50-60); with ties, or more than ``EXACT_UP_TO`` values on a side, the normal
    approximation, its variance corrected for ties and continuity allowed for.

    Raises:
        ValueError: a side is empty.
    """
    low, high = np.asarray(lower, dtype=np.float64), np.asarray(upper, dtype=np.float64)
    m, n = len(low), len(high)
    if m == 0 or n == 0:
        raise ValueError("Mann-Whitney needs values on both sides")
    ordered = np.sort(low)
    below = np.searchsorted(ordered, high, side="left")
    not_above = np.searchsorted(ordered, high, side="right")
    u = float(np.sum(below + not_above)) / 2
    _, counts = np.unique(np.concatenate((low, high)), return_counts=True)
    if counts.max() == 1 and max(m, n) <= EXACT_UP_TO:
        return float(_upper_tails(m, n)[round(u)])
    return _normal_tail(u, m, n, counts.astype(np.float64))


def mann_whitney_interval(control: Sequence[float], treatment: Sequence[float], tail: float) -> tuple[float, float]:
    """The log ratios between which no shift is rejected with a p value of ``tail`` or less, on either side.

    A shift that is too small is rejected by "treatment is not larger than control times exp(shift)".  The p value
    changes only where a shift equals one of the m n log ratios of a treatment's to a control's value, so that the
    interval ends there (Hodges and Lehmann 1963, Ann. Math. Stat. 34, 598-611).  An end at which nothing is rejected
    is infinite, as are both where a value is 0.

    Raises:
        ValueError: a side is empty.
    """
    if min(control) <= 0 or min(treatment) <= 0:
        return -math.inf, math.inf
    low, high = np.log(control), np.log(treatment)
    ratios = np.unique(np.subtract.outer(high, low))
    return _lower_end(low, high, ratios, tail), -_lower_end(high, low, -ratios[::-1], tail)


def _lower_end(low: Array, high: Array, ratios: Array, tail: float) -> float:
    """The largest shift up to which all are rejected: one of the ascending ``ratios``, or minus infinity."""
    middles = np.concatenate(([ratios[0] - 1], (ratios[1:] + ratios[:-1]) / 2))
    rejected = bisect_left(middles, True, key=lambda middle: mann_whitney_p(low + middle, high) > tail)
    return float(ratios[rejected - 1]) if rejected else -math.inf  # p rises with the shift


def _normal_tail(u: float, m: int, n: int, tie_sizes: Array) -> float:
    """P(U >= u) by the normal approximation, given the sizes of all groups of equal values."""
    total = m + n
    ties = float(np.sum(tie_sizes**3 - tie_sizes)) / (total * (total - 1))
    variance = m * n / 12 * (total + 1 - ties)
    if variance <= 0:  # all values are equal
        return 1.0
    return float(special.ndtr(-(u - m * n / 2 - 0.5) / math.sqrt(variance)))


@lru_cache(maxsize=256)
def _upper_tails(m: int, n: int) -> Array:
    """P(U >= u) for u = 0..m n under the null hypothesis without ties (shape (m n + 1,)).

    The number of arrangements with U = u is the coefficient of q^u in the Gaussian binomial of m + n over m:
    the product of (1 - q^(n+i)) / (1 - q^i) for i = 1..m, taken one factor at a time.  Whole numbers, whose sums no
    float holds from 29 values a side on; the same from either end, so that half of them are computed.
    """
    half = m * n // 2
    counts = [1] + [0] * half
    for i in range(1, m + 1):
        shift = n + i
        if shift <= half:
            counts[shift:] = map(sub, counts[shift:], counts[:-shift])
        for start in range(i):
            counts[start::i] = list(accumulate(counts[start::i]))
    whole = counts + counts[m * n - half - 1 :: -1]
    arrangements = math.comb(m + n, m)
    return np.array([count / arrangements for count in accumulate(whole)])[::-1]
