"""benchmarks/fork_summaries.py: what each way makes of blocks whose truth is known."""

import random
import statistics
from collections.abc import Callable

import pytest

from benchmarks.fork_summaries import SUMMARIES, of_fastest, slowness_as_covariate, terciles

Fork = tuple[list[float], list[float]]


def bursts(rng: random.Random, change: float) -> Fork:
    """Of two neighbours one in three is slowed by up to a fifth, the other not."""
    control, treatment = ([rng.gauss(0, 0.003) for _ in range(48)] for _ in range(2))
    for side in (control, treatment):
        for place in range(48):
            side[place] += rng.uniform(0, 0.2) * (rng.random() < 0.33)
    return control, [block + change for block in treatment]


def wandering(rng: random.Random, change: float) -> Fork:
    """Neighbours share a speed that wanders by a third, and differ as much whatever it is."""
    speeds = [rng.uniform(0, 0.3) for _ in range(48)]
    control, treatment = ([speed + rng.gauss(0, 0.02) for speed in speeds] for _ in range(2))
    return control, [block + change for block in treatment]


def error(name: str, noise: Callable[[random.Random, float], Fork], change: float = 0.05) -> float:
    """The root mean square of what a summary is off, over 200 forks."""
    rng = random.Random(1)
    off = [SUMMARIES[name](*noise(rng, change)) - change for _ in range(200)]
    return statistics.fmean(one**2 for one in off) ** 0.5


@pytest.mark.parametrize("name", SUMMARIES)
def test_a_change_of_all_blocks_is_found_in_full(name: str) -> None:
    rng = random.Random(2)
    control = [rng.gauss(0, 0.01) for _ in range(24)]
    assert SUMMARIES[name](control, [block + 0.03 for block in control]) == pytest.approx(0.03, abs=1e-9)
    assert SUMMARIES[name]([0.1, 0.1], [0.2, 0.2]) == pytest.approx(0.1)


@pytest.mark.parametrize("name", ["in use", "slowness as covariate"])
def test_weights_by_slowness_are_near_the_better_of_two_ways_for_either_noise(name: str) -> None:
    """Beside bursts the fastest neighbours are right, beside a wandering speed all of them."""
    assert error("fastest sixth of them", bursts) < 0.8 * error("neighbours", bursts)
    assert error("neighbours", wandering) < 0.6 * error("fastest sixth of them", wandering)
    assert error(name, bursts) < 1.3 * error("fastest sixth of them", bursts)
    assert error(name, wandering) < 1.3 * error("neighbours", wandering)


def test_groups_of_which_one_is_as_good_as_all_count_alike() -> None:
    rng = random.Random(3)
    control, treatment = ([rng.gauss(0, 0.01) for _ in range(48)] for _ in range(2))
    assert terciles(control, treatment) == pytest.approx(of_fastest(1)(control, treatment), abs=0.003)
    assert slowness_as_covariate(control, treatment) == pytest.approx(of_fastest(1)(control, treatment), abs=0.003)
