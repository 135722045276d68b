"""The schedule of looks."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from opduel.comparator import Looks, plan_looks
from opduel.comparator.looks import FRESH_PAIRS, p_over_looks


@pytest.mark.parametrize(
    ("max_rounds", "counts"),
    [
        (2, (2,)),
        (4, (2, 4)),
        (5, (2, 5)),  # so that a change can be confirmed
        (7, (4, 7)),
        (8, (5, 8)),
        (11, (5, 8, 11)),
        (15, (5, 9, 15)),
        (30, (5, 8, 13, 20, 30)),
        (50, (5, 8, 13, 20, 32, 50)),
    ],
)
def test_plans(max_rounds: int, counts: tuple[int, ...]) -> None:
    plan = plan_looks(max_rounds)
    assert plan.counts == counts
    assert plan.of_metric("time") is plan


@pytest.mark.parametrize(("max_rounds", "counts"), [(2, (2,)), (3, (3,)), (4, (3, 4)), (5, (3, 5)), (30, (3, 5))])
def test_counts_are_looked_at_sooner_and_less_often(max_rounds: int, counts: tuple[int, ...]) -> None:
    assert plan_looks(max_rounds).of_metric("instructions").counts == counts


@given(st.integers(2, 2000))
def test_every_plan_ends_at_the_last_round_and_spends_all(max_rounds: int) -> None:
    looks = plan_looks(max_rounds)
    assert looks.counts[-1] == max_rounds
    assert sum(map(looks.weight, looks.counts)) == pytest.approx(1)


@given(st.integers(5, 2000))
def test_a_change_that_the_first_look_finds_can_be_claimed_at_the_next(max_rounds: int) -> None:
    first, second, *_ = plan_looks(max_rounds).counts
    assert second >= first + FRESH_PAIRS


@given(st.integers(2, 60), st.integers(0, 80))
def test_closing_spends_no_more_than_all(max_rounds: int, n: int) -> None:
    looks = plan_looks(max_rounds)
    closing = looks.closing(n)
    assert sum(map(looks.weight, closing)) <= 1 + 1e-12
    assert list(closing) == sorted(set(closing))
    assert all(count <= n for count in closing)
    assert closing[: len(looks.reached(n))] == looks.reached(n)


def test_between_looks() -> None:
    looks = Looks((5, 8, 12))
    assert looks.reached(9) == (5, 8)
    assert looks.closing(9) == (5, 8, 9)
    assert looks.closing(4) == ()
    assert looks.closing(20) == (5, 8, 12)
    assert looks.next_after(8) == 12
    assert looks.next_after(12) is None
    assert looks.weight(9) == looks.weight(12) == looks.weight(99) == 12 / 25
    assert looks.level(8, 0.05) < looks.level(9, 0.05)


@pytest.mark.parametrize("counts", [(), (1, 5), (5, 5), (8, 5)])
def test_refuses_a_schedule(counts: tuple[int, ...]) -> None:
    with pytest.raises(ValueError, match="increase"):
        Looks(counts)


def test_refuses_too_few_rounds() -> None:
    with pytest.raises(ValueError, match="at least 2"):
        plan_looks(1)


def test_p_over_looks() -> None:
    assert p_over_looks([], []) == 1
    assert p_over_looks([0.01, 0.5], [0.25, 0.75]) == pytest.approx(0.04)
    assert p_over_looks([0.9], [0.5]) == 1
