"""The suite by which opduel measures itself: each of its benchmarks runs on this tree."""

import importlib
from pathlib import Path

import pytest

BENCHMARKS = Path(__file__).resolve().parents[2] / "benchmarks"


@pytest.mark.parametrize("module", ["analysis", "reports", "rounds", "startup"])
def test_each_benchmark_runs(module: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(BENCHMARKS)
    functions = vars(importlib.import_module(f"suite.{module}"))
    benchmarks = [function for name, function in functions.items() if name.startswith("time_")]
    assert len(benchmarks) >= 2
    for benchmark in benchmarks:
        benchmark()
