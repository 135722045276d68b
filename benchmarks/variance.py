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

from benchmarks.bench import MXNET, make_bench
from benchmarks.markdown import table
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


def report_lines(rounds: Sequence[RoundResult]) -> list[str]:
    """Return a table of each case's standard deviation by level with the costs, and the cheapest repetitions."""
    rows = {case_id: components(samples) for case_id, samples in samples_by_case(rounds).items()}
    means = [max(0.0, statistics.fmean(column)) for column in zip(*rows.values(), strict=True)]
    costs_s = costs(rounds)
    deviations = {
        case_id: [f"{100 * math.copysign(math.sqrt(abs(variance)), variance):.2f}" for variance in row]
        for case_id, row in {**rows, "root of the mean variance": means}.items()
    }
    cells = [*((name, *row) for name, row in deviations.items()), ("cost, ms", *(f"{1000 * s:.1f}" for s in costs_s))]
    lines = table(("standard deviation, %", *LEVELS), cells)
    lines += ["", "With a minus sign: the estimate of the variance is below 0. Cheapest numbers of repetitions:"]
    costs_s[0] /= len(rows)  # which share the start of a pair
    for above, here in ((0, 1), (1, 2)):
        best = math.sqrt(costs_s[above] / costs_s[here] * means[here] / means[above]) if means[above] else math.inf
        lines.append(f"- {LEVELS[here]}s in a {LEVELS[above]}: {best:.1f}")
    return lines


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--spec", default="smoke")
    for level, count in (("pairs", 12), ("forks", 3)):
        parser.add_argument(f"--{level}", type=int, default=count, help="2 at least (default %(default)s)")
    options = parser.parse_args()
    bench, cases = make_bench(MXNET, options.spec)
    requests = [CaseRequest(case, 1) for case in cases]
    rounds = measure([UNCHANGED], bench, requests, options.pairs, Repetitions(options.forks, 24))[UNCHANGED]
    print("\n".join(report_lines(rounds)))


if __name__ == "__main__":
    main()
