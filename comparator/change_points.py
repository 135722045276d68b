"""Changes of level along an order, found from differences: steps and slow ramps, the look at all places paid for.

The data are edges y = x[tail] - x[head] + noise, and a ramp from i to j is x = 0 up to i, 1 from j on, straight
between; j = i + 1 is a step. Its size has the generalised least-squares estimate r's / r'Lr with standard error
(r'Lr) ** -0.5, L the graph's Laplacian and s = B'Wy its score: for a chain the sum of the edges in the ramp when their
variances are equal, for a star the contrast of all builds behind against what came before. What is beyond chance is the
largest |z| over ramps of many lengths and places, against the largest in simulated noise of the same variances.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray
from scipy import sparse, special

Floats = NDArray[np.float64]
Indices = NDArray[np.intp]

DEFAULT_LEVEL = 0.01  # the share of histories without a change in which one is found, at most
SIMULATIONS = 499
MOST_CHANGES = 20
_LARGEST_KEPT = 8_000_000  # numbers of a matrix: 64 MB
# The 5 % point of chi-square with one degree of freedom: a ramp has one number more than a step.
_STEP_PREFERENCE = 3.84
_PLACES_A_LENGTH = 4  # a ramp of length l starts at every l / 4 of the order


@dataclass(frozen=True)
class FittedChange:
    """A change that was found, from place ``start`` of the order to place ``end``; size in log ratio."""

    start: int
    end: int
    size: float
    standard_error: float
    p_value: float


def find_change_points(
    heads: Indices,
    tails: Indices,
    values: Floats,
    weights: Floats,
    count: int,
    *,
    minimal: float = 0.0,
    level: float = DEFAULT_LEVEL,
    seed: int = 0,
    free: int = 0,
) -> tuple[list[FittedChange], float]:
    """The changes along ``count`` places, in their order, and the p value against "no change at all".

    Edge e (arrays of shape (edges,)) says that place ``tails[e]`` is ``values[e]`` above ``heads[e]``, with variance
    1 / ``weights[e]``. One change after the other is added, always the one with the largest |z| given those before, as
    long as its p value is at most ``level``; then all are fitted together, and those of at least ``minimal`` returned.
    The p value is the share of simulations in which noise does as much, or Bonferroni's bound over all ramps when that
    is smaller. A step is preferred to a ramp that explains no more than a further number at random would.

    Each of the first ``free`` places has a level of its own, which is no change: the steps after them are fitted with
    all else, and neither tested nor returned.
    """
    scan = _Scan(heads, tails, weights, count)
    score = scan.scores(values[:, None])[:, 0]
    noise = scan.scores(_draws(len(weights), seed) / np.sqrt(weights)[:, None])  # of edges in which nothing changes
    chosen = [(place, place + 1) for place in range(min(free, count - 1))]
    given = len(chosen)
    p_values = [0.0] * given
    first_p = 1.0
    while len(chosen) < min(given + MOST_CHANGES, count - 1):
        sums, squares = scan.contrasts(score[:, None], chosen)
        z = np.abs(sums[:, 0]) / np.sqrt(squares)
        p = _p_value(float(z.max()), scan, noise, chosen)
        first_p = first_p if len(chosen) > given else p
        if p > level:
            break
        chosen.append(_best(scan, score, chosen, z))
        p_values.append(p)
    found = _fitted(scan, score, chosen, p_values)
    return [one for one in found if one.start >= given and abs(one.size) >= minimal], first_p


class _Scan:
    """All ramps that are looked at, over one graph."""

    def __init__(self, heads: Indices, tails: Indices, weights: Floats, count: int) -> None:
        self.heads, self.tails, self.weights, self.count = heads, tails, weights, count
        self.starts, self.ends = _places(count)
        if len(self.starts) * len(heads) <= _LARGEST_KEPT:
            self.squares: Floats = _squared_rises(heads.tobytes(), tails.tobytes(), count) @ weights
        else:
            self.squares = self.squares_of(self.starts, self.ends)
        edges = np.arange(len(heads))
        ends = sparse.coo_matrix((np.ones(len(heads)), (tails, edges)), shape=(count, len(heads)))
        begins = sparse.coo_matrix((np.ones(len(heads)), (heads, edges)), shape=(count, len(heads)))
        self.incidence = (ends - begins).tocsr()  # B'

    def scores(self, values: Floats) -> Floats:
        """s = B'Wy for each column of ``values`` (edges, columns): shape (count, columns)."""
        found: Floats = self.incidence @ (values * self.weights[:, None])
        return found

    def sums(self, columns: Floats, starts: Indices, ends: Indices) -> Floats:
        """r'v of each ramp r and each column v of ``columns`` (count, columns): shape (ramps, columns).

        A ramp is the mean of the steps within it, and a step's sum is a sum of all that is behind it.
        """
        behind = np.cumsum(columns[::-1], axis=0)[::-1]
        twice = np.zeros((self.count + 1, columns.shape[1]))
        twice[:-1] = np.cumsum(behind[::-1], axis=0)[::-1]
        found: Floats = (twice[starts + 1] - twice[ends + 1]) / (ends - starts)[:, None]
        return found

    def squares_of(self, starts: Indices, ends: Indices) -> Floats:
        """r'Lr of each ramp: the sum over edges of weight times the squared rise along the edge."""
        step = max(1, _LARGEST_KEPT // (8 * len(self.heads)))
        parts = [slice(low, low + step) for low in range(0, len(starts), step)]
        return np.concatenate(
            [_rises(self.heads, self.tails, starts[part], ends[part]) ** 2 @ self.weights for part in parts]
        )

    def shape(self, changes: Sequence[tuple[int, int]]) -> Floats:
        """The ramps themselves, shape (count, ramps)."""
        places = np.arange(self.count)[:, None]
        starts, ends = np.array(changes, dtype=np.intp).reshape(-1, 2).T
        found: Floats = np.clip((places - starts) / (ends - starts), 0.0, 1.0)
        return found

    def contrasts(
        self, scores: Floats, given: Sequence[tuple[int, int]], changes: tuple[Indices, Indices] | None = None
    ) -> tuple[Floats, Floats]:
        """(r's, r'Lr) of each ramp when those ``given`` are fitted as well; 0 and 1 of a ramp that these make up."""
        starts, ends = changes or (self.starts, self.ends)
        sums = self.sums(scores, starts, ends)
        squares = self.squares if changes is None else self.squares_of(starts, ends)
        if given:
            fitted = self.shape(given)
            through = self.scores(fitted[self.tails] - fitted[self.heads])  # L C
            mixed = self.sums(through, starts, ends)  # r'LC
            solved = np.linalg.solve(fitted.T @ through, np.concatenate([fitted.T @ scores, mixed.T], axis=1))
            sums = sums - mixed @ solved[:, : scores.shape[1]]
            left = squares - np.sum(mixed * solved[:, scores.shape[1] :].T, axis=1)
            spanned = left <= 1e-9 * squares
            sums[spanned] = 0.0
            squares = np.where(spanned, 1.0, left)
        return sums, squares


def _places(count: int) -> tuple[Indices, Indices]:
    """Steps at all places; ramps of lengths 2, 4, 8 ... at every quarter of their length, and one over all."""
    starts, ends, length = [], [], 1
    while length < count:
        at = np.arange(0, count - length, max(1, length // _PLACES_A_LENGTH))
        starts.append(at)
        ends.append(at + length)
        length *= 2
    starts.append(np.array([0]))
    ends.append(np.array([count - 1]))
    both = np.unique(np.stack([np.concatenate(starts), np.concatenate(ends)], axis=1), axis=0)
    return both[:, 0].astype(np.intp), both[:, 1].astype(np.intp)


def _rises(heads: Indices, tails: Indices, starts: Indices, ends: Indices) -> Floats:
    """By how much each ramp rises along each edge, shape (ramps, edges)."""
    at, length = starts[:, None], (ends - starts)[:, None]
    found: Floats = (np.clip(tails - at, 0, length) - np.clip(heads - at, 0, length)) / length
    return found


@lru_cache(maxsize=2)
def _squared_rises(heads: bytes, tails: bytes, count: int) -> Floats:
    """Those of all ramps that are looked at, squared: kept, because all cases of the same runs have the same graph."""
    return _rises(np.frombuffer(heads, np.intp), np.frombuffer(tails, np.intp), *_places(count)) ** 2


@lru_cache(maxsize=2)
def _draws(edges: int, seed: int) -> Floats:
    return np.random.default_rng(seed).standard_normal((edges, SIMULATIONS))


def _p_value(z: float, scan: _Scan, noise: Floats, given: Sequence[tuple[int, int]]) -> float:
    bound = min(1.0, 2 * float(special.ndtr(-z)) * len(scan.starts))
    if bound < 1 / (SIMULATIONS + 1):
        return bound
    sums, squares = scan.contrasts(noise, given)
    largest = np.max(np.abs(sums) / np.sqrt(squares)[:, None], axis=0)
    return min(bound, float((1 + np.count_nonzero(largest >= z)) / (SIMULATIONS + 1)))


def _best(scan: _Scan, score: Floats, given: Sequence[tuple[int, int]], z: Floats) -> tuple[int, int]:
    """The step that explains about as much as anything, or else the best ramp, its ends moved a little."""
    steps = np.where(scan.ends - scan.starts == 1, z, 0.0)
    best = int(np.argmax(steps if steps.max() ** 2 >= z.max() ** 2 - _STEP_PREFERENCE else z))
    start, end = int(scan.starts[best]), int(scan.ends[best])
    return (start, end) if end - start == 1 else _refined(scan, score, given, (start, end))


def _refined(scan: _Scan, score: Floats, given: Sequence[tuple[int, int]], found: tuple[int, int]) -> tuple[int, int]:
    """The ramp with the largest |z| near ``found``: its ends moved by up to a quarter of its length and one more."""
    reach = (found[1] - found[0]) // _PLACES_A_LENGTH + 1
    near = np.arange(-reach, reach + 1)
    starts, ends = (grid.ravel() for grid in np.meshgrid(found[0] + near, found[1] + near))
    kept = (starts >= 0) & (ends < scan.count) & (starts < ends)
    starts, ends = starts[kept].astype(np.intp), ends[kept].astype(np.intp)
    sums, squares = scan.contrasts(score[:, None], given, (starts, ends))
    best = int(np.argmax(np.abs(sums[:, 0]) / np.sqrt(squares)))
    return int(starts[best]), int(ends[best])


def _fitted(
    scan: _Scan, score: Floats, chosen: Sequence[tuple[int, int]], p_values: Sequence[float]
) -> list[FittedChange]:
    """All changes fitted together, in their order."""
    if not chosen:
        return []
    shapes = scan.shape(chosen)
    information = shapes.T @ scan.scores(shapes[scan.tails] - shapes[scan.heads])
    covariance = np.linalg.inv(information)
    sizes = covariance @ (shapes.T @ score)
    errors = np.sqrt(np.diag(covariance))
    changes = [
        FittedChange(start, end, float(size), float(error), p)
        for (start, end), size, error, p in zip(chosen, sizes, errors, p_values, strict=True)
    ]
    return sorted(changes, key=lambda one: (one.start, one.end))
