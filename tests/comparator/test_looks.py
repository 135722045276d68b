"""The schedule of looks."""

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st
from naive_statistics import naive_screening_shares

from comparator import Looks, plan_looks
from comparator.looks import p_over_looks


@pytest.mark.parametrize(
    ("max_rounds", "looks"),
    [(2, (2,)), (5, (5,)), (6, (6,)), (8, (5, 8)), (15, (5, 9, 15)), (30, (5, 8, 12, 19, 30))],
)
def test_plans(max_rounds: int, looks: tuple[int, ...]) -> None:
    plan = plan_looks(max_rounds)
    assert (plan.screen, plan.own) == (looks, looks)
    assert plan.of_metric("time") is plan


@pytest.mark.parametrize(("max_rounds", "looks"), [(2, (2,)), (3, (3,)), (4, (3, 4)), (5, (3, 5)), (30, (3, 5))])
def test_counts_are_looked_at_sooner_and_less_often(max_rounds: int, looks: tuple[int, ...]) -> None:
    plan = plan_looks(max_rounds).of_metric("instructions")
    assert (plan.screen, plan.own) == (looks, looks)


@given(st.integers(2, 2000))
def test_every_plan_ends_at_the_last_round_and_spends_all(max_rounds: int) -> None:
    looks = plan_looks(max_rounds)
    assert looks.screen[-1] == looks.own[-1] == max_rounds
    assert sum(looks.weight("own", n) for n in looks.own) == pytest.approx(1)


@given(st.integers(2, 2000), st.floats(0, 0.9))
def test_both_stages_together_spend_all(max_rounds: int, share: float) -> None:
    looks = replace(plan_looks(max_rounds), screening_share=share)
    screening = {n: looks.tested("screen", n) for n in looks.screen}
    assert screening == pytest.approx(naive_screening_shares(looks.screen, share))
    assert sum(screening.values()) + sum(looks.tested("own", n) for n in looks.own) == pytest.approx(1)


@given(st.integers(2, 60), st.integers(0, 80))
def test_closing_spends_no_more_than_all(max_rounds: int, n: int) -> None:
    looks = plan_looks(max_rounds)
    closing = looks.closing("screen", n)
    assert sum(looks.weight("screen", count) for count in closing) <= 1 + 1e-12
    assert list(closing) == sorted(set(closing))
    assert all(count <= n for count in closing)
    assert closing[: len(looks.reached("screen", n))] == looks.reached("screen", n)


def test_between_looks() -> None:
    looks = Looks((5, 8, 12), (5, 10))
    assert looks.reached("screen", 9) == (5, 8)
    assert looks.closing("screen", 9) == (5, 8, 9)
    assert looks.closing("screen", 4) == ()
    assert looks.closing("screen", 20) == (5, 8, 12)
    assert looks.next_after("screen", 8) == 12
    assert looks.next_after("own", 10) is None
    assert looks.weight("screen", 9) == looks.weight("screen", 12) == 12 / 25
    assert looks.tested("screen", 9) == looks.tested("screen", 99) == pytest.approx(0.2 * 0.6 * 12 / 20)
    assert looks.tested("own", 4) == looks.tested("own", 5) == pytest.approx(0.8 * 5 / 15)


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
