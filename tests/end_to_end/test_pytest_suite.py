"""The whole product on tests for pytest-benchmark, with two releases of a package."""

import json
import subprocess
import sys
from pathlib import Path

import pytest
from forked import ONE_FORK, run_forked

pytestmark = pytest.mark.wheels
ROOT = Path(__file__).resolve().parent.parent.parent
SUITE = ROOT / "tests" / "fixtures" / "timed_tests.py"
BUILDS = ("--control", "six==1.16.0", "--treatment", "six==1.17.0")


def finished(*arguments: str) -> "subprocess.CompletedProcess[str]":
    command = [sys.executable, str(ROOT / "harness.py"), *BUILDS, *arguments, "--busy_host", "report"]
    return run_forked(command, timeout=300, first=ONE_FORK)


def test_tests_are_measured_as_they_are(tmp_path: Path) -> None:
    """One is twice as slow on the treatment, and one is skipped on the control."""
    suite = tmp_path / "test_timed.py"
    suite.write_bytes(SUITE.read_bytes())
    names = ("-b", "pops or slower or only_new or fails", "--max_rounds", "6", "--sentinels", "0")
    quick = ("--threshold", "20%", "--explain", "none")
    process = finished("--suite", str(suite), *names, *quick, "--simple_local_reporter", str(tmp_path / "out"))
    assert process.returncode == 1, process.stderr
    report = json.loads((tmp_path / "out" / "report.json").read_text(encoding="utf-8"))
    comparisons = {comparison["case"].partition("::")[2]: comparison for comparison in report["comparisons"]}
    assert comparisons.keys() == {"test_pops[10]", "test_pops[1000]", "test_slower", "test_only_new", "test_fails"}
    assert comparisons["test_slower"]["verdict"] == "regressed"
    assert comparisons["test_pops[10]"]["rounds"] >= 2
    failures = {name: comparison["failure"] for name, comparison in comparisons.items() if comparison["failure"]}
    assert {name: (failure["side"], failure["kind"]) for name, failure in failures.items()} == {
        "test_fails": ("both", "error"),
        "test_only_new": ("control", "skipped"),
    }
    assert report["run"]["suite"]["benchmarks"]["test_timed.py::test_slower"]["kind"] == "test"
    assert report["control"]["packages"]["pytest-benchmark"]


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("def test_it(benchmark:\n", "test_it.py: SyntaxError: '(' was never closed: correct that"),
        ("import nowhere\ndef test_it(benchmark): pass\n", "(add it with --suite_packages nowhere)"),
        ("def test_it(): pass\n", "no test uses the fixture benchmark, or its mark: name the folder that has them"),
    ],
)
def test_files_without_tests_to_time_are_one_line(tmp_path: Path, text: str, words: str) -> None:
    (tmp_path / "test_it.py").write_text(text)
    process = finished("--suite", str(tmp_path / "test_it.py"))
    assert process.returncode == 2
    [line] = [line for line in process.stderr.splitlines() if "error:" in line]
    assert line.endswith(words)
