"""Which verdicts stand on a disturbed host: those that its rounds alone support, by signed ranks or by Student's t."""

import json
import math
import random
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import get_args

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from made_samples import a_case, in_stages, measured, pairs
from scipy import stats

from opduel.comparator import Bias, Looks, RunAnalysis, fit_priors, plan_looks, withhold_verdicts
from opduel.comparator.case_values import Values
from opduel.comparator.disturbance import LoadTests, student_p
from opduel.records import Comparison, PairSample, Stage, Verdict

LOOKS = plan_looks(30)  # 5, 8, 13, 20 and 30
LINE = math.log1p(0.02)
RESULTS = Path(__file__).parents[2] / "benchmarks" / "results"


def stand(log_ratios: list[float], other_cases: int = 0, closing: bool = False) -> bool:
    """Whether the verdict of a case stands that has these, among cases of which nothing is known."""
    cases = [a_case(), *(a_case(f"other{number}") for number in range(other_cases))]
    samples = {"a": in_stages("a", log_ratios)}
    return "a" in RunAnalysis(cases, samples, {}, LOOKS).standing_cases(closing=closing)


def around(change: float, rounds: int, spread: float = 1e-3) -> list[float]:
    rng = random.Random(rounds)
    return [math.log1p(change) + rng.gauss(0, spread) for _ in range(rounds)]


def hit(change: float, rounds: int) -> list[float]:
    """Log ratios of rounds of which a seventh, the second one first, was hit by a load on the control."""
    return [value - (3.0 if number % 7 == 1 else 0.0) for number, value in enumerate(around(change, rounds))]


@pytest.mark.parametrize(
    ("change", "rounds", "other_cases", "want"),
    [
        (0.5, 8, 0, True),
        (-0.4, 8, 0, True),
        (0.5, 8, 3999, True),  # by far
        (0.03, 8, 0, True),
        (0.03, 8, 39, True),
        (0.0, 8, 0, True),
        (0.0, 8, 39, True),  # each case's own error
        (0.02, 8, 0, True),  # not faster
        (-0.018, 8, 39, True),
    ],
)
def test_rounds_that_agree_stand_as_soon_as_there_is_a_claim(
    change: float, rounds: int, other_cases: int, want: bool
) -> None:
    assert stand(around(change, rounds), other_cases) is want


@pytest.mark.parametrize(
    ("rounds", "other_cases", "want"), [(8, 0, False), (13, 0, False), (20, 0, True), (30, 0, True), (30, 39, False)]
)
def test_rounds_that_were_hit_take_more_of_them(rounds: int, other_cases: int, want: bool) -> None:
    assert stand(hit(0.5, rounds), other_cases) is want


def test_a_closing_look_is_one() -> None:
    values = hit(0.5, 19)
    assert [stand(values), stand(values, closing=True)] == [False, True]


def test_many_changed_cases_need_fewer_rounds_as_false_discoveries_are_a_share_of_them() -> None:
    cases = [a_case(f"c{number}") for number in range(40)]
    samples = {case.id: in_stages(case.id, around(0.06, 8, spread=0.03)) for case in cases}
    assert len(RunAnalysis(cases, samples, {}, LOOKS).standing_cases(closing=False)) == 40
    only = {"c0": samples["c0"]}
    assert RunAnalysis(cases, only, {}, LOOKS).standing_cases(closing=False) == frozenset()


def test_what_the_run_does_not_claim_cannot_stand() -> None:
    """Rounds that are all beyond the threshold, but so unlike that the t test flags nothing."""
    values = [LINE + 2.0**number for number in range(-23, -10)]
    samples = in_stages("a", values)
    (comparison,) = RunAnalysis([a_case()], {"a": samples}, {}, LOOKS).comparisons()
    assert comparison.verdict == "not_better"
    assert LoadTests(a_case(), Values.of(samples), LOOKS, 0.05).p_value(rises=True) < 0.01
    assert stand(values), "as not faster"


def test_rounds_that_disagree_withhold_what_the_t_test_claims() -> None:
    """The trimmed mean leaves out an eighth of the rounds at either end, whatever they are; the ranks don't."""
    looks = Looks((8,))
    agreeing = [0.05 + 1e-4 * number for number in range(8)]
    for values, standing in ((agreeing, {"a"}), ([*agreeing[:2], -0.5, *agreeing[3:]], set())):
        samples = {"a": in_stages("a", values)}
        (comparison,) = RunAnalysis([a_case()], samples, {}, looks).comparisons()
        assert comparison.verdict == "regressed"
        assert RunAnalysis([a_case()], samples, {}, looks).standing_cases() == standing


def test_a_replication_is_judged_by_its_own_samples() -> None:
    samples = {"a": in_stages("a", around(0.5, 30), 28)}
    cases = [a_case()]
    assert RunAnalysis(cases, samples, {}, LOOKS).standing_cases() == {"a"}
    priors = fit_priors(cases, samples, LOOKS)
    assert RunAnalysis(cases, samples, {}, LOOKS, priors=priors).standing_cases() == frozenset()
    samples["a"] += pairs("a", "confirmation", around(0.5, 13))[2:]
    assert RunAnalysis(cases, samples, {}, LOOKS, priors=priors).standing_cases() == {"a"}


@pytest.mark.parametrize(
    ("change", "cases", "changed", "bias", "stands"),
    [
        (0.5, 1, 1, Bias(0.003, 1), True),
        (0.5, 1, 1, Bias(0.03, 1), True),  # 12.7 times the bias, and more
        (0.4, 1, 1, Bias(0.03, 1), False),
        (0.5, 10, 1, Bias(0.03, 1), False),  # one change among ten cases
        (0.5, 10, 1, Bias(0.03, 4), True),  # four checks know more of its size
        (0.5, 10, 10, Bias(0.03, 1), True),
        (-0.4, 10, 1, Bias(0.03, 4), True),
        (0.05, 1, 1, Bias(0.03, 4), False),
        (0.0, 1, 0, Bias(0.03, 4), False),  # a bias may hide a change
        (0.0, 1, 0, None, True),
        (0.05, 1, 1, None, True),
    ],
)
def test_after_a_bias_a_change_stands_that_is_far_beyond_it(
    change: float, cases: int, changed: int, bias: Bias | None, stands: bool
) -> None:
    cases_beside = [a_case(f"c{number}") for number in range(cases)]
    changes = {case.id: change if number < changed else 0.0 for number, case in enumerate(cases_beside)}
    samples = {case_id: in_stages(case_id, around(size, 8)) for case_id, size in changes.items()}
    standing = RunAnalysis(cases_beside, samples, {}, LOOKS).standing_cases(loaded=False, bias=bias)
    assert ("c0" in standing) is stands


@pytest.mark.parametrize(("bias", "stands"), [(0.001, True), (0.03, False)])
def test_a_noisy_change_is_compared_with_a_bias_by_the_nearer_end_of_its_interval(bias: float, stands: bool) -> None:
    """The nearer end lies 0.01 beyond the threshold, the other one 0.2: seven times 0.03."""
    samples = {"a": in_stages("a", around(0.12, 13, spread=0.025))}
    standing = RunAnalysis([a_case()], samples, {}, LOOKS).standing_cases(loaded=False, bias=Bias(bias, 4))
    assert ("a" in standing) is stands


def test_after_a_bias_under_load_both_tests_must_support_a_verdict() -> None:
    samples = {rounds: {"a": in_stages("a", hit(0.5, rounds))} for rounds in (8, 20)}

    def stands(rounds: int, loaded: bool, bias: float) -> bool:
        standing = RunAnalysis([a_case()], samples[rounds], {}, LOOKS).standing_cases(loaded=loaded, bias=Bias(bias, 4))
        return "a" in standing

    assert [stands(8, False, 0.01), stands(8, True, 0.01), stands(20, True, 0.01)] == [True, False, True]
    assert not stands(20, True, 0.3)


@pytest.mark.parametrize(("metric", "stands"), [("time", True), ("cpu_time", False), ("value", False)])
def test_after_a_bias_nothing_stands_that_no_check_is_about(metric: str, stands: bool) -> None:
    samples = {"a": in_stages("a", around(0.5, 13))}
    standing = RunAnalysis([a_case(metric=metric)], samples, {}, LOOKS).standing_cases(
        loaded=False, bias=Bias(0.003, 4)
    )
    assert ("a" in standing) is stands


def test_a_bias_of_time_leaves_counts_alone() -> None:
    counted = a_case(metric="instructions")
    samples = {"a": pairs("a", "screening", [math.log1p(0.05)] * 8)}
    assert RunAnalysis([counted], samples, {}, LOOKS).standing_cases(loaded=False, bias=Bias(0.3, 1)) == {"a"}


def test_what_stands_says_what_to_know_of_it() -> None:
    verdicts: dict[str, Verdict] = {"a": "regressed", "b": "failed"}
    comparisons = [Comparison.without_figures(a_case(name), verdict) for name, verdict in verdicts.items()]
    assert [comparison.note for comparison in withhold_verdicts(comparisons, {"a", "b"}, "busy", "with care")] == [
        "with care",
        "",
    ]


Noise = Callable[[np.random.Generator], Callable[[], float]]


def bursts(rng: np.random.Generator) -> Callable[[], float]:
    return lambda: float(rng.normal(0, 0.1 if rng.random() < 0.4 else 0.003))


def heavy(rng: np.random.Generator) -> Callable[[], float]:
    return lambda: float(np.clip(0.01 * rng.standard_cauchy(), -3, 3))


def waves(rng: np.random.Generator) -> Callable[[], float]:
    """The sizes depend on those before; the side is drawn by chance."""
    size = 0.0

    def draw() -> float:
        nonlocal size
        size = 0.95 * size + rng.normal(0, 0.5)
        return 0.02 * math.exp(size) * float(rng.choice((-1, 1)))

    return draw


def verdicts_that_stand(seed: int, change: float, noise: Noise, cases: int = 4) -> set[Verdict]:
    """Of a run whose cases all changed by as much, each with noise of its own kind of size."""
    rng = np.random.default_rng(seed)
    draws = {f"c{number}": noise(rng) for number in range(cases)}
    scales = dict(zip(draws, np.exp(rng.normal(0, 0.6, cases)), strict=True))

    def measure(case_id: str, stage: Stage) -> PairSample:
        (sample,) = pairs(case_id, stage, [math.log1p(change) + float(scales[case_id]) * draws[case_id]()])
        return sample

    all_cases = [a_case(name) for name in draws]
    samples = measured(all_cases, measure, LOOKS)
    for case_id, own in samples.items():  # the rounds of cases that are measured on
        own += [measure(case_id, own[-1].stage) for _ in range(30 - len(own))]
    standing = RunAnalysis(all_cases, samples, {}, LOOKS).standing_cases()
    comparisons = RunAnalysis(all_cases, samples, {}, LOOKS).comparisons()
    return {comparison.verdict for comparison in comparisons if comparison.case in standing}


@pytest.mark.parametrize("noise", [bursts, heavy, waves])
def test_the_tests_keep_their_error_over_all_looks_without_help_from_the_t_test(noise: Noise) -> None:
    """On the edge; every look takes place. 600 cases: twice the rate fails with 99.9 %."""
    rng = np.random.default_rng(7)
    tests = []
    for _ in range(600):
        draw = noise(rng)
        samples = in_stages("a", [math.log1p(0.02) + draw() for _ in range(30)])
        tests.append(LoadTests(a_case(), Values.of(samples), LOOKS, 0.05))
    flagged = sum(test.p_value(rises=True) <= 0.1 for test in tests)  # of two sides, one is at its edge: half of it
    assert flagged <= stats.binom.isf(0.001, 600, 0.05)
    for verdict in ("unchanged", "not_worse"):
        assert sum(test.shows(verdict, True) for test in tests) <= stats.binom.isf(0.001, 600, 0.025)
    assert flagged > 0, "it is no test that never flags"


def test_student_s_p_values_of_rounds_measured_on_one_build_are_as_likely_as_they_say() -> None:
    """Those of 1,900 cases that calibration runs measured on up to 0.84 busy processors: one and a half
    times the rate at 0.05 fails, twice that at 0.01, and three and a half times that at 0.002."""
    p_values = []
    for path in RESULTS.glob("calibration*.jsonl"):
        for line in path.read_text().splitlines():
            for comparison in json.loads(line)["comparisons"]:
                ratios = [sample[2] for sample in comparison.get("screening", ())[:5]]
                if len(ratios) == 5 and not comparison["injected"]:
                    p_values.append(2 * min(student_p(ratios), student_p([-ratio for ratio in ratios])))
    assert len(p_values) > 1500
    for level in (0.05, 0.01, 0.002):
        likely = stats.binom.interval(0.999, len(p_values), level)
        assert sum(p_value <= level for p_value in p_values) <= likely[1]


@pytest.mark.nightly
@pytest.mark.statistics
@pytest.mark.parametrize("noise", [bursts, heavy, waves])
def test_a_run_at_the_edge_has_a_standing_flag_at_most_at_alpha(noise: Noise) -> None:
    flagged = sum(bool(verdicts_that_stand(seed, 0.02, noise) & {"regressed", "improved"}) for seed in range(200))
    assert flagged <= stats.binom.isf(0.001, 200, 0.05)


@pytest.mark.nightly
@pytest.mark.statistics
@pytest.mark.parametrize("noise", [bursts, heavy, waves])
def test_a_change_just_beyond_the_edge_stands_as_not_worse_at_most_at_alpha(noise: Noise) -> None:
    wrong = sum(bool(verdicts_that_stand(seed, 0.0202, noise, 1) & {"unchanged", "not_worse"}) for seed in range(400))
    assert wrong <= stats.binom.isf(0.001, 400, 0.05)


@pytest.mark.parametrize("noise", [bursts, heavy, waves])
def test_a_change_of_fifty_percent_stands_after_all_rounds(noise: Noise) -> None:
    assert all(verdicts_that_stand(seed, 0.5, noise) == {"regressed"} for seed in range(5))


@given(st.lists(st.sampled_from(get_args(Verdict))))
def test_withholding_leaves_what_stands_and_loses_nothing(verdicts: list[Verdict]) -> None:
    before = [Comparison.without_figures(a_case(f"c{i}"), verdict) for i, verdict in enumerate(verdicts)]
    assert withhold_verdicts(before, {comparison.case for comparison in before}, "busy") == before
    for comparison, withheld in zip(before, withhold_verdicts(before, frozenset(), "busy"), strict=True):
        if comparison.verdict in ("failed", "inconclusive"):
            assert withheld == comparison
        else:
            assert (withheld.verdict, withheld.held_back) == ("inconclusive", comparison.verdict)
            assert withheld.note == f"held back: would be {comparison.verdict_words}; busy"
            assert replace(withheld, verdict=comparison.verdict, held_back=None, note="") == comparison


def test_counts_are_never_withheld() -> None:
    comparison = Comparison.without_figures(a_case(metric="instructions"), "regressed")
    assert withhold_verdicts([comparison], frozenset(), "busy") == [comparison]
