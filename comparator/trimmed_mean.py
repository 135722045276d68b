"""The weighted trimmed mean of a case's log ratios, with its standard error, t test and confidence interval."""

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt
from scipy import special

# One value in eight is trimmed from each end, and none of seven or fewer: the middle three of five values say too
# little about their spread.
TRIMMED_FROM_EACH_END = 8

# The smallest standard deviation of a log ratio, so that identical values never divide by zero.  It is below what a
# timer or an instruction count can resolve, and far below any threshold in use (0.1 %).
RESOLUTION = 1e-5


@dataclass(frozen=True)
class TrimmedMean:
    """An estimate with what a t statistic needs; everything in log ratios (ln(treatment / control)).

    ``n`` is the number of process pairs.  ``predicted`` is the predicted variance of one pair's log ratio, the harmonic
    mean over the pairs; 1 without weights.
    """

    estimate: float
    standard_error: float  # > 0
    degrees_of_freedom: float  # > 0
    n: int
    predicted: float = 1.0

    @property
    def variance(self) -> float:
        """The variance of one process pair's log ratio that corresponds to the standard error."""
        return self.n * self.standard_error**2

    @property
    def scale(self) -> float:
        """The residual scale: how many times as large as predicted the variance is."""
        return self.variance / self.predicted


def estimate_trimmed_mean(log_ratios: Sequence[float], predicted: npt.NDArray[np.float64] | None = None) -> TrimmedMean:
    """Return the trimmed mean of ``log_ratios`` (shape (n,), n >= 2, finite) and its standard error.

    ``predicted`` (shape (n,), > 0) are their variances as far as they are known: each log ratio has the weight w = 1 /
    predicted.  With g = floor(n / 8) values trimmed from each end, h = n - 2 g that stay and W the sum of their
    weights, the estimate is their weighted mean, and the standard error sqrt(SS_w / ((h - 1) W)), SS_w the weighted sum
    of squares about its weighted mean of the sample winsorised by g at each end, with h - 1 degrees of freedom.  With
    equal weights this is Tukey and McLaughlin's (1963, Sankhya A 25, 331-352). Raises ValueError: fewer than 2 values,
    or one that is not finite.
    """
    values = np.asarray(log_ratios, dtype=np.float64)
    n = len(values)
    if n < 2:
        raise ValueError(f"a trimmed mean needs at least 2 log ratios, not {n}")
    if not np.isfinite(values).all():
        raise ValueError("log ratios must be finite")
    order = np.argsort(values, kind="stable")
    ordered = values[order]
    weights = np.ones(n) if predicted is None else 1 / predicted[order]
    g = n // TRIMMED_FROM_EACH_END
    middle = slice(g, n - g)
    weight, freedom = float(weights[middle].sum()), n - 2 * g - 1
    winsorised = np.minimum(np.maximum(ordered, ordered[g]), ordered[n - g - 1]) if g else ordered
    centre = float(winsorised @ weights / weights.sum())
    squares = float((winsorised - centre) ** 2 @ weights)
    variance = max(squares / (freedom * weight), RESOLUTION**2 / n)
    estimate = float(ordered[middle] @ weights[middle]) / weight
    return TrimmedMean(estimate, math.sqrt(variance), float(freedom), n, n / float(weights.sum()))


def mirror(trimmed_mean: TrimmedMean) -> TrimmedMean:
    """Return the trimmed mean with control and treatment exchanged."""
    return replace(trimmed_mean, estimate=-trimmed_mean.estimate)


def t_quantile(trimmed_mean: TrimmedMean, tail: float) -> float:
    """Return the t value that is exceeded with probability ``tail``, for this estimate's degrees of freedom."""
    return -float(special.stdtrit(trimmed_mean.degrees_of_freedom, tail))


def shifted_t_p(trimmed_mean: TrimmedMean, bound: float) -> float:
    """Return the one-sided p value of "the log ratio is at most ``bound``", by the (moderated) t statistic. For "at
    least -bound" pass ``mirror(trimmed_mean)``."""
    statistic = (trimmed_mean.estimate - bound) / trimmed_mean.standard_error
    return float(special.stdtr(trimmed_mean.degrees_of_freedom, -statistic))


def confidence_interval(trimmed_mean: TrimmedMean, tail: float) -> tuple[float, float]:
    """Return the interval of log ratios that misses the true one with probability ``tail`` on either side; with the
    levels of several looks as tails (``Looks.level``) a repeated confidence interval (Jennison and Turnbull 1989, J. R.
    Stat. Soc. B 51, 305-361)."""
    reach = t_quantile(trimmed_mean, tail) * trimmed_mean.standard_error
    return trimmed_mean.estimate - reach, trimmed_mean.estimate + reach
