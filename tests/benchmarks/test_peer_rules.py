"""Other tools' rules, each against a naive version or a case worked by hand."""

import itertools
import math
import random
import statistics

import pytest
from scipy import stats

from benchmarks.peer_tools import rules


def mann_whitney_p(control: list[float], treatment: list[float]) -> float:
    """Twice the smaller tail, a tie counting as half a win, by enumerating every assignment of the values."""
    pooled = control + treatment

    def wins(chosen: tuple[int, ...]) -> float:
        outside = [pooled[i] for i in range(len(pooled)) if i not in chosen]
        return sum((pooled[i] > b) + (pooled[i] == b) / 2 for i in chosen for b in outside)

    observed = wins(tuple(range(len(control))))
    smaller = min(observed, len(control) * len(treatment) - observed)
    counts = [wins(chosen) for chosen in itertools.combinations(range(len(pooled)), len(control))]
    return min(1.0, 2 * sum(count <= smaller for count in counts) / len(counts))


def mirrored(answer: str) -> str:
    return {"slower": "faster", "faster": "slower"}.get(answer, answer)


def noisy(rng: random.Random, scale: float, count: int) -> list[float]:
    return [scale * rng.lognormvariate(0.0, 0.02) * 1e4 for _ in range(count)]


@pytest.mark.parametrize("digits", [9, -2])  # without ties, with ties
def test_benchstat_agrees_with_all_assignments_enumerated(digits: int) -> None:
    rng = random.Random(1)
    answers = set()
    for _ in range(40):
        control, treatment = noisy(rng, 1.0, 5), noisy(rng, rng.choice([0.95, 1.0, 1.03]), 5)
        control, treatment = ([round(value, digits) for value in values] for values in (control, treatment))
        answer = rules.benchstat(control, treatment)
        answers.add(answer)
        if mann_whitney_p(control, treatment) > 0.05:
            assert answer == "same"
        else:
            expected = "slower" if statistics.median(treatment) > statistics.median(control) else "faster"
            assert answer == expected
    assert answers == {"slower", "faster", "same"}


def test_three_values_a_side_can_never_satisfy_benchstat() -> None:
    assert rules.benchstat([1.0, 1.1, 1.2], [9.0, 9.1, 9.2]) == "same"
    assert rules.benchstat([1.0, 1.1, 1.2, 1.3], [9.0, 9.1, 9.2, 9.3]) == "slower"


@pytest.mark.parametrize("rule", [rules.naive, rules.strict, rules.benchstat, rules.tango])
def test_exchanging_the_sides_mirrors_the_answer_and_equal_values_are_the_same(rule) -> None:  # type: ignore[no-untyped-def]
    rng = random.Random(2)
    for shift in (0.9, 0.97, 1.0, 1.05):
        control, treatment = noisy(rng, 1.0, 30), noisy(rng, shift, 30)
        assert rule(treatment, control) == mirrored(rule(control, treatment))
    assert rule([5.0] * 5, [5.0] * 5) == "same"


def test_a_small_sure_change_satisfies_the_naive_rule_and_not_the_strict_one() -> None:
    rng = random.Random(3)
    control, treatment = noisy(rng, 1.0, 2000), noisy(rng, 1.01, 2000)
    assert rules.naive(control, treatment) == "slower"
    assert rules.strict(control, treatment) == "same"
    assert rules.strict(control, treatment, share=0.005) == "slower"


def test_tango_requires_both_a_sure_difference_and_one_beyond_one_percent() -> None:
    # Differences of 10 +- 1 on 1000: mean 1.0 %, then 1.1 %; standard errors far below.
    control = [1000.0] * 20
    one_percent = [1009.0, 1011.0] * 10
    assert rules.tango(control, one_percent) == "same"
    assert rules.tango(control, [value + 1 for value in one_percent]) == "slower"
    assert rules.tango(control, one_percent, share=0.009) == "slower"
    # Mean 2 %, but 2.6 standard errors of it need 20 / (s / sqrt(20)) >= 2.6: s is 41 here, z is 2.2.
    assert rules.tango(control, [980.0, 1060.0] * 10) == "same"


def test_tangos_filter_drops_as_many_at_one_end_as_at_the_other() -> None:
    control = [1000.0] * 40
    differences = sorted([19.0, 20.0, 21.0, 22.0] * 9 + [-9000.0, 9000.0, 9001.0, 20.0])
    # One beyond the lower fence, two beyond the upper: one is dropped at either end, and one stays.
    assert rules.outliers_at_each_end(differences) == 1
    treatment = [1000.0 + difference for difference in (*differences[:-1], 20.0)]
    assert rules.tango(control, treatment) == "same"
    assert rules.tango(control, treatment, filter_outliers=True) == "slower"


@pytest.mark.parametrize("strict", [True, False])
def test_paired_t_flags_what_its_interval_or_its_estimate_shows_to_be_beyond_the_threshold(strict: bool) -> None:
    rng = random.Random(4)
    cases = {f"case_{number}": [rng.gauss(0.003 * number, 0.01) for _ in range(10)] for number in range(16)}
    bound = math.log(1.02)
    p_values = {}
    for case_id, values in cases.items():
        mean, error = statistics.fmean(values), stats.sem(values)
        p_values[case_id] = float(stats.ttest_1samp(values, 0.0).pvalue)
        if strict:
            p_values[case_id] = min(1.0, 2 * stats.t.sf((abs(mean) - bound) / error, 9))
            low, _ = stats.t.interval(0.95, 9, mean, error)
            assert (rules.paired_t(cases, 0.02, strict=True, corrected=False)[case_id] == "slower") == (low > bound)
    answers = rules.paired_t(cases, 0.02, strict=strict, corrected=True)
    adjusted = stats.false_discovery_control(list(p_values.values()))
    for (case_id, values), p_value in zip(cases.items(), adjusted, strict=True):
        assert (answers[case_id] == "slower") == (p_value <= 0.05 and statistics.fmean(values) > bound)
    assert set(answers.values()) == {"slower", "same"}
    falling = {case_id: [-value for value in values] for case_id, values in cases.items()}
    mirror = {case_id: mirrored(answer) for case_id, answer in answers.items()}
    assert rules.paired_t(falling, 0.02, strict=strict, corrected=True) == mirror


def test_paired_t_needs_two_pairs_and_bears_values_that_are_all_the_same() -> None:
    assert rules.paired_t({"a": [0.1], "b": [0.1, 0.1], "c": [0.0, 0.0]}, 0.02, strict=True, corrected=True) == {
        "a": "failed", "b": "slower", "c": "same",
    }  # fmt: skip
