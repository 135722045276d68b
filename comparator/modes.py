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
LEAST_FACTOR = 1.02  # between the groups' medians: nobody is helped by hearing of nearer ones
DRAWS = 20_000

Array = npt.NDArray[np.float64]
Values = Sequence[Sequence[float]]  # by process pair: one, or one of each fork


def modes_of(samples: Sequence[PairSample]) -> dict[Side, TwoModes]:
    """The sides whose process values have two modes, and these; of the stage that has more samples, as the machine may
    have changed between the two.

    Of a pair with several forks each fork has its value: it is a process of its own, and their mean would lie between
    the modes. Where one side has two modes, the other has them too if its values lie in the same two groups. Both sides
    in the same mode wherever they meet is nothing: the log ratios don't see that.
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
        if one in found and other not in found and (modes := _in_groups_of(found[one], values[other])) is not None:
            found[other] = modes
    if len(found) == len(SIDES):
        middles = [_middle(found[side]) for side in SIDES]
        if sum(any((one[0] > middles[0]) != (one[1] > middles[1]) for one in row) for row in rows) < LEAST:
            return {}
    return {side: found[side] for side in SIDES if side in found}


def two_modes(values: Values) -> TwoModes | None:
    """The two groups that positive values fall into, or None if one group is as likely.

    Engelman and Hartigan's test for clusters (1969, J. Am. Stat. Assoc. 64, 1647-1648): the statistic is the sum of
    squares within two groups as a share of the whole, for the best division of the sorted logs. Its critical values are
    those of the uniform distribution, of all distributions with one mode the one that looks most like two (Hartigan and
    Hartigan 1985, Ann. Stat. 13, 70-84): at ``LEVEL``, by a simulation with a fixed seed. Values of one process pair
    may be alike, and so count as one: the critical value is that of so many values as there are pairs, or fewer where
    some have more forks than others (Kish 1965, "Survey Sampling").
    """
    sizes = [len(row) for row in values]
    flat = np.asarray([value for row in values for value in row], dtype=np.float64)
    independent = sum(sizes) ** 2 // sum(size**2 for size in sizes) if sizes else 0
    if independent < FEWEST or flat.min() <= 0:
        return None
    logs = np.sort(np.log(flat))
    if logs[0] == logs[-1]:
        return None
    shares = within_shares(logs[np.newaxis, :])[0]
    best = int(np.argmin(shares))
    if shares[best] >= critical_share(independent):
        return None
    return _groups(values, math.exp((logs[LEAST + best - 1] + logs[LEAST + best]) / 2))


def _in_groups_of(modes: TwoModes, values: Values) -> TwoModes | None:
    """The groups that ``values`` fall into if they are those of ``modes``, which the other side has; else None."""
    found = _groups(values, _middle(modes))
    near = math.log(modes.high / modes.low) / 4
    if found is None or found.low <= 0:
        return None
    if abs(math.log(found.low / modes.low)) > near or abs(math.log(found.high / modes.high)) > near:
        return None
    return found


def _middle(modes: TwoModes) -> float:
    return math.sqrt(modes.low * modes.high)


def _groups(values: Values, middle: float) -> TwoModes | None:
    """What lies below and above ``middle``; None if either is of fewer than ``LEAST`` pairs, or they are too near."""
    for is_in in (lambda value: value < middle, lambda value: value >= middle):
        if sum(any(map(is_in, row)) for row in values) < LEAST:
            return None
    flat = np.asarray([value for row in values for value in row])
    low, high = flat[flat < middle], flat[flat >= middle]
    medians = float(np.median(low)), float(np.median(high))
    return TwoModes(*medians, len(low), len(high)) if medians[1] >= LEAST_FACTOR * medians[0] else None


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
def critical_share(n: int) -> float:
    """The share below which ``LEVEL`` of samples of ``n`` uniform values lie."""
    drawn = np.sort(np.random.default_rng(n).random((DRAWS, n)), axis=1)
    return float(np.quantile(within_shares(drawn).min(axis=1), LEVEL))


def in_words(found: Mapping[Side, TwoModes]) -> str:
    """``two modes: control 10.6 times as large in 4 of 16 processes``, of each side that has them; or nothing."""
    sides = []
    for side, modes in found.items():
        processes = f"{modes.high_pairs} of {modes.low_pairs + modes.high_pairs}"
        sides.append(f"{side} {modes.high / modes.low:.3g} times as large in {processes}")
    return f"two modes: {', '.join(sides)} processes" if sides else ""
