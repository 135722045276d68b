"""The levels of several looks at growing data that together spend one error, exact for normal data."""

import math
from functools import lru_cache

import numpy as np
import numpy.typing as npt
from scipy import special
from scipy.optimize import brentq

# The density of the sum that has crossed no boundary yet is computed at so many points, down to so many standard
# deviations below its mean. Twice as many points change no level by a thousandth of itself.
POINTS = 400
LOWEST = 8.0

Array = npt.NDArray[np.float64]


@lru_cache(maxsize=4096)
def nominal_levels(counts: tuple[int, ...], spent: tuple[float, ...]) -> tuple[float, ...]:
    """Return the one-sided level of a test at each look, so that looks 0 to k together err with probability ``spent[0]
    + ... + spent[k]``.

    ``counts`` (shape (k,), increasing, 1 or more) are the samples at each look, and ``spent`` (shape (k,)) what each
    adds to the probability that one of the looks so far rejects a true hypothesis: an error-spending test (Lan and
    DeMets 1983, Biometrika 70, 659-663).  For the mean of independent normal values with a known variance the levels
    are exact (Armitage, McPherson and Rowe 1969, J. R. Stat. Soc. A 132, 235-244); they are used as levels of t tests
    (Jennison and Turnbull 2000, Group Sequential Methods with Applications to Clinical Trials, section 4.4).
    """
    return _looked(counts, spent)[0]


@lru_cache(maxsize=1024)
def _looked(counts: tuple[int, ...], spent: tuple[float, ...]) -> tuple[tuple[float, ...], Array, Array]:
    """Return the levels of these looks, then points and density (``_carried``) after the last. Cached, as a schedule's
    levels are asked for look by look."""
    if not counts:
        return (), np.array([0.0]), np.array([1.0])
    levels, points, density = _looked(counts[:-1], spent[:-1])
    before, count = (0, *counts)[-2:]
    boundary = _boundary(points, density, before, count, spent[-1])  # of the sum, each sample with a variance of 1
    level = float(special.ndtr(-boundary / math.sqrt(count)))
    return (*levels, level), *_carried(points, density, before, count, boundary)


def _boundary(points: Array, density: Array, before: int, count: int, error: float) -> float:
    """Return what the sum of ``count`` samples exceeds with probability ``error`` if it crossed no boundary before."""
    step, farthest = math.sqrt(count - before), 2 * LOWEST * math.sqrt(count)

    def excess(boundary: float) -> float:
        return float(special.ndtr((points - boundary) / step) @ density) - error

    return float(brentq(excess, -farthest, farthest))


def _carried(points: Array, density: Array, before: int, count: int, boundary: float) -> tuple[Array, Array]:
    """Return points below ``boundary``, and at each the density of the sum of ``count`` samples times its weight in
    Simpson's rule."""
    grid = np.linspace(min(-LOWEST * math.sqrt(count), boundary - math.sqrt(count)), boundary, POINTS + 1)
    weights = np.ones(POINTS + 1)
    weights[1:-1:2], weights[2:-1:2] = 4, 2
    variance = count - before
    reach = np.exp(-((grid[:, None] - points[None, :]) ** 2) / (2 * variance)) / math.sqrt(2 * math.pi * variance)
    return grid, weights * (grid[1] - grid[0]) / 3 * (reach @ density)
