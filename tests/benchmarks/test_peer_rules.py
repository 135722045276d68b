"""Other tools' rules: the mirror image of their answers, and cases worked by hand or by SciPy."""

import math
import random
import statistics

import pytest
from scipy import stats

from benchmarks.peer_tools import rules

MIRRORED = {"slower": "faster", "faster": "slower", "same": "same"}


def noisy(rng: random.Random, scale: float, count: int) -> list[float]:
    return [scale * rng.lognormvariate(0.0, 0.02) * 1e4 for _ in range(count)]


@pytest.mark.parametrize("rule", [rules.naive, rules.strict, rules.benchstat, rules.tango])
def test_exchanging_the_sides_mirrors_the_answer_and_equal_values_are_the_same(rule) -> None:  # type: ignore[no-untyped-def]
    rng, answers = random.Random(2), []
    for shift in (0.9, 0.97, 1.0, 1.05):
        control, treatment = noisy(rng, 1.0, 30), noisy(rng, shift, 30)
        answers.append(rule(control, treatment))
        assert rule(treatment, control) == MIRRORED[answers[-1]]
    assert (answers[0], answers[-1]) == ("faster", "slower")
    assert rule([5.0] * 5, [5.0] * 5) == "same"


def test_benchstat_needs_four_values_a_side_and_the_strict_rule_a_change_beyond_its_share() -> None:
    assert rules.benchstat([1.0, 1.1, 1.2], [9.0, 9.1, 9.2]) == "same"
    assert rules.benchstat([1.0, 1.1, 1.2, 1.3], [9.0, 9.1, 9.2, 9.3]) == "slower"
    control, treatment = noisy(random.Random(3), 1.0, 2000), noisy(random.Random(4), 1.01, 2000)
    assert rules.naive(control, treatment) == "slower"
    assert [rules.strict(control, treatment, share) for share in (0.02, 0.005)] == ["same", "slower"]


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
    rng, bound = random.Random(4), math.log(1.02)
    cases = {f"case_{number}": [rng.gauss(0.003 * number, 0.01) for _ in range(10)] for number in range(16)}
    null = bound if strict else 0.0
    p_values = [2 * stats.ttest_1samp(values, null, alternative="greater").pvalue for values in cases.values()]
    adjusted = stats.false_discovery_control([min(1.0, p_value) for p_value in p_values])
    answers = rules.paired_t(cases, 0.02, strict=strict, corrected=True)
    assert set(answers.values()) == {"slower", "same"}
    for (case_id, values), p_value in zip(cases.items(), adjusted, strict=True):
        assert (answers[case_id] == "slower") == (p_value <= 0.05 and statistics.fmean(values) > bound)
    assert rules.paired_t({"a": [0.1], "b": [-0.1] * 2, "c": [0.0] * 2}, 0.02, strict=strict, corrected=True) == {
        "a": "failed", "b": "faster", "c": "same",
    }  # fmt: skip
