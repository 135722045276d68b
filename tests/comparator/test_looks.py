"""The schedule of looks."""

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st
from naive_statistics import naive_screening_shares

from opduel.comparator import Looks, plan_looks
from opduel.comparator.looks import p_over_looks


@pytest.mark.parametrize(
    ("max_rounds", "looks"),
    [(2, (2,)), (5, (5,)), (6, (6,)), (8, (5, 8)), (15, (5, 9, 15)), (30, (5, 8, 12, 19, 30))],
)
def test_plans(max_rounds: int, looks: tuple[int, ...]) -> None:
    plan = plan_looks(max_rounds)
    assert (plan.screening, plan.confirmation) == (looks, looks)
    assert plan.of_metric("time") is plan


@pytest.mark.parametrize(("max_rounds", "looks"), [(2, (2,)), (3, (3,)), (4, (3, 4)), (5, (3, 5)), (30, (3, 5))])
def test_counts_are_looked_at_sooner_and_less_often(max_rounds: int, looks: tuple[int, ...]) -> None:
    plan = plan_looks(max_rounds).of_metric("instructions")
    assert (plan.screening, plan.confirmation) == (looks, looks)


@given(st.integers(2, 2000))
def test_every_plan_ends_at_the_last_round_and_spends_all(max_rounds: int) -> None:
    looks = plan_looks(max_rounds)
    assert looks.screening[-1] == looks.confirmation[-1] == max_rounds
    assert sum(looks.weight("confirmation", n) for n in looks.confirmation) == pytest.approx(1)


@given(st.integers(2, 2000), st.floats(0, 0.9))
def test_both_stages_together_spend_all(max_rounds: int, share: float) -> None:
    looks = replace(plan_looks(max_rounds), screening_share=share)
    screening = {n: looks.tested("screening", n) for n in looks.screening}
    assert screening == pytest.approx(naive_screening_shares(looks.screening, share))
    assert sum(screening.values()) + sum(looks.tested("confirmation", n) for n in looks.confirmation) == pytest.approx(
        1
    )


@given(st.integers(2, 60), st.integers(0, 80))
def test_closing_spends_no_more_than_all(max_rounds: int, n: int) -> None:
    looks = plan_looks(max_rounds)
    closing = looks.closing("screening", n)
    assert sum(looks.weight("screening", count) for count in closing) <= 1 + 1e-12
    assert list(closing) == sorted(set(closing))
    assert all(count <= n for count in closing)
    assert closing[: len(looks.reached("screening", n))] == looks.reached("screening", n)


def test_between_looks() -> None:
    looks = Looks((5, 8, 12), (5, 10))
    assert looks.reached("screening", 9) == (5, 8)
    assert looks.closing("screening", 9) == (5, 8, 9)
    assert looks.closing("screening", 4) == ()
    assert looks.closing("screening", 20) == (5, 8, 12)
    assert looks.next_after("screening", 8) == 12
    assert looks.next_after("confirmation", 10) is None
    assert looks.weight("screening", 9) == looks.weight("screening", 12) == 12 / 25
    assert looks.tested("screening", 9) == looks.tested("screening", 99) == pytest.approx(0.2 * 0.6 * 12 / 20)
    assert looks.tested("confirmation", 4) == looks.tested("confirmation", 5) == pytest.approx(0.8 * 5 / 15)


@pytest.mark.parametrize("counts", [(), (1, 5), (5, 5), (8, 5)])
def test_refuses_a_schedule(counts: tuple[int, ...]) -> None:
    with pytest.raises(ValueError, match="increase"):
        Looks(counts, (5, 8))


@pytest.mark.parametrize("share", [-0.1, 1.0, float("nan")])
def test_refuses_a_share_of_the_error(share: float) -> None:
    with pytest.raises(ValueError, match="share of the error"):
        Looks((5, 8), (5, 8), screening_share=share)


def test_refuses_too_few_rounds() -> None:
    with pytest.raises(ValueError, match="at least 2"):
        plan_looks(1)


def test_p_over_looks() -> None:
    assert p_over_looks([], []) == 1
    assert p_over_looks([0.01, 0.5], [0.25, 0.75]) == pytest.approx(0.04)
    assert p_over_looks([0.9], [0.5]) == 1
