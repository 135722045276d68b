"""One case's way through the looks, its prior given."""

import math
from collections.abc import Sequence

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from made_samples import a_case, in_stages, noisy, pairs
from naive_statistics import naive_trimmed_mean, naive_two_sided_p

from opduel.comparator import Looks
from opduel.comparator.case_values import Values
from opduel.comparator.effect_estimate import estimate_effect
from opduel.comparator.empirical_bayes import NO_PRIOR, Prior
from opduel.comparator.group_sequential import SequentialTest, run_sequential_test

LOOKS = Looks((5, 8, 13))
BOUND = math.log(1.03)
NOTHING = [0.02, -0.02, 0.01, -0.01, 0.0]
LARGE = [0.2, 0.21, 0.19, 0.2, 0.2]


def sequential(
    log_ratios: Sequence[float],
    screened: int = 5,
    prior: Prior = NO_PRIOR,
    closing: bool = False,
    is_replication: bool = False,
    metric: str = "time",
    looks: Looks = LOOKS,
    threshold: float = 0.03,
) -> SequentialTest:
    values = Values.of(in_stages("a", log_ratios, screened))
    return run_sequential_test(a_case("a", threshold, metric), values, prior, looks, 0.05, closing, is_replication)


def p_at(values: Sequence[float], above: bool) -> float:
    """One look's one-sided p value, without a prior."""
    effect = estimate_effect(Values.of(pairs("a", "screening", values)), BOUND, NO_PRIOR, 0.01)
    return effect.p_above if above else effect.p_below


@settings(max_examples=50)
@given(st.integers(0, 10_000), st.integers(0, 15), st.sampled_from([0.05, 0.2]), st.sampled_from([0.01, 0.03]))
def test_p_is_the_weighted_bonferroni_combination_over_all_samples(seed: int, n: int, change: float, sd: float) -> None:
    """Whichever stage they are of; and 1 until fresh ones have confirmed it, or if a look has cleared the case."""
    log_ratios = noisy(np.random.default_rng(seed), n, change, sd)
    test = sequential(log_ratios)
    counts = [count for count in (5, 8, 13) if count <= n]
    if test.futile or test.cleared:  # the looks end early
        return
    looks = [(p_at(log_ratios[:count], True), p_at(log_ratios[:count], False), count / 26) for count in counts]
    fresh = log_ratios[5 : counts[-1]] if counts else []
    rises = min([1, *(above / w for above, _, w in looks)]) < min([1, *(below / w for _, below, w in looks)])
    signed = [ratio if rises else -ratio for ratio in fresh]
    agree = sum(ratio > 0 for ratio in signed) >= 3 and naive_trimmed_mean(signed) > BOUND
    assert test.confirmed == agree
    assert test.p_value == pytest.approx(naive_two_sided_p(looks) if agree else 1.0)
    assert test.looked == bool(counts)


@settings(max_examples=50)
@given(st.integers(0, 10_000))
def test_p_only_falls_as_samples_come(seed: int) -> None:
    """As long as the case is not cleared and fresh samples confirm it: what is rejected in mid-run stays rejected."""
    rng = np.random.default_rng(seed)
    change, sd = rng.choice([0.0, 0.05, 0.3]), rng.choice([0.01, 0.05])
    log_ratios = noisy(rng, 15, change, sd)
    last = 1.0
    for n in range(16):
        now = sequential(log_ratios[:n])
        if now.cleared:
            break
        if now.confirmed:
            assert now.p_value <= last
            last = now.p_value


@pytest.mark.parametrize(
    ("fresh", "confirmed"),
    [
        ([], False),
        ([0.2], False),  # between two looks nothing is decided
        ([0.2, 0.2], False),
        ([0.2, 0.19, 0.21], True),
        ([0.2, 0.19, 0.21, -0.5], True),
        ([0.02, 0.03, 0.04], True),  # all are slower, and on average by more than the threshold
        ([0.02, 0.03, 0.02], False),  # by less
        ([0.2, 0.2, -0.1], False),  # two of three
        ([0.01, 0.5, -0.01, 0.02, 0.01, 0.02, 0.01, -0.02], False),
    ],
)
@pytest.mark.parametrize("sign", [1, -1])
def test_a_change_takes_three_fresh_pairs_that_agree(fresh: list[float], confirmed: bool, sign: int) -> None:
    test = sequential([sign * ratio for ratio in LARGE + fresh])
    assert test.suspect
    assert test.confirmed is confirmed
    assert (test.p_value < 0.01) is confirmed
    assert test.rises is (sign == 1)


def test_counts_are_claimed_at_once() -> None:
    assert sequential([0.05] * 5, metric="instructions").p_value < 1e-6
    assert sequential([0.05] * 5).p_value == 1


# Two cases of real runs of one build against itself, at a threshold of 0.1 %: nothing was injected into the
# first, and 0.5 % into the second.  Noise with two modes, which agreed with itself five times.
TWO_MODES = [
    [
        0.0322,
        -0.0145,
        0.0379,
        0.0301,
        0.0304,
        0.0033,
        -0.0184,
        0.0395,
        -0.0584,
        -0.0005,
        -0.0219,
        -0.069,
        0.0642,
        -0.0613,
        -0.0362,
        0.0016,
        0.0471,
    ],
    [
        -0.0413,
        -0.0312,
        -0.0282,
        -0.0307,
        0.0303,
        0.0037,
        -0.0085,
        0.0221,
        -0.0445,
        0.0315,
        0.0243,
        -0.003,
        0.0238,
        -0.0122,
        0.0184,
        -0.0128,
        0.0012,
    ],
]


@pytest.mark.parametrize("log_ratios", TWO_MODES)
@pytest.mark.parametrize("prior", [NO_PRIOR, Prior(8.0, 1e-4, 160.0, 40)])
def test_noise_with_two_modes_is_no_change(log_ratios: list[float], prior: Prior) -> None:
    for n in range(5, len(log_ratios) + 1):
        test = sequential(log_ratios[:n], prior=prior, looks=Looks((5, 8, 12, 17)), threshold=0.001)
        assert test.p_value == 1


def test_a_suspect_stays_one_and_its_size_is_that_of_the_look_that_found_it() -> None:
    """What a time budget is spent on first must not hang on the samples that are still to be tested."""
    assert not sequential(NOTHING).suspect
    assert sequential(NOTHING).stage == "screening"
    excesses = set()
    for later in ([], [0.2, 0.2, 0.2], [0.0, -0.3, 0.5]):
        test = sequential(LARGE + later)
        assert test.stage == "confirmation"
        excesses.add(test.excess)
    (excess,) = excesses
    level = LOOKS.level(5, 0.025)
    effect = estimate_effect(Values.of(pairs("a", "screening", LARGE)), BOUND, NO_PRIOR, level)
    assert excess == pytest.approx(effect.interval[0] - BOUND)


@pytest.mark.parametrize(("shift", "suspect"), [(0.02, True), (0.0145, True), (0.012, False)])
def test_what_could_be_flagged_at_a_look_is_a_suspect(shift: float, suspect: bool) -> None:
    """A look that has more of the error than the level at which suspects are found, at a threshold of 0."""
    log_ratios = [shift + 0.01 * x for x in (1, -1, 0.5, -0.5, 1.2, -1.2, 0.3, -0.3)]
    p_changed = estimate_effect(Values.of(pairs("a", "screening", log_ratios)), 0.0, NO_PRIOR, 0.01).p_changed
    assert (p_changed < 0.05 * 8 / 20) is suspect
    assert sequential(log_ratios, 8, looks=Looks((8, 12), 1e-6), threshold=0.0).suspect is suspect
    assert not sequential(log_ratios[:7], 8, looks=Looks((7, 900), 1e-6), threshold=0.0).suspect


@pytest.mark.parametrize(
    ("log_ratios", "no_rise", "no_fall"),
    [
        ([0.001, -0.001, 0.0, 0.002, -0.002], True, True),
        ([-0.06, -0.1, -0.02, -0.05, -0.07], True, False),
        ([0.06, 0.1, 0.02, 0.05, 0.07], False, True),
        ([0.2, -0.2, 0.1, -0.1, 0.0], False, False),
        ([-0.06, -0.1, -0.02, -0.05], False, False),  # no look yet
    ],
)
def test_on_which_side_a_case_lies(log_ratios: list[float], no_rise: bool, no_fall: bool) -> None:
    test = sequential(log_ratios)
    assert (test.no_rise is not None, test.no_fall is not None) == (no_rise, no_fall)
    assert test.cleared == (no_rise and no_fall)
    assert test.sides(True) == (test.no_rise, test.no_fall)
    assert test.sides(False) == (test.no_fall, test.no_rise)


def test_a_side_that_a_look_has_shown_stays_shown() -> None:
    first = [-0.06, -0.1, -0.02, -0.05, -0.07]
    noise = [0.3, -0.1, 0.3]
    test = sequential(first + noise)
    assert test.no_rise is not None
    assert test.no_rise.n == 5
    assert test.figures is not None
    assert test.figures.n == 8
    assert test.figures.interval[1] > BOUND


def test_two_looks_that_exclude_one_side_each_show_that_nothing_has_changed() -> None:
    first, both = [0.01 + x for x in (0.02, -0.02, 0.01, -0.01, 0.0)], [-0.03, -0.04, -0.02]
    not_faster, unchanged = sequential(first), sequential([*first, *both])
    assert not_faster.no_fall is not None
    assert not not_faster.cleared
    assert unchanged.cleared
    assert unchanged.figures is not None
    assert unchanged.no_rise is not None
    assert unchanged.no_rise.interval[0] < -BOUND
    assert unchanged.figures.interval == (not_faster.no_fall.interval[0], unchanged.no_rise.interval[1])


def test_there_is_a_closing_look_where_the_run_ended() -> None:
    settles_down = [0.03, -0.03, 0.01, -0.01, 0.0, 0.0, 0.0]
    assert not sequential(settles_down).cleared
    closed = sequential(settles_down, closing=True)
    assert closed.cleared
    assert closed.figures is not None
    assert closed.figures.n == 7


def test_no_look_counts_after_the_one_that_gave_the_case_up() -> None:
    on_the_edge = [0.03 + x for x in (0.02, -0.02, 0.01, -0.01, 0.0)]
    given_up = sequential(on_the_edge, looks=Looks((5, 6)))
    assert given_up.futile
    assert not sequential(on_the_edge, looks=Looks((5, 40))).futile
    later = sequential([*on_the_edge, *[0.03] * 8], 13, looks=Looks((5, 6)))
    assert (later.futile, later.cleared, later.p_value) == (True, False, 1.0)


def test_a_case_is_not_given_up_as_long_as_one_side_may_be_shown() -> None:
    noisy_low = [-0.02 + 3 * x for x in (0.02, -0.02, 0.01, -0.01, 0.0)]
    assert not sequential(noisy_low, looks=Looks((5, 8))).futile
    assert sequential(noisy_low, looks=Looks((5, 8)), is_replication=True, screened=0).futile, (
        "of a suspect both are asked"
    )


def test_the_interval_of_a_flag_spends_its_looks_share_and_excludes_the_bound() -> None:
    test = sequential([*LARGE, 0.2, 0.19, 0.21])
    assert test.decisive is not None
    tail = 0.05 * LOOKS.weight(test.decisive.n) / 2
    again = estimate_effect(
        Values.of(in_stages("a", [*LARGE, 0.2, 0.19, 0.21][: test.decisive.n])), BOUND, NO_PRIOR, tail
    )
    assert test.decisive.interval == again.interval
    assert BOUND < test.decisive.interval[0] < 0.2 < test.decisive.interval[1]


@settings(max_examples=30)
@given(st.integers(0, 10_000), st.sampled_from([0.05, 0.1, -0.1]))
def test_a_p_value_below_alpha_goes_with_an_interval_beyond_the_bound(seed: int, change: float) -> None:
    test = sequential(noisy(np.random.default_rng(seed), 13, change, 0.02))
    assert test.decisive is not None
    low, high = test.decisive.interval
    if test.p_value <= 0.05:
        assert low >= BOUND or high <= -BOUND


def test_the_smallest_p_over_the_looks_counts_and_gives_the_direction() -> None:
    up = noisy(np.random.default_rng(4), 3, 0.2, 0.01)
    test = sequential(LARGE + up)
    later = sequential([*LARGE, *up, 0.4, 0.3, 0.1, 0.0, 0.5])
    assert test.rises
    assert later.rises
    assert later.p_value == test.p_value < 0.05


def test_a_retest_counts_fresh_samples_alone() -> None:
    fresh = [0.05, 0.06, 0.055, 0.052, 0.058]
    outcomes = [sequential([*screening, *fresh], is_replication=True) for screening in (LARGE, NOTHING, [-0.3] * 5)]
    alone = sequential(fresh, 0)
    for test in outcomes:
        assert test.suspect
        assert (test.n, test.p_value, test.confirmed) == (5, alone.p_value, True)
    assert alone.p_value < 0.05
    unmeasured = sequential(LARGE, is_replication=True)
    assert (unmeasured.n, unmeasured.figures, unmeasured.looked, unmeasured.p_value) == (0, None, False, 1.0)


def test_a_case_that_was_noisy_on_the_screen_gets_less_from_the_others_in_a_retest() -> None:
    """Its own samples may look quiet by chance: the quiet many must not vouch for it then."""
    prior = Prior(10.0, 1e-4, 160.0, 40)
    fresh = noisy(np.random.default_rng(2), 5, 0.2, 0.01)
    tests = {
        sd: sequential([*noisy(np.random.default_rng(3), 5, 5.0, sd), *fresh], prior=prior, is_replication=True)
        for sd in (0.01, 0.2)
    }
    assert tests[0.01].p_value < tests[0.2].p_value / 10
    alone = sequential([*noisy(np.random.default_rng(3), 5, 5.0), *fresh], is_replication=True)
    assert tests[0.2].p_value == pytest.approx(alone.p_value, rel=0.05)
