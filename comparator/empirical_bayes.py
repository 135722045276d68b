"""Variances estimated across cases: the empirical-Bayes moderated t of Smyth (2004), made robust.

The variance of a case is predicted from its own noise (``case_values``), plus what process pairs add to all cases
alike.  All cases together show how accurate such predictions are.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import lru_cache

import numpy as np
import numpy.typing as npt
from scipy import special
from scipy.optimize import brentq

from opduel.comparator.case_values import Values, predict_variances
from opduel.comparator.trimmed_mean import TrimmedMean, estimate_trimmed_mean

FEWEST_CASES = 3  # fewer say nothing about how variances differ from case to case
# Candidates for what pairs add: the typical variance of a case, so many halvings of it, and 0.
STEPS = 8
SMALLEST = 1e-9  # where trigamma is larger than the variance of any logarithms
STRAY_WEIGHT = 0.03  # a case with a smaller prior weight takes no part in fitting the prior


@dataclass(frozen=True)
class Prior:
    """The distribution of the cases' residual scales: a scaled inverse chi-squared distribution.

    ``degrees_of_freedom`` is Smyth's d0 (0: no prior), ``scale`` his s0^2: how many times as large as predicted
    variances are.  ``pair_variance`` is the part of each prediction that is the same for all samples of the run; the
    default of 1 is so far above any noise that all samples count alike.  ``pooled`` is the sum of the degrees of
    freedom of the cases that the prior was fitted to, ``cases`` the number of cases of the run.
    """

    degrees_of_freedom: float = 0.0
    scale: float = 1.0
    pooled: float = 0.0
    cases: int = 0
    pair_variance: float = 1.0


NO_PRIOR = Prior()


def weighted_trimmed_mean(values: Values, pair_variance: float) -> TrimmedMean:
    """Return the trimmed mean of a case, each sample weighted by its predicted variance."""
    return estimate_trimmed_mean(values.effects, predict_variances(values.noises, pair_variance))


@lru_cache(maxsize=64)
def fit_prior_of_cases(cases: tuple[Values, ...]) -> Prior:
    """Fit the prior together with the variance that pairs add, by the likelihood of the cases' log ratios.

    As in limma's trend (Law et al. 2014, Genome Biology 15, R29) the prior's location depends on a covariate; here it
    is the case's own noise.  The likelihood leaves out cases that are strays whatever the variance that pairs add.
    """
    if len(cases) < FEWEST_CASES:
        return NO_PRIOR
    typical = float(np.median([estimate_trimmed_mean(values.effects).variance for values in cases]))
    candidates = [typical]
    if any(noise.within or noise.between for values in cases for noise in values.noises):
        candidates += [*(typical / 2**step for step in range(1, STEPS + 1)), 0.0]
    located = [[weighted_trimmed_mean(values, candidate) for values in cases] for candidate in candidates]
    fits = [(fit_prior(row), row, candidate) for row, candidate in zip(located, candidates, strict=True)]
    priors = [(replace(prior, pair_variance=candidate), row) for prior, row, candidate in fits if prior != NO_PRIOR]
    usual = [
        values
        for number, values in enumerate(cases)
        if any(prior_weight(row[number], prior) >= STRAY_WEIGHT for prior, row in priors)
    ]
    return max((prior for prior, _ in priors), key=lambda prior: _log_likelihood(usual, prior), default=NO_PRIOR)


def _log_likelihood(cases: Sequence[Values], prior: Prior) -> float:
    """Return the logarithm of the cases' restricted likelihood (Patterson and Thompson 1971, Biometrika 58, 545-554),
    with the scale of each integrated over the prior."""
    half, total = prior.degrees_of_freedom / 2, 0.0
    for values in cases:
        predicted = predict_variances(values.noises, prior.pair_variance)
        observed = estimate_trimmed_mean(values.effects, predicted)
        own = observed.degrees_of_freedom / 2
        total -= (float(np.log(predicted).sum()) + math.log(float((1 / predicted).sum()))) / 2
        total += float(special.gammaln(half + own) - special.gammaln(half)) + half * math.log(half * prior.scale)
        total -= (half + own) * math.log(half * prior.scale + own * observed.scale)
    return total


def fit_prior(observed: Sequence[TrimmedMean]) -> Prior:
    """Fit the prior to the cases' residual scales by the moments of their logarithms.

    A scale v on df degrees of freedom has, under the model, log v with mean log s0^2 + psi(df/2) - log(df/2) -
    psi(d0/2) + log(d0/2) and variance psi'(df/2) + psi'(d0/2) (psi: digamma, psi': trigamma).  Equating both with the
    sample moments gives s0^2 and d0 (Smyth 2004, Stat. Appl. Genet. Mol. Biol. 3(1), 3, section 6.2).  d0 is limited to
    the degrees of freedom of all cases together, because a prior knows no more than its data.  Fewer than
    ``FEWEST_CASES`` cases give ``NO_PRIOR``.

    A few cases far noisier than the others would make d0 useless.  So the fit leaves out cases with a ``prior_weight``
    below ``STRAY_WEIGHT``: at first by a prior fitted to the quieter half about the median, then by each fit in turn.
    """
    included = list(observed)
    if len(included) < FEWEST_CASES:
        return NO_PRIOR
    logs = _unbiased_logs(included)
    middle = float(np.median(logs))
    prior = _of_moments(middle, float(np.mean((logs[logs <= middle] - middle) ** 2)), included, len(observed))
    while True:
        usual = [case for case in included if prior_weight(case, prior) >= STRAY_WEIGHT]
        if len(usual) < FEWEST_CASES:
            return NO_PRIOR
        logs = _unbiased_logs(usual)
        refitted = _of_moments(float(np.mean(logs)), float(np.var(logs, ddof=1)), usual, len(observed))
        if refitted == prior:
            return prior
        included, prior = usual, refitted


def _unbiased_logs(observed: Sequence[TrimmedMean]) -> npt.NDArray[np.float64]:
    half = np.array([case.degrees_of_freedom for case in observed]) / 2
    logs: npt.NDArray[np.float64] = np.log([case.scale for case in observed]) - special.digamma(half) + np.log(half)
    return logs


def _of_moments(mean: float, variance: float, observed: Sequence[TrimmedMean], cases: int) -> Prior:
    half = np.array([case.degrees_of_freedom for case in observed]) / 2
    excess = variance - float(np.mean(special.polygamma(1, half)))
    pooled = float(2 * half.sum())
    half_prior = trigamma_inverse(excess, pooled / 2)
    scale = math.exp(mean + float(special.digamma(half_prior)) - math.log(half_prior))
    return Prior(2 * half_prior, scale, pooled, cases)


def trigamma_inverse(value: float, most: float) -> float:
    """Return the x > 0 with trigamma(x) = ``value``, or ``most`` if that is less; ``most`` for a value below 0."""

    def excess(x: float) -> float:
        return float(special.polygamma(1, x)) - value

    return most if excess(most) >= 0 else float(brentq(excess, SMALLEST, most))


def shrink_variance(observed: TrimmedMean, prior: Prior) -> TrimmedMean:
    """Return ``observed`` with the posterior scale (d0 s0^2 + df v) / (d0 + df) and d0 + df degrees of freedom.

    As in limma, the degrees of freedom never exceed those of all fitted cases together.  A case whose own scale
    contradicts the prior is hardly shrunk: d0 is multiplied by ``prior_weight`` first.
    """
    own = observed.degrees_of_freedom
    weight = prior_weight(observed, prior) * prior.degrees_of_freedom
    if weight == 0:
        return observed
    scale = (weight * prior.scale + own * observed.scale) / (weight + own)
    return replace(
        observed,
        standard_error=math.sqrt(scale * observed.predicted / observed.n),
        degrees_of_freedom=min(weight + own, max(prior.pooled, own)),
    )


def prior_weight(observed: TrimmedMean, prior: Prior) -> float:
    """Return how far the prior applies to a case as noisy as this one: 1 for nearly all, towards 0 for an outlier.

    Under the model v / s0^2 follows F(df, d0), and of m cases the two noisiest have tail probabilities of about 1/m and
    2/m.  One that is rarer than 2/m by a factor f keeps the share 1/f of d0 (as Phipson et al. 2016, Ann. Appl. Stat.
    10, 946-963, for hypervariable genes, without their ranks).
    """
    if prior.degrees_of_freedom == 0:
        return 0.0
    ratio = observed.scale / prior.scale
    tail = float(special.fdtrc(observed.degrees_of_freedom, prior.degrees_of_freedom, ratio))
    return min(1.0, prior.cases * tail / 2)


def discount_prior(prior: Prior, prior_weight: float) -> Prior:
    """Return the prior for new samples of a case whose earlier samples had this ``prior_weight``."""
    return replace(prior, degrees_of_freedom=prior_weight * prior.degrees_of_freedom)
