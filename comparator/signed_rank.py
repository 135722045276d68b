"""Wilcoxon's signed-rank test: exact, and it asks of the noise only that it is symmetric and independent."""

from collections.abc import Sequence
from functools import lru_cache

import numpy as np

EXACT_UP_TO = 200
TIE = 1e-12  # by which every value is lowered, so that ties and zeros count against the alternative


@lru_cache(maxsize=65536)
def signed_rank_p(values: Sequence[float]) -> float:
    """The one-sided p value of ``values`` (shape (n,), a tuple) against "their centre is at most 0"; 1 without any.

    Under the null hypothesis every value is as likely above 0 as below, whatever its size: sizes may differ from one
    to the next in any way, and depend on each other (Wilcoxon 1945, Biometrics Bulletin 1, 80-83).  The smallest p
    value is 2^-n.  Above ``EXACT_UP_TO`` values it is the normal approximation's, whose tails are heavier.
    """
    if not values:
        return 1.0
    lowered = np.asarray(values, dtype=float) - TIE
    n = len(lowered)
    ranks = np.empty(n)
    ranks[np.argsort(np.abs(lowered), kind="stable")] = np.arange(1, n + 1)
    rank_sum = int(ranks[lowered > 0].sum())
    if n <= EXACT_UP_TO:
        return float(min(1.0, _upper_tails(n)[rank_sum]))
    from scipy import stats  # here, because it takes longer to import than all else that a command needs to start

    mean, variance = n * (n + 1) / 4, n * (n + 1) * (2 * n + 1) / 24
    return float(stats.norm.sf((rank_sum - 0.5 - mean) / variance**0.5))


@lru_cache(maxsize=64)
def _upper_tails(n: int) -> np.ndarray:
    """P(rank sum >= w) for w = 0 ... n (n + 1) / 2 (shape (n (n + 1) / 2 + 1,)): each rank counts or not, by a coin."""
    chances = np.ones(1)
    for rank in range(1, n + 1):
        longer = np.zeros(len(chances) + rank)
        longer[: len(chances)] += chances / 2
        longer[rank:] += chances / 2
        chances = longer
    return np.cumsum(chances[::-1])[::-1]
