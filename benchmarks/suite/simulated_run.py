"""A run with made figures, as large as one likes, and the same in every process."""

import math
import random

from opduel.comparator.looks import plan_looks
from opduel.comparator.run_analysis import RunAnalysis
from opduel.records import Case, PairSample


def simulated_run(size: int) -> RunAnalysis:
    """Return the analysis of so many cases after 5 to 13 rounds: one case in ten has become 10 % slower."""
    rng = random.Random(1)
    inputs = {"lhs": [64, 256], "rhs": [64, 256]}
    cases = [
        Case(f"add_{number}/forward", "nd.add", "forward", inputs, "float32", "cpu", threshold=0.02, timeout_s=60.0)
        for number in range(size)
    ]
    samples = {
        case.id: [_sample(rng, case, number, 0.0 if place % 10 else 0.1) for number in range(rng.randint(5, 13))]
        for place, case in enumerate(cases)
    }
    return RunAnalysis(cases, samples, {}, plan_looks())


def _sample(rng: random.Random, case: Case, number: int, effect: float) -> PairSample:
    log_ratio = rng.gauss(effect, 0.01)
    control = 1e5 * math.exp(rng.gauss(0, 0.01))
    return PairSample(case.id, "screening", number, control, control * math.exp(log_ratio), log_ratio, 48, 640)
