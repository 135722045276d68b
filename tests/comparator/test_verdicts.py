"""``RunAnalysis.comparisons``: tables of samples and the verdicts, figures and notes that follow."""

import math
from dataclasses import replace

import numpy as np
import pytest
from made_samples import a_case, in_stages, noisy, pair, pairs
from scipy import stats

from opduel.comparator import Looks, RunAnalysis, plan_looks
from opduel.comparator.trimmed_mean import estimate_trimmed_mean
from opduel.records import Case, Comparison, Failure, Forecast, PairSample

LOOKS = Looks((5, 8, 13))


def comparison_of(
    samples: list[PairSample], case: Case | None = None, looks: Looks = LOOKS, alpha: float = 0.05
) -> Comparison:
    """The comparison of a run of one case."""
    return RunAnalysis([case or a_case()], {"a": samples}, {}, looks, alpha).comparisons()[0]


def quiet(n: int, change: float, seed: int = 1, sd: float = 0.003) -> list[float]:
    log_ratios: list[float] = noisy(np.random.default_rng(seed), n, change, sd)
    return log_ratios


def hint(n: int) -> list[float]:
    """Clearly changed, but whether by more than 2 % is open."""
    return [0.03 + 0.003 * (-1) ** i * (1 + i % 2) for i in range(n)]


SLOWER = quiet(8, 0.2)
EXACT = [0.01] * 8


@pytest.mark.parametrize(
    ("log_ratios", "threshold", "verdict", "decided_on"),
    [
        (quiet(8, 0.0), 0.02, "unchanged", "screening"),
        (quiet(8, 0.0), 0.0, "inconclusive", "confirmation"),
        (SLOWER[:5], 0.02, "inconclusive", "screening"),  # a change takes three fresh samples
        (SLOWER[:7], 0.02, "inconclusive", "confirmation"),
        (SLOWER, 0.02, "regressed", "confirmation"),
        ([-x for x in SLOWER[:5]], 0.02, "not_worse", "screening"),
        ([-x for x in SLOWER], 0.02, "improved", "confirmation"),
        (SLOWER, 0.5, "unchanged", "screening"),
        (hint(5), 0.02, "inconclusive", "screening"),
        (hint(13), 0.02, "regressed", "confirmation"),
        (quiet(13, 0.02), 0.02, "not_better", "confirmation"),
        (quiet(13, -0.02), 0.02, "not_worse", "confirmation"),
        (quiet(13, 0.0, seed=2, sd=0.05), 0.02, "inconclusive", "confirmation"),
        (quiet(4, 0.0), 0.02, "inconclusive", "screening"),
        ([0.0] * 5, 0.001, "unchanged", "screening"),  # instruction counts hardly vary
        (EXACT, 0.005, "regressed", "confirmation"),
        (EXACT, 0.0, "regressed", "confirmation"),
        ([15.0] * 8, 0.02, "regressed", "confirmation"),
        ([-500.0] * 8, 0.02, "improved", "confirmation"),
    ],
)
def test_verdicts(log_ratios: list[float], threshold: float, verdict: str, decided_on: str) -> None:
    base = 1000.0 if abs(log_ratios[0]) < 100 else 1e250
    samples = [*pairs("a", "screening", log_ratios[:5], base), *pairs("a", "confirmation", log_ratios[5:], base)]
    comparison = comparison_of(samples, a_case(threshold=threshold))
    assert (comparison.verdict, comparison.decided_on) == (verdict, decided_on)
    assert comparison.rounds == len(samples)
    assert comparison.samples == tuple(samples)
    assert comparison.confidence == pytest.approx(0.95)
    assert comparison.mde is not None
    assert comparison.mde >= threshold
    assert comparison.ci is not None
    assert comparison.ratio is not None
    low, high = comparison.ci
    assert 0 < low <= comparison.ratio <= high < math.inf
    if verdict in ("unchanged", "not_better"):
        assert low >= 1 / (1 + threshold)
    if verdict in ("unchanged", "not_worse"):
        assert high <= 1 + threshold
    if verdict == "regressed":
        assert low > 1 + threshold
    if verdict == "improved":
        assert high < 1 / (1 + threshold)
    assert bool(comparison.note) == (verdict in ("inconclusive", "not_worse", "not_better"))


@pytest.mark.parametrize(("lower", "verdict"), [(None, "regressed"), (False, "improved")])
def test_where_higher_is_better_a_rise_is_an_improvement(lower: bool | None, verdict: str) -> None:
    samples = in_stages("a", SLOWER)
    case = replace(a_case(metric="value"), unit="1/s", lower_is_better=lower)
    assert comparison_of(samples, case).verdict == verdict
    suspect = comparison_of([pair("a", "screening", 100.0, 110.0)], case)
    assert (suspect.suspected, suspect.unit) == (verdict, "1/s")


def test_without_samples_and_with_one() -> None:
    assert comparison_of([]).verdict == "inconclusive"
    assert comparison_of([]).ratio is None
    lone = comparison_of([pair("a", "screening", 100.0, 110.0)])
    assert lone.verdict == "inconclusive"
    assert lone.ratio == pytest.approx(1.1)
    assert (lone.control, lone.treatment) == (100.0, 110.0)
    assert (lone.ci, lone.p_value, lone.q_value, lone.mde, lone.decided_on) == (None,) * 5
    assert (lone.suspected, lone.forecast) == ("regressed", Forecast(None, 7)), "to the second look"
    assert lone.note == "looks regressed, but 1 round is too few: a verdict takes 5, and then 3 that agree"


def test_a_failed_case_keeps_failure_and_samples_and_says_nothing_else() -> None:
    failure = Failure("treatment", "crash", "SIGSEGV")
    samples = pairs("a", "screening", quiet(8, 0.0))
    comparison = RunAnalysis(
        [a_case()], {"a": samples}, {"a": failure}, LOOKS, injected=frozenset({"a"})
    ).comparisons()[0]
    assert comparison.verdict == "failed"
    assert comparison.failure == failure
    assert comparison.injected
    assert len(comparison.samples) == comparison.rounds == 8
    assert (comparison.ratio, comparison.ci, comparison.p_value, comparison.note) == (None, None, None, "")


def test_medians_and_figures_are_those_of_all_samples() -> None:
    samples = [*pairs("a", "screening", SLOWER[:5], base=5.0), *pairs("a", "confirmation", [0.25] * 8, base=1000.0)]
    comparison = comparison_of(samples, looks=Looks((5, 13)))
    assert comparison.control == pytest.approx(1000, rel=0.01)
    assert comparison.treatment == pytest.approx(1000 * math.exp(0.25), rel=0.01)
    assert comparison.ratio == pytest.approx(math.exp((5 * math.log(1.2) + 8 * 0.25) / 13), rel=0.02)


def test_a_cleared_case_shows_the_look_that_cleared_it() -> None:
    later = [0.5, 0.5, 0.5]
    comparison = comparison_of(pairs("a", "screening", [*quiet(5, 0.0, sd=0.001), *later]))
    assert comparison.verdict == "unchanged"
    assert comparison.ratio == pytest.approx(1, abs=0.01)


def test_the_interval_spends_half_of_the_looks_share_on_each_side() -> None:
    values = quiet(5, 0.01, sd=0.02)
    comparison = comparison_of(pairs("a", "screening", values))
    trimmed_mean = estimate_trimmed_mean(values)
    tail = 0.05 / 2 / 3  # of three looks the first
    assert comparison.ci is not None
    for limit, side in zip(comparison.ci, (-1, 1), strict=True):
        reach = stats.t.isf(tail, trimmed_mean.degrees_of_freedom) * trimmed_mean.standard_error
        assert math.log(limit) == pytest.approx(trimmed_mean.estimate + side * reach)


def test_samples_beyond_the_last_look_take_part_in_a_closing_one() -> None:
    samples = in_stages("a", quiet(17, 0.035, 2, sd=0.01))
    closed, before = (comparison_of(some, looks=Looks((5, 8, 50))) for some in (samples, samples[:-4]))
    assert closed.p_value is not None
    assert before.p_value is not None
    assert closed.p_value < before.p_value


def test_the_family_is_all_cases_of_the_run() -> None:
    samples = in_stages("a", quiet(8, 0.08, 2, sd=0.02))
    alone = comparison_of(samples)
    crowd = [a_case(), *[a_case(f"b{i}") for i in range(399)]]
    among = RunAnalysis(crowd, {"a": samples}, {}, LOOKS).comparisons()[0]
    assert alone.p_value == among.p_value
    assert alone.q_value is not None
    assert among.q_value == pytest.approx(min(1.0, 400 * alone.q_value))
    assert (alone.verdict, among.verdict, among.suspected) == ("regressed", "inconclusive", "regressed")
    assert alone.mde is not None
    assert among.mde is not None
    assert alone.mde < among.mde
    assert among.suspected == "regressed"
    assert among.note == "looks regressed, but not clearly enough among 400 cases"


def test_the_cases_that_the_change_reaches_have_half_of_the_error() -> None:
    samples = in_stages("a", quiet(8, 0.08, 2, sd=0.02))
    alone = comparison_of(samples)
    crowd = [a_case(), *[a_case(f"b{i}") for i in range(399)]]
    set_aside = [case.id for case in crowd[1:]]
    analysis = RunAnalysis(crowd, {"a": samples}, {}, LOOKS, set_aside=set_aside, reached=frozenset({"a"}))
    among = analysis.comparisons()[0]
    assert alone.q_value is not None
    assert among.q_value == pytest.approx(2 * alone.q_value)
    assert (among.verdict, analysis.interim()["a"].verdict) == ("regressed", "regressed")
    assert among.mde is not None
    assert comparison_of(samples, alpha=0.025).mde == pytest.approx(among.mde)
    others = RunAnalysis(crowd, {"b0": samples}, {}, LOOKS, reached=frozenset({"a"})).comparisons()
    assert others[1].q_value == pytest.approx(min(1.0, 2 * 399 * alone.q_value))
    assert others[0].q_value is None


def test_where_the_change_reaches_most_cases_all_have_the_same_share_of_the_error() -> None:
    samples = in_stages("a", quiet(8, 0.08, 2, sd=0.02))
    cases = [a_case(), a_case("b"), a_case("c")]
    plain = RunAnalysis(cases, {"a": samples}, {}, LOOKS).comparisons()
    reached = frozenset({"a", "b"})
    assert RunAnalysis(cases, {"a": samples}, {}, LOOKS, reached=reached).comparisons() == plain


EDGE = [0.0198 + 0.004 * x for x in (1, -1, 0.8, -0.8, 0.2, -0.2, 0.5, -0.5, 0.0)]
BEYOND = " (threshold 2 %)"


@pytest.mark.parametrize(
    ("log_ratios", "note"),
    [
        ([], "not measured before the run ended"),
        (quiet(3, 0.0), "3 rounds are too few: a verdict takes 5"),
        (
            SLOWER[:6],
            "looks regressed, but 3 rounds after those that show it have to agree",
        ),
        (
            quiet(13, 0.0, seed=2, sd=0.05),
            "may be more than 2 % slower or faster; all 13 rounds are used",
        ),
        (
            [60 * (x - 0.0198) for x in EDGE],
            "may be more than 2 % slower or faster; given up after 9 rounds",
        ),
        (EDGE, f"slower by 1.6 to 2.4 %{BEYOND}"),
        ([-x for x in EDGE], f"faster by 1.6 to 2.4 %{BEYOND}"),
        (quiet(5, 0.01, sd=0.012), f"between 0.6 % faster and 3.2 % slower{BEYOND}"),
        ([-x for x in quiet(5, 0.01, sd=0.012)], f"between 3.1 % faster and 0.6 % slower{BEYOND}"),
    ],
)
def test_an_open_case_says_why_and_one_on_a_side_where_it_lies(log_ratios: list[float], note: str) -> None:
    assert comparison_of(in_stages("a", log_ratios)).note == note


@pytest.mark.parametrize(
    ("metric", "lower", "word"),
    [
        ("time", None, "slower"),
        ("memory", None, "larger"),
        ("instructions", None, "more"),
        ("value", True, "worse"),
        ("value", False, "better"),
    ],
)
def test_the_words_are_those_of_the_metric(metric: str, lower: bool | None, word: str) -> None:
    comparison = comparison_of(in_stages("a", EDGE), replace(a_case(metric=metric), lower_is_better=lower))
    assert comparison.verdict == ("not_worse" if lower is False else "not_better")
    assert comparison.note == f"{word} by 1.6 to 2.4 %{BEYOND}"


def test_small_ranges_have_two_digits() -> None:
    case = a_case(threshold=0.002)
    note = comparison_of(in_stages("a", [x / 10 for x in EDGE]), case).note
    assert note == "slower by 0.16 to 0.24 % (threshold 0.2 %)"


@pytest.mark.parametrize(
    ("samples", "suspected"),
    [
        (pairs("a", "screening", [1.4]), "regressed"),  # no interval yet: its estimate
        (pairs("a", "screening", [-1.4]), "improved"),
        (pairs("a", "screening", [0.01]), None),
        (pairs("a", "screening", [1.36, 1.37, 1.38]), "regressed"),
        (pairs("a", "screening", [1.0, 1.4]), None),  # an interval that tells nothing
        (pairs("a", "screening", quiet(5, 0.02)), None),
        (pairs("a", "screening", SLOWER[:5]), "regressed"),  # not faster, and it looks slower
        (pairs("a", "screening", [-x for x in SLOWER[:5]]), "improved"),
        (in_stages("a", SLOWER), None),  # it is regressed
    ],
)
def test_what_stays_open_beyond_the_threshold_is_suspected(samples: list[PairSample], suspected: str | None) -> None:
    comparison = comparison_of(samples)
    assert comparison.suspected == suspected
    assert comparison.note.startswith(f"looks {suspected}, but ") == (suspected is not None)


@pytest.mark.parametrize(
    ("control", "treatment", "log_ratio"),
    [(math.nan, 1.0, 0.0), (1.0, math.inf, 0.0), (1.0, 1.0, math.nan)],
)
def test_refuses_values_that_are_no_measurement(control: float, treatment: float, log_ratio: float) -> None:
    sample = PairSample("a", "screening", 3, control, treatment, log_ratio, 1, 1)
    with pytest.raises(ValueError, match="a: not a finite"):
        comparison_of([sample])


def test_identical_counts_are_unchanged_at_the_first_look_even_where_both_are_zero() -> None:
    looks = plan_looks().of_metric("memory")
    samples = [PairSample("a", "screening", number, 0.0, 0.0, 0.0, 1, 5) for number in range(looks.counts[0])]
    case = replace(a_case(), metric="memory", threshold=0.01)
    (comparison,) = RunAnalysis([case], {"a": samples}, {}, plan_looks()).comparisons()
    assert (comparison.verdict, comparison.ratio, comparison.control) == ("unchanged", None, 0.0)


def test_an_empty_run() -> None:
    assert RunAnalysis([], {}, {}, plan_looks()).comparisons() == []
