"""Rounds of a framework that is imported, and calls that return, at once: all of their time is opduel's own."""

import random
import sys
from pathlib import Path

from opduel.frameworks import worker_environment
from opduel.harness.machine.cpus import plan_cpus
from opduel.harness.planning.effort import Repetitions
from opduel.harness.processes.case_request import CaseRequest
from opduel.harness.processes.pair_pool import Bench, PairPool
from opduel.harness.rounds.pair import Round, RoundResult, run_round
from opduel.records import Build, Case
from opduel.records.measurement import SIDES

ADAPTOR = Path(__file__).with_name("toy.py")
BUILD = Build("toy", "toy", "interpreter", sys.executable, "1.0", "3.11", "digest")


def run_toy_round(size: int) -> None:
    """Measure so many cases in one process pair: one quad of blocks each, in one fork a side."""
    cases = [
        Case(f"toy_{number}/forward", "toy", "forward", {}, "float32", "cpu", threshold=0.02, timeout_s=60.0)
        for number in range(size)
    ]
    bench = Bench(dict.fromkeys(SIDES, BUILD), ADAPTOR, worker_environment(), plan_cpus(1))
    result, rng = RoundResult(), random.Random(1)
    with PairPool(bench, rng) as pool:
        repetitions = {case.id: Repetitions(forks=1, quads=1) for case in cases}
        run_round(pool, Round([CaseRequest(case, 1) for case in cases], 0, repetitions=repetitions), rng, result)
    assert len(result.samples) == size, result


def time_round_of_1_case() -> None:
    run_toy_round(1)


def time_round_of_20_cases() -> None:
    run_toy_round(20)
