"""benchmarks/duet.py: its ways on the toy in real workers, and its control variate on made blocks."""

import random
import sys
from pathlib import Path

import pytest

from benchmarks import duet
from opduel.frameworks import worker_environment
from opduel.harness.case_request import CaseRequest
from opduel.harness.cpus import plan_cpus
from opduel.harness.pair_pool import Bench
from opduel.records import Build, Case, RunError

TOY = Path(__file__).resolve().parents[1] / "harness" / "toy_adaptor.py"


def bench() -> Bench:
    build = Build("toy", "toy", "interpreter", sys.executable, "1.0", "3.11", "digest")
    return Bench({"control": build, "treatment": build}, TOY, worker_environment(), plan_cpus(1))


def test_each_way_measures_every_case(capsys: pytest.CaptureFixture[str]) -> None:
    ours = bench()
    requests = [CaseRequest(Case(name, "work", "forward", {}, "float32", "cpu", 0.02, 20.0), 1) for name in "ab"]
    if len(ours.cpus.measure | ours.cpus.control) < 2:
        with pytest.raises(RunError, match="two processors"):
            duet.compare_ways(ours, requests, 1, random.Random(1))
        return
    duet.compare_ways(ours, requests, 2, random.Random(1))
    heading, *lines = capsys.readouterr().out.splitlines()
    assert heading.split()[-6:] == ["one", "by", "one", "with", "the", "reference"]
    assert sorted(line.split()[0] for line in lines[:2]) == ["a", "b"]
    assert all(len(line.split()) == 5 for line in lines[:2])
    assert "interleaved: takes 1.00 times as long for the same spread" in lines


def test_what_the_reference_explains_is_taken_away_from_both_sides() -> None:
    rng = random.Random(1)
    references: duet.Logs = {side: [rng.gauss(0, 0.1) for _ in range(200)] for side in ("control", "treatment")}
    logs: duet.Logs = {
        side: [0.7 * reference + rng.gauss(0, 0.01) + (0.05 if side == "treatment" else 0) for reference in values]
        for side, values in references.items()
    }
    assert abs(duet._ratio(logs) - 0.05) > 0.005
    assert duet._ratio(duet._without(logs, references)) == pytest.approx(0.05, abs=0.003)
