"""Mann and Whitney's test."""

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from naive_statistics import mann_whitney_by_enumeration, naive_shift_interval
from scipy import stats

from opduel.comparator.mann_whitney import EXACT_UP_TO, mann_whitney_interval, mann_whitney_p


@settings(max_examples=60, deadline=None)
@given(st.permutations(range(9)), st.integers(1, 8))
def test_exact_equals_enumeration(values: list[int], split: int) -> None:
    lower, upper = values[:split], values[split:]
    assert mann_whitney_p(lower, upper) == pytest.approx(mann_whitney_by_enumeration(lower, upper), rel=1e-12)


@pytest.mark.parametrize("n", [2, 5, 12, 30])
@pytest.mark.parametrize("shift", [0.0, 0.5, 2.0])
def test_exact_equals_scipy(n: int, shift: float) -> None:
    rng = np.random.default_rng(n)
    lower, upper = rng.normal(size=n), rng.normal(shift, size=n)
    expected = stats.mannwhitneyu(upper, lower, alternative="greater", method="exact").pvalue
    assert mann_whitney_p(lower.tolist(), upper.tolist()) == pytest.approx(expected, rel=1e-9)


@given(st.lists(st.integers(0, 6), min_size=3, max_size=30), st.lists(st.integers(0, 6), min_size=3, max_size=30))
def test_ties_equal_scipys_approximation(lower: list[int], upper: list[int]) -> None:
    if len(set(lower) | set(upper)) == len(lower) + len(upper):
        return
    if len(set(lower) | set(upper)) == 1:
        assert mann_whitney_p(lower, upper) == 1
        return
    expected = stats.mannwhitneyu(upper, lower, alternative="greater", method="asymptotic").pvalue
    assert mann_whitney_p(lower, upper) == pytest.approx(expected, rel=1e-9)


@settings(max_examples=60, deadline=None)
@given(st.integers(0, 10_000), st.integers(2, 5), st.sampled_from([0.01, 0.06, 0.2]))
def test_the_interval_is_what_no_test_rejects(seed: int, n: int, tail: float) -> None:
    rng = np.random.default_rng(seed)
    control, treatment = rng.uniform(1, 2, n).tolist(), rng.uniform(1, 3, n).tolist()
    found = mann_whitney_interval(control, treatment, tail)
    assert found == pytest.approx(naive_shift_interval(control, treatment, tail), rel=1e-9)


def test_the_interval_has_no_end_where_nothing_can_be_rejected() -> None:
    assert mann_whitney_interval([1.0, 2.0], [3.0, 4.0], 0.01) == (-math.inf, math.inf)
    assert mann_whitney_interval([0.0, 2.0], [3.0, 4.0], 0.5) == (-math.inf, math.inf)
    low, high = mann_whitney_interval([1e-300] * 12, [1e300] * 12, 0.01)
    assert low == high == pytest.approx(600 * math.log(10))


def test_nine_against_nine_is_the_smallest_for_four_hundred_operators() -> None:
    lower, upper = list(range(9)), list(range(9, 18))
    assert mann_whitney_p(lower, upper) == pytest.approx(1 / 48620)
    assert mann_whitney_p(upper, lower) == 1


@pytest.mark.parametrize("n", [30, 40, 60, EXACT_UP_TO])
def test_tails_of_many_values_are_exact(n: int) -> None:
    """The counts of arrangements outgrow a float from 29 values a side on."""
    lower = list(range(n))
    upper = [value + n for value in lower]
    fewest = 1 / math.comb(2 * n, n)
    assert mann_whitney_p(lower, upper) == fewest
    upper[0] = n - 1.5  # below one of the lower: of U = n n - 1 there is one arrangement, too
    assert mann_whitney_p(lower, upper) == pytest.approx(2 * fewest, rel=1e-12)
    assert mann_whitney_p(upper, lower) == 1


@pytest.mark.parametrize("n", [EXACT_UP_TO + 1, 515, 1200])
def test_of_very_many_values_the_normal_approximation_serves(n: int) -> None:
    rng = np.random.default_rng(n)
    lower, upper = rng.normal(size=n), rng.normal(0.2, size=n)
    expected = stats.mannwhitneyu(upper, lower, alternative="greater", method="asymptotic").pvalue
    assert mann_whitney_p(lower.tolist(), upper.tolist()) == pytest.approx(expected, rel=1e-9)
    assert 0 <= mann_whitney_p(list(range(n)), list(range(n, 2 * n))) < 1e-30


def test_where_it_begins_the_approximation_claims_no_more_than_the_exact_p(monkeypatch: pytest.MonkeyPatch) -> None:
    """Small p values, of which verdicts are made, come out a little too large."""
    lower = [2.0 * value for value in range(EXACT_UP_TO)]
    for shift in (17, 31, 41):
        upper = [value + shift for value in lower]
        exact = mann_whitney_p(lower, upper)
        monkeypatch.setattr("opduel.comparator.mann_whitney.EXACT_UP_TO", 0)
        assert exact < mann_whitney_p(lower, upper) < 2 * exact
        monkeypatch.undo()


def test_refuses_an_empty_side() -> None:
    with pytest.raises(ValueError, match="both sides"):
        mann_whitney_p([], [1.0])
