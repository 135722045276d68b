"""What kind of noise a host had, in words."""

import math
import random

import pytest
from toy_bench import toy_case

from opduel.harness.planning.effort import Costs, Noise
from opduel.harness.planning.effort_planner import EffortPlanner
from opduel.harness.planning.noise_words import describe_noise
from opduel.records import PairSample

CASES = [toy_case(name) for name in "abc"]
COSTS = Costs(quad_s=0.005, prepare_s=0.02, beside_s=0.005)


def measured(quad: float, fork: float, pair: float, speed: float = 1.0) -> str:
    """What is said of a host with these standard deviations whose processes are up to ``speed`` times as slow."""
    rng = random.Random(1)
    planner = EffortPlanner(
        {case.id: COSTS for case in CASES}, {case.id: Noise(quad**2, fork**2, pair**2) for case in CASES}
    )
    samples = {}
    for case in CASES:
        values = [100 * math.exp(rng.uniform(0, math.log(speed))) for _ in range(40)]
        samples[case.id] = [
            PairSample(case.id, "screening", number, value, value, 0.0, 20, 100, fork_ratios=((0.0, 0.01),))
            for number, value in enumerate(values)
        ]
    noise = describe_noise(CASES, samples, planner)
    assert noise is not None
    return str(noise.words)


@pytest.mark.parametrize(
    ("quad", "fork", "pair", "speed", "words"),
    [
        (0.012, 0.005, 0.004, 1.0, "a quiet host"),
        (0.05, 0.005, 0.004, 1.7, "this processor changes speed by up to"),
        (0.05, 0.005, 0.004, 1.0, "something interrupts what is measured"),
        (0.012, 0.03, 0.004, 1.0, "processes of the same build differ by 3.0 %"),
    ],
)
def test_the_largest_source_is_named(quad: float, fork: float, pair: float, speed: float, words: str) -> None:
    assert measured(quad, fork, pair, speed).startswith(words)


def test_nothing_is_said_of_cases_without_blocks() -> None:
    assert describe_noise(CASES, {}, EffortPlanner()) is None
