"""Change points: false alarms and power in simulated chains and stars; steps and drifts found where they are."""

from collections.abc import Callable

import numpy as np
import pytest
from made_histories import chain, drift, errors, measured, mixed, node, order, star, step
from scipy import stats

from opduel.comparator.history import change_points
from opduel.comparator.history.change_points import _Scan
from opduel.comparator.history.network_meta_analysis import Component, analyse_network

Pairs = Callable[[int], list[tuple[int, int]]]
SHAPES = pytest.mark.parametrize("pairs", [chain, star, mixed])
COUNT = 25


def component_of(pairs: Pairs, levels: list[float], seed: int, level: float = 0.01, minimal: float = 0.01) -> Component:
    rng = np.random.default_rng(seed)
    edges = measured(pairs(len(levels)), levels, errors(len(pairs(len(levels))), rng), rng)
    (component,) = analyse_network(edges, order(len(levels)), level=level, minimal=minimal, with_positions=False)
    return component


def no_more_than(level: float, count: int, total: int) -> bool:
    """Whether ``count`` of ``total`` is no evidence against a rate of ``level`` at most."""
    return bool(stats.binomtest(count, total, level, alternative="greater").pvalue > 1e-3)


@SHAPES
def test_histories_without_change_give_false_alarms_at_the_stated_rate(pairs: Pairs) -> None:
    level, total = 0.1, 120
    alarms = sum(bool(component_of(pairs, [0.0] * COUNT, seed, level, 0.0).changes) for seed in range(total))
    assert no_more_than(level, alarms, total)
    assert alarms  # the level is used, too


@SHAPES
def test_a_gradual_drift_that_no_single_run_shows_is_found(pairs: Pairs) -> None:
    """Ten commits of +0.7 % each, when a run's standard error is 0.4 %, and its threshold 2 %."""
    histories = [component_of(pairs, drift(COUNT, 8, 18, 0.007), seed) for seed in range(20)]
    hits = [history for history in histories if history.changes]
    assert len(hits) >= 18
    covered = sum(hit.changes[0].ci[0] <= 0.07 <= hit.changes[0].ci[1] for hit in hits if len(hit.changes) == 1)
    assert covered >= len(hits) // 2


def test_a_step_seen_through_many_runs_is_found_where_it_is() -> None:
    """+1.5 % when a run's standard error is 0.4 to 0.6 %, so that most runs alone would not call it."""
    histories = [component_of(star, step(COUNT, 14, 0.015), seed) for seed in range(20)]
    assert all(history.changes for history in histories)
    exact = sum(history.changes[0].before == node(13) and history.changes[0].builds == 1 for history in histories)
    near = sum(abs(int(history.changes[0].after[1:]) - 14) <= 2 for history in histories)
    assert exact >= 8
    assert near >= 18


def test_two_steps_that_cancel_are_both_found() -> None:
    levels = [a - b for a, b in zip(step(COUNT, 8, 0.04), step(COUNT, 16, 0.04), strict=True)]
    for pairs in (chain, star, mixed):
        up, down = component_of(pairs, levels, 3).changes
        assert (up.before, up.after, down.before, down.after) == (node(7), node(8), node(15), node(16))
        assert up.ci[0] <= 0.04 <= up.ci[1]
        assert down.ci[0] <= -0.04 <= down.ci[1]


def test_changes_below_the_smallest_that_matters_are_passed_over() -> None:
    assert not component_of(star, step(COUNT, 12, 0.008), 4, minimal=0.01).changes
    assert component_of(star, step(COUNT, 12, 0.008), 4, minimal=0.004).changes


def test_equal_data_give_equal_findings() -> None:
    assert component_of(mixed, drift(COUNT, 5, 12, 0.01), 5) == component_of(mixed, drift(COUNT, 5, 12, 0.01), 5)


def test_a_graph_too_large_to_be_kept_gives_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    cached = component_of(mixed, drift(COUNT, 5, 12, 0.01), 7)
    monkeypatch.setattr(change_points, "_LARGEST_KEPT", 100)
    parted = component_of(mixed, drift(COUNT, 5, 12, 0.01), 7)
    assert [change.before for change in parted.changes] == [change.before for change in cached.changes]
    sizes = [change.log_ratio for change in cached.changes]
    assert [change.log_ratio for change in parted.changes] == pytest.approx(sizes)


@SHAPES
def test_the_contrasts_are_those_of_least_squares(pairs: Pairs) -> None:
    """Each ramp's size and error, alone and beside others, against numpy's least squares on the whitened design."""
    rng = np.random.default_rng(6)
    count = 12
    places = pairs(count)
    heads, tails = (np.array(row, dtype=np.intp) for row in zip(*places, strict=True))
    weights, values = rng.uniform(1e3, 1e5, len(places)), rng.normal(0, 0.01, len(places))
    scan = _Scan(heads, tails, weights, count)
    for fitted_ramps in ([], [(3, 4)], [(3, 4), (5, 9)]):
        sums, squares = scan.contrasts(scan.scores(values[:, None]), fitted_ramps)
        for i, ramp in enumerate(zip(scan.starts, scan.stops, strict=True)):
            if tuple(map(int, ramp)) in fitted_ramps:
                assert sums[i, 0] == 0
                continue
            shapes = scan.shape([*fitted_ramps, (int(ramp[0]), int(ramp[1]))])
            design = (shapes[tails] - shapes[heads]) * np.sqrt(weights)[:, None]
            size, *_ = np.linalg.lstsq(design, values * np.sqrt(weights), rcond=None)
            error = np.sqrt(np.linalg.inv(design.T @ design)[-1, -1])
            assert sums[i, 0] / squares[i] == pytest.approx(size[-1], rel=1e-6, abs=1e-9)
            assert squares[i] ** -0.5 == pytest.approx(error, rel=1e-6)
