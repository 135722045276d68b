"""Whether a case has two modes: process values in two groups, such as 331 us in some processes and 3.5 ms in others.

It explains why a case stays open; no verdict depends on it.
"""

import functools
import math
from collections import Counter
from collections.abc import Mapping, Sequence

import numpy as np
import numpy.typing as npt

from opduel.records import PairSample, TwoModes
from opduel.records.measurement import SIDES, Side

LEAST = 3  # process pairs that have a value in the smaller group: fewer are outliers
FEWEST = 8  # process pairs
LEVEL = 0.005  # of one side of a case
SAME_LEVEL = 0.05  # where the other side has the same modes
LEAST_FACTOR = 1.02  # between the groups' medians: nobody is helped by hearing of nearer ones
DRAWS = 20_000

Array = npt.NDArray[np.float64]
Values = Sequence[Sequence[float]]  # by process pair: one, or one of each fork


def modes_of(samples: Sequence[PairSample]) -> dict[Side, TwoModes]:
    """The sides whose process values have two modes, and these; of the stage that has more samples, as the machine may
    have changed between the two.

    Of a pair with several forks each fork has its value: it is a process of its own, and their mean would lie between
    the modes. Where one side has two modes, weaker evidence is enough for the same ones on the other. Modes as far
    apart on both sides, with both sides in the same one wherever they meet, are nothing: the log ratios don't see them.
    """
    stages = Counter(sample.stage for sample in samples)
    rows = [
        sample.fork_values or ((sample.control, sample.treatment),)
        for sample in samples
        if sample.stage == stages.most_common(1)[0][0]
    ]
    values: dict[Side, Values] = {
        side: [[one[place] for one in row] for row in rows] for place, side in enumerate(SIDES)
    }
    found = {side: modes for side in SIDES if (modes := two_modes(values[side])) is not None}
    for one, other in (SIDES, SIDES[::-1]):
        if one in found and other not in found and (modes := two_modes(values[other], SAME_LEVEL)) is not None:
            found |= {other: modes} if _alike(modes, found[one]) else {}
    if len(found) == len(SIDES) and _cancel([found[side] for side in SIDES], rows):
        return {}
    return {side: found[side] for side in SIDES if side in found}


def _alike(one: TwoModes, other: TwoModes) -> bool:
    """Whether both have the same modes, to a quarter of what lies between these."""
    near = math.log(other.high / other.low) / 4
    return abs(math.log(one.low / other.low)) <= near and abs(math.log(one.high / other.high)) <= near


def _cancel(both: Sequence[TwoModes], rows: Sequence[Sequence[tuple[float, float]]]) -> bool:
    """Whether the modes of ``both`` sides are as far apart, and the sides in different ones in next to no pair."""
    factors = [modes.high / modes.low for modes in both]
    middles = [math.sqrt(modes.low * modes.high) for modes in both]
    crossed = sum(any((one[0] > middles[0]) != (one[1] > middles[1]) for one in row) for row in rows)
    return crossed < LEAST and max(factors) < LEAST_FACTOR * min(factors)


def two_modes(values: Values, level: float = LEVEL) -> TwoModes | None:
    """The two groups that positive values fall into, or None if one group is as likely.

    Engelman and Hartigan's test for clusters (1969, J. Am. Stat. Assoc. 64, 1647-1648): the statistic is the sum of
    squares within two groups as a share of the whole, for the best division of the sorted logs. Its critical values are
    those of the uniform distribution, of all distributions with one mode the one that looks most like two (Hartigan and
    Hartigan 1985, Ann. Stat. 13, 70-84): at ``level``, by a simulation with a fixed seed. Values of one process pair
    may be alike, and so count as one: the critical value is that of so many values as there are pairs, or fewer where
    some have more forks than others (Kish 1965, "Survey Sampling").
    """
    sizes = [len(row) for row in values]
    independent = sum(sizes) ** 2 // sum(size**2 for size in sizes) if sizes else 0
    ordered = sorted((value, pair) for pair, row in enumerate(values) for value in row)
    if independent < FEWEST or ordered[0][0] <= 0 or ordered[0][0] == ordered[-1][0]:
        return None
    logs = np.log([value for value, _ in ordered])
    shares = within_shares(logs[np.newaxis, :])[0]
    below, above = _pairs_among(ordered), _pairs_among(ordered[::-1])[::-1]
    usable = [size for size in range(LEAST, len(logs) - LEAST + 1) if below[size - 1] >= LEAST and above[size] >= LEAST]
    best = min(usable, key=lambda size: shares[size - LEAST], default=0)
    if not best or shares[best - LEAST] >= critical_share(independent, level):
        return None
    low, high = (float(np.median([value for value, _ in group])) for group in (ordered[:best], ordered[best:]))
    return TwoModes(low, high, best, len(logs) - best) if high >= LEAST_FACTOR * low else None


def _pairs_among(ordered: Sequence[tuple[float, int]]) -> list[int]:
    """Of how many pairs the first values are: the first, the first two..."""
    seen: set[int] = set()
    counts = []
    for _, pair in ordered:
        seen.add(pair)
        counts.append(len(seen))
    return counts


def within_shares(ordered: Array) -> Array:
    """Of rows of sorted values, shape (rows, n): the sum of squares within both groups as a share of the whole, for
    each division that leaves ``LEAST`` values or more on a side; shape (rows, n - 2 LEAST + 1)."""
    n = ordered.shape[1]
    centred = ordered - ordered.mean(axis=1, keepdims=True)
    sizes = np.arange(LEAST, n - LEAST + 1)
    sums = np.cumsum(centred, axis=1)[:, sizes - 1]
    whole = np.sum(centred**2, axis=1, keepdims=True)
    shares: Array = 1 - sums**2 * (1 / sizes + 1 / (n - sizes)) / whole
    return shares


@functools.lru_cache(maxsize=256)
def critical_share(n: int, level: float = LEVEL) -> float:
    """The share below which ``level`` of samples of ``n`` uniform values lie."""
    drawn = np.sort(np.random.default_rng(n).random((DRAWS, n)), axis=1)
    return float(np.quantile(within_shares(drawn).min(axis=1), level))


def in_words(found: Mapping[Side, TwoModes]) -> str:
    """``two modes: control 10.6 times as large in 4 of 16 processes``, of each side that has them; or nothing."""
    sides = []
    for side, modes in found.items():
        processes = f"{modes.high_pairs} of {modes.low_pairs + modes.high_pairs}"
        sides.append(f"{side} {modes.high / modes.low:.3g} times as large in {processes}")
    return f"two modes: {', '.join(sides)} processes" if sides else ""
