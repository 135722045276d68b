"""Builds, cases and a bench around the toy adaptor; both sides run this very interpreter."""

import random
import sys
from pathlib import Path
from typing import Any

from opduel.frameworks import worker_environment
from opduel.harness.machine.cpus import plan_cpus
from opduel.harness.processes.pair_pool import Bench, PairPool
from opduel.harness.rounds.pair import Round, RoundResult, run_round
from opduel.records import Build, Case
from opduel.records.measurement import Side

ADAPTOR = Path(__file__).with_name("toy_adaptor.py")


def toy_build(side: Side, **environment: str) -> Build:
    """One whose calls take a simulated time, unless it is given ``TOY_CLOCK="real"``."""
    variables = {"TOY_SIDE": side, "TOY_CLOCK": "simulated", **environment}
    return Build("toy", "toy", "interpreter", sys.executable, "1.0", "3.11", "digest", environment=variables)


def toy_bench(**environment: str) -> Bench:
    builds: dict[Side, Build] = {
        "control": toy_build("control", **environment),
        "treatment": toy_build("treatment", **environment),
    }
    return Bench(builds, ADAPTOR, worker_environment(), plan_cpus(1))


def toy_case(name: str, operator: str = "work", timeout_s: float = 20.0, **inputs: Any) -> Case:
    return Case(name, operator, "forward", inputs, "float32", "cpu", threshold=0.02, timeout_s=timeout_s)


def run_one_round(bench: Bench, this_round: Round, seed: int = 1) -> RoundResult:
    """What a round in a fresh pair brings."""
    result, rng = RoundResult(), random.Random(seed)
    with PairPool(bench, rng) as pool:
        run_round(pool, this_round, rng, result)
    return result
