"""Changes of level along an order of builds (steps and slow ramps), found from differences between builds.

The data are edges y = x[tail] - x[head] + noise. A ramp r from i to j is 0 up to i, 1 from j on and straight between; j
= i + 1 is a step. Its size has the generalised least-squares estimate r's / r'Lr with standard error (r'Lr) ** -0.5,
where L is the graph's Laplacian and s = B'Wy its score. The largest |z| over ramps of many lengths and places is
compared with the largest in simulated noise of the same variances.
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
# The 5 % point of chi-square with one degree of freedom: a ramp has one parameter more than a step.
_STEP_PREFERENCE = 3.84
_PLACES_A_LENGTH = 4  # a ramp of length l starts at every l / 4 of the order


@dataclass(frozen=True)
class FittedChange:
    """A change from place ``start`` of the order to place ``end``; its size is a log ratio."""

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
    minimal: float,
    level: float,
    free: int,
) -> tuple[list[FittedChange], float]:
    """Return the changes along ``count`` places, in their order, and the p value against "no change at all".

    Edge e (arrays of shape (edges,)) says that place ``tails[e]`` is ``values[e]`` above ``heads[e]``, with variance
    1 / ``weights[e]``. Changes are added one at a time, always the one with the largest |z| beside the earlier ones, as
    long as its p value is at most ``level``. Then all are fitted together, and those of at least ``minimal`` returned.
    The p value is the share of simulations whose noise has a |z| as large, or Bonferroni's bound over all ramps when
    that is smaller. A ramp is preferred to a step only if it fits better than its additional parameter would by chance.

    Each of the first ``free`` places has a level of its own, which is no change: the steps after them are fitted, but
    neither tested nor returned.
    """
    scan = _Scan(heads, tails, weights, count)
    score = scan.scores(values[:, None])[:, 0]
    noise = scan.scores(_draws(len(weights)) / np.sqrt(weights)[:, None])
    ramps = [(place, place + 1) for place in range(min(free, count - 1))]
    free_steps = len(ramps)
    p_values = [0.0] * free_steps
    first_p = 1.0
    while len(ramps) < min(free_steps + MOST_CHANGES, count - 1):
        sums, squares = scan.contrasts(score[:, None], ramps)
        z = np.abs(sums[:, 0]) / np.sqrt(squares)
        p = _p_value(float(z.max()), scan, noise, ramps)
        first_p = first_p if len(ramps) > free_steps else p
        if p > level:
            break
        ramps.append(_best_ramp(scan, score, ramps, z))
        p_values.append(p)
    fitted_changes = _fit_together(scan, score, ramps, p_values)
    return [change for change in fitted_changes if change.start >= free_steps and abs(change.size) >= minimal], first_p


class _Scan:
    """The candidate ramps of one graph, from place ``starts[r]`` to place ``stops[r]``."""

    def __init__(self, heads: Indices, tails: Indices, weights: Floats, count: int) -> None:
        self.heads, self.tails, self.weights, self.count = heads, tails, weights, count
        self.starts, self.stops = _scanned_ramps(count)
        if len(self.starts) * len(heads) <= _LARGEST_KEPT:
            self.squares: Floats = _squared_rises(heads.tobytes(), tails.tobytes(), count) @ weights
        else:
            self.squares = self.squares_of(self.starts, self.stops)
        edges = np.arange(len(heads))
        from_tails = sparse.coo_matrix((np.ones(len(heads)), (tails, edges)), shape=(count, len(heads)))
        from_heads = sparse.coo_matrix((np.ones(len(heads)), (heads, edges)), shape=(count, len(heads)))
        self.incidence = (from_tails - from_heads).tocsr()  # B'

    def scores(self, values: Floats) -> Floats:
        """Return s = B'Wy for each column of ``values`` (edges, columns): shape (count, columns)."""
        scores: Floats = self.incidence @ (values * self.weights[:, None])
        return scores

    def sums(self, columns: Floats, starts: Indices, stops: Indices) -> Floats:
        """Return r'v of each ramp r and each column v of ``columns`` (count, columns): shape (ramps, columns).

        A ramp is the mean of the steps within it, and a step's r'v is the sum of v from the step on.
        """
        behind = np.cumsum(columns[::-1], axis=0)[::-1]
        twice = np.zeros((self.count + 1, columns.shape[1]))
        twice[:-1] = np.cumsum(behind[::-1], axis=0)[::-1]
        ramp_sums: Floats = (twice[starts + 1] - twice[stops + 1]) / (stops - starts)[:, None]
        return ramp_sums

    def squares_of(self, starts: Indices, stops: Indices) -> Floats:
        """Return r'Lr of each ramp: the sum over edges of weight times the squared rise along the edge."""
        step = max(1, _LARGEST_KEPT // (8 * len(self.heads)))
        parts = [slice(low, low + step) for low in range(0, len(starts), step)]
        return np.concatenate(
            [
                _rises_along_edges(self.heads, self.tails, starts[part], stops[part]) ** 2 @ self.weights
                for part in parts
            ]
        )

    def shape(self, changes: Sequence[tuple[int, int]]) -> Floats:
        """Return the value of each ramp at each place, shape (count, ramps)."""
        places = np.arange(self.count)[:, None]
        starts, stops = np.array(changes, dtype=np.intp).reshape(-1, 2).T
        ramps: Floats = np.clip((places - starts) / (stops - starts), 0.0, 1.0)
        return ramps

    def contrasts(
        self, scores: Floats, fitted_ramps: Sequence[tuple[int, int]], changes: tuple[Indices, Indices] | None = None
    ) -> tuple[Floats, Floats]:
        """Return (r's, r'Lr) of each ramp when ``fitted_ramps`` are fitted as well; (0, 1) for a combination of
        these."""
        starts, stops = changes or (self.starts, self.stops)
        sums = self.sums(scores, starts, stops)
        squares = self.squares if changes is None else self.squares_of(starts, stops)
        if fitted_ramps:
            shapes = self.shape(fitted_ramps)
            through = self.scores(shapes[self.tails] - shapes[self.heads])  # L C
            mixed = self.sums(through, starts, stops)  # r'LC
            solved = np.linalg.solve(shapes.T @ through, np.concatenate([shapes.T @ scores, mixed.T], axis=1))
            sums = sums - mixed @ solved[:, : scores.shape[1]]
            remaining_squares = squares - np.sum(mixed * solved[:, scores.shape[1] :].T, axis=1)
            spanned = remaining_squares <= 1e-9 * squares
            sums[spanned] = 0.0
            squares = np.where(spanned, 1.0, remaining_squares)
        return sums, squares


def _scanned_ramps(count: int) -> tuple[Indices, Indices]:
    """Return the starts and stops of steps at all places, of ramps of lengths 2, 4, 8 ... at every quarter of their
    length, and of the ramp over all places."""
    starts, stops, length = [], [], 1
    while length < count:
        at = np.arange(0, count - length, max(1, length // _PLACES_A_LENGTH))
        starts.append(at)
        stops.append(at + length)
        length *= 2
    starts.append(np.array([0]))
    stops.append(np.array([count - 1]))
    both = np.unique(np.stack([np.concatenate(starts), np.concatenate(stops)], axis=1), axis=0)
    return both[:, 0].astype(np.intp), both[:, 1].astype(np.intp)


def _rises_along_edges(heads: Indices, tails: Indices, starts: Indices, stops: Indices) -> Floats:
    at, length = starts[:, None], (stops - starts)[:, None]
    rises: Floats = (np.clip(tails - at, 0, length) - np.clip(heads - at, 0, length)) / length
    return rises


@lru_cache(maxsize=2)
def _squared_rises(heads: bytes, tails: bytes, count: int) -> Floats:
    """Return the squared rises of all candidate ramps; cached, because all cases of the same runs share a graph."""
    return _rises_along_edges(np.frombuffer(heads, np.intp), np.frombuffer(tails, np.intp), *_scanned_ramps(count)) ** 2


@lru_cache(maxsize=2)
def _draws(edges: int) -> Floats:
    return np.random.default_rng(0).standard_normal((edges, SIMULATIONS))


def _p_value(z: float, scan: _Scan, noise: Floats, fitted_ramps: Sequence[tuple[int, int]]) -> float:
    bound = min(1.0, 2 * float(special.ndtr(-z)) * len(scan.starts))
    if bound < 1 / (SIMULATIONS + 1):
        return bound
    sums, squares = scan.contrasts(noise, fitted_ramps)
    largest = np.max(np.abs(sums) / np.sqrt(squares)[:, None], axis=0)
    return min(bound, float((1 + np.count_nonzero(largest >= z)) / (SIMULATIONS + 1)))


def _best_ramp(scan: _Scan, score: Floats, fitted_ramps: Sequence[tuple[int, int]], z: Floats) -> tuple[int, int]:
    """Return the best step if it explains about as much as any ramp, or else the best ramp, refined."""
    steps = np.where(scan.stops - scan.starts == 1, z, 0.0)
    best = int(np.argmax(steps if steps.max() ** 2 >= z.max() ** 2 - _STEP_PREFERENCE else z))
    start, end = int(scan.starts[best]), int(scan.stops[best])
    return (start, end) if end - start == 1 else _refine_ramp(scan, score, fitted_ramps, (start, end))


def _refine_ramp(
    scan: _Scan, score: Floats, fitted_ramps: Sequence[tuple[int, int]], ramp: tuple[int, int]
) -> tuple[int, int]:
    """Return the ramp with the largest |z| whose ends are at most a quarter of its length and one place from
    ``ramp``'s."""
    reach = (ramp[1] - ramp[0]) // _PLACES_A_LENGTH + 1
    near = np.arange(-reach, reach + 1)
    starts, stops = (grid.ravel() for grid in np.meshgrid(ramp[0] + near, ramp[1] + near))
    is_valid = (starts >= 0) & (stops < scan.count) & (starts < stops)
    starts, stops = starts[is_valid].astype(np.intp), stops[is_valid].astype(np.intp)
    sums, squares = scan.contrasts(score[:, None], fitted_ramps, (starts, stops))
    best = int(np.argmax(np.abs(sums[:, 0]) / np.sqrt(squares)))
    return int(starts[best]), int(stops[best])


def _fit_together(
    scan: _Scan, score: Floats, ramps: Sequence[tuple[int, int]], p_values: Sequence[float]
) -> list[FittedChange]:
    if not ramps:
        return []
    shapes = scan.shape(ramps)
    information = shapes.T @ scan.scores(shapes[scan.tails] - shapes[scan.heads])
    covariance = np.linalg.inv(information)
    sizes = covariance @ (shapes.T @ score)
    errors = np.sqrt(np.diag(covariance))
    changes = [
        FittedChange(start, end, float(size), float(error), p)
        for (start, end), size, error, p in zip(ramps, sizes, errors, p_values, strict=True)
    ]
    return sorted(changes, key=lambda change: (change.start, change.end))
