"""Whether, and after how many rounds, an open case is settled: against simulations of the samples to come."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from made_samples import a_case, pairs
from scipy import stats

from opduel.comparator import Looks, RunAnalysis
from opduel.comparator.predictive_power import LIKELY, conditional_power, project
from opduel.comparator.trimmed_mean import TrimmedMean
from opduel.records import Forecast

KNOWN = 1e7  # degrees of freedom at which the variance is as good as known
LOOKS = Looks((5, 8, 12, 19, 30))
ALPHA = 0.05


@given(
    st.floats(-0.3, 0.3), st.floats(1e-5, 0.3), st.floats(1, 60), st.integers(5, 29), st.booleans(), st.floats(0, 0.1)
)
def test_it_knows_no_direction_and_names_what_is_likely(
    estimate: float, error: float, freedom: float, n: int, suspected: bool, bound: float
) -> None:
    flagged_at = 0.05 if suspected else None
    rise, fall = (
        project(TrimmedMean(sign * estimate, error, freedom, n), bound, LOOKS, ALPHA, flagged_at) for sign in (1, -1)
    )
    assert rise.rounds == fall.rounds
    assert rise.chance == pytest.approx(fall.chance, abs=1e-9)
    assert 0 <= rise.chance <= 1 + 1e-9
    assert (rise.rounds is None) == (rise.chance < LIKELY)
    assert rise.rounds is None or 1 <= rise.rounds <= 30


@given(st.floats(-0.3, 0.3), st.floats(1e-4, 0.3), st.integers(5, 29))
def test_to_lie_on_a_side_takes_no_more_than_to_be_flagged_or_unchanged(estimate: float, error: float, n: int) -> None:
    """A case that is flagged, or unchanged, lies on a side."""
    trimmed_mean = TrimmedMean(estimate, error, 10, n)
    either, both = (project(trimmed_mean, 0.02, LOOKS, ALPHA, flagged_at) for flagged_at in (None, 0.1))
    assert both.rounds is None or (either.rounds is not None and either.rounds <= both.rounds)


def test_with_a_threshold_of_0_a_case_is_settled_when_it_is_flagged() -> None:
    still = TrimmedMean(0.0, 0.001, 20, 8)
    changed = TrimmedMean(0.05, 0.001, 20, 8)
    assert project(still, 0.0, LOOKS, ALPHA).chance < 0.3
    assert project(changed, 0.0, LOOKS, ALPHA).rounds == 4


def test_an_easier_bar_takes_no_more_rounds() -> None:
    trimmed_mean = TrimmedMean(0.06, 0.012, 6, 5)
    rounds = [project(trimmed_mean, 0.02, LOOKS, ALPHA, share).rounds for share in (1.0, 0.5, 0.1, 1e-4, 1e-30)]
    assert rounds[:2] == sorted(filter(None, rounds[:2]))
    assert rounds[0] is not None
    assert rounds[-1] is None


def test_a_run_that_ended_early_says_what_each_open_case_needs() -> None:
    spread = [0.004 * x for x in (1, -1, 0.5, -0.5, 0.2, -0.3)]
    cases = [a_case("close"), a_case("far"), a_case("spent"), a_case("lone"), a_case("cleared")]
    samples = {
        "close": pairs("close", "screening", [9 * x for x in spread]),
        "far": pairs("far", "screening", [0.0 + 60 * x for x in spread[:4]]),
        "spent": pairs("spent", "screening", [60 * x for x in spread * 5]),
        "lone": pairs("lone", "screening", [0.01]),
        "cleared": pairs("cleared", "screening", [0.1 * x for x in spread]),
    }
    comparisons = {comparison.case: comparison for comparison in RunAnalysis(cases, samples, {}, LOOKS).comparisons()}
    assert comparisons["cleared"].verdict == "unchanged"
    assert comparisons["close"].verdict == "inconclusive"
    assert [comparisons[name].forecast for name in ("cleared", "spent")] == [None, None]
    assert comparisons["lone"].forecast == Forecast(None, LOOKS.counts[1] - 1)
    close, far = comparisons["close"].forecast, comparisons["far"].forecast
    assert close is not None
    assert close.rounds in (2, 6, 13, 24)
    assert far is not None
    assert far.rounds is None
    assert far.chance < 0.5


def test_a_case_that_lies_on_a_side_has_a_forecast_only_if_it_looks_changed() -> None:
    samples = {
        "slower": pairs("slower", "screening", [0.2 + x for x in (0.01, -0.01, 0.0, 0.005, -0.005)]),
        "not_faster": pairs("not_faster", "screening", [0.02 + x for x in (0.01, -0.01, 0.0, 0.005, -0.005)]),
    }
    slower, not_faster = RunAnalysis([a_case("slower"), a_case("not_faster")], samples, {}, LOOKS).comparisons()
    assert (slower.verdict, slower.suspected) == ("inconclusive", "regressed")
    assert slower.forecast is not None
    assert slower.forecast.rounds == 3
    assert (not_faster.verdict, not_faster.suspected, not_faster.forecast) == ("not_better", None, None)


def simulated_last_look(
    estimate: float, sd: float, n: int, last: int, bound: float, tail: float, one_side_settles: bool
) -> float:
    """The same by brute force: the true value from what n samples say (flat prior), then the samples to come."""
    rng = np.random.default_rng(3)
    draws = 200_000
    truth = rng.normal(estimate, sd / math.sqrt(n), draws)
    to_come = rng.normal(truth, sd / math.sqrt(last - n))
    then = (n * estimate + (last - n) * to_come) / last
    reach = stats.norm.isf(tail) * sd / math.sqrt(last)
    if one_side_settles:
        return float(np.mean((then + reach <= bound) | (then - reach >= -bound)))
    return float(np.mean(np.abs(then) + reach <= bound) + np.mean(np.abs(then) - reach > bound))


@pytest.mark.parametrize("one_side_settles", [False, True])
@pytest.mark.parametrize(
    ("estimate", "sd", "n"),
    [(0.0, 0.01, 5), (0.0, 0.04, 8), (0.01, 0.02, 12), (0.03, 0.05, 8), (-0.02, 0.03, 19), (0.0, 0.2, 5)],
)
def test_chance_is_that_of_a_simulation(estimate: float, sd: float, n: int, one_side_settles: bool) -> None:
    chance = conditional_power(TrimmedMean(estimate, sd / math.sqrt(n), KNOWN, n), 30, 0.02, 0.01, one_side_settles)
    simulated = simulated_last_look(estimate, sd, n, 30, 0.02, 0.01, one_side_settles)
    assert chance == pytest.approx(simulated, abs=0.006)


@given(st.floats(-0.2, 0.2), st.floats(1e-5, 0.5), st.integers(2, 29), st.floats(1, 100), st.floats(0, 0.1))
def test_it_is_a_probability_and_does_not_know_directions(
    estimate: float, error: float, n: int, freedom: float, bound: float
) -> None:
    chance = conditional_power(TrimmedMean(estimate, error, freedom, n), 30, bound, 0.01)
    assert 0 <= chance <= 1
    mirrored = conditional_power(TrimmedMean(-estimate, error, freedom, n), 30, bound, 0.01)
    assert chance == pytest.approx(mirrored, abs=1e-9)


def test_quiet_cases_are_sure_to_be_settled_and_noisy_ones_on_the_fence_are_not() -> None:
    assert conditional_power(TrimmedMean(0.0, 0.001, 20, 8), 30, 0.02, 0.01) > 0.99
    assert conditional_power(TrimmedMean(0.1, 0.001, 20, 8), 30, 0.02, 0.01) > 0.99
    assert conditional_power(TrimmedMean(0.0, 0.02, 20, 8), 30, 0.02, 0.001) < 0.05
