"""How often a history gives a false alarm, and how often it finds a creep or a step: simulated chains and stars.

    .venv/bin/python benchmarks/history_rates.py [--histories 1000] [--builds 30] [--seed 1]

Every run is simulated process pair by process pair: log ratios with a standard deviation of their own for each run, the
looks of the product, the interval of the look that it stopped at, and from that the edge, as the server makes it.
"""

import argparse
import math
import sys
from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np
from scipy import stats

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from comparator import plan_looks
from comparator.history import Component, Edge, case_history, edge_from_interval
from comparator.location import trimmed_location

ALPHA = 0.05
SCREEN = plan_looks(30).screen
Pairs = list[tuple[int, int]]


def chain(builds: int) -> Pairs:
    """Each against the one before."""
    return [(i - 1, i) for i in range(1, builds)]


def star(builds: int) -> Pairs:
    """All against the first."""
    return [(0, i) for i in range(1, builds)]


def mixed(builds: int) -> Pairs:
    """Each against the one before, and every fifth against the first."""
    return chain(builds) + [(0, i) for i in range(5, builds, 5)]


def normal_edge(control: str, treatment: str, truth: float, rng: np.random.Generator, typical: float) -> Edge:
    """An edge whose standard error is the true one: what the level is exact for."""
    error = typical / 3 * float(np.exp(rng.normal(0, 0.35)))
    return Edge(control, treatment, truth + float(rng.normal(0, error)), error)


def measured_edge(control: str, treatment: str, truth: float, rng: np.random.Generator, typical: float) -> Edge:
    """A run: process pairs up to a look drawn at random, 4 % of them strays, and the interval of that look."""
    rounds = int(rng.choice(SCREEN))
    spread = typical * float(np.exp(rng.normal(0, 0.35)))
    values = truth + rng.normal(0, spread, rounds) + (rng.random(rounds) < 0.04) * rng.normal(0, 0.1, rounds)
    location = trimmed_location(values.tolist())
    reach = float(stats.t.ppf(1 - ALPHA / len(SCREEN) / 2, location.degrees_of_freedom)) * location.standard_error
    ci = (math.exp(location.estimate - reach), math.exp(location.estimate + reach))
    edge = edge_from_interval(control, treatment, math.exp(location.estimate), ci, ALPHA)
    assert edge is not None
    return edge


def history(
    pairs: Pairs,
    levels: Sequence[float],
    make: Callable[..., Edge],
    rng: np.random.Generator,
    options: argparse.Namespace,
) -> Component:
    """One simulated history."""
    edges = [make(f"{a:04}", f"{b:04}", levels[b] - levels[a], rng, options.spread) for a, b in pairs]
    order = {f"{i:04}": float(i) for i in range(options.builds)}
    (found,) = case_history(edges, order, level=options.level, minimal=0.01, with_positions=False)
    return found


def levels(name: str, builds: int) -> list[float]:
    """True log levels: flat, ten steps of +0.7 % in the middle, one step of +1.5 %, one of +5 %."""
    middle = builds // 2
    if name == "ten of +0.7 %":
        return [math.log(1.007) * min(max(i - middle + 5, 0), 10) for i in range(builds)]
    return [
        {"no change": 0.0, "one +1.5 %": math.log(1.015), "one +5 %": math.log(1.05)}[name] * (i >= middle)
        for i in range(builds)
    ]


def shown_by_a_run(edges: int, size: float, options: argparse.Namespace, rng: np.random.Generator) -> float:
    """The share of single runs over one true change of ``size`` that would call it, at a threshold of 2 %."""
    calls = 0
    for _ in range(edges):
        edge = measured_edge("a", "b", size, rng, options.spread)
        bound = float(stats.norm.ppf(1 - ALPHA / 2)) * edge.standard_error
        calls += abs(edge.log_ratio) - bound > math.log(1.02)
    return calls / edges


def main(arguments: Sequence[str] | None = None) -> int:
    """Prints a line for each shape and truth."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--histories", type=int, default=1000, help="of each kind (default %(default)s)")
    parser.add_argument("--builds", type=int, default=30)
    parser.add_argument("--spread", type=float, default=0.014, help="sd of a process pair's log ratio")
    parser.add_argument("--level", type=float, default=0.01)
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args(arguments)
    rng = np.random.default_rng(options.seed)
    print(
        f"{options.histories} histories of {options.builds} builds each, level {options.level:g}, seed {options.seed}"
    )
    print(f"a single run calls +0.7 % in {shown_by_a_run(1000, math.log(1.007), options, rng):.1%} of runs")
    for name in ("no change", "ten of +0.7 %", "one +1.5 %", "one +5 %"):
        for make, kind in ((normal_edge, "exact errors"), (measured_edge, "measured runs")):
            for shape in (chain, star, mixed):
                truth = levels(name, options.builds)
                pairs = shape(options.builds)
                found = [history(pairs, truth, make, rng, options) for _ in range(options.histories)]
                hits = sum(bool(one.changes) for one in found)
                low, high = stats.binomtest(hits, len(found)).proportion_ci(method="exact")
                covered = sum(one.drift.ci[0] <= truth[-1] <= one.drift.ci[1] for one in found) / len(found)
                print(
                    f"{name:14} {kind:14} {shape.__name__:6} found {hits / len(found):7.2%} ({low:.2%} to {high:.2%}); "
                    f"drift within its interval {covered:.1%}"
                )
    return 0


if __name__ == "__main__":
    sys.exit(main())
