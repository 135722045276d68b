"""The smallest change that the data at hand would have shown."""

import math

from opduel.comparator.significance import SHARE_OF_T, t_quantile
from opduel.comparator.trimmed_mean import TrimmedMean

POWER = 0.8

# A change by this share (a million-fold) stands for "none that one could name".
LARGEST_CHANGE = 1e6


def minimal_detectable_change(trimmed_mean: TrimmedMean, threshold: float, alpha: float) -> float:
    """The change (a share, >= 0) that a test at two-sided level ``alpha`` finds with 80 % power.

    exp(log(1 + threshold) + (t_(1-a) + t_0.8) s) - 1 with s the standard error and a = 0.8 alpha / 2, the t
    test's share of one direction's error.  ``alpha`` is what is left after the corrections: that of the run,
    over the number of its cases (this one alone has changed) and over the looks.  The sum of the two quantiles
    approximates the noncentral t distribution's power (Bloom 1995, Evaluation Review 19, 547-556).
    """
    tail = SHARE_OF_T * alpha / 2
    reach = (t_quantile(trimmed_mean, tail) + t_quantile(trimmed_mean, 1 - POWER)) * trimmed_mean.standard_error
    return min(math.expm1(min(math.log1p(threshold) + reach, math.log1p(LARGEST_CHANGE))), LARGEST_CHANGE)
