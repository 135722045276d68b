"""Where the log ratios of one case lie: a 20 % trimmed mean, its standard error, t test and confidence interval."""

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
from scipy import special

# One value in five is trimmed from each end: a process that is off by 50 % then counts as merely "high".
TRIMMED_FROM_EACH_END = 5

# No timer, and no count of a case's instructions, tells two processes apart by less than this share: the
# standard deviation of a log ratio is never believed to be smaller, so that identical values divide nothing by
# zero.  Far below any threshold in use (0.1 %), it changes no verdict on values that vary at all.
RESOLUTION = 1e-5


@dataclass(frozen=True)
class TrimmedMean:
    """A location with what a t statistic needs; everything in log ratios (ln(treatment / control)).

    ``n`` is the number of process pairs behind it.
    """

    estimate: float
    standard_error: float  # > 0
    degrees_of_freedom: float  # > 0
    n: int

    @property
    def variance(self) -> float:
        """The variance of one process pair's log ratio that this standard error amounts to."""
        return self.n * self.standard_error**2


def estimate_trimmed_mean(log_ratios: Sequence[float]) -> TrimmedMean:
    """The 20 % trimmed mean of ``log_ratios`` (shape (n,), n >= 2, finite) and its standard error.

    With g = floor(n / 5) values trimmed from each end and h = n - 2 g kept, the standard error is
    sqrt(SS_w / (h (h - 1))), SS_w the sum of squares about its mean of the sample winsorised by g at each end,
    and the statistic is referred to a t distribution with h - 1 degrees of freedom (Tukey and McLaughlin 1963,
    Sankhya A 25, 331-352; the two-sample form is Yuen 1974, Biometrika 61, 165-170).  Up to n = 4 nothing is
    trimmed, and this is Student's t.

    Raises:
        ValueError: fewer than 2 values, or one that is not finite.
    """
    ordered = np.sort(np.asarray(log_ratios, dtype=np.float64))
    n = len(ordered)
    if n < 2:
        raise ValueError(f"a trimmed mean needs at least 2 log ratios, not {n}")
    if not np.all(np.isfinite(ordered)):
        raise ValueError("log ratios must be finite")
    g = n // TRIMMED_FROM_EACH_END
    kept = n - 2 * g
    winsorised = np.clip(ordered, ordered[g], ordered[n - g - 1])
    squares = float(np.sum((winsorised - winsorised.mean()) ** 2))
    variance = max(squares / (kept * (kept - 1)), RESOLUTION**2 / n)
    return TrimmedMean(float(ordered[g : n - g].mean()), float(np.sqrt(variance)), float(kept - 1), n)


def mirrored(trimmed_mean: TrimmedMean) -> TrimmedMean:
    """The location with control and treatment exchanged."""
    return replace(trimmed_mean, estimate=-trimmed_mean.estimate)


def t_quantile(trimmed_mean: TrimmedMean, tail: float) -> float:
    """The t value that is exceeded with probability ``tail``, for this location's degrees of freedom."""
    return -float(special.stdtrit(trimmed_mean.degrees_of_freedom, tail))


def shifted_t_p(trimmed_mean: TrimmedMean, bound: float) -> float:
    """The one-sided p value of "the log ratio is at most ``bound``", by the (moderated) t statistic.

    The probability is largest at the bound itself, so that this is a test of the whole hypothesis.  For the
    mirrored hypothesis, "at least -bound", hand in ``mirrored(trimmed_mean)``.
    """
    statistic = (trimmed_mean.estimate - bound) / trimmed_mean.standard_error
    return float(special.stdtr(trimmed_mean.degrees_of_freedom, -statistic))


def confidence_interval(trimmed_mean: TrimmedMean, tail: float) -> tuple[float, float]:
    """The interval of log ratios that misses the true one with probability ``tail`` on either side.

    With the levels of several looks as tails (``Looks.level``) these are repeated confidence intervals: all of them
    together hold the truth with probability 1 - alpha, whenever one stops (Jennison and Turnbull 1989, J. R. Stat.
    Soc. B 51, 305-361).
    """
    reach = t_quantile(trimmed_mean, tail) * trimmed_mean.standard_error
    return trimmed_mean.estimate - reach, trimmed_mean.estimate + reach
