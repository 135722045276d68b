"""Histories: positions against brute-force least squares, what must not matter, and what the intervals stand for."""

import math
import random

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from made_histories import chain, drift, errors, measured, mixed, node, order, star, step

from opduel.comparator.history.network_meta_analysis import Edge, analyse_network, edge_from_interval

COUNT = 8
PAIRS = st.tuples(st.integers(0, COUNT - 1), st.integers(0, COUNT - 1)).filter(lambda pair: pair[0] != pair[1])
EDGES = st.lists(
    st.builds(
        lambda pair, ratio, error: Edge(node(pair[0]), node(pair[1]), ratio, error),
        PAIRS,
        st.floats(-0.5, 0.5),
        st.floats(1e-3, 0.1),
    ),
    min_size=1,
    max_size=20,
)


def brute_force(nodes: tuple[str, ...], edges: list[Edge]) -> tuple[np.ndarray, np.ndarray]:
    """Positions and standard errors by numpy's least squares on the whitened design; the first node at 0."""
    index = {name: i for i, name in enumerate(nodes)}
    inside = [edge for edge in edges if edge.control in index]
    design, values = np.zeros((len(inside), len(nodes) - 1)), np.zeros(len(inside))
    for row, edge in enumerate(inside):
        for name, sign in ((edge.treatment, 1.0), (edge.control, -1.0)):
            if index[name]:
                design[row, index[name] - 1] = sign / edge.standard_error
        values[row] = edge.log_ratio / edge.standard_error
    positions, _, _, _ = np.linalg.lstsq(design, values, rcond=None)
    dispersion = 1.0
    if len(inside) > len(nodes) - 1:
        dispersion = max(1.0, float(np.sum((values - design @ positions) ** 2)) / (len(inside) - len(nodes) + 1))
    covariance = np.linalg.inv(design.T @ design) * dispersion
    return np.concatenate([[0.0], positions]), np.concatenate([[0.0], np.sqrt(np.diag(covariance))])


@given(EDGES)
def test_positions_are_those_of_least_squares(edges: list[Edge]) -> None:
    components = analyse_network(edges, order(COUNT))
    assert sum(component.edges for component in components) == len(edges)
    for component in components:
        places, deviations = brute_force(component.nodes, edges)
        assert [p.log_ratio for p in component.positions] == pytest.approx(places, abs=1e-9)
        assert [p.standard_error for p in component.positions] == pytest.approx(deviations, rel=1e-6, abs=1e-12)
        assert component.drift.log_ratio == pytest.approx(places[-1], abs=1e-9)
        assert component.drift.standard_error == pytest.approx(deviations[-1], rel=1e-6)


@given(EDGES, st.randoms(use_true_random=False))
def test_the_order_in_which_runs_came_in_does_not_matter(edges: list[Edge], shuffler: random.Random) -> None:
    again = list(edges)
    shuffler.shuffle(again)
    assert analyse_network(again, order(COUNT)) == analyse_network(edges, order(COUNT))


@given(EDGES)
def test_a_run_the_other_way_round_says_the_same(edges: list[Edge]) -> None:
    turned = [Edge(edge.treatment, edge.control, -edge.log_ratio, edge.standard_error) for edge in edges]
    for component, other in zip(
        analyse_network(edges, order(COUNT)), analyse_network(turned, order(COUNT)), strict=True
    ):
        assert other.nodes == component.nodes
        assert [p.log_ratio for p in other.positions] == pytest.approx(
            [p.log_ratio for p in component.positions], abs=1e-9
        )


@given(st.lists(st.tuples(st.floats(-0.3, 0.3), st.floats(1e-3, 0.1)), min_size=1, max_size=12))
def test_a_star_gives_the_ratios_themselves_and_a_chain_their_sums(figures: list[tuple[float, float]]) -> None:
    count = len(figures) + 1
    ratios, deviations = [figure[0] for figure in figures], [figure[1] for figure in figures]
    for pairs, places, variances in (
        (star(count), ratios, np.square(deviations)),
        (chain(count), np.cumsum(ratios), np.cumsum(np.square(deviations))),
    ):
        edges = [Edge(node(a), node(b), *figure) for (a, b), figure in zip(pairs, figures, strict=True)]
        (component,) = analyse_network(edges, order(count))
        assert [p.log_ratio for p in component.positions[1:]] == pytest.approx(list(places), abs=1e-9)
        assert [p.standard_error**2 for p in component.positions[1:]] == pytest.approx(list(variances), rel=1e-6)


def test_the_reference_is_the_oldest_and_another_only_shifts() -> None:
    rng = np.random.default_rng(1)
    pairs = mixed(12)
    edges = measured(pairs, drift(12, 3, 9, 0.01), errors(len(pairs), rng), rng)
    (component,) = analyse_network(edges, order(12))
    (other,) = analyse_network(edges, {**order(12), node(7): -1.0})
    assert (component.nodes[0], other.nodes[0]) == (node(0), node(7))
    shift = {p.node: p.log_ratio for p in component.positions}[node(7)]
    moved = {p.node: p.log_ratio for p in other.positions}
    assert all(p.log_ratio - shift == pytest.approx(moved[p.node], abs=1e-12) for p in component.positions)


def test_repeated_pairs_add_up() -> None:
    once = [Edge("a", "b", 0.02, 0.004)]
    (component,) = analyse_network(once * 4, {"a": 0, "b": 1})
    assert component.drift.standard_error == pytest.approx(0.002)
    assert component.dispersion == 1.0


def test_runs_that_contradict_each_other_widen_everything() -> None:
    edges = [Edge("a", "b", 0.00, 0.001), Edge("a", "b", 0.04, 0.001)]
    (component,) = analyse_network(edges, {"a": 0, "b": 1})
    assert component.dispersion == pytest.approx(2 * (0.02 / 0.001) ** 2)
    assert component.drift.ci[0] < 0 < component.drift.ci[1]
    assert not component.changes


def test_what_no_run_connects_is_distinguished_the_newest_first() -> None:
    edges = [Edge("a", "b", 0.01, 0.01), Edge("c", "d", 0.02, 0.01), Edge("d", "e", 0.03, 0.01)]
    first, second = analyse_network(edges, {name: i for i, name in enumerate("abcde")})
    assert (first.nodes, second.nodes) == (("c", "d", "e"), ("a", "b"))
    assert first.drift.log_ratio == pytest.approx(0.05)
    assert analyse_network([], {}) == []


def test_without_positions_all_else_is_the_same() -> None:
    rng = np.random.default_rng(2)
    edges = measured(star(30), step(30, 12, 0.03), errors(29, rng), rng)
    (full,), (short,) = (analyse_network(edges, order(30), with_positions=flag) for flag in (True, False))
    assert short.positions == ()
    assert (short.changes, short.drift, short.p_value) == (full.changes, full.drift, full.p_value)
    assert full.changes


def test_the_error_of_a_run_is_its_intervals_width_over_the_normal_one() -> None:
    edge = edge_from_interval("a", "b", 1.02, (1.02 / math.exp(0.0196), 1.02 * math.exp(0.0196)), 0.05)
    assert edge is not None
    assert edge.standard_error == pytest.approx(0.01, rel=1e-4)
    assert edge.log_ratio == pytest.approx(math.log(1.02))


@pytest.mark.parametrize(
    ("ratio", "ci"),
    [
        (None, None),
        (1.0, None),
        (0.0, (0.0, 0.0)),
        (1.0, (0.0, 2.0)),
        (math.inf, (1.0, math.inf)),
        (1.0, (1.1, 1.2)),
        (1.0, (1.2, 0.9)),
        (1.0, (1e-300, 1e300)),
    ],
)
def test_a_run_without_an_interval_that_can_be_meant_is_no_edge(
    ratio: float | None, ci: tuple[float, float] | None
) -> None:
    assert edge_from_interval("a", "b", ratio, ci, 0.05) is None


def test_a_build_against_itself_is_no_edge() -> None:
    assert edge_from_interval("a", "a", 1.0, (0.99, 1.01), 0.05) is None


@pytest.mark.parametrize("neutrals", [1, 2])
def test_builds_apart_are_what_the_others_are_measured_against(neutrals: int) -> None:
    """A step of 5 % among builds that are three times slower than the neutral ones, in whose place there is no change:
    these have levels of their own."""
    rng = np.random.default_rng(5)
    levels = [-0.1 * i for i in range(neutrals)] + [1.1] * 6 + [1.15] * 6
    pairs = [(i % neutrals, i) for i in range(neutrals, len(levels))]
    pairs += [(0, neutrals), (neutrals - 1, neutrals)]  # so that all are connected
    edges = measured(pairs, levels, errors(len(pairs), rng), rng)
    ranks = order(len(levels))
    (plain,) = analyse_network(edges, ranks)
    assert any(math.exp(change.log_ratio) > 2 for change in plain.changes), "a change from one framework to another"
    (component,) = analyse_network(edges, ranks, foreign=[node(i) for i in range(neutrals)])
    (change,) = component.changes
    assert (change.before, change.after) == (node(neutrals + 5), node(neutrals + 6))
    assert change.log_ratio == pytest.approx(0.05, abs=0.01)
    assert (component.drift.oldest, component.drift.newest) == (node(neutrals), node(len(levels) - 1))
    assert component.drift.log_ratio == pytest.approx(0.05, abs=0.02)
    assert component.positions[-1].log_ratio == pytest.approx(1.15, abs=0.02), "the ratio to the neutral build"
    places = {position.node: position.log_ratio for position in component.positions}
    assert component.drift.log_ratio == pytest.approx(places[node(len(levels) - 1)] - places[node(neutrals)])


def test_no_change_among_the_others_is_none() -> None:
    rng = np.random.default_rng(6)
    levels = [0.0] + [1.1] * 12
    edges = measured(star(13), levels, errors(12, rng), rng)
    (component,) = analyse_network(edges, order(13), foreign=[node(0)])
    assert component.changes == ()
    assert component.p_value > 0.01
    (alone,) = analyse_network(edges[:1], order(2), foreign=[node(0)])
    assert (alone.changes, alone.drift.log_ratio, alone.drift.standard_error) == ((), 0.0, 0.0)
