"""How often a history gives a false alarm, and how often it finds a drift or a step: simulated chains and stars.

    .venv/bin/python benchmarks/history_rates.py [--histories 200] [--known 1000] [--builds 30] [--seed 1]

Edges are made twice: with errors that are known exactly, for which the stated rate holds as it is; and by whole
simulated runs of the product's own decision procedure (benchmarks/simulate_decisions.py: looks, suspects on fresh
samples, moderation, stray processes), 40 cases each, whose intervals become edges as on the server.
"""

import argparse
import math
import sys
from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np
from scipy import stats

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from benchmarks.simulate_decisions import Noise, Scenario, Simulation, run
from opduel.comparator import plan_looks
from opduel.comparator.network_meta_analysis import Component, Edge, analyse_network, edge_from_interval
from opduel.records import Comparison

ALPHA, THRESHOLD = 0.05, 0.02
CASES_A_RUN = 40
LOOKS = plan_looks(30)
Pairs = list[tuple[int, int]]
Histories = list[list[Edge]]


def chain(builds: int) -> Pairs:
    """Each against the one before."""
    return [(i - 1, i) for i in range(1, builds)]


def star(builds: int) -> Pairs:
    """All against the first."""
    return [(0, i) for i in range(1, builds)]


def mixed(builds: int) -> Pairs:
    """Each against the one before, and every fifth against the first."""
    return chain(builds) + [(0, i) for i in range(5, builds, 5)]


def known_errors(pairs: Pairs, levels: Sequence[float], count: int, rng: np.random.Generator) -> Histories:
    """Normal edges whose standard errors, about 0.4 %, are the true ones."""
    histories: Histories = [[] for _ in range(count)]
    for edges in histories:
        for (a, b), error in zip(pairs, 0.004 * np.exp(rng.normal(0, 0.35, len(pairs))), strict=True):
            value = levels[b] - levels[a] + float(rng.normal(0, error))
            edges.append(Edge(name(a), name(b), value, float(error)))
    return histories


def measured(pairs: Pairs, levels: Sequence[float], count: int, rng: np.random.Generator) -> Histories:
    """Edges from the intervals of whole simulated runs; each run gives one edge to ``CASES_A_RUN`` histories."""
    histories: Histories = []
    while len(histories) < count:
        batch: Histories = [[] for _ in range(CASES_A_RUN)]
        for a, b in pairs:
            for edges, one in zip(batch, decided(levels[b] - levels[a], rng), strict=True):
                edge = edge_from_interval(name(a), name(b), one.ratio, one.ci, ALPHA)
                edges += [edge] if edge is not None else []
        histories += batch
    return histories[:count]


def decided(size: float, rng: np.random.Generator) -> list[Comparison]:
    """One run's comparisons, each case changed by ``size`` (log ratio)."""
    scenario = Scenario("", (math.expm1(size),) * CASES_A_RUN, THRESHOLD)
    return run(Simulation(scenario, Noise(), rng), LOOKS, ALPHA)


def name(place: int) -> str:
    """A build's name."""
    return f"{place:04}"


def analysed(edges: list[Edge], builds: int) -> Component:
    """The history that has the newest build."""
    order = {name(i): float(i) for i in range(builds)}
    return analyse_network(edges, order, minimal=THRESHOLD / 2, alpha=ALPHA, with_positions=False)[0]


def truths(builds: int) -> dict[str, list[float]]:
    """True log levels: flat, ten commits of +0.7 % in the middle, one of +1.5 %, one of +5 %."""
    middle = builds // 2
    drift = [math.log(1.007) * min(max(i - middle + 5, 0), 10) for i in range(builds)]
    steps = {f"one of +{size:.1%}": [math.log1p(size) * (i >= middle) for i in range(builds)] for size in (0.015, 0.05)}
    return {"no change": [0.0] * builds, "ten of +0.7 %": drift, **steps}


def main(arguments: Sequence[str] | None = None) -> int:
    """Prints a line for each truth, kind of edge, and shape."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--histories", type=int, default=200, help="of each kind (default %(default)s)")
    parser.add_argument("--known", type=int, default=1000, help="of each kind with known errors (default %(default)s)")
    parser.add_argument("--builds", type=int, default=30)
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args(arguments)
    rng = np.random.default_rng(options.seed)
    verdicts = [one.verdict for _ in range(10) for one in decided(math.log(1.007), rng)]
    print(f"a change of +0.7 % is called by {verdicts.count('regressed')} of {len(verdicts)} single runs")
    makers: tuple[tuple[str, Callable[..., Histories], int], ...] = (
        ("known errors", known_errors, options.known),
        ("whole runs", measured, options.histories),
    )
    for truth, levels in truths(options.builds).items():
        for kind, make, count in makers:
            for shape in (chain, star, mixed):
                found = [analysed(one, options.builds) for one in make(shape(options.builds), levels, count, rng)]
                hits = sum(bool(one.changes) for one in found)
                low, high = stats.binomtest(hits, len(found)).proportion_ci(method="exact")
                covered = sum(one.drift.ci[0] <= levels[-1] <= one.drift.ci[1] for one in found) / len(found)
                print(
                    f"{truth:14} {kind:12} {shape.__name__:6} {hits:5} of {len(found)} = {hits / len(found):6.1%} "
                    f"({low:.1%} to {high:.1%}); drift within its interval {covered:.1%}",
                    flush=True,
                )
    return 0


if __name__ == "__main__":
    sys.exit(main())
