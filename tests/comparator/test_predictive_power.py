"""Whether, and after how many rounds, an open case is settled: against simulations of the samples to come."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from made_samples import a_case, pairs
from scipy import stats

from opduel.comparator import Looks, compare_cases
from opduel.comparator.explanations import duration, in_words
from opduel.comparator.predictive_power import LIKELY, CaseState, Terms, conditional_power, project
from opduel.comparator.trimmed_mean import TrimmedMean
from opduel.records import Forecast, Stage

KNOWN = 1e7  # degrees of freedom at which the variance is as good as known
LOOKS = Looks((5, 8, 12, 19, 30), (5, 8, 12, 19, 30))
ALPHA = 0.05


def naive_predictive_power(
    estimate: float, sd: float, seen: Stage, stage: Stage, n: int, bound: float, level: float
) -> Forecast:
    """By brute force: true changes from what n samples say (flat prior), then the samples to come, path by path.

    For each number of rounds and true change the most promising look counts, as in ``project``; so the paths of one
    true change are made many times over.
    """
    rng = np.random.default_rng(5)
    truths, paths = 150, 1500
    truth = rng.normal(estimate, sd / math.sqrt(n if seen == stage else 5), truths)[:, None]
    before = n if seen == stage else 0
    found: list[tuple[int, np.ndarray]] = []

    def settled(values: np.ndarray, at: Stage, k: int) -> np.ndarray:
        error = sd / math.sqrt(k)
        clear = stats.norm.isf(LOOKS.level(at, k, ALPHA / 2)) * error
        flag = stats.norm.isf(0.8 * ALPHA * LOOKS.tested(at, k) * level / 2) * error
        return (np.abs(values) + clear <= bound) | (np.abs(values) - flag > bound)

    def mean_at(k: int, old: int) -> np.ndarray:
        rest = rng.normal(truth, sd / math.sqrt(k - old), (truths, paths))
        return (old * estimate + (k - old) * rest) / k

    for k in LOOKS.of(stage):
        if k <= n and seen == stage:
            continue
        values = mean_at(k, before)
        found.append((k - before, settled(values, stage, k).mean(axis=1)))
        if stage == "screening":
            suspects = (np.abs(values) > stats.norm.isf(0.8 * 0.01 / 2) * sd / math.sqrt(k)).mean(axis=1)
            for confirmation in LOOKS.confirmation:
                found.append(
                    (
                        k - before + confirmation,
                        suspects * settled(mean_at(confirmation, 0), "confirmation", confirmation).mean(axis=1),
                    )
                )
    best, chance = np.zeros(truths), 0.0
    for rounds, share in sorted(found, key=lambda one: one[0]):
        best = np.maximum(best, share)
        chance = float(best.mean())
        if chance >= LIKELY:
            return Forecast(chance, rounds)
    return Forecast(chance, None)


@pytest.mark.parametrize(
    ("seen", "stage", "n"),
    [
        ("screening", "screening", 5),
        ("screening", "screening", 8),
        ("screening", "confirmation", 5),
        ("confirmation", "confirmation", 8),
    ],
)
@pytest.mark.parametrize(
    ("estimate", "sd"), [(0.0, 0.01), (0.0, 0.02), (0.0, 0.04), (0.05, 0.01), (0.08, 0.03), (-0.06, 0.04), (0.3, 0.1)]
)
def test_it_is_that_of_a_simulation(seen: Stage, stage: Stage, n: int, estimate: float, sd: float) -> None:
    state = CaseState(TrimmedMean(estimate, sd / math.sqrt(n), KNOWN, n), seen, stage, n if seen == stage else 0)
    told = project(state, Terms(0.02, LOOKS, ALPHA, 0.1))
    naive = naive_predictive_power(estimate, sd, seen, stage, n, 0.02, 0.1)
    assert told.chance == pytest.approx(naive.chance, abs=0.06)
    if abs(told.chance - LIKELY) > 0.06:
        assert told.rounds == naive.rounds


@given(
    st.floats(-0.3, 0.3),
    st.floats(1e-5, 0.3),
    st.floats(1, 60),
    st.integers(5, 29),
    st.sampled_from([("screening", "screening"), ("screening", "confirmation"), ("confirmation", "confirmation")]),
    st.floats(0, 0.1),
)
def test_it_knows_no_direction_and_names_what_is_likely(
    estimate: float, error: float, freedom: float, n: int, stages: tuple[Stage, Stage], bound: float
) -> None:
    seen, stage = stages
    terms = Terms(bound, LOOKS, ALPHA, 0.05)
    one = project(CaseState(TrimmedMean(estimate, error, freedom, n), seen, stage, n if seen == stage else 2), terms)
    other = project(CaseState(TrimmedMean(-estimate, error, freedom, n), seen, stage, n if seen == stage else 2), terms)
    assert one.rounds == other.rounds
    assert one.chance == pytest.approx(other.chance, abs=1e-9)
    assert 0 <= one.chance <= 1 + 1e-9
    assert (one.rounds is None) == (one.chance < LIKELY)
    assert one.rounds is None or 1 <= one.rounds <= 60


def test_an_easier_bar_takes_no_more_rounds() -> None:
    state = CaseState(TrimmedMean(0.06, 0.012, 6, 5), "screening", "confirmation", 0)
    rounds = [project(state, Terms(0.02, LOOKS, ALPHA, share)).rounds for share in (1.0, 0.5, 0.1, 1e-4, 1e-30)]
    assert rounds[:2] == sorted(filter(None, rounds[:2]))
    assert rounds[0] is not None
    assert rounds[-1] is None


def test_a_run_that_ended_early_says_what_each_open_case_needs() -> None:
    spread = [0.004 * x for x in (1, -1, 0.5, -0.5, 0.2, -0.3)]
    cases = [a_case("close"), a_case("far"), a_case("spent"), a_case("lone"), a_case("cleared")]
    samples = {
        "close": pairs("close", "screening", [0.006 + 3 * x for x in spread]),
        "far": pairs("far", "screening", [0.0 + 60 * x for x in spread[:4]]),
        "spent": pairs("spent", "screening", [60 * x for x in spread * 5]),
        "lone": pairs("lone", "screening", [0.01]),
        "cleared": pairs("cleared", "screening", [0.1 * x for x in spread]),
    }
    found = {one.case: one for one in compare_cases(cases, samples, {}, LOOKS)}
    assert found["cleared"].verdict == "unchanged"
    assert [found[name].forecast for name in ("cleared", "lone", "spent")] == [None, None, None]
    close, far = found["close"].forecast, found["far"].forecast
    assert close is not None
    assert close.rounds in (2, 6, 13, 24)
    assert far is not None
    assert far.rounds is None
    assert far.chance < 0.5


@pytest.mark.parametrize(
    ("forecast", "words"),
    [
        (Forecast(0.9, 1), "about 1 more round would likely settle it"),
        (Forecast(0.9, 12), "about 12 more rounds would likely settle it"),
        (Forecast(0.9, 12, 170.0), "about 3 min more (12 more rounds) would likely settle it"),
        (Forecast(0.4, None), "with all 30 rounds of a stage, the chance to settle it is 40%"),
    ],
)
def test_words(forecast: Forecast, words: str) -> None:
    assert in_words(forecast, 30) == words


@pytest.mark.parametrize(
    ("seconds", "words"),
    [(0.1, "5 s"), (12.0, "15 s"), (89.9, "90 s"), (90.0, "2 min"), (170.0, "3 min"), (5400.0, "1.5 h")],
)
def test_durations(seconds: float, words: str) -> None:
    assert duration(seconds) == words


def simulated_last_look(estimate: float, sd: float, n: int, last: int, bound: float, tail: float, fresh: bool) -> float:
    """The same by brute force: the true value from what n samples say (flat prior), then the samples to come."""
    rng = np.random.default_rng(3)
    draws = 200_000
    truth = rng.normal(estimate, sd / math.sqrt(n), draws)
    rest = rng.normal(truth, sd / math.sqrt(last - n))
    then = (n * estimate + (last - n) * rest) / last
    confirmation = rng.normal(truth, sd / math.sqrt(last)) if fresh else then
    reach = stats.norm.isf(tail) * sd / math.sqrt(last)
    unchanged = np.abs(then) + reach <= bound
    changed = np.abs(confirmation) - reach > bound
    return float(np.mean(unchanged) + np.mean(changed))


@pytest.mark.parametrize("fresh", [True, False])
@pytest.mark.parametrize(
    ("estimate", "sd", "n"),
    [(0.0, 0.01, 5), (0.0, 0.04, 8), (0.01, 0.02, 12), (0.03, 0.05, 8), (-0.02, 0.03, 19), (0.0, 0.2, 5)],
)
def test_chance_is_that_of_a_simulation(estimate: float, sd: float, n: int, fresh: bool) -> None:
    trimmed_mean = TrimmedMean(estimate, sd / math.sqrt(n), KNOWN, n)
    told = conditional_power(trimmed_mean, 30, 0.02, 0.01, fresh)
    assert told == pytest.approx(min(1.0, simulated_last_look(estimate, sd, n, 30, 0.02, 0.01, fresh)), abs=0.006)


@given(
    st.floats(-0.2, 0.2), st.floats(1e-5, 0.5), st.integers(2, 29), st.floats(1, 100), st.floats(0, 0.1), st.booleans()
)
def test_it_is_a_probability_and_does_not_know_directions(
    estimate: float, error: float, n: int, df: float, bound: float, fresh: bool
) -> None:
    told = conditional_power(TrimmedMean(estimate, error, df, n), 30, bound, 0.01, fresh)
    assert 0 <= told <= 1
    mirrored = conditional_power(TrimmedMean(-estimate, error, df, n), 30, bound, 0.01, fresh)
    assert told == pytest.approx(mirrored, abs=1e-9)


def test_quiet_cases_are_sure_to_be_settled_and_noisy_ones_on_the_fence_are_not() -> None:
    assert conditional_power(TrimmedMean(0.0, 0.001, 20, 8), 30, 0.02, 0.01, True) > 0.99
    assert conditional_power(TrimmedMean(0.1, 0.001, 20, 8), 30, 0.02, 0.01, True) > 0.99
    assert conditional_power(TrimmedMean(0.0, 0.02, 20, 8), 30, 0.02, 0.001, False) < 0.05
