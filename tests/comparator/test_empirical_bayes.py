"""The empirical-Bayes prior."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from naive_statistics import trigamma_inverse_by_bisection
from scipy import special

from opduel.comparator.empirical_bayes import (
    NO_PRIOR,
    Prior,
    discounted,
    fit_prior,
    prior_weight,
    shrink_variance,
    trigamma_inverse,
)
from opduel.comparator.trimmed_mean import TrimmedMean


def of_variance(variance: float, degrees_of_freedom: float = 4, n: int = 6) -> TrimmedMean:
    return TrimmedMean(0.01, math.sqrt(variance / n), degrees_of_freedom, n)


@pytest.mark.parametrize("value", [0.001, 0.02, 0.5, 1.0, 1.6449340668482264, 10.0, 1e4])
def test_trigamma_inverse_equals_the_naive_oracle(value: float) -> None:
    assert trigamma_inverse(value) == pytest.approx(trigamma_inverse_by_bisection(value), rel=1e-5)


@given(st.floats(-12, 12))
def test_trigamma_inverse_inverts(exponent: float) -> None:
    value = 10**exponent
    assert float(special.polygamma(1, trigamma_inverse(value))) == pytest.approx(value, rel=2e-3)


@pytest.mark.parametrize("value", [0.0, -1.0, math.nan, math.inf])
def test_trigamma_inverse_refuses(value: float) -> None:
    with pytest.raises(ValueError, match="positive"):
        trigamma_inverse(value)


def drawn(rng: np.random.Generator, count: int, prior_df: float, prior_variance: float) -> list[TrimmedMean]:
    """Locations under the model itself; every second one with other degrees of freedom."""
    true = prior_df * prior_variance / rng.chisquare(prior_df, count)
    dfs = np.where(np.arange(count) % 2, 4, 9)
    return [of_variance(float(v * rng.chisquare(df) / df), float(df)) for v, df in zip(true, dfs, strict=True)]


@pytest.mark.parametrize("d0", [2.0, 5.0, 20.0])
def test_recovers_the_prior_it_was_drawn_from(d0: float) -> None:
    prior = fit_prior(drawn(np.random.default_rng(1), 20_000, d0, 4e-4))
    assert prior.degrees_of_freedom == pytest.approx(d0, rel=0.1)
    assert prior.variance == pytest.approx(4e-4, rel=0.05)
    assert prior.pooled == 10_000 * 13
    assert prior.cases == 20_000


def test_equal_variances_are_pooled_and_no_more() -> None:
    prior = fit_prior([of_variance(4e-4)] * 10)
    assert prior.degrees_of_freedom == prior.pooled == 40
    moderated = shrink_variance(of_variance(4e-4), prior)
    assert moderated.degrees_of_freedom == 40
    assert moderated.estimate == 0.01


@pytest.mark.parametrize("count", [0, 1, 2])
def test_too_few_cases_teach_nothing(count: int) -> None:
    assert fit_prior([of_variance(1e-4)] * count) == NO_PRIOR
    assert shrink_variance(of_variance(1e-4), NO_PRIOR) == of_variance(1e-4)


def test_posterior_is_smyths() -> None:
    prior = Prior(3.0, 4e-4, 160.0, 40)
    moderated = shrink_variance(of_variance(2e-4), prior)
    assert moderated.variance == pytest.approx((3 * 4e-4 + 4 * 2e-4) / 7)
    assert moderated.degrees_of_freedom == 7


@given(st.floats(1e-12, 1e3), st.floats(0.5, 100), st.integers(3, 400))
def test_moderation_lies_between_the_two_variances(variance: float, d0: float, cases: int) -> None:
    prior = Prior(d0, 4e-4, 4.0 * cases, cases)
    moderated = shrink_variance(of_variance(variance), prior)
    low, high = sorted((variance, 4e-4))
    assert low * (1 - 1e-9) <= moderated.variance <= high * (1 + 1e-9)
    assert 4 <= moderated.degrees_of_freedom <= max(prior.pooled, 4)


def test_a_noisy_case_is_believed_and_an_ordinary_one_trusts() -> None:
    prior = Prior(10.0, 4e-4, 160.0, 40)
    assert prior_weight(of_variance(4e-4), prior) == 1
    assert prior_weight(of_variance(4e-9), prior) == 1
    assert prior_weight(of_variance(4e-4 * 100), prior) < 1e-3
    noisy = shrink_variance(of_variance(4e-4 * 100), prior)
    assert noisy.variance == pytest.approx(4e-2, rel=0.01)
    assert discounted(prior, 0.0).degrees_of_freedom == 0
    assert shrink_variance(of_variance(4e-4), discounted(prior, 0.0)) == of_variance(4e-4)
