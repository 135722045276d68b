"""How noisy a host was in a run, whether it has become noisier, and whether it is noisier than others of its kind.

The noise of a case is the spread of its process pairs' log ratios. Cases differ far more than hosts do, so each case is
compared with its own earlier runs: the noise of a host is the mean over cases of (log spread - the case's reference),
and 0 is usual. docs/explanation/hosts.md has the reasons, and the rates of false marks.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
import numpy.typing as npt
from scipy import special

from opduel.comparator.aa_checks import AA_ALPHA
from opduel.comparator.trimmed_mean import estimate_trimmed_mean

Array = npt.NDArray[np.float64]

FEWEST_PAIRS = 3  # of a case: the log variance of two says next to nothing
FEWEST_CASES = 8  # of a run: as many as the smallest shard has
FARTHEST = 2.0  # a factor of 7: one case in 400 with six pairs is farther off by chance
REFERENCE_RUNS = 20  # earlier runs in a case's reference
WINDOW = 100  # latest runs of a host that are examined
RECENT = 5  # latest runs that give a host's present noise

# The probability with which each test marks a steady host, at most: 1 % together.
RISE_LEVEL = 0.006
OTHERS_LEVEL = 0.003
AA_LEVEL = 0.001
_DRAWS = 9999
_LARGEST_LOG_RATIO = 50.0  # of one pair; more is no measurement


def log_spread(*groups: Sequence[float]) -> float | None:
    """Return the log of the standard deviation of a case's log ratios, in ``groups`` such as its samples and its A/A
    check's; None if no group has ``FEWEST_PAIRS`` pairs.

    The variance of each group is the winsorised one that verdicts use, pooled by degrees of freedom. The logarithm's
    bias, (psi(df/2) - log(df/2)) / 2, is subtracted (Smyth 2004, Stat. Appl. Genet. Mol. Biol. 3(1), 3, section 6.2).
    """
    total = freedom = 0.0
    for group in groups:
        if len(group) < FEWEST_PAIRS or not all(abs(value) <= _LARGEST_LOG_RATIO for value in group):
            continue
        trimmed_mean = estimate_trimmed_mean(group)
        total += trimmed_mean.degrees_of_freedom * trimmed_mean.variance
        freedom += trimmed_mean.degrees_of_freedom
    if not freedom:
        return None
    half = freedom / 2
    return 0.5 * (math.log(total / freedom) - float(special.digamma(half)) + math.log(half))


def run_noise(spreads: Mapping[int, float], references: Mapping[int, float]) -> float | None:
    """Return the noise of a host in a run: the mean over cases of log spread less reference, both by the case's number,
    each limited to ``FARTHEST`` from the median; None if fewer than ``FEWEST_CASES`` cases have both numbers.

    The median itself would not do: logarithms of variances are skewed, so that a steady host would seem to become
    noisier.
    """
    excesses = np.array([spread - references[case] for case, spread in spreads.items() if case in references])
    if len(excesses) < FEWEST_CASES:
        return None
    middle = float(np.median(excesses))
    return float(np.mean(np.clip(excesses, middle - FARTHEST, middle + FARTHEST)))


@dataclass(frozen=True)
class Rise:
    """A host has been noisier since ``start``, an index of its runs. ``log_factor`` is the difference of the medians;
    ``p_value`` allows for the search over all starts."""

    start: int
    log_factor: float
    p_value: float


def latest_rise(noise: Sequence[float], level: float = RISE_LEVEL) -> Rise | None:
    """Return the rise of ``noise`` (one value per run, the oldest first) that lasts until the last run; None without
    one.

    The statistic is the largest standardised rank sum of the runs from a place on, over all places (Hawkins and Deng
    2010, J. Qual. Technol. 42, 165-173), its null distribution that of permutations: among exchangeable runs a rise is
    found with probability ``level`` at most.  If the same test finds a later fall, the search starts again after it.
    """
    offset, values = 0, np.asarray(noise, dtype=np.float64)
    while True:
        rise, p_value = _split(values)
        if p_value > level:
            return None
        fall, fall_p = _split(-values[rise:])
        if fall_p > level:
            before, after = values[:rise], values[rise:]
            return Rise(offset + rise, float(np.median(after) - np.median(before)), p_value)
        offset, values = offset + rise + fall, values[rise + fall :]


def above_others_p(value: float, levels_of_others: Sequence[float]) -> float:
    """Return the one-sided p value of "a host with the noise ``value`` is like the others", whose levels are taken as
    normal: t = (value - mean) / (s sqrt(1 + 1/k)) with k - 1 degrees of freedom (Thompson 1935, Ann. Math. Stat. 6,
    214-219).  1 with fewer than two others, or if these are equal."""
    k = len(levels_of_others)
    scatter = float(np.std(levels_of_others, ddof=1)) if k > 1 else 0.0
    if scatter == 0:
        return 1.0
    t = (value - float(np.mean(levels_of_others))) / (scatter * math.sqrt(1 + 1 / k))
    return float(special.stdtr(k - 1, -t))


def aa_failures_p(failed: int, parts: int) -> float:
    """Return the probability that on a good host ``failed`` or more of ``parts`` measurements have a flagged A/A check:
    each has one with probability ``AA_ALPHA`` at most."""
    return float(special.bdtrc(failed - 1, parts, AA_ALPHA)) if 0 < failed <= parts else 1.0 if failed <= 0 else 0.0


def level_of(noise: Sequence[float]) -> float | None:
    """Return how noisy a host is now: the median of its ``RECENT`` last runs; None without runs."""
    return float(np.median(noise[-RECENT:])) if len(noise) else None


def _split(values: Array) -> tuple[int, float]:
    """Return the place with the largest rank sum of the values from it on, and its p value over all places."""
    count = len(values)
    if count < 2:
        return 0, 1.0
    _, places, sizes = np.unique(values, return_inverse=True, return_counts=True)
    ranks = (np.cumsum(sizes) - (sizes - 1) / 2)[places]  # ties share their mean rank
    z = _standardised(ranks)
    at = int(np.argmax(z))
    null = _largest_of_permutations(count)
    exceeding = len(null) - int(np.searchsorted(null, float(z[at]) - 1e-9))
    return at + 1, (1 + exceeding) / (1 + len(null))


def _standardised(ranks: Array) -> Array:
    """Return the standardised rank sum of the last n - k values, for k = 1 .. n - 1 (last axis)."""
    n = ranks.shape[-1]
    k = np.arange(1, n)
    above = (n + 1) / 2 * k - np.cumsum(ranks, axis=-1)[..., :-1]  # by so much the first k are too small
    rank_sums: Array = above / np.sqrt(k * (n - k) * (n + 1) / 12)
    return rank_sums


@lru_cache(maxsize=2 * WINDOW)
def _largest_of_permutations(count: int) -> Array:
    """Return the largest standardised rank sum of each of ``_DRAWS`` random permutations, sorted; from a fixed seed."""
    rng = np.random.default_rng(count)
    ranks = np.arange(1.0, count + 1)
    largest = np.empty(_DRAWS)
    for start in range(0, _DRAWS, 1000):  # a piece of 1,000 x 100 numbers at a time
        some = min(1000, _DRAWS - start)
        largest[start : start + some] = _standardised(rng.permuted(np.tile(ranks, (some, 1)), axis=1)).max(axis=1)
    largest.sort()
    return largest
