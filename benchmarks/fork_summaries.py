"""Ways to boil the blocks of a fork down to one log ratio, for noise.py --summaries.

Each takes the logarithms of both sides' blocks in the order of measuring: two neighbours have the same place.
"""

import bisect
import itertools
import math
import statistics
from collections.abc import Callable, Iterable, Mapping, Sequence

from opduel.harness.fork_values import compare_neighbours

Summary = Callable[[Sequence[float], Sequence[float]], float]
Pairs = list[tuple[float, float]]  # of neighbours: their common slowness, the sum of their logarithms; the difference

MOST_GROUPS, GROUP_PAIRS = 4, 6
NEAR, LEAST_COUNTED, MOST_COUNTED = 0.05, 1 / 6, 2 / 3
FITS = 3  # of the noise by slowness: each is weighted by the one before
FARTHEST = 3.0  # standard deviations that a difference counts as, at most


def pairs_of(control: Sequence[float], treatment: Sequence[float]) -> Pairs:
    """Return slowness and difference of all neighbours, the fastest first."""
    return sorted((before + after, after - before) for before, after in zip(control, treatment, strict=True))


def trimmed_mean(values: Sequence[float]) -> tuple[float, float]:
    """Return the mean of the values without a third at either end, and its squared standard error, from the winsorised
    sum of squares (Tukey and McLaughlin 1963)."""
    ordered, dropped = sorted(values), len(values) // 3
    middle = ordered[dropped : len(ordered) - dropped]
    winsorised = [middle[0]] * dropped + middle + [middle[-1]] * dropped
    squares = statistics.pvariance(winsorised) * len(ordered)
    return statistics.fmean(middle), max(1e-12, squares / (len(middle) * max(1, len(middle) - 1)))


def of_fastest(share: float) -> Summary:
    """Return the summary that counts this share of all neighbours, the fastest."""
    return lambda control, treatment: _of_first(pairs_of(control, treatment), share * len(control))


def near_the_fastest(control: Sequence[float], treatment: Sequence[float]) -> float:
    """Count the neighbours that are about as fast as the fastest sixth, up to two thirds."""
    pairs = pairs_of(control, treatment)
    fewest = max(1, math.ceil(LEAST_COUNTED * len(pairs)))
    limit = statistics.fmean(slowness for slowness, _ in pairs[:fewest]) + 2 * math.log1p(NEAR)
    near = bisect.bisect_right([slowness for slowness, _ in pairs], limit)
    return _of_first(pairs, max(fewest, min(MOST_COUNTED * len(pairs), near)))


def _of_first(pairs: Pairs, count: float) -> float:
    return trimmed_mean([difference for _, difference in pairs[: 2 * max(1, round(count / 2))]])[0]


def terciles(control: Sequence[float], treatment: Sequence[float]) -> float:
    """Weight up to four groups by slowness, each of as many neighbours, by the inverse of their variances, in their
    logarithms half-way between a group's own and that of all groups."""
    pairs = pairs_of(control, treatment)
    groups = max(1, min(MOST_GROUPS, len(pairs) // GROUP_PAIRS))
    bounds = [round(number * len(pairs) / groups) for number in range(groups + 1)]
    located = [
        trimmed_mean([difference for _, difference in pairs[low:high]]) for low, high in itertools.pairwise(bounds)
    ]
    pooled = statistics.geometric_mean(variance for _, variance in located)
    return _weighted((mean, math.sqrt(variance * pooled)) for mean, variance in located)


def slowness_as_covariate(control: Sequence[float], treatment: Sequence[float]) -> float:
    """Weight all neighbours by 1 / (a + b x^2), x how much slower they were than the fastest: a and b fitted in the
    fork, to the squares of the differences from their median."""
    pairs = pairs_of(control, treatment)
    differences = [difference for _, difference in pairs]
    squared = [(slowness - pairs[0][0]) ** 2 for slowness, _ in pairs]
    middle = statistics.median(differences)
    spread = 1.4826 * statistics.median(abs(difference - middle) for difference in differences) or 1e-6
    variances = [spread**2] * len(pairs)
    for _ in range(FITS):
        residuals = [
            min((difference - middle) ** 2, FARTHEST**2 * variance)
            for difference, variance in zip(differences, variances, strict=True)
        ]
        base, slope = _line(squared, residuals, [1 / variance**2 for variance in variances])
        variances = [max(1e-12, base + slope * x) for x in squared]
    held = (
        (
            middle + max(-FARTHEST, min(FARTHEST, (difference - middle) / math.sqrt(variance))) * math.sqrt(variance),
            variance,
        )
        for difference, variance in zip(differences, variances, strict=True)
    )
    return _weighted(held)


def _line(x: Sequence[float], y: Sequence[float], weights: Sequence[float]) -> tuple[float, float]:
    """Return base and slope, neither below 0, of the weighted least squares."""
    total = sum(weights)
    x_mean = sum(w * one for w, one in zip(weights, x, strict=True)) / total
    y_mean = sum(w * one for w, one in zip(weights, y, strict=True)) / total
    xx = sum(w * (one - x_mean) ** 2 for w, one in zip(weights, x, strict=True))
    xy = sum(w * (one - x_mean) * (other - y_mean) for w, one, other in zip(weights, x, y, strict=True))
    slope = max(0.0, min(xy / xx, y_mean / x_mean)) if xx > 0 and x_mean > 0 else 0.0
    return y_mean - slope * x_mean, slope


def _weighted(located: Iterable[tuple[float, float]]) -> float:
    """Return the mean of values, each with its variance."""
    rows = [(value / variance, 1 / variance) for value, variance in located]
    return sum(value for value, _ in rows) / sum(weight for _, weight in rows)


def median_quad(control: Sequence[float], treatment: Sequence[float]) -> float:
    """Return the median of the differences of quads."""
    quads = [slice(at, at + 2) for at in range(0, len(control), 2)]
    return statistics.median(statistics.fmean(treatment[quad]) - statistics.fmean(control[quad]) for quad in quads)


def between(side: Callable[[Sequence[float]], float]) -> Summary:
    """Return the summary that compares what each side's blocks come to by themselves."""
    return lambda control, treatment: side(treatment) - side(control)


def mean_of_fastest(share: float) -> Callable[[Sequence[float]], float]:
    """Return the mean of a side's fastest blocks."""
    return lambda values: statistics.fmean(sorted(values)[: max(1, round(share * len(values)))])


SUMMARIES: Mapping[str, Summary] = {
    "in use": lambda control, treatment: compare_neighbours(control, treatment)[0],
    "neighbours": of_fastest(1),
    "fastest two thirds of them": of_fastest(2 / 3),
    "fastest sixth of them": of_fastest(1 / 6),
    "those near the fastest": near_the_fastest,
    "terciles": terciles,
    "slowness as covariate": slowness_as_covariate,
    "median quad": median_quad,
    "median": between(statistics.median),
    "mean of the fastest half": between(mean_of_fastest(0.5)),
    "mean of the fastest third": between(mean_of_fastest(1 / 3)),
    "mean of the fastest sixth": between(mean_of_fastest(1 / 6)),
    "mean": between(statistics.fmean),
    "fastest": between(min),
}
