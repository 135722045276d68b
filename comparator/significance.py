"""How surprising the data are if the change lay within a bound: two tests, one p value."""

from scipy import special

from opduel.comparator.trimmed_mean import TrimmedMean

# Shares of the error given to each test (weighted Bonferroni).  The t statistic finds changes at few rounds;
# Mann-Whitney can reject where a very heavy tail has ruined every variance, but needs many.
SHARE_OF_T = 0.8
SHARE_OF_MANN_WHITNEY = 0.2


def shifted_t_p(trimmed_mean: TrimmedMean, bound: float) -> float:
    """The one-sided p value of "the log ratio is at most ``bound``", by the (moderated) t statistic.

    The probability is largest at the bound itself, so that this is a test of the whole hypothesis.  For the
    mirrored hypothesis, "at least -bound", hand in ``mirrored(trimmed_mean)``.
    """
    statistic = (trimmed_mean.estimate - bound) / trimmed_mean.standard_error
    return float(special.stdtr(trimmed_mean.degrees_of_freedom, -statistic))


def mirrored(trimmed_mean: TrimmedMean) -> TrimmedMean:
    """The location with control and treatment exchanged."""
    return TrimmedMean(
        -trimmed_mean.estimate, trimmed_mean.standard_error, trimmed_mean.degrees_of_freedom, trimmed_mean.n
    )


def combined_p(p_t: float, p_mann_whitney: float) -> float:
    """One p value from both tests, valid however they depend on each other: weighted Bonferroni."""
    return min(1.0, p_t / SHARE_OF_T, p_mann_whitney / SHARE_OF_MANN_WHITNEY)


def two_sided_p(p_above: float, p_below: float) -> float:
    """The p value of "the change is within the bounds" from those of its two halves: 2 min, at most 1."""
    return min(1.0, 2 * min(p_above, p_below))


def t_quantile(trimmed_mean: TrimmedMean, tail: float) -> float:
    """The t value that is exceeded with probability ``tail``, for this location's degrees of freedom."""
    return -float(special.stdtrit(trimmed_mean.degrees_of_freedom, tail))
