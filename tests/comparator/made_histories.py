"""Made histories: builds with true levels, and runs that measured some pairs of them."""

from collections.abc import Iterable, Sequence

import numpy as np

from opduel.comparator.history.network_meta_analysis import Edge


def node(place: int) -> str:
    return f"n{place:04}"


def order(count: int) -> dict[str, float]:
    return {node(i): float(i) for i in range(count)}


def chain(count: int) -> list[tuple[int, int]]:
    """Each against the one before."""
    return [(i - 1, i) for i in range(1, count)]


def star(count: int) -> list[tuple[int, int]]:
    """All against the first."""
    return [(0, i) for i in range(1, count)]


def mixed(count: int) -> list[tuple[int, int]]:
    """Each against the one before, and every fifth against the first, too."""
    return chain(count) + [(0, i) for i in range(5, count, 5)]


def measured(
    pairs: Iterable[tuple[int, int]], levels: Sequence[float], errors: Sequence[float], rng: np.random.Generator
) -> list[Edge]:
    """Edges as runs would report them: normal around the truth, with the standard errors that are theirs."""
    return [
        Edge(node(a), node(b), levels[b] - levels[a] + float(rng.normal(0, error)), float(error))
        for (a, b), error in zip(pairs, errors, strict=True)
    ]


def errors(count: int, rng: np.random.Generator, typical: float = 0.004) -> list[float]:
    """Standard errors that differ from run to run, by a factor of about 1.4."""
    return [float(error) for error in typical * np.exp(rng.normal(0, 0.35, count))]


def drift(count: int, first: int, last: int, each: float) -> list[float]:
    """Levels that rise by ``each`` with every build after ``first``, up to ``last``."""
    return [each * float(np.clip(i - first, 0, last - first)) for i in range(count)]


def step(count: int, at: int, size: float) -> list[float]:
    """Levels that are ``size`` higher from ``at`` on."""
    return [size * (i >= at) for i in range(count)]
