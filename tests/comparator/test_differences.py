"""Cases of which a value is 0 or below: they are judged by differences, with the error rates of ratios."""

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import pytest
from made_samples import measured

from opduel.comparator import RunAnalysis, plan_looks
from opduel.comparator.case_values import Values
from opduel.records import Case, Comparison, PairSample, Stage

LOOKS = plan_looks(30)
RUNS = 200


def a_case(lower_is_better: bool = True, threshold: float = 0.02) -> Case:
    return Case(
        "a/value", "a", "forward", {}, "float32", "cpu", threshold, 60.0, "value",
        unit="copies", lower_is_better=lower_is_better,
    )  # fmt: skip


def samples_of(values: Sequence[tuple[float, float]], screened: int = 5) -> list[PairSample]:
    return [
        PairSample("a/value", "screening" if number < screened else "confirmation", number, *pair, 0.0, 1, 1)
        for number, pair in enumerate(values)
    ]


def compared(values: Sequence[tuple[float, float]], case: Case | None = None) -> Comparison:
    case = case or a_case()
    (comparison,) = RunAnalysis([case], {case.id: samples_of(values)}, {}, LOOKS).comparisons()
    return comparison


@pytest.mark.parametrize(
    ("control", "treatment", "lower_is_better", "verdict"),
    [
        (0, 3, True, "regressed"),
        (3, 0, True, "improved"),
        (0, 3, False, "improved"),
        (-1, -1.6, False, "regressed"),
        (-1, 1, True, "regressed"),
        (0, 0, True, "unchanged"),
        (-100, -101, True, "unchanged"),
    ],
)
@pytest.mark.parametrize("threshold", [0.02, 5.0])
def test_exact_values(control: float, treatment: float, lower_is_better: bool, verdict: str, threshold: float) -> None:
    if threshold > 1 and control * treatment > 0:
        verdict = "unchanged"
    comparison = compared([(control, treatment)] * 8, a_case(lower_is_better, threshold))
    assert comparison.verdict == verdict
    assert (comparison.ratio, comparison.ci, comparison.mde) == (None, None, None)
    assert (comparison.control, comparison.treatment) == (control, treatment)
    assert comparison.difference == pytest.approx(treatment - control)
    assert comparison.difference_ci is not None
    low, high = comparison.difference_ci
    assert low <= treatment - control <= high < low + 0.01


def test_one_round_with_a_zero_is_enough() -> None:
    comparison = compared([(2, 4)] * 4 + [(0, 4)] + [(2, 4)] * 3)
    assert comparison.ratio is None
    assert comparison.difference == pytest.approx(2.25, abs=0.3)
    assert comparison.verdict == "regressed"


def test_a_threshold_is_the_same_share_as_of_ratios() -> None:
    by_ratio, by_difference = (Values.of(samples_of(values)) for values in ([(1.0, 2.0)], [(0.0, 0.0)]))
    assert by_ratio.bound(0.02) == pytest.approx(by_difference.bound(0.02), rel=0.02)
    exchanged = [replace(sample, control=sample.treatment, treatment=sample.control) for sample in samples_of([(0, 3)])]
    assert Values.of(samples_of([(0, 3)])).effects == (1,)
    assert Values.of(exchanged).effects == (-1,)


def test_open_cases_say_how_far_in_their_unit() -> None:
    early = compared([(0, 3)] * 6)
    assert (early.verdict, early.suspected) == ("inconclusive", "regressed")
    assert early.note == "looks regressed, but 3 rounds after those that show it have to agree"
    rng = np.random.default_rng(1)
    noise = compared([(a, b) for a, b in rng.normal(0, 1, (30, 2))], a_case(threshold=0.5))
    assert noise.verdict != "regressed"
    assert "copies" in noise.note
    assert "%" not in noise.note
    assert compared([(0, 3)]).difference == 3


@pytest.mark.parametrize("draw", ["normal", "counts", "rare", "level"])
def test_noise_around_zero_is_not_flagged(draw: str) -> None:
    rng = np.random.default_rng(7)
    draws = {
        "normal": lambda: rng.normal(0, 1, 2),
        "counts": lambda: rng.poisson(0.7, 2),
        "rare": lambda: rng.random(2) < 0.05,
        "level": lambda: rng.normal(-5, 0.5, 2),
    }

    def measure(case_id: str, stage: Stage) -> PairSample:
        control, treatment = map(float, draws[draw]())
        return PairSample(case_id, stage, 0, control, treatment, 0.0, 1, 1)

    case, flagged = a_case(), 0
    for _ in range(RUNS):
        samples = measured([case], measure, LOOKS)
        (comparison,) = RunAnalysis([case], samples, {}, LOOKS).comparisons()
        flagged += comparison.verdict in ("regressed", "improved")
    assert flagged <= 0.05 * RUNS
