"""The group-sequential test of one case: at each look it may be cleared, become a suspect, or stay open."""

from collections.abc import Sequence
from dataclasses import dataclass, field, replace

from opduel.comparator.case_values import Values
from opduel.comparator.effect_estimate import EffectEstimate, estimate_effect
from opduel.comparator.empirical_bayes import Prior, discount_prior, weighted_trimmed_mean
from opduel.comparator.looks import FRESH_PAIRS, Looks, p_over_looks
from opduel.comparator.predictive_power import FUTILE_BELOW, conditional_power
from opduel.comparator.significance import two_sided_p
from opduel.records import Case, Stage


@dataclass(frozen=True)
class SequentialTest:
    """The state of a case's test, by its own samples alone.

    ``suspect``: a look has found a change, so that the next sample is a fresh one (``stage``).  ``cleared``: looks have
    shown the change to lie within the threshold.  ``no_rise`` and ``no_fall``: the latest look that has shown it to lie
    below +threshold, or above -threshold.
    ``p_value`` is over all looks, against "the change is within the threshold"; it is 1 without looks, and until fresh
    samples have ``confirmed`` the change.  ``rises``: the direction of the change.  ``figures`` is the estimate to
    show: at the look that cleared the case, else from all samples; None with fewer than 2 samples.  ``decisive`` is the
    look with the strongest evidence, with the interval that goes with a flag; None without looks.  ``excess`` is how
    far the interval that made the case a suspect lies beyond the threshold (an effect, negative if it doesn't); later
    samples don't change it.
    """

    suspect: bool
    cleared: bool
    no_rise: EffectEstimate | None
    no_fall: EffectEstimate | None
    confirmed: bool
    exhausted: bool  # no look is left
    futile: bool  # the remaining looks would hardly settle it
    looked: bool  # at least one look has taken place
    p_value: float
    rises: bool
    n: int  # samples
    figures: EffectEstimate | None
    decisive: EffectEstimate | None
    excess: float | None

    @property
    def stage(self) -> Stage:
        """The stage of the next sample."""
        return "confirmation" if self.suspect else "screening"

    def sides(self, lower_is_better: bool) -> tuple[EffectEstimate | None, EffectEstimate | None]:
        """Return the looks that have shown the case not to be worse, and not to be better."""
        return (self.no_rise, self.no_fall) if lower_is_better else (self.no_fall, self.no_rise)


def run_sequential_test(
    case: Case, values: Values, prior: Prior, looks: Looks, alpha: float, closing: bool, is_replication: bool = False
) -> SequentialTest:
    """Return the state of a case's test after all its looks so far; it ends at a look that clears the case or finds
    further samples futile.

    Each look takes all samples so far, of either stage.  A change of a noisy metric is confirmed only by
    ``FRESH_PAIRS`` later samples that agree: noise with two modes can agree with itself five times over.  ``closing``:
    no more samples will come (see ``Looks.closing``).  ``is_replication``: the replication of a flagged case.  It is a
    suspect from the start, and only samples of the confirmation count; the screening only tells how noisy the case is.
    """
    bound = values.bound(case.threshold)
    path = _Path(looks, alpha, suspect=is_replication)
    if is_replication:
        prior, path.excess = _after_screening(values.of_stage("screening"), bound, prior, looks, alpha)
        values = values.of_stage("confirmation")
    n = len(values)
    for count in looks.closing(n) if closing else looks.reached(n):
        path.take(estimate_effect(values.first(count), bound, prior, looks.level(count, alpha / 2)), bound)
        if path.is_over:
            break
    p_value, rises = path.p_value()
    fresh = values.first(path.n).of_stage("confirmation")
    confirmed = not case.measure.noisy or _confirms(fresh, bound, prior, rises)
    figures = estimate_effect(values, bound, prior, looks.level(n, alpha / 2)) if n >= 2 else None
    return SequentialTest(
        suspect=path.suspect,
        cleared=path.cleared,
        no_rise=path.no_rise,
        no_fall=path.no_fall,
        confirmed=confirmed,
        exhausted=path.cleared or looks.next_after(n) is None,
        futile=path.futile,
        looked=bool(path.effects),
        p_value=p_value if confirmed and not path.cleared else 1.0,
        rises=rises,
        n=n,
        figures=path.effects[-1] if path.cleared else figures,
        decisive=path.decisive(),
        excess=path.excess,
    )


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


@dataclass
class _Path:
    """The looks at a case so far, and what they have shown."""

    looks: Looks
    alpha: float
    suspect: bool
    cleared: bool = False
    no_rise: EffectEstimate | None = None
    no_fall: EffectEstimate | None = None
    futile: bool = False
    excess: float | None = None
    effects: list[EffectEstimate] = field(default_factory=list)

    @property
    def is_over(self) -> bool:
        """Whether no further look is taken."""
        return self.cleared or self.futile

    @property
    def n(self) -> int:
        """The number of samples at the latest look."""
        return self.effects[-1].n if self.effects else 0

    @property
    def weights(self) -> Sequence[float]:
        """Each look's share of the error."""
        return [self.looks.weight(effect.n) for effect in self.effects]

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
        self.futile = not self.cleared and self._is_futile(effect, bound)

    def _is_futile(self, effect: EffectEstimate, bound: float) -> bool:
        last = self.looks.counts[-1]
        if effect.n >= last:
            return False
        tail = self.looks.level(last, self.alpha / 2)
        one_side_settles = not (self.suspect or self.no_rise or self.no_fall)
        return conditional_power(effect.trimmed_mean, last, bound, tail, one_side_settles) < FUTILE_BELOW

    def p_value(self) -> tuple[float, bool]:
        """Return the p value over all looks, and whether it speaks for a rise."""
        above = p_over_looks([effect.p_above for effect in self.effects], self.weights)
        below = p_over_looks([effect.p_below for effect in self.effects], self.weights)
        return two_sided_p(above, below), above < below

    def decisive(self) -> EffectEstimate | None:
        """Return the look with the smallest weighted p value, with an interval that spends this look's share of the
        error: a claim that rests on this look is right whenever the interval is."""
        if not self.effects:
            return None
        effect, weight = min(
            zip(self.effects, self.weights, strict=True),
            key=lambda look: min(look[0].p_above, look[0].p_below) / look[1],
        )
        return effect.at_level(self.alpha * weight / 2)
