"""Which parts a sentence names where no share is clear."""

from dataclasses import replace

import pytest
from made_samples import a_case
from sentences import examined, sentence

from opduel.records import Comparison
from opduel.records.cause import OF_MEASURED, Examination, Part

GROWN = replace(Comparison.without_figures(a_case("convert", 0.02), "regressed"), ratio=1.7, ci=(1.6, 1.8))
FELL = replace(Comparison.without_figures(a_case("convert", 0.02), "improved"), ratio=0.6, ci=(0.55, 0.65))


def sentence_of(
    control: float, treatment: float, calls: float, comparison: Comparison = GROWN, doubt: float = 50.0
) -> str:
    """Of a helper that takes ``control`` ns in 500 calls, and ``treatment`` in ``calls``, with a ``doubt`` of all."""
    control_side = {"checked": Part(control, 500, "a.py:5"), "convert": Part(40.0, 1)}
    other_side = {
        "checked": Part(treatment, calls, "a.py:5", doubt=doubt),
        "convert": Part(40.0 + 0.6 * (treatment - control), 1, doubt=doubt),
    }
    return sentence(examined("Python functions", "ns", control_side, other_side), comparison=comparison)


def test_a_function_that_is_called_more_often_while_shares_are_doubtful() -> None:
    assert sentence_of(60, 100, 1000) == (
        "partly explained: checked (a.py:5), 1000 calls per call where it was 500; time grew by 64 %, but how that "
        "divides among functions is not clear"
    )


def test_less_often() -> None:
    assert sentence_of(100, 60, 250, FELL).startswith(
        "partly explained: checked (a.py:5), 250 calls per call where it was 500;"
    )


def test_a_share_that_is_clear_is_said_instead() -> None:
    assert sentence_of(60, 100, 1000, doubt=0.0).startswith(
        "checked (a.py:5), 1000 calls per call where it was 500: 62 %"
    )


@pytest.mark.parametrize(("treatment", "calls"), [(100, 500), (100, 520), (100, 250)])
def test_no_function_is_named_that_is_called_as_often_or_less_where_time_grew(treatment: float, calls: float) -> None:
    assert sentence_of(60, treatment, calls).startswith("not explained: ")


def test_none_is_named_where_time_moved_the_other_way() -> None:
    assert sentence_of(60, 100, 1000, FELL).startswith("not explained: ")


def test_a_difference_whose_shares_are_of_the_measured_change_is_not_called_clear() -> None:
    """It is clear at 95 %, and not at the 99 % that shares of its own would need."""
    examination = Examination("Python functions", "ns", 5, 100.0, 110.0, (1.0, 19.0), (), 0.0, OF_MEASURED)
    words = "not explained: time by function: no clear difference (10 %) although time grew by 70 %"
    assert sentence(examination, comparison=GROWN) == words
    assert sentence(examination, replace(examination, treatment=112.0), comparison=GROWN) == words
    of_its_own = sentence(replace(examination, note=""), comparison=GROWN)
    assert of_its_own == "not explained: time by function grew by 10 %, with nothing that accounts for it"
