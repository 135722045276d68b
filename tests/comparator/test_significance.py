"""The combination of both directions, and Benjamini and Hochberg's procedure."""

import math
import random
import statistics

import pytest
from hypothesis import given
from hypothesis import strategies as st
from naive_statistics import rejected_by_benjamini_hochberg
from scipy import stats

from opduel.comparator.significance import benjamini_hochberg, two_sided_p, weighted_p

p_lists = st.lists(st.one_of(st.floats(0, 1), st.sampled_from([0.0, 0.001, 0.01, 0.05, 1.0])), max_size=40)
alphas = st.sampled_from([0.01, 0.05, 0.2])


def test_two_sided() -> None:
    assert two_sided_p(0.01, 1.0) == 0.02
    assert two_sided_p(0.6, 0.7) == 1


def rejected(p_values: list[float], alpha: float) -> set[int]:
    return {i for i, q in enumerate(benjamini_hochberg(p_values)) if q <= alpha}


@pytest.mark.parametrize(
    ("p_values", "q_values"),
    [
        ([], []),
        ([0.03], [0.03]),
        ([0.01, 0.04], [0.02, 0.04]),
        ([0.04, 0.01, 0.03], [0.04, 0.03, 0.04]),
        ([0.5, 1.0, 1.0], [1.0, 1.0, 1.0]),
        ([0.0, 0.0], [0.0, 0.0]),
    ],
)
def test_q_values_by_hand(p_values: list[float], q_values: list[float]) -> None:
    assert benjamini_hochberg(p_values) == pytest.approx(q_values)


@given(p_lists, st.floats(0.001, 0.5))
def test_cases_are_rejected_by_definition(p_values: list[float], alpha: float) -> None:
    margins = [abs(p * len(p_values) / k - alpha) for p in p_values for k in range(1, len(p_values) + 1)]
    if min(margins, default=1) > 1e-12:  # exact equality is a matter of rounding
        assert rejected(p_values, alpha) == rejected_by_benjamini_hochberg(p_values, alpha)


@given(p_lists)
def test_q_values_are_those_of_scipy(p_values: list[float]) -> None:
    """Which takes too long to import in a command."""
    assert benjamini_hochberg(p_values) == stats.false_discovery_control(p_values).tolist()


@given(p_lists)
def test_q_is_not_below_p(p_values: list[float]) -> None:
    """Once it was, by one rounding, when the product with m came before the division by the rank."""
    q_values = benjamini_hochberg(p_values)
    assert all(p <= q <= 1 for p, q in zip(p_values, q_values, strict=True))


@given(p_lists, st.data())
def test_an_interim_rejection_stays(p_values: list[float], data: st.DataObject) -> None:
    later = [p * data.draw(st.floats(0, 1)) for p in p_values]
    alpha = data.draw(alphas)
    assert rejected(p_values, alpha) <= rejected(later, alpha)


@given(p_lists, st.data())
def test_what_is_not_rejected_may_rise_to_one(p_values: list[float], data: st.DataObject) -> None:
    alpha = data.draw(alphas)
    before = rejected(p_values, alpha)
    later = [p if i in before or data.draw(st.booleans()) else 1.0 for i, p in enumerate(p_values)]
    assert rejected(later, alpha) == before


@pytest.mark.parametrize("p", [-0.1, 1.1, float("nan")])
def test_p_values_that_are_none_are_refused(p: float) -> None:
    with pytest.raises(ValueError, match="between 0 and 1"):
        benjamini_hochberg([0.5, p])


def test_a_weight_divides_a_p_value_that_may_be_rejected() -> None:
    assert weighted_p(0.04, 8, 0.05) == 0.005
    assert weighted_p(0.04, 0.5, 0.05) == 0.08
    assert weighted_p(0.06, 8, 0.05) == 0.06
    assert weighted_p(0.6, 0.5, 0.05) == 1.0
    assert weighted_p(1.0, 48, 0.05) == 1.0


@given(p_lists, st.data())
def test_a_weight_gets_no_p_value_above_alpha_rejected(p_values: list[float], data: st.DataObject) -> None:
    alpha = data.draw(alphas)
    weights = [data.draw(st.floats(0.01, 100)) for _ in p_values]
    weighted = [weighted_p(p, weight, alpha) for p, weight in zip(p_values, weights, strict=True)]
    assert all(p_values[i] <= alpha for i in rejected(weighted, alpha))


def test_weights_keep_the_false_discovery_rate() -> None:
    """Twenty cases, of which two have half of the error; nothing changed in 19 of them. Rates of 20,000 families."""
    rng, alpha, weights = random.Random(7), 0.05, [5.0] * 2 + [20 / 36] * 18
    false_shares = []
    for _ in range(20_000):
        p_values = [rng.random() for _ in weights]
        p_values[-1] = 1e-9  # a change, so that the threshold of the others is higher
        weighted = [weighted_p(p, weight, alpha) for p, weight in zip(p_values, weights, strict=True)]
        order = sorted(range(20), key=weighted.__getitem__)
        count = max((k for k in range(1, 21) if weighted[order[k - 1]] <= alpha * k / 20), default=0)
        false_shares.append((count - 1) / count)
    error = statistics.stdev(false_shares) / math.sqrt(len(false_shares))
    assert alpha * 0.8 < statistics.fmean(false_shares) < alpha + 3 * error
