"""The forecast: what it draws from, and that it finds what can be found and nothing else."""

import math
import random
import statistics
from collections.abc import Sequence

import pytest

from opduel.harness.other_runs.power_analysis import (
    FEWEST_PAIRS,
    POWER,
    SHARES,
    CasePairs,
    _centred,
    forecast_power,
    pairs_of_cases,
    simulate,
    threshold_for,
)
from opduel.records import Build, Case, Comparison, PairSample, Report
from opduel.records.host_record import HostRecord
from opduel.records.run_record import RunRecord

BUILD = Build("toy", "toy", "interpreter", "/python", "1", "3.11", "aa")


def sample(control: float, treatment: float, ratio: float) -> PairSample:
    return PairSample("a", "screening", 0, math.exp(control), math.exp(treatment), ratio, 1, 1)


def noise(name: str, sd: float, rng: random.Random, n: int = 40) -> CasePairs:
    log_ratios = tuple(rng.gauss(0, sd) - rng.gauss(0, sd) for _ in range(n))
    return CasePairs(Case(name, "op", "forward", {}, "", "", 0.02, 1.0), log_ratios)


def made_report(counts: Sequence[int]) -> Report:
    nothing = dict.fromkeys(("ci", "p_value", "q_value", "mde", "control", "treatment", "decided_on", "failure"))
    comparisons = []
    for number, count in enumerate(counts):
        samples = tuple(sample(9 + i / 100, 9 + i / 50, i / 100) for i in range(count))
        comparisons.append(
            Comparison(f"c{number}", "op", "forward", "time", "ns", "unchanged", 1.0, threshold=0.02, rounds=count,
                       injected=False, samples=samples, **nothing)
        )  # fmt: skip
    return Report(RunRecord(), BUILD, BUILD, HostRecord(), comparisons)


def test_pairs_are_taken_about_their_mean_and_widened_for_it() -> None:
    """Of n values about their own mean, the squares come to (n - 1) variances."""
    log_ratios = [0.5, 0.3, 0.7, 0.3]
    centred = _centred([sample(9.0, 9.0 + ratio, ratio) for ratio in log_ratios])
    assert statistics.fmean(centred) == pytest.approx(0)
    assert statistics.pvariance(centred) == pytest.approx(statistics.variance(log_ratios))


def test_pairs_of_all_runs_are_pooled_and_cases_with_few_are_left_out() -> None:
    reports = [made_report([FEWEST_PAIRS, FEWEST_PAIRS - 1, 1, 0]), made_report([FEWEST_PAIRS, 2, 1, 0])]
    pairs_by_case = {noise.case.id: len(noise.log_ratios) for noise in pairs_of_cases(reports)}
    assert pairs_by_case == {"c0": 2 * FEWEST_PAIRS, "c1": FEWEST_PAIRS + 1}
    assert pairs_of_cases([]) == []


def test_less_is_found_in_more_noise_and_nothing_where_nothing_is() -> None:
    rng = random.Random(1)
    shares = []
    for sd in (0.002, 0.02, 0.1):
        cases = [noise(f"c{i}", sd, rng) for i in range(10)]
        rate, pairs = simulate(cases, 0.05, 0.02, 12, 0.05, rng)
        assert rate.of >= 100
        assert 5 <= pairs <= 24
        shares.append(rate.share)
    assert shares[0] == 1.0
    assert shares[0] > shares[1] > shares[2]
    rate, _ = simulate([noise(f"c{i}", 0.002, rng) for i in range(10)], 0.0, 0.02, 12, 0.05, rng)
    assert rate.count == 0


def test_the_smallest_share_is_the_first_that_is_found() -> None:
    """Against trying it, the one before, and the two ends."""
    rng = random.Random(2)
    cases = [noise(f"c{i}", 0.004, rng) for i in range(8)]
    answer = forecast_power(cases, 12, 0.05, 0.5, rng)
    assert answer.share is not None
    assert answer.threshold == threshold_for(answer.share)
    assert answer.seconds_a_case is not None
    assert 5 * 0.5 <= answer.seconds_a_case <= 24 * 0.5
    place = SHARES.index(answer.share)
    assert place > 0
    for share in (SHARES[0], SHARES[place - 1], answer.share, SHARES[-1]):
        detected = simulate(cases, share, threshold_for(share), 12, 0.05, rng)[0].share or 0
        if not POWER - 0.15 < detected < POWER + 0.15:  # a close call may fall either way
            assert (detected >= POWER) == (share >= answer.share)


def test_hopeless_noise_finds_none_and_a_threshold_bounds_the_shares() -> None:
    rng = random.Random(3)
    noisy = [noise(f"c{i}", 0.8, rng) for i in range(4)]
    assert forecast_power(noisy, 5, 0.05, 1.0, rng).share is None
    quiet = [noise(f"c{i}", 0.0005, rng) for i in range(4)]
    assert forecast_power(quiet, 12, 0.05, 1.0, rng, threshold=0.05).share == 0.1
    assert forecast_power(quiet, 12, 0.05, 1.0, rng, threshold=0.5).share is None


def test_thresholds_of_shares() -> None:
    assert [threshold_for(share) for share in (0.01, 0.02, 0.05, 0.5)] == [0.0025, 0.005, 0.02, 0.02]
    assert threshold_for(0.01, 0.001) == 0.001
    assert all(threshold_for(share) < share for share in SHARES)
