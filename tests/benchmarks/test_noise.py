"""benchmarks/variance.py and noise.py: components of known variances, and settings that are undone."""

import sys
from pathlib import Path

import numpy as np
import pytest

from benchmarks.noise import UNCHANGED, apply_setting, lines, measure
from benchmarks.variance import components, report_lines
from opduel.frameworks import worker_environment
from opduel.harness.machine.cpus import plan_cpus
from opduel.harness.planning.effort import Repetitions
from opduel.harness.processes.case_request import CaseRequest
from opduel.harness.processes.pair_pool import Bench
from opduel.harness.rounds import blocks
from opduel.records import Build, Case, PairSample

TOY = Path(__file__).resolve().parents[1] / "harness" / "toy_adaptor.py"


@pytest.fixture
def bench() -> Bench:
    build = Build("toy", "toy", "interpreter", sys.executable, "1.0", "3.11", "digest")
    return Bench({"control": build, "treatment": build}, TOY, worker_environment(), plan_cpus(1))


def test_components_are_the_variances_of_the_levels() -> None:
    rng = np.random.default_rng(1)
    pair_sd, fork_sd, quad_sd, quads = 0.004, 0.003, 0.01, 6
    samples = []
    for number in range(2000):
        values = rng.normal(0, pair_sd) + rng.normal(0, fork_sd, (4, 1)) + rng.normal(0, quad_sd, (4, quads))
        errors = values.std(axis=1, ddof=1) / quads**0.5
        forks = tuple(zip(map(float, values.mean(axis=1)), map(float, errors), strict=True))
        samples.append(PairSample("c", "screening", number, 1, 1, 0.0, 4 * 2 * quads, 1, 4, fork_ratios=forks))
    assert components(samples) == pytest.approx([pair_sd**2, fork_sd**2, quad_sd**2], rel=0.2)


def test_a_setting_changes_numbers_and_variables_and_is_undone(bench: Bench) -> None:
    before = blocks.LOW
    with apply_setting("opduel.harness.rounds.blocks.LOW=0.25,A=1,ahead=no", bench) as changed:
        assert blocks.LOW == 0.25
        assert changed.environment["A"] == "1"
        assert changed.cpus.start == changed.cpus.measure
    assert before == blocks.LOW
    assert "A" not in bench.environment


def test_each_setting_has_a_line_for_every_case_and_variances_one_for_every_level(bench: Bench) -> None:
    requests = [CaseRequest(Case(name, "work", "forward", {}, "float32", "cpu", 0.02, 20.0), 1) for name in "ab"]
    results = measure([UNCHANGED, "A=1"], bench, requests, rounds=2, repetitions=Repetitions(2, 2))
    for setting, rounds in results.items():
        heading, *case_lines = lines(setting, rounds)
        assert heading.startswith(f"{setting}: geometric mean of the spreads")
        assert sorted(line.split()[0] for line in case_lines) == ["a", "b"]
    table = report_lines(results[UNCHANGED])
    assert [line.split()[1] for line in table[:4]] == ["standard", "---", "a", "b"]
    assert [line.split(":")[0] for line in table[-2:]] == ["- forks in a pair", "- quads in a fork"]
