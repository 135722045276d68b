"""Repeated confidence intervals, and what they show to be unchanged."""

import math

from opduel.comparator.significance import t_quantile
from opduel.comparator.trimmed_mean import TrimmedMean

# The largest |log| that is turned into a ratio: beyond it a float64 would overflow, and JSON has no infinity.
LARGEST_LOG = 700.0


def confidence_interval(trimmed_mean: TrimmedMean, tail: float) -> tuple[float, float]:
    """The interval of log ratios that misses the true one with probability ``tail`` on either side.

    With tail = alpha w_k / 2 at look k, the weights w_k summing to 1, these are repeated confidence intervals:
    all of them together hold the truth with probability 1 - alpha or more, whenever one stops (Jennison and
    Turnbull 1989, J. R. Stat. Soc. B 51, 305-361; Bonferroni in place of their joint distribution).
    """
    reach = t_quantile(trimmed_mean, tail) * trimmed_mean.standard_error
    return trimmed_mean.estimate - reach, trimmed_mean.estimate + reach


def is_within(interval: tuple[float, float], bound: float) -> bool:
    """Whether an interval of log ratios lies in [-bound, bound]: the two one-sided tests of equivalence.

    A case whose true change exceeds the bound is called unchanged only if the limit on that side errs, so with
    probability alpha / 2 over one stage's looks, and alpha over two stages (Schuirmann 1987, J. Pharmacokinet.
    Biopharm. 15, 657-680).  A bound of 0 shows nothing: no case is exactly unchanged.
    """
    return bound > 0 and -bound <= interval[0] and interval[1] <= bound


def as_ratio(log_ratio: float) -> float:
    """exp, held finite."""
    return math.exp(max(-LARGEST_LOG, min(LARGEST_LOG, log_ratio)))
