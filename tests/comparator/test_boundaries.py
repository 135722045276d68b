"""Levels of several looks that together spend one error: published values, a simulation, what they must never do."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from opduel.comparator.boundaries import nominal_levels

SIMULATED = 400_000


def crossings(counts: tuple[int, ...], levels: tuple[float, ...], seed: int) -> np.ndarray:
    """The share of simulated sums of normal values that first cross at each look."""
    rng = np.random.default_rng(seed)
    steps = np.diff([0, *counts])
    sums = np.cumsum(rng.standard_normal((SIMULATED, len(counts))) * np.sqrt(steps), axis=1)
    crossed = sums > stats.norm.isf(levels) * np.sqrt(counts)
    first = np.where(crossed.any(axis=1), crossed.argmax(axis=1), len(counts))
    return np.bincount(first, minlength=len(counts) + 1)[:-1] / SIMULATED


@pytest.mark.parametrize(
    ("counts", "error"), [((5, 8, 12, 19, 30), 0.2), ((3, 5), 0.1), ((2, 3, 4, 50), 0.3), ((7,), 0.05)]
)
def test_each_look_spends_what_it_may_and_no_less(counts: tuple[int, ...], error: float) -> None:
    spent = tuple(error / len(counts) for _ in counts)
    levels = nominal_levels(counts, spent)
    crossing_shares = crossings(counts, levels, 1)
    # Five standard errors: one run of all four in a million would fail by chance, and the seed is fixed.
    assert crossing_shares == pytest.approx(spent, abs=5 * math.sqrt(spent[0] / SIMULATED))


@pytest.mark.parametrize(("looks", "critical"), [(2, 2.178), (3, 2.289), (4, 2.361), (5, 2.413), (10, 2.555)])
def test_spending_as_pococks_test_does_gives_his_one_critical_value(looks: int, critical: float) -> None:
    """Two-sided alpha 0.05, looks equally far apart (Jennison and Turnbull 2000, table 2.1). Its first look spends the
    level itself, and each other one what the table's constant boundary leaves it."""
    level = float(stats.norm.sf(critical))
    counts = tuple(range(1, looks + 1))
    spent = [level]
    for look in range(2, looks + 1):  # what a look spends whose level is that of all others, by bisection
        low, high = 0.0, level
        for _ in range(14):  # to a ten-thousandth of the level
            middle = (low + high) / 2
            high, low = (middle, low) if nominal_levels(counts[:look], (*spent, middle))[-1] > level else (high, middle)
        spent.append((low + high) / 2)
    assert sum(spent) == pytest.approx(0.025, rel=3e-3)


counts_and_shares = st.lists(st.tuples(st.integers(1, 40), st.floats(0.1, 1)), min_size=1, max_size=8)


@given(counts_and_shares, st.sampled_from([0.5, 0.05, 0.005, 1e-6]))
def test_no_level_is_below_bonferronis_nor_above_all_that_was_spent(
    looks: list[tuple[int, float]], error: float
) -> None:
    counts = tuple(int(look) for look in np.cumsum([count for count, _ in looks]))
    shares = np.array([share for _, share in looks])
    spent = tuple(float(share) for share in error * shares / shares.sum() * 0.999)
    levels = nominal_levels(counts, spent)
    assert levels[0] == pytest.approx(spent[0])
    for level, share, total in zip(levels, spent, np.cumsum(spent), strict=True):
        assert share * (1 - 1e-3) <= level <= total * (1 + 1e-3)


@given(counts_and_shares)
def test_later_looks_change_no_earlier_level(looks: list[tuple[int, float]]) -> None:
    counts = tuple(int(look) for look in np.cumsum([count for count, _ in looks]))
    spent = tuple(0.05 * share / 8 for _, share in looks)
    assert nominal_levels(counts, spent)[:-1] == (nominal_levels(counts[:-1], spent[:-1]) if len(looks) > 1 else ())
