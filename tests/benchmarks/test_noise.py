"""benchmarks/variance.py and noise.py: components of known variances, and settings that are undone."""

import random
import statistics
import sys
from pathlib import Path

import numpy as np
import pytest

from benchmarks.noise import apply_setting, measure
from benchmarks.variance import components
from opduel.frameworks import worker_environment
from opduel.harness.machine.cpus import plan_cpus
from opduel.harness.planning.effort import Repetitions
from opduel.harness.processes.case_request import CaseRequest
from opduel.harness.processes.pair_pool import Bench
from opduel.harness.rounds import blocks
from opduel.records import Build, Case

TOY = Path(__file__).resolve().parents[1] / "harness" / "toy_adaptor.py"


@pytest.fixture
def bench() -> Bench:
    build = Build("toy", "toy", "interpreter", sys.executable, "1.0", "3.11", "digest")
    return Bench({"control": build, "treatment": build}, TOY, worker_environment(), plan_cpus(1))


def test_components_are_the_variances_of_the_levels() -> None:
    rng = np.random.default_rng(1)
    deviations = (0.004, 0.003, 0.002, 0.01)  # of pairs, forks, placements, quads
    values = np.zeros((2000, 4, 3, 6))
    for level, deviation in enumerate(deviations):
        values += rng.normal(0, deviation, (*values.shape[: level + 1], *[1] * (3 - level)))
    assert components(values) == pytest.approx([deviation**2 for deviation in deviations], rel=0.2)


def test_two_levels_have_the_components_of_an_analysis_of_variance() -> None:
    rows = [[random.Random(number).gauss(0, 0.01) for _ in range(5)] for number in range(8)]
    within = statistics.fmean(statistics.variance(row) for row in rows)
    between = statistics.variance(statistics.fmean(row) for row in rows) - within / 5
    assert components(np.array(rows)) == pytest.approx([between, within])


def test_a_setting_changes_numbers_and_variables_and_is_undone(bench: Bench) -> None:
    before = blocks.LOW
    with apply_setting("opduel.harness.rounds.blocks.LOW=0.25,A=1,ahead=no", bench) as changed:
        assert blocks.LOW == 0.25
        assert changed.environment["A"] == "1"
        assert changed.cpus.start == changed.cpus.measure
    assert before == blocks.LOW
    assert "A" not in bench.environment


def test_each_setting_has_a_line_for_every_case(bench: Bench) -> None:
    requests = [CaseRequest(Case(name, "work", "forward", {}, "float32", "cpu", 0.02, 20.0), 1) for name in "ab"]
    results = measure(["ahead=yes", "A=1"], bench, requests, rounds=2, repetitions=Repetitions(1, 2))
    for setting, result in results.items():
        heading, *lines = result.lines(setting)
        assert heading.startswith(f"{setting}: geometric mean of the spreads")
        assert sorted(line.split()[0] for line in lines) == ["a", "b"]
