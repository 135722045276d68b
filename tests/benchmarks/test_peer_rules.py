"""Other tools' rules, each against a naive version or a case worked by hand."""

import itertools
import math
import random
import statistics

import pytest
from scipy import stats

from benchmarks.peer_tools import rules


def exact_p(control: list[float], treatment: list[float]) -> float:
    """Two-sided Mann-Whitney p by enumerating every assignment of the values to the sides."""
    pooled = control + treatment

    def wins(chosen: tuple[int, ...]) -> int:
        inside = [pooled[i] for i in chosen]
        outside = [pooled[i] for i in range(len(pooled)) if i not in chosen]
        return sum(a < b for a in inside for b in outside)

    middle = len(control) * len(treatment) / 2
    observed = abs(wins(tuple(range(len(control)))) - middle)
    distances = [abs(wins(chosen) - middle) for chosen in itertools.combinations(range(len(pooled)), len(control))]
    return sum(distance >= observed for distance in distances) / len(distances)


def tied_p(control: list[float], treatment: list[float]) -> float:
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


def test_benchstat_agrees_with_all_assignments_enumerated() -> None:
    rng = random.Random(1)
    answers = set()
    for _ in range(40):
        control, treatment = noisy(rng, 1.0, 5), noisy(rng, rng.choice([0.95, 1.0, 1.03]), 5)
        answer = rules.benchstat(control, treatment)
        answers.add(answer)
        assert (answer != "same") == (exact_p(control, treatment) <= 0.05)
        if answer != "same":
            assert (answer == "slower") == (statistics.median(treatment) > statistics.median(control))
    assert answers == {"slower", "faster", "same"}


def test_benchstat_counts_tied_values_exactly() -> None:
    rng = random.Random(2)
    for _ in range(40):
        control = [float(rng.randint(1, 4)) for _ in range(5)]
        treatment = [float(rng.randint(1, 6)) for _ in range(5)]
        assert rules.exact_p_with_ties(control, treatment) == pytest.approx(tied_p(control, treatment))


def test_three_values_a_side_can_never_satisfy_benchstat() -> None:
    assert rules.benchstat([1.0, 1.1, 1.2], [9.0, 9.1, 9.2]) == "same"
    assert rules.benchstat([1.0, 1.1, 1.2, 1.3], [9.0, 9.1, 9.2, 9.3]) == "slower"


@pytest.mark.parametrize("rule", [rules.naive, rules.strict, rules.benchstat, rules.tango])
def test_exchanging_the_sides_mirrors_the_answer(rule) -> None:  # type: ignore[no-untyped-def]
    rng = random.Random(2)
    for shift in (0.9, 0.97, 1.0, 1.05):
        control, treatment = noisy(rng, 1.0, 30), noisy(rng, shift, 30)
        assert rule(treatment, control) == mirrored(rule(control, treatment))


def test_a_small_sure_change_satisfies_the_naive_rule_and_not_the_strict_one() -> None:
    rng = random.Random(3)
    control, treatment = noisy(rng, 1.0, 2000), noisy(rng, 1.01, 2000)
    assert rules.naive(control, treatment) == "slower"
    assert rules.strict(control, treatment) == "same"
    assert rules.strict(control, treatment, share=0.005) == "slower"
    assert rules.strict(control, [1.04 * value for value in treatment]) == "slower"


def test_tango_requires_both_a_sure_difference_and_one_beyond_one_percent() -> None:
    # Differences of 10 +- 1 on 1000: mean 1.0 %, then 1.1 %; standard errors far below.
    control = [1000.0] * 20
    one_percent = [1009.0, 1011.0] * 10
    assert rules.tango(control, one_percent) == "same"
    assert rules.tango(control, [value + 1 for value in one_percent]) == "slower"
    assert rules.tango([value + 1 for value in one_percent], control) == "faster"
    assert rules.tango(control, one_percent, share=0.009) == "slower"
    # Mean 2 %, but 2.6 standard errors of it need 20 / (s / sqrt(20)) >= 2.6: s is 41 here, z is 2.2.
    wide = [980.0, 1060.0] * 10
    assert rules.tango(control, wide) == "same"


def test_tangos_filter_drops_as_many_at_one_end_as_at_the_other() -> None:
    control = [1000.0] * 40
    treatment = [1019.0, 1020.0, 1021.0, 1022.0] * 9 + [1000.0 + far for far in (-9000, 9000, 9001, 20)]
    assert rules.tango(control, treatment) == "same"
    # One beyond the lower fence, two beyond the upper: one is dropped at either end, and one stays.
    ordered = sorted(after - before for before, after in zip(control, treatment, strict=True))
    assert rules.outliers_at_each_end(ordered) == 1
    both = [*treatment[:-2], 1020.0, 1020.0]
    assert rules.tango(control, both) == "same"
    assert rules.tango(control, both, filter_outliers=True) == "slower"


def test_pairs_without_any_difference_are_the_same() -> None:
    assert rules.tango([5.0] * 10, [5.0] * 10) == "same"
    assert rules.benchstat([5.0] * 10, [5.0] * 10) == "same"
    assert rules.naive([5.0] * 10, [5.0] * 10) == "same"


def test_paired_t_flags_what_its_interval_or_its_estimate_shows_to_be_beyond_the_threshold() -> None:
    rng = random.Random(4)
    cases = {f"case_{number}": [rng.gauss(0.003 * number, 0.01) for _ in range(10)] for number in range(16)}
    bound = math.log(1.02)
    p_values: dict[bool, dict[str, float]] = {True: {}, False: {}}
    for case_id, values in cases.items():
        mean, error = statistics.fmean(values), stats.sem(values)
        p_values[False][case_id] = float(stats.ttest_1samp(values, 0.0).pvalue)
        p_values[True][case_id] = min(1.0, 2 * stats.t.sf((abs(mean) - bound) / error, 9))
        low, _ = stats.t.interval(0.95, 9, mean, error)
        assert (rules.paired_t(cases, 0.02, strict=True, corrected=False)[case_id] == "slower") == (low > bound)
    for strict in (True, False):
        adjusted = stats.false_discovery_control(list(p_values[strict].values()))
        answers = rules.paired_t(cases, 0.02, strict=strict, corrected=True)
        for (case_id, values), p_value in zip(cases.items(), adjusted, strict=True):
            assert (answers[case_id] == "slower") == (p_value <= 0.05 and statistics.fmean(values) > bound)
        falling = {case_id: [-value for value in values] for case_id, values in cases.items()}
        mirror = {case_id: mirrored(answer) for case_id, answer in answers.items()}
        assert rules.paired_t(falling, 0.02, strict=strict, corrected=True) == mirror
        assert set(answers.values()) == {"slower", "same"}


def test_paired_t_needs_two_pairs_and_bears_values_that_are_all_the_same() -> None:
    assert rules.paired_t({"a": [0.1], "b": [0.1, 0.1], "c": [0.0, 0.0]}, 0.02, strict=True, corrected=True) == {
        "a": "failed", "b": "slower", "c": "same",
    }  # fmt: skip
