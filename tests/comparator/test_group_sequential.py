"""One case's way through the looks, its prior given."""

import math
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from made_samples import a_case, noisy, pairs
from naive_statistics import naive_screening_shares, naive_two_sided_p

from opduel.comparator import Looks
from opduel.comparator.effect_estimate import estimate_effect
from opduel.comparator.empirical_bayes import NO_PRIOR, Prior
from opduel.comparator.group_sequential import SequentialTest, run_sequential_test, split

LOOKS = Looks((5, 8), (5, 8))
SETTLES_DOWN = [0.02, -0.02, 0.01, -0.01, 0.0, 0.0, 0.0]


def sequential(
    screening: list[float],
    confirmation: list[float],
    prior: Prior = NO_PRIOR,
    closing: bool = False,
    looks: Looks = LOOKS,
) -> SequentialTest:
    samples = [*pairs("a", "screening", screening), *pairs("a", "confirmation", confirmation)]
    return run_sequential_test(a_case(threshold=0.03), split(samples), prior, looks, 0.05, closing)


def test_a_case_that_was_noisy_result_on_the_screen_gets_less_from_the_others() -> None:
    """Its own samples may look quiet by chance: the quiet many must not vouch for it then."""
    prior = Prior(10.0, 1e-4, 160.0, 40)
    confirmation = noisy(np.random.default_rng(2), 5, 0.2, 0.01)
    fresh = replace(LOOKS, screening_share=0.0)
    quiet = sequential(noisy(np.random.default_rng(3), 5, 5.0, 0.01), confirmation, prior, looks=fresh)
    noisy_result = sequential(noisy(np.random.default_rng(3), 5, 5.0, 0.2), confirmation, prior, looks=fresh)
    assert quiet.suspect
    assert noisy_result.suspect
    assert quiet.p_value < noisy_result.p_value / 10
    alone = sequential(noisy(np.random.default_rng(3), 5, 5.0), confirmation, looks=fresh)
    assert noisy_result.p_value == pytest.approx(alone.p_value, rel=0.05)


def test_the_screen_has_a_closing_look_unless_the_case_has_left_it() -> None:
    assert not sequential(SETTLES_DOWN, []).cleared
    assert sequential(SETTLES_DOWN, [], closing=True).cleared
    left = sequential(SETTLES_DOWN, [0.2, 0.2], closing=True)
    assert not left.cleared
    assert left.stage == "confirmation"
    assert left.shown == "screening", "until a look has taken place there"
    assert sequential(SETTLES_DOWN, [0.2, 0.18, 0.21, 0.2, 0.19], closing=True).shown == "confirmation"


def p_at(values: list[float], above: bool, bound: float = math.log(1.03)) -> float:
    """One look's one-sided p value, without a prior."""
    samples = split(pairs("a", "screening", values))["screening"]
    effect = estimate_effect(samples, bound, NO_PRIOR, 0.01)
    return effect.p_above if above else effect.p_below


@settings(max_examples=50, deadline=None)
@given(st.integers(0, 10_000), st.integers(0, 9), st.integers(0, 9), st.sampled_from([0.0, 0.1, 0.2, 0.5]))
def test_p_is_the_weighted_bonferroni_combination_over_both_stages(seed: int, n: int, m: int, share: float) -> None:
    rng = np.random.default_rng(seed)
    screening, confirmation = noisy(rng, n, 0.05, 0.03), noisy(rng, m, 0.05, 0.03)
    found = sequential(screening, confirmation, looks=replace(LOOKS, screening_share=share))
    looks = [(screening[:k], part) for k, part in naive_screening_shares((5, 8), share).items() if k <= n]
    # A look that makes it a suspect, or gives it up, is the last of its stage.
    looks = looks[:1] if looks and n >= 5 and _leaves(screening) else looks
    fresh = [(confirmation[:k], (1 - share) * k / 13) for k in (5, 8) if k <= m]
    if found.cleared or found.futile:
        return
    looks = [(v, w) for v, w in looks if w]
    tests = [(p_at(v, True), p_at(v, False), w) for v, w in looks + fresh]
    rises = min(above / w for above, _, w in tests) < min(below / w for _, below, w in tests) if tests else True
    if fresh and not _beyond(fresh[-1][0], rises):  # fresh samples that don't say the same count alone
        tests = tests[len(looks) :]
    assert found.p_value == pytest.approx(naive_two_sided_p(tests))


def _beyond(values: list[float], rises: bool) -> bool:
    """Whether their trimmed mean lies beyond the threshold, on that side."""
    signed = sorted(value if rises else -value for value in values)
    cut = len(signed) // 5
    return float(np.mean(signed[cut : len(signed) - cut])) > math.log(1.03)


def _leaves(screening: list[float]) -> bool:
    changed = estimate_effect(split(pairs("a", "screening", screening[:5]))["screening"], 0.0, NO_PRIOR, 0.01)
    return 2 * min(changed.p_above, changed.p_below) < 0.01


@settings(max_examples=50, deadline=None)
@given(st.integers(0, 10_000))
def test_p_only_falls_as_samples_come(seed: int) -> None:
    """As long as the case is not cleared, which makes its p 1: what is rejected in mid-run stays rejected, unless fresh
    samples that come all the same don't say what the screening said."""
    rng = np.random.default_rng(seed)
    change, sd = rng.choice([0.0, 0.05, 0.3]), rng.choice([0.01, 0.05])
    screening, confirmation = noisy(rng, 9, change, sd), noisy(rng, 9, change, sd)
    last = 1.0
    for n, m in [*((n, 0) for n in range(10)), *((9, m) for m in range(1, 10))]:
        now = sequential(screening[:n], confirmation[:m])
        if now.cleared:
            break
        if m not in (5, 8) or _beyond(confirmation[:m], now.rises):
            assert now.p_value <= last
        last = now.p_value


def test_a_large_change_is_shown_at_the_look_that_found_it() -> None:
    found = sequential([0.2, 0.21, 0.19, 0.2, 0.2], [0.05, 0.06])
    assert found.decisive is not None
    assert (found.decisive.stage, len(found.decisive.values)) == ("screening", 5)
    assert found.decisive.tail == pytest.approx(0.05 * 0.2 * 0.4 / 2)
    low, high = found.decisive.effect().interval
    assert math.log(1.03) < low < 0.2 < high


def test_the_interval_of_a_flag_excludes_the_bound_whichever_test_flagged() -> None:
    """All pairs lie beyond the bound, but so far apart that the t interval reaches back across it."""
    wide = [0.05, 0.3, 0.9, 0.06, 2.0, 0.07, 1.2, 0.5, 0.04, 0.05, 0.06, 1.5]
    found = sequential([0.05, 0.2, -0.1, 0.3, 0.05], wide, looks=Looks((5, 8), (12,)))
    assert found.decisive is not None
    t_interval = estimate_effect(found.decisive.values, found.decisive.bound, NO_PRIOR, found.decisive.tail).interval
    assert t_interval[0] < math.log(1.03)
    assert found.p_value < 0.05
    assert found.decisive.effect().interval[0] > math.log(1.03)


def test_the_smallest_p_over_the_looks_counts_and_gives_the_direction() -> None:
    rng = np.random.default_rng(4)
    up = noisy(rng, 5, 0.2, 0.01)
    seen = sequential([0.2, 0.21, 0.19, 0.2, 0.2], up)
    later = sequential([0.2, 0.21, 0.19, 0.2, 0.2], [*up, 0.3, 0.1, -0.3])
    assert seen.rises
    assert later.rises
    assert later.p_value == seen.p_value < 0.05


# Two cases of benchmarks/results/calibration-median-quad.jsonl at a threshold of 0.1 %: nothing was injected into the
# first, and 0.5 % into the second.  Noise with two modes, which agreed with itself at screening.
TWO_MODES = [
    (
        [0.0322, -0.0145, 0.0379, 0.0301, 0.0304],
        [0.0033, -0.0184, 0.0395, -0.0584, -0.0005, -0.0219, -0.069, 0.0642, -0.0613, -0.0362, 0.0016, 0.0471],
    ),
    (
        [-0.0413, -0.0312, -0.0282, -0.0307, 0.0303],
        [0.0037, -0.0085, 0.0221, -0.0445, 0.0315, 0.0243, -0.003, 0.0238, -0.0122, 0.0184, -0.0128, 0.0012],
    ),
]


@pytest.mark.parametrize(("screening", "confirmation"), TWO_MODES)
def test_a_change_that_fresh_samples_do_not_show_is_none(screening: list[float], confirmation: list[float]) -> None:
    looks = Looks((5, 8, 12), (5, 8, 12))
    prior = Prior(8.0, 1e-4, 160.0, 40)
    samples = [*pairs("a", "screening", screening), *pairs("a", "confirmation", confirmation)]
    alone = run_sequential_test(a_case(threshold=0.001), split(samples[:5]), prior, looks, 0.05, False)
    found = run_sequential_test(a_case(threshold=0.001), split(samples), prior, looks, 0.05, False)
    assert alone.p_value < 0.1
    assert found.p_value > 0.5
    assert found.decisive is not None
    assert found.decisive.stage == "confirmation"
