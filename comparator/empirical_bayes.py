"""Cases lend each other their variances: the empirical-Bayes moderated t of Smyth (2004), made robust."""

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
from scipy import special

from opduel.comparator.trimmed_mean import TrimmedMean

# Of fewer cases than this nothing is learnt about how variances vary from case to case.
FEWEST_CASES = 3


@dataclass(frozen=True)
class Prior:
    """What the variances of many cases say of the next: a scaled inverse chi-squared distribution.

    ``degrees_of_freedom`` is Smyth's d0 (0: no prior), ``variance`` his s0^2, of one process pair's log ratio.
    ``pooled`` sums the degrees of freedom of the cases that it was fitted to, ``cases`` counts them.
    """

    degrees_of_freedom: float = 0.0
    variance: float = 1.0
    pooled: float = 0.0
    cases: int = 0


NO_PRIOR = Prior()


def fit_prior(observed: Sequence[TrimmedMean]) -> Prior:
    """Fits the prior to the cases' variances by the moments of their logarithms.

    A variance v on df degrees of freedom has, under the model, log v with mean
    log s0^2 + psi(df/2) - log(df/2) - psi(d0/2) + log(d0/2) and variance psi'(df/2) + psi'(d0/2) (psi: digamma,
    psi': trigamma).  Equating both with what is seen gives s0^2 and d0; degrees of freedom may differ by case
    (Smyth 2004, Stat. Appl. Genet. Mol. Biol. 3(1), 3, section 6.2; limma's ``fitFDist``).  d0 is held to the
    degrees of freedom that all cases had together: also where variances vary no more than by chance, and limma
    would have it infinite, a prior knows no more than its data.  Fewer than ``FEWEST_CASES`` cases give ``NO_PRIOR``.
    """
    if len(observed) < FEWEST_CASES:
        return NO_PRIOR
    half = np.array([observed.degrees_of_freedom for observed in observed]) / 2
    logs = np.log([observed.variance for observed in observed]) - special.digamma(half) + np.log(half)
    excess = float(np.var(logs, ddof=1) - np.mean(special.polygamma(1, half)))
    mean = float(np.mean(logs))
    pooled = float(2 * half.sum())
    half_prior = min(trigamma_inverse(excess), pooled / 2) if excess > 0 else pooled / 2
    variance = math.exp(mean + float(special.digamma(half_prior)) - math.log(half_prior))
    return Prior(2 * half_prior, variance, pooled, len(observed))


def shrink_variance(observed: TrimmedMean, prior: Prior) -> TrimmedMean:
    """``observed`` with the posterior variance (d0 s0^2 + df v) / (d0 + df) and d0 + df degrees of freedom.

    As in limma, the degrees of freedom never exceed those that all the fitted cases had together.  A case whose
    own variance contradicts the prior is believed rather than shrunk: d0 is scaled by ``prior_weight`` first.
    """
    own = observed.degrees_of_freedom
    weight = prior_weight(observed, prior) * prior.degrees_of_freedom
    if weight == 0:
        return observed
    variance = (weight * prior.variance + own * observed.variance) / (weight + own)
    degrees_of_freedom = min(weight + own, max(prior.pooled, own))
    return TrimmedMean(observed.estimate, math.sqrt(variance / observed.n), degrees_of_freedom, observed.n)


def prior_weight(observed: TrimmedMean, prior: Prior) -> float:
    """How far the prior may speak for a case as noisy as this one: 1 for nearly all, towards 0 for an outlier.

    Under the model v / s0^2 follows F(df, d0), and of m cases the two noisiest have tail probabilities of about 1/m
    and 2/m.  One that is rarer than 2/m by a factor f keeps the share 1/f of d0: the idea of Phipson et al. (2016,
    Ann. Appl. Stat. 10, 946-963) for hypervariable genes, without their ranks.
    """
    if prior.degrees_of_freedom == 0:
        return 0.0
    ratio = observed.variance / prior.variance
    tail = float(special.fdtrc(observed.degrees_of_freedom, prior.degrees_of_freedom, ratio))
    return min(1.0, prior.cases * tail / 2)


def discounted(prior: Prior, prior_weight: float) -> Prior:
    """The prior for a case that earlier samples have shown to be as noisy as ``prior_weight`` says, if they have.

    The share that is left is a cap: ``shrink_variance`` doubts on its own where the new samples are noisier still.
    """
    return replace(prior, degrees_of_freedom=prior_weight * prior.degrees_of_freedom)


def trigamma_inverse(value: float) -> float:
    """The x > 0 with trigamma(x) = ``value``, by Newton's method on 1 / trigamma.

    That function is convex and nearly linear, so that starting at 1/2 + 1/value no step overshoots (Smyth 2004,
    appendix).

    Raises:
        ValueError: ``value`` is not a positive finite number.
    """
    if not (value > 0 and math.isfinite(value)):
        raise ValueError(f"trigamma takes every positive value and no other, not {value}")
    if value > 1e7:  # trigamma(x) is 1/x^2 near 0 ...
        return 1 / math.sqrt(value)
    if value < 1e-6:  # ... and 1/x far out: both to a relative 1e-3 or better
        return 1 / value
    x = 0.5 + 1 / value
    for _ in range(50):
        trigamma = float(special.polygamma(1, x))
        step = trigamma * (1 - trigamma / value) / float(special.polygamma(2, x))
        x += step
        if abs(step) < 1e-10 * x:
            break
    return x
