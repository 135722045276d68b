"""The chance that further rounds settle an open case, given the samples so far.

``conditional_power``: whether going on with a case is worth it.  ``project``: how many more rounds it needs.
"""

import math
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
from scipy import special

from opduel.comparator.looks import Looks
from opduel.comparator.significance import SHARE_OF_T
from opduel.comparator.trimmed_mean import TRIMMED_FROM_EACH_END, TrimmedMean
from opduel.records import Forecast, Stage

# Below this chance a case is given up: of those that would have been settled, at most that share is lost.
FUTILE_BELOW = 0.05
LIKELY = 0.8  # the chance at which a number of rounds is named
TRUTHS = 101  # true changes for which the chances are computed, each as likely as the next

Array = npt.NDArray[np.float64]


def conditional_power(trimmed_mean: TrimmedMean, last: int, bound: float, tail: float, fresh: bool) -> float:
    """The predictive probability that ``last`` samples settle a case, given what ``trimmed_mean.n`` of them say.

    Settled is a case whose interval at the last look (``tail`` on either side) then lies within ``bound``, or wholly
    beyond it; ``fresh`` says that the latter takes ``last`` further samples (a case at screening, which must become
    a suspect first).  The estimate at the last look is predicted by a t distribution about the present one, with a
    flat prior (predictive power: Spiegelhalter, Freedman and Blackburn 1986, Controlled Clinical Trials 7, 8-17).
    The case alone counts, at the full level ``tail``, not the level that the other cases of its run leave it:
    the chance is rather too high than too low.

    Stopping for want of a chance flags nothing and clears nothing, so that no error rate rises.
    """
    n, now = trimmed_mean.n, trimmed_mean.standard_error**2
    then = now * n / last
    kept = 1 - 2 / TRIMMED_FROM_EACH_END
    reach = -float(special.stdtrit(trimmed_mean.degrees_of_freedom + kept * (last - n), tail)) * math.sqrt(then)
    size = abs(trimmed_mean.estimate)
    room = bound - reach
    unchanged = 0.0
    if room > 0:
        spread = math.sqrt(max(now - then, 1e-300))
        unchanged = _below(trimmed_mean, (room - size) / spread) - _below(trimmed_mean, (-room - size) / spread)
    spread = math.sqrt(now + then if fresh else max(now - then, 1e-300))
    changed = (
        1
        - _below(trimmed_mean, (bound + reach - size) / spread)
        + _below(trimmed_mean, (-bound - reach - size) / spread)
    )
    return min(1.0, unchanged + changed)


def _below(trimmed_mean: TrimmedMean, value: float) -> float:
    return float(special.stdtr(trimmed_mean.degrees_of_freedom, value))


@dataclass(frozen=True)
class CaseState:
    """Where an open case stands.

    ``trimmed_mean`` is what its samples say so far, those of the stage ``seen``.  ``stage`` is where the next sample
    belongs, and ``n`` counts that stage's: ``seen`` is "screening" for a suspect whose confirmation has not come to its
    first look.
    """

    trimmed_mean: TrimmedMean
    seen: Stage
    stage: Stage
    n: int


@dataclass(frozen=True)
class Terms:
    """What settles a case: its bound (a log ratio, >= 0), its looks, and the levels of its run.

    ``flagged_at`` is the share of ``alpha`` at which the case would be flagged: (1 + the cases that the run flags) /
    (all its cases).
    """

    bound: float
    looks: Looks
    alpha: float
    flagged_at: float


def project(state: CaseState, terms: Terms) -> Forecast:
    """The fewest rounds that are likely to settle a case, as ``regressed``, ``improved`` or ``unchanged``.

    The true change is taken to be distributed as the samples so far say (a t distribution about their estimate, with a
    flat prior: predictive power, Spiegelhalter, Freedman and Blackburn 1986), and samples to come to be as noisy as
    these.  Of several looks only the most promising counts, so that the chance is rather too low.
    """
    seen, shares = state.trimmed_mean, (np.arange(TRUTHS) + 0.5) / TRUTHS
    truths = seen.estimate + seen.standard_error * special.stdtrit(seen.degrees_of_freedom, shares)
    ways = _confirmation(state, terms, truths) if state.stage == "confirmation" else _screening(state, terms, truths)
    best, chance = np.zeros(TRUTHS), 0.0
    for rounds, settled in sorted(ways, key=lambda way: way[0]):
        best = np.maximum(best, settled)
        chance = float(np.mean(best))
        if chance >= LIKELY:
            return Forecast(chance, rounds)
    return Forecast(chance, None)


@dataclass(frozen=True)
class ExpectedRounds:
    """After how many rounds a case that has not changed ends its screening; ``settles``: as unchanged."""

    rounds: int
    settles: bool


def expected_rounds(variance: float, freedom: float, bound: float, looks: Looks, alpha: float) -> ExpectedRounds:
    """The first look that is likely to clear a case which has not changed, or that would give it up; else the last.

    ``variance`` is that of one sample's log ratio, known from elsewhere, and ``freedom`` the degrees of freedom that
    other cases will lend to its estimate.  Nothing is known of this run's samples, and nothing here is for a test.
    """
    kept, last = 1 - 2 / TRIMMED_FROM_EACH_END, looks.screening[-1]
    for n in looks.screening:
        error = math.sqrt(variance / n)
        now = TrimmedMean(0.0, error, freedom + max(1.0, kept * n - 1), n)
        clear = bound - _quantile(now.degrees_of_freedom, looks.level("screening", n, alpha / 2)) * error
        if clear > 0 and float(_within(np.zeros(1), error, clear)[0]) >= LIKELY:
            return ExpectedRounds(n, True)
        tail = looks.level("screening", last, alpha / 2)
        if n < last and conditional_power(now, last, bound, tail, fresh=True) < FUTILE_BELOW:
            return ExpectedRounds(n, False)
    return ExpectedRounds(last, False)


def _confirmation(state: CaseState, terms: Terms, truths: Array) -> list[tuple[int, Array]]:
    """(further rounds, for each true change the chance that the look after them settles the case)."""
    goes_on = state.seen == "confirmation"
    return [
        (n - state.n, _settled(state.trimmed_mean, "confirmation", n, terms, truths, goes_on))
        for n in terms.looks.confirmation
        if n > state.n
    ]


def _screening(state: CaseState, terms: Terms, truths: Array) -> list[tuple[int, Array]]:
    """Likewise for a case that is being screened: settled there, or suspected and then settled on fresh samples."""
    fresh = [
        (n, _settled(state.trimmed_mean, "confirmation", n, terms, truths, False)) for n in terms.looks.confirmation
    ]
    ways = []
    for n in terms.looks.screening:
        if n > state.n:
            ways.append((n - state.n, _settled(state.trimmed_mean, "screening", n, terms, truths, True)))
            suspected = _suspected(state.trimmed_mean, n, terms, truths)
            ways += [(n - state.n + more, suspected * settled) for more, settled in fresh]
    return ways


def _settled(trimmed_mean: TrimmedMean, stage: Stage, n: int, terms: Terms, truths: Array, goes_on: bool) -> Array:
    """For each true change the chance that the look at ``n`` samples clears or flags the case.

    ``goes_on``: these samples include those seen; else all of them are fresh.
    """
    estimate, spread, error, freedom = _then(trimmed_mean, n, truths, goes_on)
    looks, alpha = terms.looks, terms.alpha
    clear = terms.bound - _quantile(freedom, looks.level(stage, n, alpha / 2)) * error
    tail = SHARE_OF_T * alpha * looks.tested(stage, n) * terms.flagged_at / 2
    flag = terms.bound + _quantile(freedom, tail) * error if tail > 0 else math.inf
    cleared = _within(estimate, spread, clear) if clear > 0 else 0.0
    return cleared + 1 - _within(estimate, spread, flag)


def _suspected(trimmed_mean: TrimmedMean, n: int, terms: Terms, truths: Array) -> Array:
    """For each true change the chance that the look at ``n`` screening samples makes the case a suspect."""
    estimate, spread, error, freedom = _then(trimmed_mean, n, truths, True)
    return 1 - _within(estimate, spread, _quantile(freedom, SHARE_OF_T * terms.looks.suspect_level / 2) * error)


def _then(trimmed_mean: TrimmedMean, n: int, truths: Array, goes_on: bool) -> tuple[Array, float, float, float]:
    """The estimate at ``n`` samples: its mean for each true change, and its standard deviation about that; its
    standard error and degrees of freedom."""
    seen = trimmed_mean.n if goes_on else 0
    mean = (seen * trimmed_mean.estimate + (n - seen) * truths) / n
    kept = 1 - 2 / TRIMMED_FROM_EACH_END
    freedom = trimmed_mean.degrees_of_freedom + kept * max(0, n - trimmed_mean.n)
    deviation = math.sqrt(trimmed_mean.variance)
    return mean, deviation * math.sqrt(n - seen) / n, deviation / math.sqrt(n), freedom


def _within(estimate: Array, spread: float, limit: float) -> Array:
    """The chance that a value, normal about ``estimate``, lies in [-limit, limit]."""
    spread = max(spread, 1e-300)
    inside: Array = special.ndtr((limit - estimate) / spread) - special.ndtr((-limit - estimate) / spread)
    return inside


def _quantile(freedom: float, tail: float) -> float:
    return -float(special.stdtrit(freedom, tail))
