"""The whole product on an asv suite, with releases of NumPy: what is measured, skipped, and fails, on which side."""

import json
import sys
from pathlib import Path
from typing import Any

import pytest
from forked import ONE_FORK, Forked

pytestmark = pytest.mark.wheels
ROOT = Path(__file__).resolve().parent.parent.parent
SUITE = ROOT / "tests" / "fixtures" / "asv_suite"


def finished(folder: Path, code: int, *arguments: str) -> tuple[dict[str, Any], str, str]:
    """The report, and what was printed."""
    command = [sys.executable, str(ROOT / "harness.py"), "--suite", str(SUITE), *arguments, "--busy_host", "report"]
    process = Forked([*command, "--simple_local_reporter", str(folder)], cwd=ROOT, first=ONE_FORK)
    output, errors = process.communicate(timeout=300)
    assert process.returncode == code, errors
    return json.loads((folder / "report.json").read_text(encoding="utf-8")), output, errors


def test_a_suite_is_measured_as_it_is_and_what_goes_wrong_names_its_side(tmp_path: Path) -> None:
    """``vecdot`` is new in NumPy 2.0: on the treatment here, the older one, it fails."""
    names = "numeric|Consumed|track_score|track_made|Raw|without_feature|NoFeature|raises|HangsIn|CacheFails"
    sides = ("--control", "numpy==2.2.6", "--treatment", "numpy==1.26.4", "--max_rounds", "2")
    report, output, errors = finished(tmp_path, 1, "-b", names, *sides, "--screen_reporter")
    rows = {row["case"]: row for row in report["comparisons"]}
    failures = {case: row["failure"] for case, row in rows.items() if row["failure"]}
    assert {case: (row["side"], row["kind"]) for case, row in failures.items()} == {
        "numeric.time_vecdot": ("treatment", "error"),
        "misbehaving.time_raises": ("both", "error"),
        "misbehaving.HangsInSetup.time_never": ("both", "timeout"),
        "misbehaving.CacheFails.time_with_it": ("both", "error"),
    }
    assert "setup_cache of misbehaving.CacheFails.time_with_it: OSError: no data set" in str(failures)
    measured = {case: row for case, row in rows.items() if not row["failure"]}
    assert all(row["rounds"] >= 2 for row in measured.values())
    assert "kinds.Consumed.time_pop" in measured
    assert measured["kinds.Cached.track_made/value"]["control"] == 7
    assert measured["kinds.track_score/value"]["unit"] == "share"
    assert measured["kinds.Raw.timeraw_loop(20000)"]["control"] > 1000
    assert len([case for case in measured if case.startswith("numeric.Array.")]) == 4
    assert {row["case"] for row in report["run"]["skipped"]} == {
        "kinds.NoFeature.time_nothing",
        "kinds.time_without_feature",
    }
    suite = report["run"]["suite"]
    assert (suite["name"], suite["requirements"]) == ("made-suite", ["packaging==24.2", "six"])
    assert "made_benchmarks.not_importable: ModuleNotFoundError: No module named 'no_such_library'" in suite["problems"]
    assert report["control"]["packages"]["six"]
    assert report["control"]["version"] == "numpy 2.2.6"
    assert "2 cases were skipped by both builds" in output
    assert "suite: made_benchmarks.not_importable: ModuleNotFoundError" in errors


@pytest.mark.nightly
def test_an_injected_slowdown_is_found_whatever_a_call_needs_before_it(tmp_path: Path) -> None:
    names = "kinds.(Consumed|Raw|time_sum|time_product)|numeric.Array"
    sides = ("--control", "numpy==2.2.6", "--treatment", "numpy==2.2.6", "--inject", "0.5", "--threshold", "10%")
    report, _, _ = finished(tmp_path, 1, "-b", names, *sides, "--max_rounds", "10")
    injected = {row["case"] for row in report["comparisons"] if row["injected"]}
    assert len(injected) == 4
    assert {row["case"] for row in report["comparisons"] if row["verdict"] == "regressed"} == injected
