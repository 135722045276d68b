"""Cases with two modes: process values in two groups, such as 331 us in some processes and 3.5 ms in others.

Modes explain why a case stays open; no verdict depends on them.
"""

import functools
from collections import Counter
from collections.abc import Mapping, Sequence

import numpy as np
import numpy.typing as npt

from opduel.records import PairSample, TwoModes
from opduel.records.measurement import SIDES, Side

LEAST = 3  # process pairs with a value in the smaller group: fewer are outliers
FEWEST = 8  # process pairs
LEVEL = 0.005  # of the test of one side of a case
LEAST_FACTOR = 1.02  # between the groups' medians: nearer modes don't matter
DRAWS = 20_000

Array = npt.NDArray[np.float64]
Values = Sequence[Sequence[float]]  # by process pair: one value, or one of each fork


def modes_of(samples: Sequence[PairSample]) -> dict[Side, TwoModes]:
    """Return the modes of each side whose process values have two, by the samples of the larger stage (the machine may
    have changed between the two).

    Each fork of a pair counts by itself: it is a process of its own, and the mean of forks would lie between the modes.
    """
    stages = Counter(sample.stage for sample in samples)
    rows = [
        sample.fork_values or ((sample.control, sample.treatment),)
        for sample in samples
        if sample.stage == stages.most_common(1)[0][0]
    ]
    values: dict[Side, Values] = {
        side: [[fork_values[place] for fork_values in row] for row in rows] for place, side in enumerate(SIDES)
    }
    return {side: modes for side in SIDES if (modes := two_modes(values[side])) is not None}


def two_modes(values: Values) -> TwoModes | None:
    """Return the two groups that positive values fall into, or None if one group is as likely.

    Engelman and Hartigan's test for clusters (1969, J. Am. Stat. Assoc. 64, 1647-1648): the statistic is the sum of
    squares within two groups as a share of the total, for the best division of the sorted logs. Critical values are
    those of the uniform distribution (Hartigan and Hartigan 1985, Ann. Stat. 13, 70-84), by a simulation with a fixed
    seed, of as many values as there are pairs, or fewer where some have more forks than others (Kish 1965, "Survey
    Sampling").
    """
    sizes = [len(row) for row in values]
    independent = sum(sizes) ** 2 // sum(size**2 for size in sizes) if sizes else 0
    ordered = sorted((value, pair) for pair, row in enumerate(values) for value in row)
    if independent < FEWEST or ordered[0][0] <= 0 or ordered[0][0] == ordered[-1][0]:
        return None
    logs = np.log([value for value, _ in ordered])
    shares, critical = within_shares(logs[np.newaxis, :])[0], critical_share(independent)
    if shares.min() >= critical:  # as nearly always: no pairs need counting
        return None
    below, above = _count_pairs(ordered), _count_pairs(ordered[::-1])[::-1]
    usable = [size for size in range(LEAST, len(logs) - LEAST + 1) if below[size - 1] >= LEAST and above[size] >= LEAST]
    best = min(usable, key=lambda size: shares[size - LEAST], default=0)
    if not best or shares[best - LEAST] >= critical:
        return None
    low, high = (float(np.median([value for value, _ in group])) for group in (ordered[:best], ordered[best:]))
    return TwoModes(low, high, best, len(logs) - best) if high >= LEAST_FACTOR * low else None


def _count_pairs(ordered: Sequence[tuple[float, int]]) -> list[int]:
    pairs: set[int] = set()
    counts = []
    for _, pair in ordered:
        pairs.add(pair)
        counts.append(len(pairs))
    return counts


def within_shares(ordered: Array) -> Array:
    """Return the sum of squares within both groups as a share of the total, for rows of sorted values (rows, n) and
    each division that leaves ``LEAST`` values or more on a side; shape (rows, n - 2 LEAST + 1)."""
    n = ordered.shape[1]
    centred = ordered - ordered.mean(axis=1, keepdims=True)
    sizes = np.arange(LEAST, n - LEAST + 1)
    sums = np.cumsum(centred, axis=1)[:, sizes - 1]
    total_squares = np.sum(centred**2, axis=1, keepdims=True)
    shares: Array = 1 - sums**2 * (1 / sizes + 1 / (n - sizes)) / total_squares
    return shares


@functools.lru_cache(maxsize=256)
def critical_share(n: int) -> float:
    """Return the ``LEVEL`` quantile of the smallest within-group share of ``n`` uniform values."""
    drawn = np.sort(np.random.default_rng(n).random((DRAWS, n)), axis=1)
    return float(np.quantile(within_shares(drawn).min(axis=1), LEVEL))


def describe_modes(modes_by_side: Mapping[Side, TwoModes]) -> str:
    """Return ``two modes: control 10.6 times as large in 4 of 16 processes``; empty without modes."""
    sides = []
    for side, modes in modes_by_side.items():
        processes = f"{modes.high_pairs} of {modes.low_pairs + modes.high_pairs}"
        sides.append(f"{side} {modes.high / modes.low:.3g} times as large in {processes}")
    return f"two modes: {', '.join(sides)} processes" if sides else ""
