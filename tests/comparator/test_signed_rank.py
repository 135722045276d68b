"""The signed-rank test: against enumeration, scipy's sign test, and a large sample."""

import math
from itertools import product

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from opduel.comparator.signed_rank import EXACT_UP_TO, signed_rank_p

distinct = st.lists(st.integers(1, 1000), min_size=1, max_size=9, unique=True)


@given(distinct, st.data())
def test_against_all_signs_enumerated(sizes: list[int], data: st.DataObject) -> None:
    signs = data.draw(st.tuples(*(st.sampled_from((-1, 1)) for _ in sizes)))
    most = max(1, len(sizes) // 4)
    scores = {size: min(rank, most) for rank, size in enumerate(sorted(sizes), 1)}

    def total(some: tuple[int, ...]) -> int:
        return sum(scores[size] for size, sign in zip(sizes, some, strict=True) if sign > 0)

    totals = [total(some) for some in product((-1, 1), repeat=len(sizes))]
    naive = sum(other_total >= total(signs) for other_total in totals) / len(totals)
    values = tuple(float(size * sign) for size, sign in zip(sizes, signs, strict=True))
    assert signed_rank_p(values) == pytest.approx(naive)


@given(st.lists(st.floats(-5, 5), min_size=1, max_size=7))
def test_with_few_values_it_is_the_sign_test(values: list[float]) -> None:
    above = sum(value > 1e-12 for value in values)
    p_value = stats.binomtest(above, len(values), alternative="greater").pvalue
    assert signed_rank_p(tuple(values)) == pytest.approx(p_value)


def test_the_smallest_p_value() -> None:
    assert signed_rank_p(tuple(range(1, 31))) == pytest.approx(2.0**-30)


def test_a_large_sample_has_the_normal_approximation() -> None:
    values = np.random.default_rng(3).normal(0.1, 1, EXACT_UP_TO + 1)
    fewer = signed_rank_p(tuple(values[:EXACT_UP_TO].tolist()))
    assert math.isclose(signed_rank_p(tuple(values.tolist())), fewer, rel_tol=0.3)
    assert 1e-6 < fewer < 0.5


def test_its_level_is_exact_though_sizes_differ_by_orders_of_magnitude_and_depend_on_each_other() -> None:
    rng = np.random.default_rng(4)
    sizes = np.exp(np.cumsum(rng.normal(0, 1, (4000, 20)), axis=1))
    is_rejected = [signed_rank_p(tuple(row.tolist())) <= 0.05 for row in sizes * rng.choice((-1, 1), sizes.shape)]
    assert stats.binom.ppf(1e-4, 4000, 0.04) < sum(is_rejected) < stats.binom.isf(1e-4, 4000, 0.05)


@pytest.mark.parametrize(
    ("values", "want"),
    [((), 1.0), ((0.0, 0.0), 1.0), ((1.0, -1.0), 0.75), ((2.0, 2.0, 2.0), 0.125), ((1.0, 1.0, -1.0), 0.5)],
)
def test_ties_and_zeros_count_against_the_alternative(values: tuple[float, ...], want: float) -> None:
    assert signed_rank_p(values) == want


def test_a_contrary_value_costs_the_more_the_larger_it_is_up_to_a_quarter_of_the_ranks() -> None:
    agreeing = [1.0 + 0.01 * number for number in range(15)]
    p_values = [signed_rank_p((*agreeing, -contrary)) for contrary in (0.5, 1.005, 1.015, 2.0, 50.0)]
    assert p_values[0] < p_values[1] < p_values[2] < p_values[3] == p_values[4]
