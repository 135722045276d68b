"""The whole product on NumPy's releases: an injected slowdown, failures of one side, names that no build has."""

import json
import shutil
import sys
from pathlib import Path
from typing import Any

import pytest
from forked import ONE_FORK, Forked

from opduel.driver.builds import BuildCache, resolve_build
from opduel.frameworks import get_framework
from opduel.harness.other_runs.smoke_check import smoke_check
from opduel.harness.specs import expand_cases, find_spec, load_spec

pytestmark = pytest.mark.wheels
ROOT = Path(__file__).resolve().parent.parent.parent


def finished(folder: Path, code: int | None, *arguments: str) -> tuple[dict[str, Any], str, str]:
    """The report, if there is one, and what was printed; None as the code: 0, 1 or 3, as the times happen to be."""
    command = [sys.executable, str(ROOT / "harness.py"), *arguments, "--busy_host", "report"]
    process = Forked([*command, "--simple_local_reporter", str(folder)], cwd=ROOT, first=ONE_FORK)
    output, errors = process.communicate(timeout=300)
    assert process.returncode in ((0, 1, 3) if code is None else (code,)), errors
    path = folder / "report.json"
    return (json.loads(path.read_text(encoding="utf-8")) if path.exists() else {}), output, errors


@pytest.mark.nightly
def test_an_injected_slowdown_is_found_and_the_rest_is_not_flagged(tmp_path: Path) -> None:
    operators = [word for name in ("cumsum", "sqrt", "tanh", "einsum") for word in ("--operators", f"numpy.{name}")]
    sides = ("--control", "numpy==2.2.6", "--treatment", "numpy==2.2.6")
    report, _, _ = finished(
        tmp_path, 1, "-b", "numpy", *operators, *sides, "--inject", "0.5", "--threshold", "10%", "--max_rounds", "10"
    )
    injected = {row["case"] for row in report["comparisons"] if row["injected"]}
    assert len(injected) == 2
    assert {row["case"] for row in report["comparisons"] if row["verdict"] == "regressed"} == injected
    assert report["control"]["packages"] == {"numpy": "2.2.6"}


def test_failures_name_their_side_and_the_rest_goes_on(tmp_path: Path) -> None:
    spec = tmp_path / "spec.json"
    tests = [
        {"operator": "numpy.vecdot", "inputs": {"args": [[8], [8]]}},  # since 2.0
        {"operator": "numpy.negative", "inputs": {"args": [{"call": "numpy.nothing", "args": [3]}]}},
        {"operator": "numpy.sort", "inputs": {"a": [8], "kind": "bubble"}},
        {"operator": "numpy.exp", "inputs": {"args": [[8]]}},
    ]
    spec.write_text(json.dumps({"framework": "python", "tests": tests}), encoding="utf-8")
    sides = ("--control", "numpy==1.26.4", "--treatment", "numpy==2.2.6", "--max_rounds", "2")
    report, output, _ = finished(tmp_path, 3, "-b", str(spec), *sides, "--screen_reporter")
    failures = {row["case"]: row["failure"] for row in report["comparisons"]}
    assert failures.pop("exp(8, float64)") is None
    assert {case: (row["side"], row["kind"]) for case, row in failures.items()} == {
        "vecdot(8, 8, float64)": ("control", "missing"),
        "negative(nothing(3))": ("both", "error"),
        "sort(8, kind=bubble, float64)": ("both", "error"),
    }
    assert "numpy.nothing does not exist" in failures["negative(nothing(3))"]["reason"]
    assert "control    numpy==1.26.4 (numpy 1.26.4, Python 3." in output


@pytest.mark.nightly
def test_a_change_has_its_cause(tmp_path: Path) -> None:
    sides = ("--control", "numpy==1.26.4", "--treatment", "numpy==2.2.6", "--max_rounds", "5")
    report, output, _ = finished(
        tmp_path, None, "-b", "numpy", "--operators", "numpy.partition", *sides, "--explain", "all", "--screen_reporter"
    )
    (row,) = report["comparisons"]
    assert row["verdict"] == "improved"
    examinations = {source["source"]: source for source in reversed(row["cause"]["examinations"])}
    assert examinations["Python functions"]["candidates"][0]["name"].endswith("fromnumeric.partition")
    if shutil.which("valgrind"):
        parts = examinations["native functions"]["candidates"]
        assert any("introselect" in part["name"] + part["was"] for part in parts)
    assert " ".join(row["cause"]["sentence"].split()[:2]) in output


def test_a_name_that_no_build_has_is_refused(tmp_path: Path) -> None:
    sides = ("--control", "numpy==1.26.4", "--treatment", "numpy==2.2.6")
    named = ("--framework", "python", "--operators", "numpy.sortt", "--inputs", '{"a": [3]}')
    _, _, errors = finished(tmp_path, 2, *named, *sides)
    assert "--operators numpy.sortt: none of the builds has this operator: similar: numpy.sort" in errors


@pytest.mark.parametrize(
    ("catalogue", "request_", "step"),
    [
        ("numpy", "numpy==2.2.6", 50),
        pytest.param("numpy", "numpy==1.26.4", 1, marks=pytest.mark.nightly),
        pytest.param("scipy", "scipy==1.15.3 numpy==2.2.6", 1, marks=pytest.mark.nightly),
    ],
)
def test_cases_of_the_catalogue_run(catalogue: str, request_: str, step: int) -> None:
    """A few dozen of them, or all."""
    framework = get_framework("python")
    cases = expand_cases(load_spec(find_spec(f"{catalogue}_all")))[::step]
    tried = list(smoke_check(resolve_build(request_, framework, BuildCache()), framework, cases))
    failed = {
        attempt.case.id: attempt.reason for attempt in tried if attempt.failure and attempt.failure.kind != "missing"
    }
    assert len(failed) <= len(tried) / 100, failed
    assert len(tried) >= 50


@pytest.mark.nightly
@pytest.mark.skipif(shutil.which("valgrind") is None, reason="instructions are counted by valgrind")
def test_instructions_of_whole_calls_repeat_and_an_injected_percent_is_found(tmp_path: Path) -> None:
    sides = ("--control", "numpy==2.2.6", "--treatment", "numpy==2.2.6", "--metric", "instructions")
    operators = ("--operators", "numpy.add_large/float64", "--operators", "numpy.sin_large/float64")
    report, _, _ = finished(
        tmp_path, 1, "-b", "numpy/ufunc", *operators, *sides, "--inject", "0.01", "--max_rounds", "3"
    )
    verdicts = {row["injected"]: row["verdict"] for row in report["comparisons"]}
    assert verdicts == {True: "regressed", False: "unchanged"}


@pytest.mark.nightly
def test_a_breakdown_names_pythons_functions(tmp_path: Path) -> None:
    sides = ("--control", "numpy==2.2.6", "--treatment", "numpy==2.2.6", "--max_rounds", "2", "--breakdown")
    report, _, _ = finished(tmp_path, 0, "-b", "numpy/reduction", "--operators", "numpy.median_large/float64", *sides)
    (comparison,) = report["comparisons"]
    assert comparison["breakdown"]["control"][0]["name"] == "numpy.ndarray.partition"


def test_without_builds_the_fix_is_named(tmp_path: Path) -> None:
    _, _, errors = finished(tmp_path, 2, "-b", "numpy")
    assert "--control: python has no default build: give one, as package==version, as several requirements" in errors
