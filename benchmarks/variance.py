#!/usr/bin/env python3
"""Split the variance of a log ratio by level, with the cost of each level and the cheapest numbers of repetitions.

    .venv/bin/python benchmarks/variance.py --pairs 12 --forks 3

One build against itself. Each process pair measures every case in several forks, each fork in several ABBA quads.
Components and repetitions are those of Kalibera and Jones (2013, "Rigorous Benchmarking in Reasonable Time", ISMM,
sections 6 to 9): moments of the nested means, and sqrt(c_above / c_here * v_here / v_above) repetitions of a level
within the one above. Log ratios are clipped at six spreads (from the median absolute deviation) from their case's
median, so that a single stray process doesn't decide.
"""

import argparse
import math
import statistics
import sys
from collections.abc import Sequence
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

import numpy as np
from scipy import stats

from benchmarks.bench import make_bench
from benchmarks.noise import UNCHANGED, measure, samples_by_case
from opduel.harness.planning.effort import Repetitions
from opduel.harness.planning.noise_by_level import quads_of
from opduel.harness.processes.case_request import CaseRequest
from opduel.harness.rounds.pair import RoundResult
from opduel.records import PairSample

LEVELS = ("pair", "fork", "quad")
CLIPPED_AT = 6.0  # spreads
LEAST_SPREAD = 0.001


def components(samples: Sequence[PairSample]) -> list[float]:
    """Return a case's variances by level, outermost first.

    The variance of the means at a level holds the level's own, and the mean of those within it.
    """
    forks = max(sample.forks for sample in samples)
    complete = [sample for sample in samples if sample.forks == forks]
    ratios, errors = np.moveaxis(np.array([sample.fork_ratios for sample in complete]), -1, 0)  # (pairs, forks) each
    middle = np.median(ratios)
    spread = float(stats.median_abs_deviation(ratios, axis=None, scale="normal"))
    limit = CLIPPED_AT * max(LEAST_SPREAD, spread)
    ratios = np.clip(ratios, middle - limit, middle + limit)
    of_quads = float(np.mean(errors**2))
    of_forks = float(np.mean(np.var(ratios, axis=1, ddof=1)))
    of_pairs = float(np.var(ratios.mean(axis=1), ddof=1))
    quads = statistics.fmean(map(quads_of, complete))
    return [of_pairs - of_forks / forks, of_forks - of_quads, of_quads * quads]


def costs(rounds: Sequence[RoundResult]) -> list[float]:
    """Return the median seconds of one more repetition of each level, outermost first."""
    times = [time for result in rounds for time in result.times.values() if time.forks and time.quads]
    return [
        statistics.median(result.start_cpu_s for result in rounds),
        statistics.median((time.prepared_s + time.beside_s) / time.forks for time in times),
        statistics.median(time.quads_s / time.quads for time in times),
    ]


def print_table(rounds: Sequence[RoundResult]) -> None:
    """Print the standard deviation of each case by level, the costs, and the cheapest numbers of repetitions."""
    rows = {case_id: components(samples) for case_id, samples in samples_by_case(rounds).items()}
    print("standard deviation by level, % (with a minus sign: the estimate of the variance is below 0)")
    print(f"{'case':28s}" + "".join(f"{level:>11s}" for level in LEVELS))
    for case_id, row in rows.items():
        print(f"{case_id:28s}" + "".join(f"{100 * math.copysign(math.sqrt(abs(v)), v):11.2f}" for v in row))
    means = [max(0.0, statistics.fmean(column)) for column in zip(*rows.values(), strict=True)]
    print(f"{'root of the mean variance':28s}" + "".join(f"{100 * math.sqrt(mean):11.2f}" for mean in means))
    costs_s = costs(rounds)
    print(f"{'cost of one, ms':28s}" + "".join(f"{1000 * seconds:11.1f}" for seconds in costs_s))
    print(f"\ncost-optimal repetitions (the start of a pair shared by {len(rows)} cases)")
    costs_s = [costs_s[0] / len(rows), *costs_s[1:]]
    for above, here in ((0, 1), (1, 2)):
        best = math.sqrt(costs_s[above] / costs_s[here] * means[here] / means[above]) if means[above] else math.inf
        print(f"  {LEVELS[here]}s in a {LEVELS[above]}: {best:.1f}")


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--build", default="mxnet==1.9.1")
    parser.add_argument("--spec", default="smoke")
    for level, count in (("pairs", 12), ("forks", 3)):
        parser.add_argument(f"--{level}", type=int, default=count, help="2 at least (default %(default)s)")
    options = parser.parse_args()
    if min(options.pairs, options.forks) < 2:
        parser.error("--pairs, --forks: a level needs two repetitions to show its variance")
    bench, cases = make_bench(options.build, options.spec)
    requests = [CaseRequest(case, 1) for case in cases]
    print_table(measure([UNCHANGED], bench, requests, options.pairs, Repetitions(options.forks, 24))[UNCHANGED])


if __name__ == "__main__":
    main()
