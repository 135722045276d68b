"""suite_coverage: what ran of a suite, and where asv's outcomes differ."""

import json
import sys
from pathlib import Path

import pytest

from opduel.commands.suite_coverage import _lines, main

FIXTURE = Path(__file__).resolve().parent.parent / "fixtures" / "asv_suite"


def test_each_case_has_an_outcome_and_reasons_are_counted(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    answer = tmp_path / "answer.json"
    words = [str(FIXTURE), sys.executable, "--bench", r"^kinds\.", "--sample", "4", "--json", str(answer)]
    assert main(words) == 0
    facts = json.loads(answer.read_text())
    assert len(facts["outcomes"]) == 4
    assert facts["benchmarks_of_suite"]["kinds.Sorted.time_sort"] == 4
    assert len(facts["benchmarks"]) < len(facts["benchmarks_of_suite"])
    assert f"{len(facts['benchmarks_of_suite'])} benchmarks" in capsys.readouterr().out


def test_differences_from_asv_are_listed() -> None:
    facts = {
        "name": "tiny",
        "build": "tiny==1",
        "commit": None,
        "checked_s": 1.0,
        "discovered_s": 1.0,
        "problems": (),
        "benchmarks_of_suite": {"time_a": 2, "time_b": 1},
        "outcomes": {"time_a(1)": "ran", "time_a(2)": "error: ValueError: no", "time_b": "skipped: not here"},
        "asv": {
            "benchmarks": {"time_a": 2, "time_c": 1},
            "problem": "ImportError: no module d",
            "outcomes": {"time_a(1)": "ran", "time_a(2)": "ran", "time_b": "skipped: without a word"},
        },
    }
    assert list(_lines(facts))[-6:] == [
        "asv: 2 benchmarks, 3 cases; of the same cases",
        "asv: 2 ran, 1 skipped, 0 failed",
        "asv: stops: ImportError: no module d",
        "only asv: time_c",
        "only opduel: time_b",
        "time_a(2): error: ValueError: no; asv: ran",
    ]
