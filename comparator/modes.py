"""Whether a case has two modes: process values in two groups, such as 331 us in some processes and 3.5 ms in others.

It explains why a case stays open; no verdict depends on it.
"""

import functools
from collections import Counter
from collections.abc import Mapping, Sequence

import numpy as np
import numpy.typing as npt

from opduel.records import PairSample, TwoModes
from opduel.records.measurement import SIDES, Side

LEAST = 3  # values in the smaller group: fewer are outliers
FEWEST = 8  # values
LEVEL = 0.005  # of one side of a case
LEAST_FACTOR = 1.02  # between the groups' medians: nobody is helped by hearing of nearer ones
DRAWS = 20_000

Array = npt.NDArray[np.float64]


def modes_of(samples: Sequence[PairSample]) -> dict[Side, TwoModes]:
    """The sides whose process values have two modes, and these; of the stage that has more samples, as the machine may
    have changed between the two."""
    stages = Counter(sample.stage for sample in samples)
    values = {
        side: [getattr(sample, side) for sample in samples if sample.stage == stages.most_common(1)[0][0]]
        for side in SIDES
    }
    return {side: modes for side in SIDES if (modes := two_modes(values[side])) is not None}


def two_modes(values: Sequence[float]) -> TwoModes | None:
    """The two groups that positive values fall into, or None if one group is as likely.

    Engelman and Hartigan's test for clusters (1969, J. Am. Stat. Assoc. 64, 1647-1648): the statistic is the sum of
    squares within two groups as a share of the whole, for the best division of the sorted logs. Its critical values are
    those of the uniform distribution, of all distributions with one mode the one that looks most like two (Hartigan and
    Hartigan 1985, Ann. Stat. 13, 70-84): at ``LEVEL``, by a simulation with a fixed seed.
    """
    if len(values) < FEWEST or min(values) <= 0:
        return None
    logs = np.sort(np.log(np.asarray(values, dtype=np.float64)))
    if logs[0] == logs[-1]:
        return None
    shares = within_shares(logs[np.newaxis, :])[0]
    best = int(np.argmin(shares))
    low, high = np.exp(logs[: LEAST + best]), np.exp(logs[LEAST + best :])
    medians = float(np.median(low)), float(np.median(high))
    if shares[best] >= critical_share(len(logs)) or medians[1] < LEAST_FACTOR * medians[0]:
        return None
    return TwoModes(*medians, len(low), len(high))


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
    """``two modes: control 10.6 times as large in 4 of 16 process pairs``, of each side that has them; or nothing."""
    sides = []
    for side, modes in found.items():
        pairs = f"{modes.high_pairs} of {modes.low_pairs + modes.high_pairs}"
        sides.append(f"{side} {modes.high / modes.low:.3g} times as large in {pairs}")
    return f"two modes: {', '.join(sides)} process pairs" if sides else ""
