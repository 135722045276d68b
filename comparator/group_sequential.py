"""The group-sequential test of one case: at each look it may be cleared, become a suspect, or stay open."""

from dataclasses import dataclass, field, replace
from functools import lru_cache

from opduel.comparator.case_values import Values
from opduel.comparator.effect_estimate import EffectEstimate, estimate_effect
from opduel.comparator.empirical_bayes import Prior, discount_prior, weighted_trimmed_mean
from opduel.comparator.looks import FRESH_PAIRS, Looks, p_over_looks
from opduel.comparator.predictive_power import FUTILE_BELOW, conditional_power
from opduel.comparator.significance import two_sided_p
from opduel.records import Case, Stage


@dataclass
class SequentialTest:
    """The state of a case's test, by its own samples alone: its looks so far (``effects``), and what they have shown.

    ``suspect``: a look has found a change, so that the next sample is a fresh one (``stage``).  ``cleared``: looks have
    shown the change to lie within the threshold.  ``no_rise`` and ``no_fall``: the latest look that has shown it to lie
    below +threshold, or above -threshold.  ``futile``: the remaining looks would hardly settle it.  ``n``: samples.
    ``p_value`` is over all looks, against "the change is within the threshold"; it is 1 without looks, and until fresh
    samples have ``confirmed`` the change.  ``rises``: the direction of the change.  ``figures`` is the estimate to
    show: at the look that cleared the case, else from all samples; None with fewer than 2 samples.  ``excess`` is how
    far the interval that made the case a suspect lies beyond the threshold (an effect, negative if it doesn't); later
    samples don't change it.
    """

    looks: Looks
    alpha: float
    suspect: bool
    cleared: bool = False
    no_rise: EffectEstimate | None = None
    no_fall: EffectEstimate | None = None
    futile: bool = False
    excess: float | None = None
    effects: list[EffectEstimate] = field(default_factory=list)
    n: int = 0
    confirmed: bool = False
    p_value: float = 1.0
    rises: bool = False
    figures: EffectEstimate | None = None

    @property
    def stage(self) -> Stage:
        """The stage of the next sample."""
        return "confirmation" if self.suspect else "screening"

    @property
    def looked(self) -> bool:
        """Whether at least one look has taken place."""
        return bool(self.effects)

    @property
    def exhausted(self) -> bool:
        """Whether no look is left."""
        return self.cleared or self.looks.next_after(self.n) is None

    @property
    def weights(self) -> list[float]:
        """Each look's share of the error."""
        return [self.looks.weight(effect.n) for effect in self.effects]

    @property
    def decisive(self) -> EffectEstimate | None:
        """The look with the smallest weighted p value, with an interval that spends this look's share of the error: a
        claim that rests on this look is right whenever the interval is. None without looks."""
        weighted = zip(self.effects, self.weights, strict=True)
        look = min(weighted, key=lambda look: min(look[0].p_above, look[0].p_below) / look[1], default=None)
        return None if look is None else look[0].at_level(self.alpha * look[1] / 2)

    def sides(self, lower_is_better: bool) -> tuple[EffectEstimate | None, EffectEstimate | None]:
        """Return the looks that have shown the case not to be worse, and not to be better."""
        return (self.no_rise, self.no_fall) if lower_is_better else (self.no_fall, self.no_rise)

    def take(self, effect: EffectEstimate, bound: float) -> None:
        """Add the next look.

        The intervals of all looks hold simultaneously, so that different looks may exclude a rise and a fall: the two
        one-sided tests of equivalence, each with an error of alpha / 2 over all looks (Schuirmann 1987, J.
        Pharmacokinet. Biopharm. 15, 657-680).
        """
        self.no_rise = effect if effect.no_rise else self.no_rise
        self.no_fall = effect if effect.no_fall else self.no_fall
        if self.no_rise and self.no_fall:
            low, high = self.no_fall.interval[0], self.no_rise.interval[1]
            self.cleared = low <= effect.trimmed_mean.estimate <= high
            effect = replace(effect, interval=(low, high)) if self.cleared else effect
        self.effects.append(effect)
        if not self.suspect and effect.p_changed < max(self.looks.suspect_level, self.alpha * self.weights[-1]):
            self.suspect, self.excess = True, _excess(effect, bound)
        last = self.looks.counts[-1]
        if not self.cleared and effect.n < last:
            tail = self.looks.level(last, self.alpha / 2)
            one_side_settles = not (self.suspect or self.no_rise or self.no_fall)
            self.futile = conditional_power(effect.trimmed_mean, last, bound, tail, one_side_settles) < FUTILE_BELOW


def run_sequential_test(
    case: Case, values: Values, prior: Prior, looks: Looks, alpha: float, closing: bool, is_replication: bool = False
) -> SequentialTest:
    """Return the state of a case's test after all its looks so far; it ends at a look that clears the case or finds
    further samples futile.

    Each look takes all samples so far, of either stage.  A change of a noisy metric is confirmed only by
    ``FRESH_PAIRS`` later samples that agree: noise with two modes can agree with itself five times over.  ``closing``:
    no more samples will come (see ``Looks.closing``).  ``is_replication``: the replication of a flagged case.  It is a
    suspect from the start, and only samples of the confirmation count; the screening only tells how noisy the case is.

    The state is cached, and callers don't change it: after every round all cases of a run are analysed, and few of them
    have got samples.
    """
    n = len(values.of_stage("confirmation")) if is_replication else len(values)
    counts = looks.closing(n) if closing else looks.reached(n)
    return _run_looks(case.threshold, case.measure.noisy, values, prior, looks, alpha, counts, is_replication)


@lru_cache(maxsize=16384)
def _run_looks(
    threshold: float,
    is_noisy: bool,
    values: Values,
    prior: Prior,
    looks: Looks,
    alpha: float,
    counts: tuple[int, ...],
    is_replication: bool,
) -> SequentialTest:
    """Return the state of a test after the looks at these ``counts`` of samples."""
    bound = values.bound(threshold)
    test = SequentialTest(looks, alpha, suspect=is_replication)
    if is_replication:
        prior, test.excess = _after_screening(values.of_stage("screening"), bound, prior, looks, alpha)
        values = values.of_stage("confirmation")
    test.n = n = len(values)
    for count in counts:
        test.take(estimate_effect(values.first(count), bound, prior, looks.level(count, alpha / 2)), bound)
        if test.cleared or test.futile:
            break
    above = p_over_looks([effect.p_above for effect in test.effects], test.weights)
    below = p_over_looks([effect.p_below for effect in test.effects], test.weights)
    test.rises = above < below
    fresh = values.first(test.effects[-1].n if test.effects else 0).of_stage("confirmation")
    test.confirmed = not is_noisy or _confirms(fresh, bound, prior, test.rises)
    if test.cleared:
        test.figures = test.effects[-1]
    else:
        test.p_value = two_sided_p(above, below) if test.confirmed else 1.0
        test.figures = estimate_effect(values, bound, prior, looks.level(n, alpha / 2)) if n >= 2 else None
    return test


def _after_screening(
    screening: Values, bound: float, prior: Prior, looks: Looks, alpha: float
) -> tuple[Prior, float | None]:
    """Return the prior for the fresh samples of a case that was screened, and its excess at the screening."""
    if len(screening) < 2:
        return prior, None
    effect = estimate_effect(screening, bound, prior, looks.level(len(screening), alpha / 2))
    return discount_prior(prior, effect.prior_weight), _excess(effect, bound)


def _excess(effect: EffectEstimate, bound: float) -> float:
    """Return by how much the interval lies beyond the bound, on either side; negative if it doesn't."""
    low, high = effect.interval
    return max(low, -high) - bound


def _confirms(fresh: Values, bound: float, prior: Prior, rises: bool) -> bool:
    """Return whether fresh samples agree that the case has changed in this direction."""
    sign = 1 if rises else -1
    if sum(sign * effect > 0 for effect in fresh.effects) < FRESH_PAIRS:
        return False
    return sign * weighted_trimmed_mean(fresh, prior.pair_variance).estimate > bound
