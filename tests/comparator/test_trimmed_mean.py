"""The trimmed mean, its standard error, t test and interval."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from naive_statistics import naive_squared_error, naive_trimmed_mean
from scipy import stats

from opduel.comparator.trimmed_mean import (
    RESOLUTION,
    TrimmedMean,
    confidence_interval,
    estimate_trimmed_mean,
    mirror,
    shifted_t_p,
)

trimmed_means = st.builds(TrimmedMean, st.floats(-1, 1), st.floats(1e-4, 0.5), st.floats(1, 200), st.integers(2, 50))
log_ratios = st.lists(st.floats(-3, 3), min_size=2, max_size=40)
weighted = st.lists(st.tuples(st.floats(-3, 3), st.floats(1e-3, 1e3)), min_size=2, max_size=40)


@given(weighted)
def test_equals_the_naive_oracle(pairs: list[tuple[float, float]]) -> None:
    values, variances = zip(*pairs, strict=True)
    trimmed_mean = estimate_trimmed_mean(values, np.array(variances))
    n = len(values)
    error = math.sqrt(naive_squared_error(values, variances))
    assert trimmed_mean.estimate == pytest.approx(naive_trimmed_mean(values, variances), abs=1e-9)
    assert trimmed_mean.standard_error == pytest.approx(max(error, RESOLUTION / math.sqrt(n)), rel=1e-6)
    assert trimmed_mean.degrees_of_freedom == n - 2 * (n // 8) - 1
    assert trimmed_mean.n == n
    assert trimmed_mean.predicted == pytest.approx(stats.hmean(variances))
    assert trimmed_mean.scale == pytest.approx(n * trimmed_mean.standard_error**2 / trimmed_mean.predicted)


@given(log_ratios, st.floats(1e-6, 1e6))
def test_equal_weights_are_none(values: list[float], variance: float) -> None:
    plain, weighted = estimate_trimmed_mean(values), estimate_trimmed_mean(values, np.full(len(values), variance))
    assert weighted.estimate == pytest.approx(plain.estimate, abs=1e-12)
    assert weighted.standard_error == pytest.approx(plain.standard_error, rel=1e-6)
    assert weighted.scale == pytest.approx(plain.scale / variance, rel=1e-6)


@pytest.mark.parametrize("n", [5, 8, 9, 15, 16, 20, 35])
def test_agrees_with_scipy(n: int) -> None:
    values = np.random.default_rng(n).normal(size=n)
    assert estimate_trimmed_mean(values.tolist()).estimate == pytest.approx(stats.trim_mean(values, 1 / 8))


@pytest.mark.parametrize("n", [2, 3, 4, 7])
def test_is_student_while_nothing_is_trimmed(n: int) -> None:
    values = np.random.default_rng(n).normal(size=n)
    trimmed_mean = estimate_trimmed_mean(values.tolist())
    assert trimmed_mean.standard_error == pytest.approx(stats.sem(values))
    assert trimmed_mean.degrees_of_freedom == n - 1


@given(log_ratios, st.floats(-2, 2))
def test_moves_with_the_data_and_mirrors(values: list[float], shift: float) -> None:
    here = estimate_trimmed_mean(values)
    moved = estimate_trimmed_mean([value + shift for value in values])
    mirrored = estimate_trimmed_mean([-value for value in values])
    assert moved.estimate == pytest.approx(here.estimate + shift, abs=1e-12)
    assert moved.standard_error == pytest.approx(here.standard_error, rel=1e-6, abs=1e-12)
    assert mirrored.estimate == pytest.approx(-here.estimate, abs=1e-12)


def test_one_wild_process_of_eight_hardly_matters() -> None:
    tame = [0.01, -0.01, 0.005, -0.005, 0.0, 0.003, -0.003]
    assert abs(estimate_trimmed_mean([*tame, 10.0]).estimate) < 0.01
    assert estimate_trimmed_mean([*tame, 10.0]).standard_error < 0.01


def test_a_noisy_sample_counts_less() -> None:
    """Of three samples the noisy one is off: by its weight of 1 %, not by a third."""
    estimate = estimate_trimmed_mean([0.0, 0.0, 1.0], np.array([1.0, 1.0, 100.0])).estimate
    assert estimate == pytest.approx(0.01 / 2.01)


def test_identical_values_keep_a_standard_error() -> None:
    assert estimate_trimmed_mean([0.25] * 9) == TrimmedMean(0.25, RESOLUTION / 3, 6.0, 9)


@pytest.mark.parametrize("values", [[], [0.1], [0.1, math.nan], [0.1, math.inf]])
def test_refuses(values: list[float]) -> None:
    with pytest.raises(ValueError, match="log ratios"):
        estimate_trimmed_mean(values)


@pytest.mark.parametrize("bound", [0.0, 0.02, 0.5])
def test_t_equals_scipys_on_untrimmed_data(bound: float) -> None:
    values = np.random.default_rng(1).normal(0.03, 0.02, 4)
    expected = stats.ttest_1samp(values, bound, alternative="greater").pvalue
    assert shifted_t_p(estimate_trimmed_mean(values.tolist()), bound) == pytest.approx(expected)


@given(trimmed_means, st.floats(0, 0.5), st.floats(0, 0.5))
def test_a_wider_bound_is_harder_to_exceed(trimmed_mean: TrimmedMean, bound: float, other: float) -> None:
    low, high = sorted((bound, other))
    assert shifted_t_p(trimmed_mean, low) <= shifted_t_p(trimmed_mean, high)
    assert shifted_t_p(trimmed_mean, 0) + shifted_t_p(mirror(trimmed_mean), 0) == pytest.approx(1)


@given(trimmed_means, st.floats(1e-6, 0.4))
def test_interval_is_the_inverted_test(trimmed_mean: TrimmedMean, tail: float) -> None:
    low, high = confidence_interval(trimmed_mean, tail)
    assert shifted_t_p(trimmed_mean, low) == pytest.approx(tail, rel=1e-4)
    assert shifted_t_p(mirror(trimmed_mean), -high) == pytest.approx(tail, rel=1e-4)
