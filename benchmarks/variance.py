#!/usr/bin/env python3
"""Split the variance of a log ratio by level, with the cost of each level and the cheapest numbers of repetitions.

    .venv/bin/python benchmarks/variance.py --pairs 12 --forks 3 --placements 2

One build against itself. Each process pair measures every case in several forks, each fork with its inputs allocated
several times (placements), each placement for several ABBA quads. Components and repetitions are those of Kalibera and
Jones (2013, "Rigorous Benchmarking in Reasonable Time", ISMM, sections 6 to 9): moments of the nested means, and
sqrt(c_above / c_here * v_here / v_above) repetitions of a level within the one above. Log ratios are clipped at six
spreads (from the median absolute deviation) from their case's median, so that a single stray process doesn't decide.
"""

import argparse
import math
import random
import statistics
import sys
import time
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

import numpy as np
from scipy import stats

from benchmarks.bench import make_bench
from opduel.harness.machine.cpus import this_thread_on
from opduel.harness.processes.case_request import CaseRequest
from opduel.harness.processes.channel import complete
from opduel.harness.processes.pair_pool import Bench, Pair, PairStart
from opduel.harness.rounds.block_plan import plan_blocks
from opduel.harness.rounds.blocks import BlockTimer, Processes
from opduel.records import Case
from opduel.records.measurement import SIDES, Side

QUADS, LONGEST_NS = 24, 1e9  # of a placement; fewer quads if they would take longer
LEVELS = ("pair", "fork", "placement", "quad")
CLIPPED_AT = 6.0  # spreads
LEAST_SPREAD = 0.001

Quads = list[float]  # log ratios


@dataclass(frozen=True)
class Repetitions:
    """How often each level is repeated within the one above."""

    pairs: int
    forks: int
    placements: int


class Costs:
    """Seconds that each repetition took, by level."""

    def __init__(self) -> None:
        self._seconds: dict[str, list[float]] = defaultdict(list)

    def add(self, level: str, start: float, repetitions: int = 1) -> None:
        """Add the time since ``start`` (of the monotonic clock), which several repetitions share."""
        self._seconds[level].append((time.monotonic() - start) / repetitions)

    def medians(self) -> list[float]:
        """Return the median cost of each level."""
        return [statistics.median(self._seconds[level]) for level in LEVELS]


def measure_placement(
    processes: Processes, case: Case, call_ns: dict[Side, float], rng: random.Random, bench: Bench
) -> Quads:
    """Return the log ratio of each quad of a case that has just been prepared."""
    for process in processes.values():
        process.pin(bench.cpus.measure)
    with this_thread_on(bench.cpus.measure):
        timer = BlockTimer(processes, case, rng)
        settled_ns = timer.settle(call_ns)
        quads = plan_blocks(settled_ns, quads=QUADS).quads_within(LONGEST_NS)
        blocks = timer.measure_in_turns(plan_blocks(settled_ns, quads=max(2, quads)))
    logs = {side: [math.log(block.low) for block in blocks[side]] for side in SIDES}
    return [
        statistics.fmean(logs["treatment"][i : i + 2]) - statistics.fmean(logs["control"][i : i + 2])
        for i in range(0, len(logs["control"]), 2)
    ]


def measure_fork(
    pair: Pair, request: CaseRequest, placements: int, rng: random.Random, bench: Bench, costs: Costs
) -> list[Quads]:
    """Return the placements of one fork of a case."""
    start = time.monotonic()
    processes = {side: complete(pair[side].beginning(fork=True)) for side in rng.sample(SIDES, 2)}
    costs.add("fork", start)
    results = []
    for _ in range(placements):
        start = time.monotonic()
        call_ns = {
            side: processes[side].ask(request.message(side), request.case.timeout_s)["call_ns"]
            for side in rng.sample(SIDES, 2)
        }
        costs.add("placement", start)
        start = time.monotonic()
        results.append(measure_placement(processes, request.case, call_ns, rng, bench))
        costs.add("quad", start, len(results[-1]))
    for process in processes.values():
        complete(process.ended())
    return results


def measure(repetitions: Repetitions, bench: Bench, cases: Sequence[Case], costs: Costs) -> dict[str, np.ndarray]:
    """Return log ratios by case id, with the shape (pairs, forks, placements, quads)."""
    rng = random.Random(1)
    results: dict[str, list[list[list[Quads]]]] = {case.id: [] for case in cases}
    with this_thread_on(bench.cpus.control):
        for number in range(repetitions.pairs):
            start = time.monotonic()
            pair_start = PairStart(bench, rng)
            pair = pair_start.finish()
            costs.add("pair", start)
            for pairs in results.values():
                pairs.append([])
            forks = list(cases) * repetitions.forks
            for case in rng.sample(forks, len(forks)):
                fork = measure_fork(pair, CaseRequest(case, 1), repetitions.placements, rng, bench, costs)
                results[case.id][-1].append(fork)
            pair_start.close()
            print(f"pair {number + 1} of {repetitions.pairs}", file=sys.stderr, flush=True)
    return {case_id: to_array(pairs) for case_id, pairs in results.items()}


def to_array(pairs: Sequence[Sequence[Sequence[Quads]]]) -> np.ndarray:
    """Return the log ratios of a case as an array, with as many quads of each placement as the shortest one has."""
    fewest = min(len(quads) for forks in pairs for placements in forks for quads in placements)
    return np.array([[[quads[:fewest] for quads in placements] for placements in forks] for forks in pairs])


def components(log_ratios: np.ndarray) -> list[float]:
    """Return variances by level, outermost first, of an array of the shape (pairs, forks, placements, quads).

    The variance of the means at a level holds the level's own, and the mean of those within it.
    """
    middle = np.median(log_ratios)
    spread = stats.median_abs_deviation(log_ratios, axis=None, scale="normal")
    limit = CLIPPED_AT * max(LEAST_SPREAD, float(spread))
    log_ratios = np.clip(log_ratios, middle - limit, middle + limit)
    variances: list[float] = []
    within, repetitions = 0.0, 1
    while log_ratios.ndim:
        total = float(np.mean(np.var(log_ratios, axis=-1, ddof=1)))
        variances.append(total - within / repetitions)
        within, repetitions = total, log_ratios.shape[-1]
        log_ratios = log_ratios.mean(axis=-1)
    return variances[::-1]


def print_table(log_ratios: Mapping[str, np.ndarray], costs_s: Sequence[float]) -> None:
    """Print the standard deviation of each case by level, the costs, and the cheapest numbers of repetitions."""
    rows = {case_id: components(values) for case_id, values in log_ratios.items()}
    print("standard deviation by level, % (with a minus sign: the estimate of the variance is below 0)")
    print(f"{'case':28s}" + "".join(f"{level:>11s}" for level in LEVELS))
    for case_id, row in rows.items():
        print(f"{case_id:28s}" + "".join(f"{100 * math.copysign(math.sqrt(abs(v)), v):11.2f}" for v in row))
    means = [max(0.0, statistics.fmean(column)) for column in zip(*rows.values(), strict=True)]
    print(f"{'root of the mean variance':28s}" + "".join(f"{100 * math.sqrt(mean):11.2f}" for mean in means))
    print(f"{'cost of one, ms':28s}" + "".join(f"{1000 * seconds:11.1f}" for seconds in costs_s))
    print(f"\ncost-optimal repetitions (the start of a pair shared by {len(rows)} cases)")
    costs_s = [costs_s[0] / len(rows), *costs_s[1:]]
    for above, here in zip(range(3), range(1, 4), strict=True):
        best = math.sqrt(costs_s[above] / costs_s[here] * means[here] / means[above]) if means[above] else math.inf
        print(f"  {LEVELS[here]}s in a {LEVELS[above]}: {best:.1f}")


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--build", default="mxnet==1.9.1")
    parser.add_argument("--spec", default="smoke")
    for level, count in (("pairs", 12), ("forks", 3), ("placements", 2)):
        parser.add_argument(f"--{level}", type=int, default=count, help="2 at least (default %(default)s)")
    options = parser.parse_args()
    if min(options.pairs, options.forks, options.placements) < 2:
        parser.error("--pairs, --forks and --placements: a level needs two repetitions to show its variance")
    bench, cases = make_bench(options.build, options.spec)
    costs = Costs()
    repetitions = Repetitions(options.pairs, options.forks, options.placements)
    print_table(measure(repetitions, bench, cases, costs), costs.medians())


if __name__ == "__main__":
    main()
