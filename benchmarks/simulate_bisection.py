"""Simulated histories through the real bisection and the real decisions: what is named, what stays open, what it costs.

    .venv/bin/python benchmarks/simulate_bisection.py [--histories 200] [--seed 1] [--points 64] [--cases 3] ...

Every A/B is a run of simulated process pairs through ``analyse_interim`` and ``compare_cases``, as in
simulate_decisions.py: normal
noise, its standard deviation drawn once per case, and stray processes.  The ends of a history are measured and verified
first, and what is confirmed is bisected.  Prints a Markdown table; rates are per case and smallest range.
"""

import argparse
import math
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
from scipy import stats

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))
sys.path.insert(0, str(Path(__file__).resolve().parent))

from simulate_decisions import Noise, Scenario, Simulation, run, verified

from opduel.comparator import Looks, plan_looks
from opduel.driver.bisection import CulpritRange, Step, bisect
from opduel.records import Comparison

PAIR_SD = 0.01  # of the log ratio of one process pair: two processes
SIZES = (2.0, 5.0)  # of culprits, in thresholds
Changes = dict[int, float]  # point -> log ratio
Draw = Callable[[np.random.Generator, int, float], Changes]


def some(count: int) -> Draw:
    """That many culprits anywhere, all slower."""

    def draw(rng: np.random.Generator, revisions: int, bound: float) -> Changes:
        places = rng.choice(np.arange(1, revisions + 1), count, replace=False)
        return {int(place): float(size) for place, size in zip(places, rng.uniform(*SIZES, count) * bound, strict=True)}

    return draw


def up_and_half_down(rng: np.random.Generator, revisions: int, bound: float) -> Changes:
    """A culprit, and elsewhere an improvement that takes half of it back."""
    first, second = (int(place) for place in rng.choice(np.arange(1, revisions + 1), 2, replace=False))
    size = float(rng.uniform(3, 5)) * bound
    return {first: size, second: -size / 2}


def between_neighbours(rng: np.random.Generator, revisions: int, bound: float) -> Changes:
    """A culprit whose neighbours change by nine tenths of the threshold: innocent, but hard to tell."""
    place = int(rng.integers(2, revisions))
    return {place - 1: 0.9 * bound, place: float(rng.uniform(*SIZES)) * bound, place + 1: 0.9 * bound}


def spread(rng: np.random.Generator, revisions: int, bound: float) -> Changes:
    """Four neighbours of seven tenths of the threshold each: no point is a culprit."""
    first = int(rng.integers(1, revisions - 2))
    return dict.fromkeys(range(first, first + 4), 0.7 * bound)


def nothing(rng: np.random.Generator, revisions: int, bound: float) -> Changes:
    """No change at all: the ends were flagged falsely, whatever a measurement of them would say."""
    return {}


ROWS: Mapping[str, Draw] = {
    "1 culprit": some(1),
    "2 culprits": some(2),
    "3 culprits": some(3),
    "1 culprit, and half of it reverted elsewhere": up_and_half_down,
    "1 culprit, its neighbours at 0.9 thresholds": between_neighbours,
    "none; 4 neighbours at 0.7 thresholds": spread,
    "none; a false flag of the whole": nothing,
}


@dataclass
class History:
    """One history: what each point changes in each case, and which points can't be built."""

    options: argparse.Namespace
    rng: np.random.Generator
    changes: Sequence[Changes]
    asked: list[tuple[int, int, Sequence[str]]] = field(default_factory=list)
    unbuildable: set[int] = field(default_factory=set)

    def __post_init__(self) -> None:
        noise = Noise()
        self.scales = self.options.noise / math.sqrt(2) * np.exp(self.rng.normal(0, noise.spread, len(self.changes)))
        middle = range(1, self.options.revisions)
        self.unbuildable = {revision for revision in middle if self.rng.random() < self.options.unbuildable}

    def whole(self) -> dict[str, Step]:
        """The ends, measured and verified: the regressions that were confirmed."""
        cases = list(range(len(self.changes)))
        simulation = self._simulation(0, self.options.revisions, cases)
        first = run(simulation, self._looks, self.options.alpha)
        again = verified(simulation, first, self._looks, self.options.alpha)
        steps = {str(case): _step(one) for case, one in zip(cases, again, strict=True)}
        return {case: step for case, step in steps.items() if step.verdict == "regressed"}

    def measure(self, left: int, right: int, cases: Sequence[str]) -> dict[str, Step]:
        self.asked.append((left, right, cases))
        simulation = self._simulation(left, right, [int(case) for case in cases])
        judged = run(simulation, self._looks, self.options.alpha)
        return {case: _step(one) for case, one in zip(cases, judged, strict=True)}

    def prepare(self, revision: int) -> bool:
        return revision not in self.unbuildable

    def smallest(self, revision: int) -> tuple[int, int]:
        """The smallest range around a point's change whose ends can be built."""
        left = next(p for p in range(revision - 1, -1, -1) if p not in self.unbuildable)
        return left, next(p for p in range(revision, self.options.revisions + 1) if p not in self.unbuildable)

    def change(self, case: int, left: int, right: int) -> float:
        """The true log ratio of a case between two points."""
        return math.fsum(size for revision, size in self.changes[case].items() if left < revision <= right)

    def innocents_asked(self, case: str, bound: float) -> int:
        """How many smallest ranges of a case were measured whose true change is at most ``bound``."""
        ranges = [(left, right) for left, right, cases in self.asked if case in cases]
        smallest = [one for one in ranges if self.unbuildable.issuperset(range(one[0] + 1, one[1]))]
        return sum(self.change(int(case), *one) <= bound for one in smallest)

    def _simulation(self, left: int, right: int, cases: Sequence[int]) -> Simulation:
        changes = tuple(math.expm1(self.change(case, left, right)) for case in cases)
        scenario = Scenario("", changes, self.options.threshold)
        simulation = Simulation(scenario, Noise(stray_share=self.options.strays), self.rng)
        simulation.scales = dict(zip(simulation.scales, self.scales[list(cases)], strict=True))
        return simulation

    @property
    def _looks(self) -> Looks:
        return plan_looks(self.options.max_rounds)


def _step(one: Comparison) -> Step:
    if one.ratio is None or one.ci is None:
        return Step(one.verdict)
    return Step(one.verdict, math.log(one.ratio), math.log(one.ci[0]), math.log(one.ci[1]))


@dataclass
class Tally:
    """What became of a row's histories."""

    cases: int = 0  # confirmed, and so bisected
    unconfirmed: int = 0
    targets: int = 0  # smallest ranges that hold a culprit of a bisected case
    exact: int = 0  # of them named
    open: int = 0  # of them not named, but inside a range that stayed open
    wrong: int = 0  # named, though its true change is within the threshold
    innocent: int = 0  # smallest ranges that were measured though their true change is within the threshold
    ranges: int = 0  # that stayed open
    measurements: list[int] = field(default_factory=list)

    def add(self, history: History, whole: Mapping[str, Step], found: Sequence[CulpritRange], bound: float) -> None:
        """Counts one history in."""
        self.cases += len(whole)
        self.unconfirmed += len(history.changes) - len(whole)
        self.measurements.append(len(history.asked))
        for case in whole:
            culprits = [revision for revision, size in history.changes[int(case)].items() if size > bound]
            targets = {history.smallest(revision) for revision in culprits}
            mine = [one for one in found if case in one.cases]
            names = {(one.left, one.right) for one in mine if not one.undecided}
            wide = [one for one in mine if one.undecided]
            wrong = sum(history.change(int(case), *name) <= bound for name in names)
            self.targets += len(targets)
            self.exact += len(targets & names)
            self.open += sum(any(w.left <= t[0] and t[1] <= w.right for w in wide) for t in targets - names)
            self.wrong += wrong
            self.innocent += history.innocents_asked(case, bound)
            self.ranges += len(wide)


def simulate(name: str, draw: Draw, number: int, options: argparse.Namespace) -> str:
    """A row of the table."""
    bound = math.log1p(options.threshold)
    tally = Tally()
    for index in range(options.histories):
        rng = np.random.default_rng([options.seed, number, index])
        history = History(options, rng, [draw(rng, options.revisions, bound) for _ in range(options.cases)])
        if draw is nothing:
            flagged = Step("regressed", 1.5 * bound, 1.1 * bound, 1.9 * bound)
            whole = {str(case): flagged for case in range(options.cases)}
        else:
            whole = history.whole()
        thresholds = dict.fromkeys(whole, options.threshold)
        found = bisect(options.revisions, whole, history.measure, history.prepare, (), thresholds) if whole else []
        tally.add(history, whole, found, bound)
    return " | ".join(["", name, *cells(tally), ""]).strip()


def cells(tally: Tally) -> Iterator[str]:
    """The figures of a row."""
    yield f"{tally.cases} of {tally.cases + tally.unconfirmed}"
    yield rate(tally.exact, tally.targets)
    yield rate(tally.open, tally.targets)
    yield rate(tally.targets - tally.exact - tally.open, tally.targets)
    yield rate(tally.wrong, tally.innocent)
    yield str(tally.ranges)
    yield f"{np.mean(tally.measurements):.1f} ({max(tally.measurements)})"


def rate(count: int, total: int) -> str:
    """A share with its exact 95 % interval; empty without a total."""
    if not total:
        return ""
    low, high = stats.binomtest(count, total).proportion_ci(method="exact")
    return f"{count} of {total}, {count / total:.1%} ({low:.1%} to {high:.1%})"


def parse(arguments: Sequence[str] | None = None) -> argparse.Namespace:
    """The command line."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--histories", type=int, default=200, help="per row (default %(default)s)")
    parser.add_argument("--points", type=int, default=64, help="of a history (default %(default)s)")
    parser.add_argument("--cases", type=int, default=3, help="each with culprits of its own (default %(default)s)")
    parser.add_argument("--seed", type=int, default=1, help="of the random numbers (default %(default)s)")
    parser.add_argument("--threshold", type=float, default=0.02, help="a share (default %(default)s)")
    parser.add_argument("--alpha", type=float, default=0.05, help="of every measurement (default %(default)s)")
    parser.add_argument("--max_rounds", type=int, default=30, help="of a case in each stage (default %(default)s)")
    parser.add_argument("--unbuildable", type=float, default=0.1, help="share of points (default %(default)s)")
    parser.add_argument("--noise", type=float, default=PAIR_SD, help="typical sd of a pair (default %(default)s)")
    parser.add_argument("--strays", type=float, default=Noise.stray_share, help="share of stray processes")
    return parser.parse_args(arguments)


def main(arguments: Sequence[str] | None = None) -> int:
    """Prints the table."""
    options = parse(arguments)
    heads = ("true changes", "bisected", "named exactly", "open", "missed", "innocent, measured and named")
    heads = (*heads, "open ranges", "measurements a history (most)")
    print(f"| {' | '.join(heads)} |\n|{'---|' * len(heads)}", flush=True)
    for number, (name, draw) in enumerate(ROWS.items()):
        print(simulate(name, draw, number, options), flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
