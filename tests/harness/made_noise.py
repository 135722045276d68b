"""Samples with given noise at each level: made from blocks, as a process pair's are, and by nothing else."""

import math
import random
from collections.abc import Sequence

from toy_bench import toy_case

from opduel.harness.planning.effort import Noise
from opduel.harness.processes.case_request import CaseRequest
from opduel.harness.rounds.fork_values import ForkValue, compare_neighbours, pair_sample
from opduel.records import PairSample


def made_fork(noise: Noise, quads: int, log_ratio: float, rng: random.Random) -> ForkValue:
    """Return a fork with this log ratio; a quad's mean has the variance ``noise.quad``, so has each of its blocks."""
    blocks: list[list[float]] = [[], []]
    for _ in range(2 * quads):
        for side, level in enumerate((0.0, log_ratio)):
            blocks[side].append(level + rng.gauss(0, math.sqrt(noise.quad)))
    estimate, standard_error = compare_neighbours(*blocks)
    return ForkValue(1e3, 1e3 * math.exp(estimate), estimate, standard_error, 2 * quads, 20 * quads)


def made_samples(
    case_id: str,
    noise: Noise,
    pairs: int,
    forks: int = 3,
    quads: int = 12,
    change: float = 0.0,
    strays: Sequence[int] = (),
    seed: int = 1,
) -> list[PairSample]:
    """Return the samples of so many process pairs. ``change``: the true log ratio. ``strays``: of all forks, counted
    over the pairs, those that differ from the others by 0.3."""
    rng, request = random.Random(f"{case_id} {seed}"), CaseRequest(toy_case(case_id), 1)
    samples = []
    for number in range(pairs):
        centre = change + rng.gauss(0, math.sqrt(noise.pair))
        values = []
        for fork in range(forks):
            stray = 0.3 if number * forks + fork in strays else 0.0
            values.append(made_fork(noise, quads, centre + stray + rng.gauss(0, math.sqrt(noise.fork)), rng))
        samples.append(pair_sample(request, number, values))
    return samples
