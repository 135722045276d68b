"""The shifted t test, the combination of tests, the interval and the smallest detectable change."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from opduel.comparator.mde import LARGEST_CHANGE, minimal_detectable_change
from opduel.comparator.significance import combined_p, mirrored, shifted_t_p, t_quantile, two_sided_p
from opduel.comparator.tost import as_ratio, confidence_interval, is_within
from opduel.comparator.trimmed_mean import TrimmedMean, estimate_trimmed_mean

trimmed_means = st.builds(TrimmedMean, st.floats(-1, 1), st.floats(1e-4, 0.5), st.floats(1, 200), st.integers(2, 50))


@pytest.mark.parametrize("bound", [0.0, 0.02, 0.5])
def test_t_equals_scipys_on_untrimmed_data(bound: float) -> None:
    values = np.random.default_rng(1).normal(0.03, 0.02, 4)
    expected = stats.ttest_1samp(values, bound, alternative="greater").pvalue
    assert shifted_t_p(estimate_trimmed_mean(values.tolist()), bound) == pytest.approx(expected)


@given(trimmed_means, st.floats(0, 0.5), st.floats(0, 0.5))
def test_a_wider_bound_is_harder_to_exceed(trimmed_mean: TrimmedMean, one: float, other: float) -> None:
    low, high = sorted((one, other))
    assert shifted_t_p(trimmed_mean, low) <= shifted_t_p(trimmed_mean, high)
    assert shifted_t_p(trimmed_mean, 0) + shifted_t_p(mirrored(trimmed_mean), 0) == pytest.approx(1)


@pytest.mark.parametrize(
    ("p_t", "p_mw", "combined"),
    [(0.008, 1.0, 0.01), (1.0, 0.002, 0.01), (0.8, 0.2, 1.0), (0.9, 0.9, 1.0), (0.0, 1.0, 0.0)],
)
def test_tests_share_the_error(p_t: float, p_mw: float, combined: float) -> None:
    assert combined_p(p_t, p_mw) == pytest.approx(combined)


def test_two_sided() -> None:
    assert two_sided_p(0.01, 1.0) == 0.02
    assert two_sided_p(0.6, 0.7) == 1


@given(trimmed_means, st.floats(1e-6, 0.4))
def test_interval_is_the_inverted_test(trimmed_mean: TrimmedMean, tail: float) -> None:
    low, high = confidence_interval(trimmed_mean, tail)
    assert shifted_t_p(trimmed_mean, low) == pytest.approx(tail, rel=1e-4)
    assert shifted_t_p(mirrored(trimmed_mean), -high) == pytest.approx(tail, rel=1e-4)


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
