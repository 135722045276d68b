"""The empirical-Bayes prior."""

import functools
import math
from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from made_samples import pairs
from naive_statistics import trigamma_inverse_by_bisection
from scipy import special, stats

from opduel.comparator.case_values import Values, predict_variances
from opduel.comparator.empirical_bayes import (
    NO_PRIOR,
    Prior,
    discount_prior,
    fit_prior,
    fit_prior_of_cases,
    prior_weight,
    shrink_variance,
    trigamma_inverse,
    weighted_trimmed_mean,
)
from opduel.comparator.trimmed_mean import TrimmedMean, estimate_trimmed_mean


def of_variance(variance: float, degrees_of_freedom: float = 4, n: int = 6) -> TrimmedMean:
    return TrimmedMean(0.01, math.sqrt(variance / n), degrees_of_freedom, n)


@pytest.mark.parametrize("value", [0.001, 0.02, 0.5, 1.0, 1.6449340668482264, 10.0, 1e4])
def test_trigamma_inverse_equals_the_naive_oracle(value: float) -> None:
    assert trigamma_inverse(value, 1e6) == pytest.approx(trigamma_inverse_by_bisection(value), rel=1e-5)
    assert trigamma_inverse(value, 1e-4) == trigamma_inverse(-value, 1e-4) == 1e-4


def drawn(rng: np.random.Generator, count: int, prior_df: float, prior_variance: float) -> list[TrimmedMean]:
    """Locations under the model itself; every second one with other degrees of freedom."""
    true = prior_df * prior_variance / rng.chisquare(prior_df, count)
    dfs = np.where(np.arange(count) % 2, 4, 9)
    return [of_variance(float(v * rng.chisquare(df) / df), float(df)) for v, df in zip(true, dfs, strict=True)]


@pytest.mark.parametrize("d0", [2.0, 5.0, 20.0])
def test_recovers_the_prior_it_was_drawn_from(d0: float) -> None:
    prior = fit_prior(drawn(np.random.default_rng(1), 10_000, d0, 4e-4))
    assert prior.degrees_of_freedom == pytest.approx(d0, rel=0.1)
    assert prior.scale == pytest.approx(4e-4, rel=0.05)
    assert 0.999 * 65_000 <= prior.pooled <= 65_000
    assert prior.cases == 10_000


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
    assert discount_prior(prior, 0.0).degrees_of_freedom == 0
    assert shrink_variance(of_variance(4e-4), discount_prior(prior, 0.0)) == of_variance(4e-4)


def test_a_few_stray_cases_do_not_make_the_others_a_poor_guide() -> None:
    """Four of forty with a thousand times the variance: what is left is as if they weren't there."""
    rng = np.random.default_rng(4)
    usual = drawn(rng, 36, 20.0, 4e-4)
    strays = [of_variance(0.4, 4.0)] * 4
    with_strays, without = fit_prior([*usual, *strays]), fit_prior(usual)
    assert with_strays.degrees_of_freedom == pytest.approx(without.degrees_of_freedom)
    assert with_strays.scale == pytest.approx(without.scale)
    assert with_strays.cases == 40
    assert prior_weight(strays[0], with_strays) < 0.01


def made_cases(
    seed: int, count: int, quad_sds: Sequence[float], pair_sd: float, forks: int = 1, is_noise_known: bool = True
) -> tuple[Values, ...]:
    """Cases whose forks' blocks have noise of their own size, five samples each."""
    rng = np.random.default_rng(seed)
    cases = []
    for number in range(count):
        error = quad_sds[number % len(quad_sds)]
        samples = []
        for _ in range(5):
            ratios = rng.normal(0, pair_sd) + rng.normal(0, error, forks)
            fork_ratios = tuple((float(ratio), error) for ratio in ratios) if is_noise_known else ()
            (sample,) = pairs(f"c{number}", "screening", [float(ratios.mean())])
            samples.append(replace(sample, blocks=40 * forks, fork_ratios=fork_ratios))
        cases.append(Values.of(samples))
    return tuple(cases)


def test_the_prior_of_a_case_follows_its_own_noise() -> None:
    """Of cases whose blocks vary by 0.1 to 6 % the variances are predicted; without their forks they can't be."""
    sds = [0.001, 0.004, 0.015, 0.06]
    with_noise, unknown = (
        fit_prior_of_cases(made_cases(1, 80, sds, 0.003, is_noise_known=is_noise_known))
        for is_noise_known in (True, False)
    )
    assert with_noise.degrees_of_freedom > 20 * unknown.degrees_of_freedom
    assert 0.0015 < math.sqrt(with_noise.pair_variance) < 0.006
    assert 0.5 < with_noise.scale < 2
    assert unknown.scale * unknown.pair_variance == pytest.approx(
        fit_prior([estimate_trimmed_mean(values.effects) for values in made_cases(1, 80, sds, 0.003)]).scale
    )
    quiet, noisy = made_cases(2, 2, [0.001, 0.06], 0.003)
    for values, sd in ((quiet, math.hypot(0.001, 0.003)), (noisy, math.hypot(0.06, 0.003))):
        moderated = shrink_variance(weighted_trimmed_mean(values, with_noise.pair_variance), with_noise)
        assert math.sqrt(moderated.variance) == pytest.approx(sd, rel=0.5)


@functools.cache
def scales_of(prior: Prior) -> np.ndarray:
    """4,000 equally likely residual scales."""
    shares = (np.arange(4000) + 0.5) / 4000
    scales: np.ndarray = prior.degrees_of_freedom * prior.scale / stats.chi2.ppf(shares, prior.degrees_of_freedom)
    return scales


def naive_log_likelihood(values: Values, prior: Prior) -> float:
    """The density of the differences to the last log ratio, averaged over scales that the prior draws."""
    predicted = predict_variances(values.noises, prior.pair_variance)
    differences = np.array(values.effects[:-1]) - values.effects[-1]
    covariance = np.diag(predicted[:-1]) + predicted[-1]
    scales = scales_of(prior)
    squares = float(differences @ np.linalg.solve(covariance, differences))
    own = len(differences)
    logs = -(own * np.log(2 * math.pi * scales) + np.linalg.slogdet(covariance)[1] + squares / scales) / 2
    return float(special.logsumexp(logs) - math.log(len(scales)))


@pytest.mark.parametrize("pair_sd", [0.0, 0.003, 0.03])
def test_what_pairs_add_is_the_candidate_that_makes_the_log_ratios_most_likely(pair_sd: float) -> None:
    cases = made_cases(3, 30, [0.002, 0.01], pair_sd, forks=2)
    typical = np.median([estimate_trimmed_mean(values.effects).variance for values in cases])
    likelihoods = {}
    for candidate in [*(typical / 2**step for step in range(9)), 0.0]:
        prior = fit_prior([weighted_trimmed_mean(values, candidate) for values in cases])
        prior = replace(prior, pair_variance=candidate)
        likelihoods[prior] = sum(naive_log_likelihood(values, prior) for values in cases)
    assert fit_prior_of_cases(cases) == max(likelihoods, key=lambda prior: likelihoods[prior])


@pytest.mark.parametrize("pair_sd", [0.001, 0.004, 0.016])
def test_what_pairs_add_shows_where_rounds_get_more_blocks(pair_sd: float) -> None:
    """Efforts double from round to round: what is left in the last ones is that of the pair."""
    rng = np.random.default_rng(8)
    cases = []
    for number in range(80):
        samples = []
        for place in range(5):
            error = 0.02 / math.sqrt(2.0 ** (2 * place))
            ratio = float(rng.normal(0, math.hypot(pair_sd, error)))
            (sample,) = pairs(f"c{number}", "screening", [ratio])
            samples.append(replace(sample, blocks=40 * 4**place, fork_ratios=((ratio, error),)))
        cases.append(Values.of(samples))
    prior = fit_prior_of_cases(tuple(cases))
    assert pair_sd / 1.6 < math.sqrt(prior.pair_variance) < pair_sd * 1.6
    assert 0.6 < prior.scale < 1.6


def test_cases_without_forks_have_todays_prior() -> None:
    """All samples count alike, and the prior's location is the variance itself."""
    cases = made_cases(5, 20, [0.01], 0.005, is_noise_known=False)
    prior = fit_prior_of_cases(cases)
    plain = fit_prior([estimate_trimmed_mean(values.effects) for values in cases])
    assert prior.degrees_of_freedom == pytest.approx(plain.degrees_of_freedom)
    moderated = shrink_variance(weighted_trimmed_mean(cases[0], prior.pair_variance), prior)
    plainly = shrink_variance(estimate_trimmed_mean(cases[0].effects), plain)
    assert moderated.standard_error == pytest.approx(plainly.standard_error)
    assert moderated.estimate == pytest.approx(plainly.estimate)


@pytest.mark.parametrize("count", [0, 2])
def test_one_or_two_cases_count_all_samples_alike(count: int) -> None:
    cases = made_cases(6, count, [0.01, 0.02], 0.005)
    assert fit_prior_of_cases(cases) == NO_PRIOR
    for values in cases:
        plain, located = estimate_trimmed_mean(values.effects), weighted_trimmed_mean(values, NO_PRIOR.pair_variance)
        assert located.estimate == pytest.approx(plain.estimate, abs=1e-5)
        assert located.standard_error == pytest.approx(plain.standard_error, rel=1e-2)
