"""One case's way through its looks: shown to be unchanged or on one side of its threshold, changed, or open."""

import math
from collections.abc import Sequence
from dataclasses import dataclass, field, replace

from opduel.comparator.case_values import Values
from opduel.comparator.effect_estimate import EffectEstimate, estimate_effect
from opduel.comparator.empirical_bayes import Prior, discounted, locate
from opduel.comparator.looks import FRESH_PAIRS, Looks, p_over_looks
from opduel.comparator.predictive_power import FUTILE_BELOW, conditional_power
from opduel.comparator.significance import two_sided_p
from opduel.records import Case, Stage


@dataclass(frozen=True)
class SequentialTest:
    """How far a case has come, by its own samples alone.

    ``suspect``: a look has found a change, so that the next sample is a fresh one (``stage``).  ``cleared``: looks have
    shown the change to lie within the threshold; ``no_rise`` and ``no_fall``: the latest look that has shown it to lie
    below its upper side, or above its lower one.
    ``p_value`` is over all looks, against "the change is within the threshold", and 1 without looks, or as long as no
    fresh samples have ``confirmed`` what they say; ``rises`` tells the direction that it speaks for.  ``figures`` is
    the evidence to show: that of the looks that cleared the case, else all; None with fewer than 2 samples.
    ``decisive`` is the look that says most, with the interval that goes with a flag; None without looks.  ``excess`` is
    a suspect's size: by how much the interval that made it a suspect lies beyond the threshold (a log ratio, negative
    if it doesn't).  No later sample changes it.
    """

    suspect: bool
    cleared: bool
    no_rise: EffectEstimate | None
    no_fall: EffectEstimate | None
    confirmed: bool
    exhausted: bool  # no look is left
    futile: bool  # what looks are left would hardly settle it
    looked: bool  # at least one look has taken place
    p_value: float
    rises: bool
    n: int  # samples
    figures: EffectEstimate | None
    decisive: EffectEstimate | None
    excess: float | None

    @property
    def stage(self) -> Stage:
        """Where the next sample belongs."""
        return "confirmation" if self.suspect else "screening"

    def sides(self, lower_is_better: bool) -> tuple[EffectEstimate | None, EffectEstimate | None]:
        """Return the looks that have shown the case not to be worse, and not to be better."""
        return (self.no_rise, self.no_fall) if lower_is_better else (self.no_fall, self.no_rise)


def run_sequential_test(
    case: Case, values: Values, prior: Prior, looks: Looks, alpha: float, closing: bool, retest: bool = False
) -> SequentialTest:
    """Follow a case through its looks, until they clear it, or one gives it up since the last would hardly settle it.

    All samples so far count at each look, of whichever stage.  A change takes ``FRESH_PAIRS`` samples more that agree,
    from after the look that found it: noise with two modes can agree with itself five times over.  Counts are claimed
    at once.  ``closing`` says that no more samples will come (see ``Looks.closing``).  ``retest``: a verification, of
    cases that were flagged.  They are suspects from the start, and fresh samples alone count; from the screening only
    what it says of their noise is taken.
    """
    bound = math.log1p(case.threshold)
    path = _Path(looks, alpha, suspect=retest)
    if retest:
        prior, path.excess = _after_screening(values.of_stage("screening"), bound, prior, looks, alpha)
        values = values.of_stage("confirmation")
    n = len(values)
    for count in looks.closing(n) if closing else looks.reached(n):
        path.take(estimate_effect(values.first(count), bound, prior, looks.level(count, alpha / 2)), bound)
        if path.ended:
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
    """Return the prior for the fresh samples of a case that was screened, and its size then."""
    if len(screening) < 2:
        return prior, None
    effect = estimate_effect(screening, bound, prior, looks.level(len(screening), alpha / 2))
    return discounted(prior, effect.prior_weight), _excess(effect, bound)


def _excess(effect: EffectEstimate, bound: float) -> float:
    """Return by how much an interval lies beyond the bound, on either side."""
    low, high = effect.interval
    return max(low, -high) - bound


def _confirms(fresh: Values, bound: float, prior: Prior, rises: bool) -> bool:
    """Whether fresh samples say that the case has changed in this direction."""
    sign = 1 if rises else -1
    if sum(sign * log_ratio > 0 for log_ratio in fresh.log_ratios) < FRESH_PAIRS:
        return False
    return sign * locate(fresh, prior.pair_variance).estimate > bound


@dataclass
class _Path:
    """The looks that a case has come to, and what they have shown."""

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
    def ended(self) -> bool:
        """Whether no further look counts."""
        return self.cleared or self.futile

    @property
    def n(self) -> int:
        """Samples that the latest look took."""
        return self.effects[-1].n if self.effects else 0

    @property
    def weights(self) -> Sequence[float]:
        """Each look's share of the error."""
        return [self.looks.weight(effect.n) for effect in self.effects]

    def take(self, effect: EffectEstimate, bound: float) -> None:
        """Take note of the next look.

        The intervals of all looks hold together, so that each side may be excluded by another one: the two one-sided
        tests of equivalence, each with an error of alpha / 2 over all looks (Schuirmann 1987, J. Pharmacokinet.
        Biopharm. 15, 657-680).
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
        """Return the look that says most, with an interval that spends its share of the error: the claim of a change
        that rests on this look is right whenever the interval is."""
        if not self.effects:
            return None
        effect, weight = min(
            zip(self.effects, self.weights, strict=True),
            key=lambda look: min(look[0].p_above, look[0].p_below) / look[1],
        )
        return effect.at_level(self.alpha * weight / 2)
