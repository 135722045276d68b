"""The trimmed mean and its standard error."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from naive_statistics import trimmed_mean, winsorised_sum_of_squares
from scipy import stats

from comparator.location import RESOLUTION, Location, trimmed_location

log_ratios = st.lists(st.floats(-3, 3), min_size=2, max_size=40)


@given(log_ratios)
def test_equals_the_naive_twin(values: list[float]) -> None:
    location = trimmed_location(values)
    n = len(values)
    kept = n - 2 * (n // 5)
    error = math.sqrt(winsorised_sum_of_squares(values) / (kept * (kept - 1)))
    assert location.estimate == pytest.approx(trimmed_mean(values), abs=1e-12)
    assert location.standard_error == pytest.approx(max(error, RESOLUTION / math.sqrt(n)), rel=1e-9)
    assert location.degrees_of_freedom == kept - 1
    assert location.n == n


@pytest.mark.parametrize("n", [5, 9, 10, 14, 15, 20, 35])
def test_agrees_with_scipy(n: int) -> None:
    values = np.random.default_rng(n).normal(size=n)
    assert trimmed_location(values.tolist()).estimate == pytest.approx(stats.trim_mean(values, 0.2))


@pytest.mark.parametrize("n", [2, 3, 4])
def test_is_student_while_nothing_is_trimmed(n: int) -> None:
    values = np.random.default_rng(n).normal(size=n)
    location = trimmed_location(values.tolist())
    assert location.standard_error == pytest.approx(stats.sem(values))
    assert location.degrees_of_freedom == n - 1


@given(log_ratios, st.floats(-2, 2))
def test_moves_with_the_data_and_mirrors(values: list[float], shift: float) -> None:
    here = trimmed_location(values)
    moved = trimmed_location([value + shift for value in values])
    mirrored = trimmed_location([-value for value in values])
    assert moved.estimate == pytest.approx(here.estimate + shift, abs=1e-12)
    assert moved.standard_error == pytest.approx(here.standard_error, rel=1e-6, abs=1e-12)
    assert mirrored.estimate == pytest.approx(-here.estimate, abs=1e-12)


def test_one_wild_process_hardly_matters() -> None:
    tame = [0.01, -0.01, 0.005, -0.005, 0.0]
    assert abs(trimmed_location([*tame[:4], 10.0]).estimate) < 0.01
    assert trimmed_location([*tame[:4], 10.0]).standard_error < 0.01


def test_identical_values_keep_a_standard_error() -> None:
    assert trimmed_location([0.25] * 9) == Location(0.25, RESOLUTION / 3, 6.0, 9)


@pytest.mark.parametrize("values", [[], [0.1], [0.1, math.nan], [0.1, math.inf]])
def test_refuses(values: list[float]) -> None:
    with pytest.raises(ValueError, match="log ratios"):
        trimmed_location(values)
