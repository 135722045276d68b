"""Equivalence, ratios and the smallest detectable change."""

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st
from made_samples import pairs
from scipy import stats

from opduel.comparator.case_values import Values
from opduel.comparator.effect_estimate import LARGEST_CHANGE, as_ratio, estimate_effect, minimal_detectable_change
from opduel.comparator.empirical_bayes import NO_PRIOR
from opduel.comparator.trimmed_mean import TrimmedMean, t_quantile

trimmed_means = st.builds(TrimmedMean, st.floats(-1, 1), st.floats(1e-4, 0.5), st.floats(1, 200), st.integers(2, 50))


@pytest.mark.parametrize(
    ("values", "bound", "no_rise", "no_fall"),
    [
        ([0.0, 0.001, -0.001], 0.02, True, True),
        ([-0.1, -0.101, -0.099], 0.02, True, False),
        ([0.1, 0.101, 0.099], 0.02, False, True),
        ([0.02, 0.021, 0.019], 0.02, False, True),
        ([0.3, -0.3, 0.1], 0.02, False, False),
        ([0.0, 0.0, 0.0], 0.0, False, False),
    ],
)
def test_on_which_side_of_the_bound_the_interval_lies(
    values: list[float], bound: float, no_rise: bool, no_fall: bool
) -> None:
    effect = estimate_effect(Values.of(pairs("a", "screening", values)), bound, NO_PRIOR, 0.025)
    assert (effect.no_rise, effect.no_fall) == (no_rise, no_fall)
    low, high = effect.interval
    assert no_rise == (bound > 0 and high <= bound)
    assert no_fall == (bound > 0 and low >= -bound)
    wider = effect.at_level(0.001).interval
    assert wider[0] < low < high < wider[1]


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
    critical = math.log1p(0.02) + t_quantile(trimmed_mean, 0.0005) * 0.004
    shift = (math.log1p(change) - math.log1p(0.02)) / 0.004
    power = stats.nct.sf((critical - math.log1p(0.02)) / 0.004, 20, shift)
    assert power == pytest.approx(0.8, abs=0.04)
