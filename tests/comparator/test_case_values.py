"""The values of a case, and the variances that its forks let one expect: against a naive oracle."""

import math
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from made_samples import pairs
from naive_statistics import naive_predicted_variances

from opduel.comparator.case_values import ForkNoise, Values, predict_variances
from opduel.comparator.trimmed_mean import RESOLUTION

forks_of_sample = st.lists(st.tuples(st.floats(-0.5, 0.5), st.floats(1e-4, 0.1)), min_size=1, max_size=4)
samples_of_case = st.lists(st.tuples(st.integers(1, 200), forks_of_sample), min_size=2, max_size=8)


def values_of(samples: list[tuple[int, list[tuple[float, float]]]]) -> Values:
    plain_samples = pairs("a", "screening", [0.01 * number for number in range(len(samples))])
    return Values.of(
        [
            replace(sample, blocks=blocks, forks=len(forks), fork_ratios=tuple(forks))
            for sample, (blocks, forks) in zip(plain_samples, samples, strict=True)
        ]
    )


@given(samples_of_case, st.floats(1e-8, 0.01))
def test_predicted_variances_equal_the_naive_oracle(
    samples: list[tuple[int, list[tuple[float, float]]]], pair_variance: float
) -> None:
    predicted = predict_variances(values_of(samples).noises, pair_variance)
    assert predicted.tolist() == pytest.approx(naive_predicted_variances(samples, pair_variance))


def test_predictions_are_those_of_a_simulation() -> None:
    """Many samples of 3 forks, each with blocks of known noise: pair 0.4 %, fork 0.8 %, fork's own error 0.5 %."""
    rng = np.random.default_rng(1)
    samples = []
    for _ in range(2000):
        ratios = rng.normal(0, 0.004) + rng.normal(0, math.hypot(0.008, 0.005), 3)
        samples.append((60, [(float(ratio), 0.005) for ratio in ratios]))
    predicted = predict_variances(values_of(samples).noises, 0.004**2)
    assert predicted.mean() == pytest.approx(0.004**2 + (0.008**2 + 0.005**2) / 3, rel=0.05)
    means = [np.mean([ratio for ratio, _ in forks]) for _, forks in samples]
    assert np.var(means) == pytest.approx(predicted.mean(), rel=0.1)


def test_a_round_with_more_blocks_is_more_precise() -> None:
    few, many = predict_variances([ForkNoise(1, 10, 1e-4, 0.0), ForkNoise(1, 1000, 1e-6, 0.0)], 0.0)
    assert few == pytest.approx(100 * many, rel=0.01)


def test_a_round_that_was_noisier_counts_less_but_not_by_its_own_few_blocks_alone() -> None:
    quiet, noisy = (ForkNoise(1, 100, within, 0.0) for within in (1e-6, 1e-4))
    low, *_, high = predict_variances([quiet] * 9 + [noisy], 0.0)
    assert 30 < high / low < 100
    low, *_, high = predict_variances([quiet._replace(blocks=6)] * 9 + [noisy._replace(blocks=6)], 0.0)
    assert 2 < high / low < 5


def test_samples_without_forks_count_alike() -> None:
    values = Values.of(pairs("a", "screening", [0.1, 0.2, 0.3]))
    assert predict_variances(values.noises, 4e-4).tolist() == [4e-4] * 3
    assert predict_variances(values.noises, 0.0).tolist() == [RESOLUTION**2] * 3


def test_parts_of_a_case() -> None:
    values = Values.of([*pairs("a", "screening", [0.1, 0.2]), *pairs("a", "confirmation", [0.3])])
    assert values.first(1).effects == pytest.approx((0.1,))
    assert values.of_stage("confirmation").effects == pytest.approx((0.3,))
    assert (len(values), len(values.of_stage("screening")), len(values.first(9))) == (3, 2, 3)


@pytest.mark.parametrize("fork", [(0.1, math.nan), (0.1, math.inf)])
def test_refuses_forks_that_are_no_measurement(fork: tuple[float, float]) -> None:
    (sample,) = pairs("a", "screening", [0.1])
    with pytest.raises(ValueError, match="not a finite measurement"):
        Values.of([replace(sample, fork_ratios=(fork,))])
