"""What the first samples of one stage say of a case at one look, and the smallest change that they would have shown."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from statistics import median

from opduel.comparator.empirical_bayes import Prior, prior_weight, shrink_variance
from opduel.comparator.mann_whitney import mann_whitney_p
from opduel.comparator.significance import SHARE_OF_T, combined_p, two_sided_p
from opduel.comparator.trimmed_mean import (
    TrimmedMean,
    confidence_interval,
    estimate_trimmed_mean,
    mirrored,
    shifted_t_p,
    t_quantile,
)
from opduel.records import PairSample

POWER = 0.8

# A change by this share (a million-fold) stands for "none that one could name".
LARGEST_CHANGE = 1e6

# The largest |log| that is turned into a ratio: beyond it a float64 would overflow, and JSON has no infinity.
LARGEST_LOG = 700.0


@dataclass(frozen=True)
class Values:
    """Process values of one case and stage, in the order in which they were measured (shape (n,) each)."""

    control: tuple[float, ...]  # in the metric's unit, 0 or more
    treatment: tuple[float, ...]
    log_ratios: tuple[float, ...]

    @classmethod
    def of(cls, samples: Sequence[PairSample]) -> "Values":
        """The values of samples.

        Raises:
            ValueError: a value is not finite, or a process value below 0.
        """
        for sample in samples:
            sides = (sample.control, sample.treatment)
            if not all(0 <= value < math.inf for value in sides) or not math.isfinite(sample.log_ratio):
                raise ValueError(f"{sample.case_id}, round {sample.round}: not a finite measurement of 0 or more")
        return cls(
            tuple(sample.control for sample in samples),
            tuple(sample.treatment for sample in samples),
            tuple(sample.log_ratio for sample in samples),
        )

    def first(self, n: int) -> "Values":
        """The first ``n`` of each."""
        return Values(self.control[:n], self.treatment[:n], self.log_ratios[:n])

    def __len__(self) -> int:
        return len(self.log_ratios)


@dataclass(frozen=True)
class EffectEstimate:
    """One look at one stage of one case; log ratios throughout, p values not yet corrected for the looking."""

    n: int
    trimmed_mean: TrimmedMean  # moderated
    prior_weight: float  # how far the prior could be believed for this case, 0 to 1
    p_above: float  # against "the log ratio is at most +bound"
    p_below: float  # against "it is at least -bound"
    p_changed: float  # two-sided, against "no change at all"
    interval: tuple[float, float]
    within: bool  # the interval shows the change to lie within the bound
    control: float  # median process value
    treatment: float


@lru_cache(maxsize=16384)
def estimate_effect(values: Values, bound: float, prior: Prior, tail: float) -> EffectEstimate:
    """The evidence of ``values`` (n >= 2) on a change beyond ``bound`` (a log ratio, >= 0).

    ``tail`` is the probability on either side of the interval.  A pure function that is asked the same again
    after every round, hence the cache.

    Raises:
        ValueError: fewer than 2 values.
    """
    unmoderated = estimate_trimmed_mean(values.log_ratios)
    trimmed_mean = shrink_variance(unmoderated, prior)
    interval = confidence_interval(trimmed_mean, tail)
    return EffectEstimate(
        n=len(values),
        trimmed_mean=trimmed_mean,
        prior_weight=prior_weight(unmoderated, prior),
        p_above=_p_above(trimmed_mean, values.control, values.treatment, bound),
        p_below=_p_above(mirrored(trimmed_mean), values.treatment, values.control, bound),
        p_changed=two_sided_p(
            _p_above(trimmed_mean, values.control, values.treatment, 0.0),
            _p_above(mirrored(trimmed_mean), values.treatment, values.control, 0.0),
        ),
        interval=interval,
        within=is_within(interval, bound),
        control=median(values.control),
        treatment=median(values.treatment),
    )


def _p_above(trimmed_mean: TrimmedMean, lower: Sequence[float], upper: Sequence[float], bound: float) -> float:
    """Both tests against "the log ratio is at most ``bound``": the lower side is raised by the bound."""
    raised = [value * math.exp(bound) for value in lower]
    return combined_p(shifted_t_p(trimmed_mean, bound), mann_whitney_p(raised, upper))


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
