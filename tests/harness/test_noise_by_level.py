"""Variances by level from samples: those that were put in come back, and strays and single samples mislead little."""

import math
import statistics
from dataclasses import replace

import pytest
from made_noise import made_samples

from opduel.harness.planning.effort import LEAST_VARIANCE, Noise
from opduel.harness.planning.noise_by_level import USUAL, noise_by_level, quads_of
from opduel.records import PairSample

QUIET = Noise(0.005**2, 0.002**2, 0.001**2)
LEVELS = ("quad", "fork", "pair")


def of_cases(noise: Noise, cases: int, pairs: int, **more: int) -> dict[str, list[PairSample]]:
    return {f"case {number}": made_samples(f"case {number}", noise, pairs, **more) for number in range(cases)}


def deviations(noise: Noise) -> list[float]:
    return [math.sqrt(getattr(noise, level)) for level in LEVELS]


@pytest.mark.parametrize(
    "noise",
    [
        Noise(0.05**2, 0.004**2, 0.001**2),
        Noise(0.01**2, 0.03**2, 0.001**2),
        Noise(0.01**2, 0.004**2, 0.02**2),
        Noise(0.03**2, 0.02**2, 0.02**2),
    ],
    ids=["quads", "forks", "pairs", "all"],
)
@pytest.mark.parametrize(("forks", "quads"), [(2, 12), (8, 40)])
def test_the_variances_that_were_put_in_come_back(noise: Noise, forks: int, quads: int) -> None:
    """Of each level that makes up a fifth of a sample's variance; and of all together, as the samples vary."""
    samples = of_cases(noise, 20, 8, forks=forks, quads=quads)
    noise_by_case = noise_by_level(samples)
    of_sample = noise.of_sample(forks, quads)
    shares = {"quad": 1.0, "fork": noise.fork / forks / of_sample, "pair": noise.pair / of_sample}
    for level, share in shares.items():
        if share > 0.2:
            estimated = statistics.median(math.sqrt(getattr(case, level)) for case in noise_by_case.values())
            assert estimated == pytest.approx(math.sqrt(getattr(noise, level)), rel=0.25), level
    varied = statistics.fmean(statistics.variance(sample.log_ratio for sample in rows) for rows in samples.values())
    predicted = [case.of_sample(forks, quads) / varied for case in noise_by_case.values()]
    assert 1 / 1.5 < statistics.median(predicted) < 1.5
    assert 1 / 3 < min(predicted) < max(predicted) < 3


def test_the_noise_does_not_depend_on_the_change_or_on_the_time_of_a_call() -> None:
    samples = of_cases(QUIET, 3, 5)
    shifted = {case_id: [_shifted(sample, 0.125) for sample in rows] for case_id, rows in samples.items()}
    for case_id, noise in noise_by_level(shifted).items():
        assert deviations(noise) == pytest.approx(deviations(noise_by_level(samples)[case_id]))


def _shifted(sample: PairSample, change: float) -> PairSample:
    ratios = tuple((log_ratio + change, standard_error) for log_ratio, standard_error in sample.fork_ratios)
    return replace(sample, log_ratio=sample.log_ratio + change, fork_ratios=ratios, control=7 * sample.control)


def test_stray_forks_hardly_count() -> None:
    """One in each of two pairs of eight differs by a hundred times what the others do: they are boiled down so that it
    hardly matters, and so does their variance."""
    clean = noise_by_level({"a": made_samples("a", QUIET, 5, forks=8)})["a"]
    stray = noise_by_level({"a": made_samples("a", QUIET, 5, forks=8, strays=(3, 17))})["a"]
    assert math.sqrt(stray.fork) < 2 * math.sqrt(clean.fork)
    assert math.sqrt(stray.quad) == pytest.approx(math.sqrt(clean.quad), rel=0.05)
    assert math.sqrt(stray.pair) < 2 * math.sqrt(clean.pair) + 0.001


def test_a_case_with_few_samples_is_taken_to_be_as_noisy_as_the_others_and_with_many_as_its_own_say() -> None:
    other_cases = of_cases(QUIET, 20, 5)
    deviations = []
    for pairs in (1, 4, 30):
        odd = made_samples("odd", Noise(QUIET.quad, 0.03**2, QUIET.pair), pairs)
        deviations.append(math.sqrt(noise_by_level({**other_cases, "odd": odd})["odd"].fork))
    assert deviations[0] < 0.01, "two degrees of freedom may be chance"
    assert deviations[0] < deviations[1] < deviations[2]
    assert deviations[2] == pytest.approx(0.03, rel=0.3)


def test_before_anything_is_known_of_a_level_it_is_taken_to_be_usual() -> None:
    noise = noise_by_level({"a": made_samples("a", QUIET, 1, forks=1)})["a"]
    assert (noise.fork, noise.pair) == (pytest.approx(USUAL), pytest.approx(USUAL))
    assert math.sqrt(noise.quad) == pytest.approx(0.005, rel=0.4)


@pytest.mark.parametrize("pairs", [1, 6])
def test_no_variance_is_taken_to_be_nothing(pairs: int) -> None:
    """No repetition is chosen by what can't be told from it."""
    still = noise_by_level({"a": made_samples("a", Noise(0.0, 0.0, 0.0), pairs)})["a"]
    assert min(still.quad, still.fork, still.pair) >= LEAST_VARIANCE


def test_cases_that_are_measured_without_blocks_have_none() -> None:
    counted = [replace(sample, fork_ratios=()) for sample in made_samples("a", QUIET, 3)]
    assert noise_by_level({"a": counted, "b": []}) == {}


@pytest.mark.parametrize(("blocks", "forks", "quads"), [(24, 1, 12), (48, 2, 12), (1, 1, 0.5), (3, 3, 0.5)])
def test_a_fork_with_one_block_a_side_has_half_a_quad(blocks: int, forks: int, quads: float) -> None:
    (sample,) = made_samples("a", QUIET, 1)
    assert quads_of(replace(sample, blocks=blocks, forks=forks)) == quads
