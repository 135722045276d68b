"""What the first samples of one stage say of a case at one look: every statistic, computed once."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from statistics import median

from opduel.comparator.empirical_bayes import Prior, prior_weight, shrink_variance
from opduel.comparator.mann_whitney import mann_whitney_p
from opduel.comparator.significance import combined_p, mirrored, shifted_t_p, two_sided_p
from opduel.comparator.tost import confidence_interval, is_within
from opduel.comparator.trimmed_mean import TrimmedMean, estimate_trimmed_mean
from opduel.records import PairSample


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
