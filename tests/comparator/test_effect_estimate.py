"""Equivalence, ratios and the smallest detectable change."""

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from opduel.comparator.effect_estimate import LARGEST_CHANGE, as_ratio, is_within, minimal_detectable_change
from opduel.comparator.trimmed_mean import TrimmedMean, t_quantile

trimmed_means = st.builds(TrimmedMean, st.floats(-1, 1), st.floats(1e-4, 0.5), st.floats(1, 200), st.integers(2, 50))


@pytest.mark.parametrize(
    ("interval", "bound", "within"),
    [
        ((-0.01, 0.01), 0.02, True),
        ((-0.02, 0.02), 0.02, True),
        ((-0.01, 0.021), 0.02, False),
        ((-0.03, 0.01), 0.02, False),
        ((0.0, 0.0), 0.0, False),
    ],
)
def test_equivalence(interval: tuple[float, float], bound: float, within: bool) -> None:
    assert is_within(interval, bound) is within


@given(st.floats(allow_nan=False))
def test_ratios_stay_finite(log_ratio: float) -> None:
    assert 0 < as_ratio(log_ratio) < math.inf


@given(trimmed_means, st.floats(0, 0.5), st.floats(1e-6, 0.2))
def test_smallest_change_lies_beyond_the_threshold(trimmed_mean: TrimmedMean, threshold: float, alpha: float) -> None:
    change = minimal_detectable_change(trimmed_mean, threshold, alpha)
    assert threshold <= change <= LARGEST_CHANGE
    looser = minimal_detectable_change(trimmed_mean, threshold, alpha * 1.5)
    assert looser <= change


def test_smallest_change_is_found_four_times_in_five() -> None:
    trimmed_mean = TrimmedMean(0.0, 0.004, 20, 30)
    change = minimal_detectable_change(trimmed_mean, 0.02, 0.001)
    critical = math.log1p(0.02) + t_quantile(trimmed_mean, 0.0004) * 0.004
    shift = (math.log1p(change) - math.log1p(0.02)) / 0.004
    power = stats.nct.sf((critical - math.log1p(0.02)) / 0.004, 20, shift)
    assert power == pytest.approx(0.8, abs=0.04)
