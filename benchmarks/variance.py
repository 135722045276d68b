#!/usr/bin/env python3
"""Where the noise lives: the variance of a log ratio split by level, what each level costs, and how often to repeat it.

    .venv/bin/python benchmarks/variance.py --pairs 12 --forks 3 --placements 2

One build against itself. Each process pair measures every case in several forks, each fork with its inputs allocated
again several times, each of these for several ABBA quads; all nested. The components are those of Kalibera and Jones
(2013, "Rigorous Benchmarking in Reasonable Time", ISMM), sections 6 to 9: moments of the nested means, and the
cost-optimal number of repetitions of a level within the one above, sqrt(c_above / c_here * v_here / v_above).
Log ratios are held to within six of their case's spreads (from the median absolute deviation) of its median: one stray
process would be all that one sees.
"""

import argparse
import math
import random
import statistics
import sys
import time
from collections import defaultdict
from collections.abc import Sequence
from pathlib import Path

import numpy as np

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))

from opduel.driver.builds import BuildCache, resolve_build  # noqa: E402
from opduel.frameworks import get_framework, worker_environment  # noqa: E402
from opduel.harness.block_plan import plan_blocks  # noqa: E402
from opduel.harness.blocks import Processes, measure_in_turns, settle  # noqa: E402
from opduel.harness.case_request import CaseRequest  # noqa: E402
from opduel.harness.channel import complete  # noqa: E402
from opduel.harness.cpus import plan_cpus, this_thread_on  # noqa: E402
from opduel.harness.pair_pool import Bench, Pair, PairStart  # noqa: E402
from opduel.harness.specs import expand_cases, find_spec, load_spec  # noqa: E402
from opduel.records import Case  # noqa: E402
from opduel.records.measurement import SIDES, Side  # noqa: E402

QUADS, LONGEST_NS = 24, 1e9  # of a placement; fewer if they would take longer
LEVELS = ("pair", "fork", "placement", "quad")
FARTHEST = 6.0  # spreads
LEAST_SPREAD = 0.001

Costs = dict[str, list[float]]


def quads(
    processes: Processes, case: Case, call_ns: dict[Side, float], rng: random.Random, bench: Bench
) -> list[float]:
    """The log ratio of each quad of one placement, which has just been prepared."""
    for process in processes.values():
        process.pin(bench.cpus.measure)
    with this_thread_on(bench.cpus.measure):
        settled_ns = settle(processes, case, call_ns, rng)
        most = plan_blocks(settled_ns, quads=QUADS).quads_within(LONGEST_NS)
        plan = plan_blocks(settled_ns, quads=max(2, most))
        blocks = measure_in_turns(processes, case, plan, rng)
    logs = {side: [math.log(block.low) for block in blocks[side]] for side in SIDES}
    return [
        statistics.fmean(logs["treatment"][i : i + 2]) - statistics.fmean(logs["control"][i : i + 2])
        for i in range(0, len(logs["control"]), 2)
    ]


def one_fork(
    pair: Pair, request: CaseRequest, placements: int, rng: random.Random, bench: Bench, costs: Costs
) -> list[list[float]]:
    """One fork of a case: placements of quads."""
    began = time.monotonic()
    processes = {side: complete(pair[side].beginning(fork=True)) for side in rng.sample(SIDES, 2)}
    costs["fork"].append(time.monotonic() - began)
    found = []
    for _ in range(placements):
        began = time.monotonic()
        call_ns = {
            side: processes[side].ask(request.message(side), request.case.timeout_s)["call_ns"]
            for side in rng.sample(SIDES, 2)
        }
        costs["placement"].append(time.monotonic() - began)
        began = time.monotonic()
        found.append(quads(processes, request.case, call_ns, rng, bench))
        costs["quad"].append((time.monotonic() - began) / len(found[-1]))
    for process in processes.values():
        complete(process.ended())
    return found


def components(values: np.ndarray) -> list[float]:
    """Variances by level, outermost first, of ``values`` (shape (pairs, forks, placements, quads)).

    The variance of the means at a level holds that level's own and what is left of those within.
    """
    middle = np.median(values)
    farthest = FARTHEST * max(LEAST_SPREAD, 1.4826 * float(np.median(np.abs(values - middle))))
    values = np.clip(values, middle - farthest, middle + farthest)
    spread: list[float] = []
    within, inner = 0.0, 1
    while values.ndim:
        total = float(np.mean(np.var(values, axis=-1, ddof=1)))
        spread.append(total - within / inner)
        within, inner = total, values.shape[-1]
        values = values.mean(axis=-1)
    return spread[::-1]


def measure(options: argparse.Namespace, bench: Bench, cases: Sequence[Case], costs: Costs) -> dict[str, np.ndarray]:
    """All log ratios, by case: shape (pairs, forks, placements, quads)."""
    rng = random.Random(1)
    found: dict[str, list[list[list[list[float]]]]] = {case.id: [] for case in cases}
    with this_thread_on(bench.cpus.control):
        for number in range(options.pairs):
            began = time.monotonic()
            start = PairStart(bench, rng)
            pair = start.finish()
            costs["pair"].append(time.monotonic() - began)
            for values in found.values():
                values.append([])
            for case in rng.sample(list(cases) * options.forks, len(cases) * options.forks):
                request = CaseRequest(case, 1)
                found[case.id][-1].append(one_fork(pair, request, options.placements, rng, bench, costs))
            start.close()
            print(f"pair {number + 1} of {options.pairs}", file=sys.stderr, flush=True)
    fewest = {case_id: min(len(q) for p in values for f in p for q in f) for case_id, values in found.items()}
    return {
        case_id: np.array([[[q[: fewest[case_id]] for q in f] for f in p] for p in values])
        for case_id, values in found.items()
    }


def tell(found: dict[str, np.ndarray], costs: Costs) -> None:
    """The table, and what follows from it."""
    rows = {case_id: components(values) for case_id, values in found.items()}
    print("standard deviation by level, % (with a minus sign: the estimate of the variance is below 0)")
    print(f"{'case':28s}" + "".join(f"{level:>11s}" for level in LEVELS))
    for case_id, row in rows.items():
        print(f"{case_id:28s}" + "".join(f"{100 * math.copysign(math.sqrt(abs(v)), v):11.2f}" for v in row))
    means = [max(0.0, statistics.fmean(column)) for column in zip(*rows.values(), strict=True)]
    print(f"{'root of the mean variance':28s}" + "".join(f"{100 * math.sqrt(mean):11.2f}" for mean in means))
    seconds = [statistics.median(costs[level]) for level in LEVELS]
    print(f"{'cost of one, ms':28s}" + "".join(f"{1000 * one:11.1f}" for one in seconds))
    print(f"\ncost-optimal repetitions (the start of a pair shared by {len(rows)} cases)")
    seconds[0] /= len(rows)
    for above, here in zip(range(3), range(1, 4), strict=True):
        best = math.sqrt(seconds[above] / seconds[here] * means[here] / means[above]) if means[above] else math.inf
        print(f"  {LEVELS[here]}s in a {LEVELS[above]}: {best:.1f}")


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--build", default="mxnet==1.9.1")
    parser.add_argument("--spec", default="smoke")
    parser.add_argument("--pairs", type=int, default=12)
    parser.add_argument("--forks", type=int, default=3)
    parser.add_argument("--placements", type=int, default=2)
    options = parser.parse_args()
    if min(options.pairs, options.forks, options.placements) < 2:
        parser.error("a level needs at least 2 of its kind to show its variance")
    spec = load_spec(find_spec(options.spec))
    framework = get_framework(spec.framework)
    build = resolve_build(options.build, framework, BuildCache())
    environment = {**worker_environment(), **framework.environment(1)}
    bench = Bench({"control": build, "treatment": build}, framework.adaptor, environment, plan_cpus(1))
    costs: Costs = defaultdict(list)
    tell(measure(options, bench, expand_cases(spec), costs), costs)


if __name__ == "__main__":
    main()
