"""Two groups of process values: found where they are, seldom where there is one, and in words."""

import numpy as np
import pytest
from made_samples import a_case, pair

from opduel.comparator import Looks, RunAnalysis
from opduel.comparator.modes import LEAST, critical_share, describe_modes, two_modes, within_shares
from opduel.records import TwoModes

LOOKS = Looks((5, 8))
ONE_MODE = {
    "normal": lambda rng, shape: rng.standard_normal(shape),
    "uniform": lambda rng, shape: rng.random(shape),
    "exponential": lambda rng, shape: rng.exponential(size=shape),
    "log-normal": lambda rng, shape: rng.lognormal(0, 0.5, shape),
    "laplace": lambda rng, shape: rng.laplace(size=shape),
    "t(3)": lambda rng, shape: rng.standard_t(3, shape),
}


def naive_share(values: list[float], size: int) -> float:
    """The sum of squares within the ``size`` lowest values and within the others, as a share of the whole."""
    ordered = sorted(values)
    groups = ordered[:size], ordered[size:]
    within = sum(sum((value - sum(group) / len(group)) ** 2 for value in group) for group in groups)
    mean = sum(values) / len(values)
    return within / sum((value - mean) ** 2 for value in values)


def test_the_statistic_is_that_of_a_naive_reimplementation() -> None:
    rng = np.random.default_rng(1)
    for n in (6, 9, 17):
        values = rng.standard_normal(n)
        shares = within_shares(np.sort(values)[np.newaxis, :])[0]
        sizes = range(LEAST, n - LEAST + 1)
        assert shares == pytest.approx([naive_share(list(values), size) for size in sizes])


@pytest.mark.parametrize("kind", ONE_MODE)
def test_one_mode_is_seldom_taken_for_two(kind: str) -> None:
    """Less than 0.85 % of 8,000 samples: four standard deviations above 0.5 %, that of the critical value included."""
    rng = np.random.default_rng(7)
    for n in (8, 16, 30, 60):
        shares = within_shares(np.sort(ONE_MODE[kind](rng, (8000, n)), axis=1)).min(axis=1)
        assert np.mean(shares < critical_share(n)) < 0.0085


@pytest.mark.parametrize(
    ("n", "share", "apart", "least"), [(16, 0.5, 8, 0.8), (16, 0.25, 12, 0.7), (30, 0.25, 8, 0.85)]
)
def test_two_modes_are_found(n: int, share: float, apart: float, least: float) -> None:
    """Normal values, of which a share lies so many standard deviations higher."""
    rng = np.random.default_rng(3)
    values = rng.standard_normal((2000, n)) + apart * (rng.random((2000, n)) < share)
    is_significant = within_shares(np.sort(values, axis=1)).min(axis=1) < critical_share(n)
    assert np.mean(is_significant) > least


def test_the_groups_are_those_that_were_made() -> None:
    rng = np.random.default_rng(5)
    values = [*(331e3 * np.exp(0.02 * rng.standard_normal(12))), *(3.5e6 * np.exp(0.02 * rng.standard_normal(4)))]
    modes = two_modes([[value] for value in rng.permutation(values)])
    assert modes is not None
    assert (modes.low, modes.high) == (pytest.approx(331e3, rel=0.03), pytest.approx(3.5e6, rel=0.03))
    assert (modes.low_pairs, modes.high_pairs) == (12, 4)


@pytest.mark.parametrize(
    "values",
    [
        [1.0] * 20,
        [1.0] * 5 + [2.0] * 2,  # too few
        [1.0] * 10 + [9.0] * 2,  # two of them are outliers
        [1.0] * 10 + [1.01] * 10,  # too near to matter
        [0.0] * 10 + [1.0] * 10,  # no logs
        [],
    ],
)
def test_what_has_no_two_modes(values: list[float]) -> None:
    assert two_modes([[value] for value in values]) is None


@pytest.mark.parametrize("kind", ["normal", "uniform"])
@pytest.mark.parametrize(("between", "within"), [(0, 1), (1, 1), (1, 0.01)], ids=["forks", "both", "pairs"])
@pytest.mark.parametrize("forks", [(6,) * 9, (2,) * 20, (2,) * 8 + (6,) * 6], ids=["6", "2", "2 and 6"])
def test_one_mode_is_seldom_taken_for_two_where_pairs_have_forks(
    kind: str, between: float, within: float, forks: tuple[int, ...]
) -> None:
    """Less than 1.15 % of 2,000 samples: four standard deviations above 0.5 %."""
    rng = np.random.default_rng(11)
    draw, significant = ONE_MODE[kind], 0
    values_of_pairs = np.repeat(draw(rng, (2000, len(forks))), forks, axis=1)
    stops = np.cumsum(forks).tolist()
    bounds = list(zip([0, *stops], stops, strict=False))
    for values in np.exp(between * values_of_pairs + within * draw(rng, values_of_pairs.shape)).tolist():
        significant += two_modes([values[start:stop] for start, stop in bounds]) is not None
    assert significant < 0.0115 * 2000


def test_of_pairs_with_forks_the_forks_have_the_modes() -> None:
    """Of each pair's mean, which lies between them, there is one mode."""
    rng = np.random.default_rng(4)
    pairs = [
        [(3.0 if rng.random() < 0.5 else 1.0) * float(np.exp(0.02 * rng.standard_normal())) for _ in range(6)]
        for _ in range(12)
    ]
    modes = two_modes(pairs)
    assert modes is not None
    assert (modes.low, modes.high) == (pytest.approx(1, rel=0.03), pytest.approx(3, rel=0.03))
    assert modes.high_pairs == sum(value > 2 for pair in pairs for value in pair)
    assert two_modes([[sum(sorted(pair)[1:5]) / 4] for pair in pairs]) is None
    assert two_modes([[1.0] * 6] * 10 + [[2.0] * 6] * 2) is None, "two pairs are outliers, whatever they have of forks"


def test_the_words() -> None:
    assert describe_modes({}) == ""
    modes_by_side = {"control": TwoModes(331.0, 3500.0, 12, 4), "treatment": TwoModes(330.0, 660.0, 8, 8)}
    assert describe_modes(modes_by_side) == (  # type: ignore[arg-type]
        "two modes: control 10.6 times as large in 4 of 16, treatment 2 times as large in 8 of 16 processes"
    )


def test_the_note_of_an_open_case_says_so_and_that_of_a_settled_one_does_not() -> None:
    rng = np.random.default_rng(2)

    def compared(control: list[float], treatment: list[float]) -> str:
        samples = [pair("a", "screening", *values) for values in zip(control, treatment, strict=True)]
        (comparison,) = RunAnalysis([a_case()], {"a": samples}, {}, LOOKS).comparisons()
        assert bool(comparison.two_modes) == comparison.note.startswith("two modes")
        return comparison.verdict + ": " + comparison.note

    slow = [1000.0, 3000.0] * 4
    noise = np.exp(0.01 * rng.standard_normal((2, 8)))
    words = compared(list(slow * noise[0]), list(slow[::-1] * noise[1]))
    assert words.startswith("inconclusive: two modes: control 3")
    assert "treatment 3" in words
    assert compared(list(slow * noise[0]), list(slow * noise[0])).startswith("unchanged: ")
