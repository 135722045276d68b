"""One case's history: the position of each build, from all runs that compared any two of them, and where it changed.

A run gives one edge: the log ratio of two builds with its standard error. Runs may form a chain (each commit against
the one before), a star (all against one release), anything between, repeat, or fall apart. Positions are the
generalised least-squares solution on that graph. docs/explanation/history.md says why, and how often this is wrong.
Two runs that share a build compare the others indirectly (``link``).
"""

import math
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import NDArray
from scipy import sparse, special
from scipy.sparse import csgraph, linalg

from opduel.comparator.history.change_points import DEFAULT_LEVEL, find_change_points
from opduel.comparator.trimmed_mean import RESOLUTION

Floats = NDArray[np.float64]

Way = Literal["same builds", "same control", "same treatment", "one after the other"]

_AT_A_TIME = 256  # columns of an inverse
_USELESS = 3.0  # a standard error from which on a run says nothing: its interval spans a factor of 100,000


@dataclass(frozen=True)
class Edge:
    """One run's comparison of two builds: ln(treatment / control) of a case, and its standard error (> 0)."""

    control: str
    treatment: str
    log_ratio: float
    standard_error: float


@dataclass(frozen=True)
class Position:
    """The position of a build: ln(build / reference) with an interval. The reference itself is at 0, exactly."""

    node: str
    log_ratio: float
    standard_error: float
    ci: tuple[float, float]


@dataclass(frozen=True)
class Change:
    """A change of level: a step if ``before`` and ``after`` are neighbours, else a gradual drift between them.

    ``log_ratio`` is its size with an interval, all of the history's changes fitted together. ``p_value`` is against a
    history that has only the changes found before this one; it allows for the search over all places.
    """

    before: str  # the last build at the old level
    after: str  # the first build at the new level
    builds: int  # steps of the order between the two; 1 for a step
    log_ratio: float
    ci: tuple[float, float]
    p_value: float


@dataclass(frozen=True)
class Drift:
    """The newest build against the oldest: ln(newest / oldest), its standard error and interval."""

    oldest: str
    newest: str
    log_ratio: float
    standard_error: float
    ci: tuple[float, float]


@dataclass(frozen=True)
class Component:
    """Builds that runs connect, in order; the first is the reference.

    ``p_value`` is against "no change anywhere". The variances were multiplied by ``dispersion``: how much more runs
    disagree with each other than their intervals say; 1 if they agree, or if there are none to compare.
    """

    nodes: tuple[str, ...]
    edges: int
    drift: Drift
    changes: tuple[Change, ...]
    p_value: float
    dispersion: float
    positions: tuple[Position, ...]


def edge_from_interval(
    control: str, treatment: str, ratio: float | None, ci: Sequence[float] | None, alpha: float
) -> Edge | None:
    """Return a run's comparison as an edge; None when it has no interval, or one too wide to be of use.

    The standard error is the interval's width in logs over 2 z(1 - alpha / 2): rather too large, as the run's interval
    comes from a t distribution and allows for several looks.
    """
    if ratio is None or ci is None or control == treatment or not 0 < alpha < 1:
        return None
    if not all(math.isfinite(value) and value > 0 for value in (ratio, *ci)) or not ci[0] <= ratio <= ci[1]:
        return None
    error = (math.log(ci[1]) - math.log(ci[0])) / (-2 * float(special.ndtri(alpha / 2)))
    return Edge(control, treatment, math.log(ratio), max(error, RESOLUTION)) if error <= _USELESS else None


def analyse_network(
    edges: Sequence[Edge],
    order: Mapping[str, float],
    *,
    minimal: float = 0.01,
    alpha: float = 0.05,
    level: float = DEFAULT_LEVEL,
    with_positions: bool = True,
    foreign: Collection[str] = (),
) -> list[Component]:
    """Return the history of one case: a component for each set of builds that runs connect, the newest first.

    ``order`` ranks the builds, the oldest lowest (equal ranks are ordered by name). Intervals have confidence
    1 - ``alpha``. In a history without change one is found with probability ``level`` at most; changes of less than
    ``minimal`` (a share) are left out. Equal arguments give equal results. Without ``with_positions`` positions are
    left out, which is many times faster.

    ``foreign`` builds, such as those of a release, come first in the order and only serve as a reference: positions are
    relative to the first of them, but changes and drift are those of the other builds.
    """
    components = []
    for nodes, inside in _components(edges, order):
        graph = _Graph(nodes, inside)
        free = sum(node in foreign for node in nodes)
        components.append(_component(graph, minimal, alpha, level, with_positions, min(free, len(nodes) - 1)))
    return sorted(
        components, key=lambda component: (-order[component.nodes[-1]], -len(component.nodes), component.nodes)
    )


def _components(edges: Sequence[Edge], order: Mapping[str, float]) -> list[tuple[list[str], list[Edge]]]:
    """Return the connected sets of builds, each in order, with their edges."""
    nodes = sorted(
        {node for edge in edges for node in (edge.control, edge.treatment)}, key=lambda node: (order[node], node)
    )
    if not nodes:
        return []
    index = {node: i for i, node in enumerate(nodes)}
    heads, tails = [index[edge.control] for edge in edges], [index[edge.treatment] for edge in edges]
    links = sparse.coo_matrix((np.ones(len(edges)), (heads, tails)), shape=(len(nodes), len(nodes)))
    count, labels = csgraph.connected_components(links, directed=False)
    parts: list[tuple[list[str], list[Edge]]] = [([], []) for _ in range(count)]
    for node, label in zip(nodes, labels, strict=True):
        parts[label][0].append(node)
    for edge in edges:
        parts[labels[index[edge.control]]][1].append(edge)
    return parts


class _Graph:
    """A connected component as arrays: builds by their place in the order, edges with weights 1 / variance."""

    def __init__(self, nodes: Sequence[str], edges: Sequence[Edge]) -> None:
        self.nodes = tuple(nodes)
        index = {node: i for i, node in enumerate(nodes)}
        # sorted, so that the order in which runs came in changes not even the last bit
        arranged = sorted(edges, key=lambda edge: (edge.control, edge.treatment, edge.log_ratio, edge.standard_error))
        self.heads = np.array([index[edge.control] for edge in arranged], dtype=np.intp)
        self.tails = np.array([index[edge.treatment] for edge in arranged], dtype=np.intp)
        self.values = np.array([edge.log_ratio for edge in arranged])
        self.weights = np.array([edge.standard_error for edge in arranged]) ** -2.0
        count = len(self.nodes)
        off = sparse.coo_matrix((self.weights, (self.heads, self.tails)), shape=(count, count)).tocsr()
        both = off + off.T
        self.laplacian = (sparse.diags(np.asarray(both.sum(axis=1)).ravel()) - both).tocsc()
        self.score = np.bincount(self.tails, self.weights * self.values, count) - np.bincount(
            self.heads, self.weights * self.values, count
        )

        self._solver = linalg.splu(self.laplacian[1:, 1:])

    def solve(self) -> Floats:
        """Return the positions relative to the first build, shape (builds,)."""
        return np.concatenate([[0.0], np.asarray(self._solver.solve(self.score[1:]))])

    def variances(self) -> Floats:
        """Return the positions' variances before dispersion, shape (builds,): the diagonal of the Laplacian's
        inverse."""
        count = len(self.nodes) - 1
        variances = np.zeros(count + 1)
        for low in range(0, count, _AT_A_TIME):
            places = np.arange(low, min(low + _AT_A_TIME, count))
            units = np.zeros((count, len(places)))
            units[places, places - low] = 1.0
            variances[places + 1] = self._solver.solve(units)[places, places - low]
        return variances

    def newest_variance(self, oldest: int = 0) -> float:
        """Return the variance of the last position less the one at ``oldest``, much faster than ``variances``."""
        contrast = np.zeros(len(self.nodes))
        contrast[-1] += 1.0
        contrast[oldest] -= 1.0
        return float(contrast[1:] @ self._solver.solve(contrast[1:]))

    def dispersion(self, positions: Floats) -> float:
        """Return Birge's ratio, the residuals' chi-square over its degrees of freedom, but at least 1."""
        freedom = len(self.values) - (len(self.nodes) - 1)
        if freedom <= 0:
            return 1.0
        residuals = self.values - (positions[self.tails] - positions[self.heads])
        return max(1.0, float(np.sum(self.weights * residuals**2)) / freedom)


def _component(graph: _Graph, minimal: float, alpha: float, level: float, with_positions: bool, free: int) -> Component:
    z = float(special.ndtri(1 - alpha / 2))
    places = graph.solve()
    dispersion = graph.dispersion(places)
    ramps, p_value = find_change_points(
        graph.heads,
        graph.tails,
        graph.values,
        graph.weights / dispersion,
        len(graph.nodes),
        minimal=math.log1p(minimal),
        level=level,
        free=free,
    )

    def interval(estimate: float, error: float) -> tuple[float, float]:
        return estimate - z * error, estimate + z * error

    nodes = graph.nodes
    newest, error = float(places[-1] - places[free]), math.sqrt(graph.newest_variance(free) * dispersion)
    drift = Drift(nodes[free], nodes[-1], newest, error, interval(newest, error))
    changes = []
    for ramp in ramps:
        ci = interval(ramp.size, ramp.standard_error)
        changes.append(Change(nodes[ramp.start], nodes[ramp.end], ramp.end - ramp.start, ramp.size, ci, ramp.p_value))
    positions = []
    if with_positions:
        errors = np.sqrt(np.maximum(graph.variances(), 0) * dispersion)
        for node, x, se in zip(nodes, map(float, places), map(float, errors), strict=True):
            positions.append(Position(node, x, se, interval(x, se)))
    return Component(nodes, len(graph.values), drift, tuple(changes), p_value, dispersion, tuple(positions))


@dataclass(frozen=True)
class Link:
    """Which builds two runs compare indirectly: ``newer`` against ``older``, by ``way``.

    The log ratio is the sum of the two runs' log ratios, each with its sign. If both runs measured the same builds,
    ``older`` and ``newer`` are both the treatment.
    """

    way: Way
    older: str
    newer: str
    signs: tuple[int, int]


@dataclass(frozen=True)
class IndirectEstimate:
    """ln(newer / older) of a link for one case, its standard error, and an interval."""

    log_ratio: float
    standard_error: float
    ci: tuple[float, float]


def link(first: tuple[str, str], second: tuple[str, str], order: Mapping[str, float]) -> Link | None:
    """Return how two runs, each (control, treatment), can be compared; None when they share no build.

    ``order`` ranks the builds, the oldest lowest: the newer build is compared with the older one.  Runs of the same
    control are divided, second by first, those of the same treatment first by second; where one's treatment is the
    other's control they are multiplied. Of the same two builds second / first is 1 but for chance, and says how well
    runs repeat.
    """
    if first in (second, second[::-1]):
        return Link("same builds", first[1], first[1], (-1, 1 if first == second else -1))
    shared = set(first) & set(second)
    if not shared:
        return None
    way: Way = "one after the other"
    if first[0] == second[0] or first[1] == second[1]:
        way = "same control" if first[0] == second[0] else "same treatment"
    # each run's build that is not shared, and the sign with which the run's log ratio is that build's to the shared one
    ends = [(treatment, 1) if control in shared else (control, -1) for control, treatment in (first, second)]
    (first_build, first_sign), (second_build, second_sign) = ends
    if order[first_build] > order[second_build]:
        return Link(way, second_build, first_build, (first_sign, -second_sign))
    return Link(way, first_build, second_build, (-first_sign, second_sign))


def indirect_estimate(how: Link, first: Edge, second: Edge, z: float) -> IndirectEstimate:
    """Return the implied change of one case. The two runs' errors are independent: each run measured both its sides.

    ``z`` is the normal quantile of the interval: 1.96 for 95 %.
    """
    log_ratio = how.signs[0] * first.log_ratio + how.signs[1] * second.log_ratio
    error = math.hypot(first.standard_error, second.standard_error)
    return IndirectEstimate(log_ratio, error, (log_ratio - z * error, log_ratio + z * error))
