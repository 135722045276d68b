"""Deliberately naive versions of every statistic: plain loops, by the definition, slow and easy to believe."""

import math
from collections.abc import Sequence


def naive_trimmed_mean(values: Sequence[float], variances: Sequence[float] | None = None) -> float:
    """Sort, drop an eighth (rounded down) at each end, average the rest, each weighted by 1 / its variance."""
    pairs = sorted(zip(values, variances or [1.0] * len(values), strict=True), key=lambda pair: pair[0])
    g = len(pairs) // 8
    total = weights = 0.0
    for i, (value, variance) in enumerate(pairs):
        if g <= i < len(pairs) - g:
            total += value / variance
            weights += 1 / variance
    return total / weights


def naive_squared_error(values: Sequence[float], variances: Sequence[float] | None = None) -> float:
    """Sort, replace an eighth at each end by the nearest value that stays; the weighted squares about the weighted
    mean, over the degrees of freedom and the weight of what stayed."""
    pairs = sorted(zip(values, variances or [1.0] * len(values), strict=True), key=lambda pair: pair[0])
    n = len(pairs)
    g = n // 8
    replaced = []
    for i in range(n):
        if i < g:
            replaced.append(pairs[g][0])
        elif i >= n - g:
            replaced.append(pairs[n - g - 1][0])
        else:
            replaced.append(pairs[i][0])
    weights = [1 / variance for _, variance in pairs]
    mean = sum(w * value for w, value in zip(weights, replaced, strict=True)) / sum(weights)
    squares = sum(w * (value - mean) ** 2 for w, value in zip(weights, replaced, strict=True))
    return squares / (n - 2 * g - 1) / sum(weights[g : n - g])


def naive_predicted_variances(
    samples: Sequence[tuple[int, Sequence[tuple[float, float]]]], pair_variance: float
) -> list[float]:
    """Of samples (blocks, fork ratios with standard errors): what pairs add, forks add, and blocks add, one by one."""
    excess = freedom = 0.0
    for _, forks in samples:
        if len(forks) > 1:
            mean = sum(ratio for ratio, _ in forks) / len(forks)
            between = sum((ratio - mean) ** 2 for ratio, _ in forks) / (len(forks) - 1)
            within = sum(error**2 for _, error in forks) / len(forks)
            excess += (len(forks) - 1) * (between - within)
            freedom += len(forks) - 1
    of_fork = max(0.0, excess / (freedom + 5))
    of_sample = [sum(error**2 for _, error in forks) / len(forks) ** 2 for _, forks in samples]
    usual = sum(blocks * blocks * own for (blocks, _), own in zip(samples, of_sample, strict=True))
    usual /= sum(blocks for blocks, _ in samples)
    predicted = []
    for (blocks, forks), own in zip(samples, of_sample, strict=True):
        of_block = (blocks * blocks * own + 20 * usual) / (blocks + 20)
        predicted.append(pair_variance + of_fork / len(forks) + of_block / blocks)
    return predicted


def rejected_by_benjamini_hochberg(p_values: Sequence[float], alpha: float) -> set[int]:
    """The largest k with p_(k) <= k alpha / m, and then the k smallest p values."""
    m = len(p_values)
    order = sorted(range(m), key=lambda i: p_values[i])
    k = 0
    for rank in range(1, m + 1):
        if p_values[order[rank - 1]] <= rank * alpha / m:
            k = rank
    return set(order[:k])


def trigamma(x: float) -> float:
    """The series sum 1 / (x + k)^2: twenty thousand terms, and the integral for the rest."""
    total = 0.0
    terms = 20000
    for k in range(terms):
        total += 1 / (x + k) ** 2
    edge = x + terms
    return total + 1 / edge + 1 / (2 * edge**2)


def trigamma_inverse_by_bisection(value: float) -> float:
    """Halve an interval around the solution, in logarithms; trigamma falls throughout."""
    low, high = math.log(1e-4), math.log(1e7)
    for _ in range(60):
        middle = (low + high) / 2
        if trigamma(math.exp(middle)) > value:
            low = middle
        else:
            high = middle
    return math.exp((low + high) / 2)


def naive_two_sided_p(looks: Sequence[tuple[float, float, float]]) -> float:
    """Over looks of (p above, p below, share): twice the smaller side's smallest p / share, at most 1."""
    smallest = 1.0
    for above, below, share in looks:
        if share > 0:
            for p in (above, below):
                if 2 * p / share < smallest:
                    smallest = 2 * p / share
    return smallest
