"""An exact signed-rank test, which assumes only that the noise is symmetric and its signs independent."""

from collections.abc import Sequence
from functools import lru_cache

import numpy as np
from scipy import special

EXACT_UP_TO = 200
SHARE_OF_RANKS = 4  # ranks above a quarter of n count as much as that
TIE = 1e-12  # subtracted from every value, so that zeros count against the alternative


@lru_cache(maxsize=65536)
def signed_rank_p(values: Sequence[float]) -> float:
    """Return the one-sided p value of ``values`` (shape (n,), a tuple) against "their centre is at most 0"; 1 if n = 0.

    The statistic is the sum, over the values above 0, of the ranks of the absolute values, with ranks above n / 4
    counted as n / 4: a signed-rank test with general scores (Hettmansperger and McKean 2011, Robust Nonparametric
    Statistical Methods, chapter 1).  Under the null hypothesis each rank is part of the sum with probability 1/2, which
    gives the exact distribution; above ``EXACT_UP_TO`` values it is approximated by the normal one, whose tails are
    heavier.  Limiting the ranks gives more power: the largest belong to the rounds that a disturbance hit hardest.
    """
    if not values:
        return 1.0
    lowered = np.asarray(values, dtype=float) - TIE
    n = len(lowered)
    scores = np.empty(n, dtype=int)
    scores[np.argsort(np.abs(lowered), kind="stable")] = _scores(n)
    total = int(scores[lowered > 0].sum())
    if n <= EXACT_UP_TO:
        return float(min(1.0, _upper_tails(n)[total]))
    mean, variance = _scores(n).sum() / 2, (_scores(n) ** 2).sum() / 4
    return float(special.ndtr((mean + 0.5 - total) / variance**0.5))


def _scores(n: int) -> np.ndarray:
    return np.minimum(np.arange(1, n + 1), max(1, n // SHARE_OF_RANKS))


@lru_cache(maxsize=64)
def _upper_tails(n: int) -> np.ndarray:
    """Return P(sum >= w) for each w from 0 to the sum of all scores, each of which is in it with probability 1/2."""
    chances = np.ones(1)
    for score in _scores(n):
        longer = np.zeros(len(chances) + score)
        longer[: len(chances)] += chances / 2
        longer[score:] += chances / 2
        chances = longer
    return np.cumsum(chances[::-1])[::-1]
