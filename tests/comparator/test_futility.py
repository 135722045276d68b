"""The chance that the last look settles a case, against a simulation of the samples to come."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from opduel.comparator.futility import conditional_power
from opduel.comparator.trimmed_mean import TrimmedMean

KNOWN = 1e7  # degrees of freedom at which the variance is as good as known


def simulated(estimate: float, sd: float, n: int, last: int, bound: float, tail: float, fresh: bool) -> float:
    """The same by brute force: the true value from what n samples say (flat prior), then the samples to come."""
    rng = np.random.default_rng(3)
    draws = 200_000
    truth = rng.normal(estimate, sd / math.sqrt(n), draws)
    rest = rng.normal(truth, sd / math.sqrt(last - n))
    then = (n * estimate + (last - n) * rest) / last
    confirmation = rng.normal(truth, sd / math.sqrt(last)) if fresh else then
    reach = stats.norm.isf(tail) * sd / math.sqrt(last)
    unchanged = np.abs(then) + reach <= bound
    changed = np.abs(confirmation) - reach > bound
    return float(np.mean(unchanged) + np.mean(changed))


@pytest.mark.parametrize("fresh", [True, False])
@pytest.mark.parametrize(
    ("estimate", "sd", "n"),
    [(0.0, 0.01, 5), (0.0, 0.04, 8), (0.01, 0.02, 12), (0.03, 0.05, 8), (-0.02, 0.03, 19), (0.0, 0.2, 5)],
)
def test_chance_is_that_of_a_simulation(estimate: float, sd: float, n: int, fresh: bool) -> None:
    trimmed_mean = TrimmedMean(estimate, sd / math.sqrt(n), KNOWN, n)
    told = conditional_power(trimmed_mean, 30, 0.02, 0.01, fresh)
    assert told == pytest.approx(min(1.0, simulated(estimate, sd, n, 30, 0.02, 0.01, fresh)), abs=0.006)


@given(
    st.floats(-0.2, 0.2), st.floats(1e-5, 0.5), st.integers(2, 29), st.floats(1, 100), st.floats(0, 0.1), st.booleans()
)
def test_it_is_a_probability_and_does_not_know_directions(
    estimate: float, error: float, n: int, df: float, bound: float, fresh: bool
) -> None:
    told = conditional_power(TrimmedMean(estimate, error, df, n), 30, bound, 0.01, fresh)
    assert 0 <= told <= 1
    mirrored = conditional_power(TrimmedMean(-estimate, error, df, n), 30, bound, 0.01, fresh)
    assert told == pytest.approx(mirrored, abs=1e-9)


def test_quiet_cases_are_sure_to_be_settled_and_noisy_ones_on_the_fence_are_not() -> None:
    assert conditional_power(TrimmedMean(0.0, 0.001, 20, 8), 30, 0.02, 0.01, True) > 0.99
    assert conditional_power(TrimmedMean(0.1, 0.001, 20, 8), 30, 0.02, 0.01, True) > 0.99
    assert conditional_power(TrimmedMean(0.0, 0.02, 20, 8), 30, 0.02, 0.001, False) < 0.05
