"""The change of a case estimated at one look, and the smallest change that its samples would have shown."""

import math
from dataclasses import dataclass, replace
from functools import lru_cache
from statistics import median

from opduel.comparator.case_values import Values
from opduel.comparator.empirical_bayes import Prior, prior_weight, shrink_variance, weighted_trimmed_mean
from opduel.comparator.significance import two_sided_p
from opduel.comparator.trimmed_mean import TrimmedMean, confidence_interval, mirror, shifted_t_p, t_quantile

POWER = 0.8

LARGEST_CHANGE = 1e6  # a share; a minimum detectable effect is never given as more

# The largest |log| that is turned into a ratio: beyond it a float64 would overflow, and JSON has no infinity.
LARGEST_LOG = 700.0


@dataclass(frozen=True)
class EffectEstimate:
    """One look at one case; effects as in ``Values`` throughout, p values not yet corrected for the number of looks."""

    n: int
    trimmed_mean: TrimmedMean  # moderated
    prior_weight: float  # how far the prior applies to this case, 0 to 1
    p_above: float  # against "the effect is at most +bound"
    p_below: float  # against "it is at least -bound"
    p_changed: float  # two-sided, against "no change at all"
    interval: tuple[float, float]
    no_rise: bool  # the interval shows the change to lie below +bound
    no_fall: bool  # and above -bound
    control: float  # median process value
    treatment: float
    bound: float
    reference: float | None  # what differences are shares of; None: effects are log ratios

    @property
    def changes(self) -> tuple[float, float, float]:
        """The estimate and both ends of its interval, as ratios or as differences in the metric's unit."""
        estimate, (low, high) = self.trimmed_mean.estimate, self.interval
        return self.as_change(estimate), self.as_change(low), self.as_change(high)

    def as_change(self, effect: float) -> float:
        """Return an effect as a ratio, or as a difference in the metric's unit."""
        return as_ratio(effect) if self.reference is None else effect * self.reference

    def at_level(self, tail: float) -> "EffectEstimate":
        """Return the estimate with the interval of another ``tail``."""
        return replace(self, interval=confidence_interval(self.trimmed_mean, tail))


@lru_cache(maxsize=16384)
def estimate_effect(values: Values, bound: float, prior: Prior, tail: float) -> EffectEstimate:
    """Return what ``values`` (n >= 2) say about a change beyond ``bound`` (an effect, >= 0), with an interval that
    misses the truth with probability ``tail`` on either side.  With a bound of 0 neither ``no_rise`` nor ``no_fall`` is
    ever shown. Cached, because it is called for all earlier looks after every round. Raises ValueError: fewer than 2
    values."""
    unmoderated = weighted_trimmed_mean(values, prior.pair_variance)
    trimmed_mean = shrink_variance(unmoderated, prior)
    low, high = confidence_interval(trimmed_mean, tail)
    return EffectEstimate(
        n=len(values),
        trimmed_mean=trimmed_mean,
        prior_weight=prior_weight(unmoderated, prior),
        p_above=shifted_t_p(trimmed_mean, bound),
        p_below=shifted_t_p(mirror(trimmed_mean), bound),
        p_changed=two_sided_p(shifted_t_p(trimmed_mean, 0.0), shifted_t_p(mirror(trimmed_mean), 0.0)),
        interval=(low, high),
        no_rise=high <= bound > 0,
        no_fall=low >= -bound < 0,
        control=median(values.control),
        treatment=median(values.treatment),
        bound=bound,
        reference=values.reference,
    )


def as_ratio(log_ratio: float) -> float:
    """Return exp(``log_ratio``), limited to finite numbers."""
    return math.exp(max(-LARGEST_LOG, min(LARGEST_LOG, log_ratio)))


def minimal_detectable_change(trimmed_mean: TrimmedMean, threshold: float, alpha: float) -> float:
    """Return the change (a share, >= 0) that a test at two-sided level ``alpha`` finds with 80 % power.

    exp(log(1 + threshold) + (t_(1-alpha/2) + t_0.8) s) - 1 with s the standard error.  The sum of the two quantiles
    approximates the noncentral t distribution's power (Bloom 1995, Evaluation Review 19, 547-556).
    """
    reach = (t_quantile(trimmed_mean, alpha / 2) + t_quantile(trimmed_mean, 1 - POWER)) * trimmed_mean.standard_error
    return min(math.expm1(min(math.log1p(threshold) + reach, math.log1p(LARGEST_CHANGE))), LARGEST_CHANGE)
