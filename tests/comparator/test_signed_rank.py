"""Wilcoxon's signed-rank test: against enumeration and scipy."""

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
    ranks = {size: rank for rank, size in enumerate(sorted(sizes), 1)}

    def rank_sum(some: tuple[int, ...]) -> int:
        return sum(ranks[size] for size, sign in zip(sizes, some, strict=True) if sign > 0)

    sums = [rank_sum(some) for some in product((-1, 1), repeat=len(sizes))]
    naive = sum(one >= rank_sum(signs) for one in sums) / len(sums)
    values = tuple(float(size * sign) for size, sign in zip(sizes, signs, strict=True))
    assert signed_rank_p(values) == pytest.approx(naive)


@pytest.mark.parametrize("n", [12, 30, 74, EXACT_UP_TO])
def test_against_scipy(n: int) -> None:
    values = np.random.default_rng(n).normal(0.2, 1, n)
    want = stats.wilcoxon(values, alternative="greater", method="exact").pvalue
    assert signed_rank_p(tuple(values.tolist())) == pytest.approx(want, rel=1e-9)


def test_beyond_the_exact_distribution_it_is_the_normal_one() -> None:
    values = np.random.default_rng(3).normal(0.1, 1, EXACT_UP_TO + 1)
    want = stats.wilcoxon(values, alternative="greater", method="exact").pvalue
    assert signed_rank_p(tuple(values.tolist())) == pytest.approx(want, rel=0.05)


@pytest.mark.parametrize(
    ("values", "want"),
    [((), 1.0), ((0.0, 0.0), 1.0), ((1.0, -1.0), 0.75), ((2.0, 2.0, 2.0), 0.125), ((1.0, 1.0, -1.0), 0.625)],
)
def test_ties_and_zeros_count_against_the_alternative(values: tuple[float, ...], want: float) -> None:
    assert signed_rank_p(values) == want
