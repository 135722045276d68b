"""Deliberately naive versions of every statistic: plain loops, by the definition, slow and easy to believe."""

import math
from collections.abc import Sequence
from itertools import combinations, pairwise


def naive_trimmed_mean(values: Sequence[float]) -> float:
    """Sort, drop a fifth (rounded down) at each end, average the rest."""
    ordered = sorted(values)
    g = len(ordered) // 5
    kept = []
    for i, value in enumerate(ordered):
        if g <= i < len(ordered) - g:
            kept.append(value)
    return sum(kept) / len(kept)


def winsorised_sum_of_squares(values: Sequence[float]) -> float:
    """Sort, replace a fifth at each end by the nearest value that stays, sum the squares about the mean."""
    ordered = sorted(values)
    n = len(ordered)
    g = n // 5
    replaced = []
    for i in range(n):
        if i < g:
            replaced.append(ordered[g])
        elif i >= n - g:
            replaced.append(ordered[n - g - 1])
        else:
            replaced.append(ordered[i])
    mean = sum(replaced) / n
    total = 0.0
    for value in replaced:
        total += (value - mean) ** 2
    return total


def larger_pairs(lower: Sequence[float], upper: Sequence[float]) -> float:
    """Mann and Whitney's U: pairs in which the upper value is the larger, ties by half."""
    u = 0.0
    for low in lower:
        for high in upper:
            if high > low:
                u += 1
            elif high == low:
                u += 0.5
    return u


def mann_whitney_by_enumeration(lower: Sequence[float], upper: Sequence[float]) -> float:
    """The share of all ways to deal the pooled values out whose U is at least the observed one."""
    pooled = [*lower, *upper]
    observed = larger_pairs(lower, upper)
    ways = at_least = 0
    for chosen in combinations(range(len(pooled)), len(upper)):
        dealt_upper = [pooled[i] for i in chosen]
        dealt_lower = [pooled[i] for i in range(len(pooled)) if i not in chosen]
        ways += 1
        if larger_pairs(dealt_lower, dealt_upper) >= observed:
            at_least += 1
    return at_least / ways


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


def naive_screening_shares(looks: Sequence[int], share: float) -> dict[int, float]:
    """What each screening look spends of a case's error: 40 % of the share at the first, the rest by sample counts."""
    if len(looks) == 1:
        return {looks[0]: share}
    shares = {looks[0]: 0.4 * share}
    later = 0
    for n in looks[1:]:
        later += n
    for n in looks[1:]:
        shares[n] = 0.6 * share * n / later
    return shares


def naive_two_sided_p(looks: Sequence[tuple[float, float, float]]) -> float:
    """Over looks of (p above, p below, share): twice the smaller side's smallest p / share, at most 1."""
    smallest = 1.0
    for above, below, share in looks:
        if share > 0:
            for p in (above, below):
                if 2 * p / share < smallest:
                    smallest = 2 * p / share
    return smallest


def naive_shift_interval(lower: Sequence[float], upper: Sequence[float], tail: float) -> tuple[float, float]:
    """The log ratios that Mann and Whitney's test, by enumeration, leaves standing: from one pair's to another's."""
    ratios = sorted(math.log(high) - math.log(low) for high in upper for low in lower)
    kept = []
    edges = [ratios[0] - 1, *ratios, ratios[-1] + 1]
    for left, right in pairwise(edges):
        shift = math.exp((left + right) / 2)
        raised = [low * shift for low in lower]
        if mann_whitney_by_enumeration(raised, upper) > tail and mann_whitney_by_enumeration(upper, raised) > tail:
            kept.append((left, right))
    low, high = kept[0][0], kept[-1][1]
    return (-math.inf if low == edges[0] else low), (math.inf if high == edges[-1] else high)
