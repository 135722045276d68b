"""Which verdicts stand on a disturbed host: what the noise could have made does not, what it couldn't does."""

import math
import random
from dataclasses import replace
from typing import get_args

import pytest
from hypothesis import given
from hypothesis import strategies as st
from made_samples import a_case, pairs

from opduel.comparator.disturbance import LEVEL, fewest_rounds, stands, withhold_verdicts
from opduel.records import Comparison, Verdict

NEVER = math.inf  # no A/A check


def ratios(change: float, rounds: int, spread: float = 0.0, seed: int = 1) -> tuple[float, ...]:
    rng = random.Random(seed)
    return tuple(math.log1p(change) + rng.gauss(0, spread) for _ in range(rounds))


@pytest.mark.parametrize(
    ("verdict", "change", "rounds", "disturbed", "bias", "want"),
    [
        ("regressed", 0.5, 5, 0.1, 0.0, True),  # beyond all that the disturbance did
        ("regressed", 0.5, 5, 0.6, 0.0, False),
        ("regressed", 0.5, 6, NEVER, 0.0, False),  # too few for the test
        ("regressed", 0.5, 7, NEVER, 0.0, True),
        ("improved", -0.4, 7, NEVER, 0.0, True),
        ("improved", -0.4, 5, 0.1, 0.0, True),
        ("regressed", 0.05, 7, NEVER, 0.0, True),
        ("regressed", 0.05, 7, NEVER, 0.06, False),  # A/A checks differed by as much
        ("regressed", 0.5, 7, NEVER, 0.06, True),
        ("unchanged", 0.0, 7, NEVER, 0.0, True),
        ("unchanged", 0.0, 5, 0.0, 0.0, False),
        ("unchanged", 0.019, 7, NEVER, 0.0, True),
        ("unchanged", 0.0, 7, NEVER, 0.03, False),
    ],
)
def test_what_stands(verdict: Verdict, change: float, rounds: int, disturbed: float, bias: float, want: bool) -> None:
    assert stands(verdict, ratios(change, rounds, 1e-4), 0.02, disturbed, bias) is want


def test_the_fewest_rounds_are_those_with_which_the_level_can_be_reached() -> None:
    assert 0.5 ** fewest_rounds() <= LEVEL < 0.5 ** (fewest_rounds() - 1)


def bursts(rng: random.Random, rounds: int) -> list[float]:
    """Noise that is even to both sides, and thirty times as large in some rounds as in others."""
    return [rng.gauss(0, 0.003 if rng.random() < 0.6 else 0.1) for _ in range(rounds)]


@pytest.mark.parametrize("rounds", [7, 12, 30])
def test_under_bursts_a_change_at_the_threshold_stands_no_more_often_than_the_level(rounds: int) -> None:
    rng, trials, edge = random.Random(rounds), 1500, math.log1p(0.02)
    stood = {"regressed": 0, "unchanged": 0}
    for _ in range(trials):
        seen = tuple(edge + noise for noise in bursts(rng, rounds))
        for verdict in stood:
            stood[verdict] += stands(verdict, seen, 0.02, NEVER, 0.0)  # type: ignore[arg-type]
    limit = LEVEL * trials + 3 * math.sqrt(LEVEL * trials)
    assert all(count <= limit for count in stood.values()), stood


def test_under_bursts_a_change_of_fifty_percent_stands() -> None:
    rng = random.Random(5)
    stood = [
        stands("regressed", tuple(math.log(1.5) + noise for noise in bursts(rng, 8)), 0.02, NEVER, 0.0)
        for _ in range(200)
    ]
    assert sum(stood) >= 198


@given(st.lists(st.sampled_from(get_args(Verdict))))
def test_holding_back_leaves_no_claim_without_evidence_and_loses_none(verdicts: list[Verdict]) -> None:
    before = [Comparison.without_figures(a_case(f"c{i}"), verdict) for i, verdict in enumerate(verdicts)]
    for one, held in zip(before, withhold_verdicts(before, NEVER, 0.0), strict=True):
        if one.verdict in ("failed", "inconclusive"):
            assert held == one
        else:
            assert (held.verdict, held.held_back) == ("inconclusive", one.verdict)
            assert one.verdict in held.note
            assert replace(held, verdict=one.verdict, held_back=None, note="") == one


@pytest.mark.parametrize(("stage", "kept"), [("screening", True), ("confirmation", False)])
def test_it_is_judged_by_the_samples_that_decided(stage: str, kept: bool) -> None:
    samples = pairs("c", "screening", list(ratios(0.5, 8, 0.01)))
    one = Comparison.without_figures(a_case("c"), "regressed", samples=samples)
    (held,) = withhold_verdicts([replace(one, decided_on=stage)], NEVER, 0.0)
    assert (held.verdict == "regressed") is kept
