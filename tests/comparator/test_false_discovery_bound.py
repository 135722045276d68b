"""The false discovery rate of the whole procedure is alpha + 1 percentage point at most: found with 95 % power.

A sequential probability ratio test (Wald 1945, Ann. Math. Stat. 16, 117-186) between alpha and alpha + 0.01 takes as
many simulated runs as it needs: at alpha + 0.01 it fails with probability 0.95 at least, at alpha with 0.001 at most.
What it takes is a run's share of false flags, which lies in [0, 1]: the likelihood ratio of a share is that of counts,
weighted, so that both probabilities hold for shares by Jensen's inequality.  The runs are those of
disturbed_runs.py: adaptive looks, and on a disturbed host rounds beyond them and withheld verdicts;
and, of runs whose A/A checks found a difference, what stands after that.
"""

import math
from collections.abc import Iterator

import numpy as np
import pytest
from disturbed_runs import BIASES, DISTURBANCES, Disturbance, Run, simulate, simulate_biased

from opduel.comparator import plan_looks
from opduel.records import FLAGGED

ALPHA, BEYOND = 0.05, 0.06
FALSE_ALARM, MISS = 0.001, 0.05
THRESHOLD = 0.02
LOOKS = plan_looks(30)
# Of these the first eight lie within the threshold, four of them at its edges.
CHANGES = (*[0.0] * 4, *[THRESHOLD, 1 / (1 + THRESHOLD) - 1] * 2, 0.1, 0.1, 0.04, 1 / 1.1 - 1)
RIGHT = (*["none"] * 8, "regressed", "regressed", "regressed", "improved")
MOST_RUNS = 60_000


def is_bounded(errors: Iterator[float]) -> bool:
    """Whether the mean of these shares is ALPHA rather than BEYOND."""
    evidence = 0.0  # the log of the likelihood ratio, BEYOND to ALPHA
    for number, error in enumerate(errors, 1):
        evidence += math.log(error * BEYOND / ALPHA + (1 - error) * (1 - BEYOND) / (1 - ALPHA))
        if evidence >= math.log((1 - MISS) / FALSE_ALARM):
            return False
        if evidence <= math.log(MISS / (1 - FALSE_ALARM)):
            return True
        assert number < MOST_RUNS, "no decision"
    raise AssertionError("too few errors to tell")


@pytest.mark.parametrize(("rate", "fewest", "most"), [(BEYOND, 0, 9), (0.08, 0, 1), (0.045, 98, 100), (0.01, 100, 100)])
def test_the_test_has_its_power(rate: float, fewest: int, most: int) -> None:
    """Of a hundred procedures with this rate, so many are said to be bounded.

    At BEYOND 5 are expected at most, and more than 9 have a probability of 3 %; the draws have a fixed seed.
    """
    rng = np.random.default_rng(11)
    passed = sum(is_bounded(float(share) for share in rng.random(MOST_RUNS) < rate) for _ in range(100))
    assert fewest <= passed <= most


def test_shares_count_as_errors_of_the_same_mean() -> None:
    rng = np.random.default_rng(12)
    assert not is_bounded(float(share) for share in rng.random(MOST_RUNS) * 0.2)  # 10 % on average
    assert is_bounded(float(share) for share in rng.random(MOST_RUNS) * 0.04)


def quiet(rng: np.random.Generator, cases: int) -> np.ndarray:
    """No disturbance."""
    return np.zeros((1, cases))


def false_share(verdicts: tuple[str, ...]) -> float:
    """Of a run's flags, how many are false."""
    flagged = [(verdict, right) for verdict, right in zip(verdicts, RIGHT, strict=True) if verdict in FLAGGED]
    return sum(verdict != right for verdict, right in flagged) / max(1, len(flagged))


@pytest.mark.nightly
@pytest.mark.statistics
@pytest.mark.parametrize(
    "disturbance",
    [
        quiet,
        *(disturbance for name, disturbance in DISTURBANCES.items() if name != "one_sided"),
    ],  # it breaks what the test assumes
    ids=lambda disturbance: disturbance.__name__,
)
def test_false_discoveries_are_bounded(disturbance: Disturbance) -> None:
    runs = (
        simulate(Run(CHANGES, THRESHOLD, disturbance, np.random.default_rng(seed)), LOOKS, ALPHA)
        for seed in range(MOST_RUNS)
    )
    assert is_bounded(false_share(run.reported if disturbance is quiet else run.standing) for run in runs)


@pytest.mark.nightly
@pytest.mark.statistics
@pytest.mark.parametrize(("name", "checks"), [("each", 1), ("each", 4), ("alike", 1), ("alike", 4), ("some", 4)])
def test_false_discoveries_are_bounded_after_an_aa_check_that_found_a_difference(name: str, checks: int) -> None:
    """Of biases with a standard deviation of twice the threshold. ``tails`` break what the rule assumes; ``some`` are
    found by one check so rarely that it would take a quarter of an hour."""

    def biased(rng: np.random.Generator, cases: int) -> np.ndarray:
        return 0.04 * BIASES[name](rng, cases)

    biased_runs = (Run(CHANGES, THRESHOLD, biased, np.random.default_rng(seed), checks) for seed in range(MOST_RUNS))
    runs = (simulate_biased(run, LOOKS, ALPHA) for run in biased_runs)
    assert is_bounded(false_share(run.standing) for run in runs if run is not None)
