"""suite_coverage: what ran of a suite, and where asv's outcomes differ."""

import sys
from pathlib import Path

import pytest

from opduel.commands.suite_coverage import _differences, _reasons, main

FIXTURE = Path(__file__).resolve().parent.parent / "fixtures" / "asv_suite"


def test_each_case_has_an_outcome(capsys: pytest.CaptureFixture[str]) -> None:
    assert main([str(FIXTURE), sys.executable, "--bench", r"^kinds\.", "--sample", "4"]) == 0
    first, *_ = capsys.readouterr().out.splitlines()
    numbers = [int(words.split()[0]) for words in first.rpartition(": ")[2].split(", ")]
    assert sum(numbers) == 4


def test_reasons_are_counted_and_differences_from_asv_are_listed() -> None:
    outcomes = {"time_a(1)": "ran", "time_a(2)": "error: ValueError: no", "time_b": "skipped: not here"}
    outcomes_of_asv = {"time_a(1)": "ran", "time_a(2)": "ran", "time_b": "skipped: without a word"}
    assert [*_reasons(outcomes), *_differences(outcomes, outcomes_of_asv)] == [
        "1 x error: ValueError: no (first: time_a(2))",
        "1 x skipped: not here (first: time_b)",
        "asv: 2 ran, 1 skipped, 0 failed",
        "time_a(2): error: ValueError: no; asv: ran",
    ]
