"""What time and instructions of one call say together."""

from dataclasses import replace
from typing import get_args

import pytest
from made_samples import a_case, in_stages, pairs

from opduel.causes.wording.instructions import READINGS, attribute_changes, attribution_note
from opduel.comparator import RunAnalysis, plan_looks
from opduel.records import Comparison, Verdict

CHANGED = ("regressed", "improved")


def compared(case: str, verdict: Verdict, ratio: float | None = None, note: str = "") -> Comparison:
    metric = "instructions" if case.endswith("/instructions") else "time"
    return Comparison(case, "nd.add", "forward", metric, "", verdict, ratio, threshold=0.02, rounds=3, note=note)


@pytest.mark.parametrize(
    ("time", "instructions", "ratio", "want"),
    [
        ("regressed", "regressed", 1.1, "slower, and does more (+10.0% instructions)"),
        (
            "regressed",
            "unchanged",
            1.0,
            "slower with unchanged instructions: memory, layout or vector width (+0.0% instructions)",
        ),
        (
            "improved",
            "regressed",
            1.05,
            "faster although it does more: memory, layout or vector width (+5.0% instructions)",
        ),
        ("unchanged", "regressed", 1.01, "does more, but is no slower (+1.0% instructions)"),
        ("inconclusive", "improved", 0.9, "does less; whether it is faster is open (-10.0% instructions)"),
        ("regressed", "inconclusive", None, "slower; whether it does more is open"),
        ("unchanged", "unchanged", 1.0, ""),
        ("failed", "regressed", 1.1, ""),
        ("regressed", "failed", None, ""),
    ],
)
def test_attributions(time: Verdict, instructions: Verdict, ratio: float | None, want: str) -> None:
    assert attribution_note(compared("a", time), compared("a/instructions", instructions, ratio)) == want


def test_every_change_that_both_tests_have_judged_has_a_reading() -> None:
    for time in get_args(Verdict):
        for work in get_args(Verdict):
            judged = "failed" not in (time, work)
            assert ((time, work) in READINGS) == (judged and (time in CHANGED or work in CHANGED)) or (time, work) == (
                "inconclusive",
                "unchanged",
            )


def test_words_agree_with_the_verdicts() -> None:
    for (time, work), words in READINGS.items():
        assert ("slower" in words and "no slower" not in words and "whether it is" not in words) == (
            time == "regressed"
        )
        assert ("does more" in words and "whether it does" not in words) == (work == "regressed")
        assert ("does less" in words and "whether it does" not in words) == (work == "improved")
        assert ("does no" in words) == ((time, work) in (("regressed", "not_worse"), ("improved", "not_better")))


def test_only_the_case_measured_by_time_is_reported_and_keeps_its_note() -> None:
    comparisons = [
        compared("a", "regressed", 1.2, "a note"),
        compared("b", "regressed"),
        compared("a/instructions", "regressed"),
    ]
    read = attribute_changes(comparisons)
    assert [comparison.note for comparison in read] == ["a note; slower, and does more", "", ""]
    assert [replace(comparison, note="") for comparison in read] == [
        replace(comparison, note="") for comparison in comparisons
    ]


def test_judging_reads_both() -> None:
    cases = [a_case("a"), a_case("a/instructions", threshold=0.005, metric="instructions")]
    slower = [0.1 + 1e-5 * n for n in range(8)]
    level = [1e-6 * n for n in range(3)]
    samples = {
        "a": in_stages("a", slower),
        "a/instructions": pairs("a/instructions", "screening", level),
    }
    time, work = attribute_changes(RunAnalysis(cases, samples, {}, plan_looks(8)).comparisons())
    assert (time.verdict, work.verdict, work.unit) == ("regressed", "unchanged", "instructions")
    assert "slower with unchanged instructions" in time.note
    assert work.note == ""


def test_no_metric_waits_for_another() -> None:
    """Counting is slow: what is timed must not wait for it."""
    cases = [a_case("a"), a_case("a/instructions", metric="instructions")]
    samples = {"a": pairs("a", "screening", [1e-6 * n for n in range(5)])}
    interim = RunAnalysis(cases, samples, {}, plan_looks(30)).interim()
    assert interim["a"].verdict == "unchanged"
    assert interim["a/instructions"].samples_needed == 3
