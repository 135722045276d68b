"""What must not matter to a verdict, and what must matter in one direction only."""

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from made_samples import a_case, noisy, pair

from opduel.comparator import Looks, RunAnalysis
from opduel.records import Comparison, PairSample, Stage

LOOKS = Looks((5, 8, 12))
MIRROR = {"regressed": "improved", "improved": "regressed", "not_worse": "not_better", "not_better": "not_worse"}
CHANGED = ("regressed", "improved")
Run = dict[str, list[PairSample]]


def drawn(seed: int) -> Run:
    """A run of five cases of various changes, noises and numbers of samples."""
    rng = np.random.default_rng(seed)
    run: Run = {}
    for i in range(5):
        change, sd = rng.choice([0.0, 0.02, 0.1, -0.1]), rng.choice([0.002, 0.02])
        counts: dict[Stage, int] = {"screening": int(rng.integers(0, 10)), "confirmation": int(rng.integers(0, 10))}
        run[f"c{i}"] = [
            pair(f"c{i}", stage, control, control * math.exp(log_ratio))
            for stage, count in counts.items()
            for control, log_ratio in zip(rng.uniform(900, 1100, count), noisy(rng, count, change, sd), strict=True)
        ]
    return run


def judged(run: Run, threshold: float = 0.02) -> list[Comparison]:
    return RunAnalysis([a_case(name, threshold) for name in run], run, {}, LOOKS).comparisons()


def numbers(comparison: Comparison) -> list[float]:
    """What a comparison says in numbers that have no unit."""
    return [value for value in (comparison.ratio, *(comparison.ci or ()), comparison.p_value) if value is not None]


seeds = st.integers(0, 10_000)


@settings(max_examples=30)
@given(seeds, st.sampled_from([2.0**-20, 2.0, 2.0**20]))
def test_the_unit_does_not_matter(seed: int, factor: float) -> None:
    run = drawn(seed)
    scaled = {
        name: [
            PairSample(s.case_id, s.stage, s.round, s.control * factor, s.treatment * factor, s.log_ratio, 1, 1)
            for s in samples
        ]
        for name, samples in run.items()
    }
    for here, there in zip(judged(run), judged(scaled), strict=True):
        assert here.verdict == there.verdict
        assert numbers(here) == pytest.approx(numbers(there), rel=1e-9)  # logs of other numbers are rounded otherwise


@settings(max_examples=30)
@given(seeds)
def test_exchanging_the_sides_mirrors_everything(seed: int) -> None:
    run = drawn(seed)
    swapped = {
        name: [PairSample(s.case_id, s.stage, s.round, s.treatment, s.control, -s.log_ratio, 1, 1) for s in samples]
        for name, samples in run.items()
    }
    for here, there in zip(judged(run), judged(swapped), strict=True):
        looks_improved = here.suspected == "improved" or there.suspected == "improved"
        if looks_improved:  # then it isn't worse; but of what looks worse nobody says that it isn't better
            assert {here.verdict, there.verdict} <= {"not_worse", "inconclusive"}
        else:
            assert there.verdict == MIRROR.get(here.verdict, here.verdict)
        assert (there.control, there.treatment) == (here.treatment, here.control)
        if here.ratio is not None and there.ratio is not None:
            assert there.ratio == pytest.approx(1 / here.ratio)
        if here.ci is not None and there.ci is not None:
            assert there.ci == pytest.approx((1 / here.ci[1], 1 / here.ci[0]))
            assert there.p_value == pytest.approx(here.p_value)
            assert there.mde == pytest.approx(here.mde)


@settings(max_examples=30)
@given(seeds, st.randoms(use_true_random=False))
def test_the_order_up_to_the_first_look_does_not_matter(seed: int, random: "np.random.Generator") -> None:
    run = drawn(seed)
    shuffled = {}
    for name, samples in run.items():
        first = samples[:5]
        if len({sample.stage for sample in first}) == 1:
            random.shuffle(first)
        shuffled[name] = [*first, *samples[5:]]
    for here, there in zip(judged(run), judged(shuffled), strict=True):
        assert here.verdict == there.verdict
        assert here.p_value == pytest.approx(there.p_value)


@settings(max_examples=30)
@given(seeds, st.floats(0, 0.2), st.floats(0, 0.2))
def test_a_wider_threshold_flags_no_more_and_clears_no_less(seed: int, threshold: float, other: float) -> None:
    low, high = sorted((threshold, other))
    run = drawn(seed)
    for narrow, wide in zip(judged(run, low), judged(run, high), strict=True):
        if wide.verdict in CHANGED:
            assert narrow.verdict == wide.verdict
        if narrow.verdict == "unchanged":
            assert wide.verdict == "unchanged"


@settings(max_examples=30)
@given(seeds)
def test_figures_agree_with_the_verdict(seed: int) -> None:
    for comparison in judged(drawn(seed)):
        if comparison.ci is None or comparison.ratio is None:
            assert comparison.verdict == "inconclusive"
            continue
        assert comparison.ci[0] <= comparison.ratio <= comparison.ci[1]
        looked = len(comparison.samples) >= 5
        assert (comparison.p_value is None) == (comparison.q_value is None) == (not looked)
        if comparison.p_value is not None and comparison.q_value is not None:
            assert comparison.p_value <= comparison.q_value <= 1
        low, high = comparison.ci
        assert low >= 1 / 1.02 - 1e-12 or comparison.verdict not in ("unchanged", "not_better")
        assert high <= 1.02 + 1e-12 or comparison.verdict not in ("unchanged", "not_worse")
        if comparison.verdict == "regressed":
            assert low > 1.02
        if comparison.verdict == "improved":
            assert high < 1 / 1.02
        beyond = low > 1.02 or high < 1 / 1.02
        assert (comparison.suspected is not None) == (comparison.verdict not in CHANGED and beyond)
