"""Simulated runs on a disturbed host: which verdicts stand, how often a false one does, and what it costs in rounds.

    .venv/bin/python benchmarks/simulate_disturbance.py [--runs 100] [--seed 1] [--cases 40] [--only bursts] ...

The noise of simulate_decisions.py, and on top of it a disturbance of the host: its size differs from round to round,
is common to all cases of a round, and each case feels it by a factor of its own.  It falls on either side by chance,
except in the scenarios that are named as a breach of the assumption.  Every run is decided as on a quiet host first
(``--busy_host report``); then it is measured on, and verdicts stand or are withheld, as the harness does it.

``--biased`` is another question: something favours a side of each case, by as much in all rounds.  The run's A/A
checks, one for ten cases, are measured with biases of the same kind, in every round; where one of them finds a
difference, verdicts stand or are withheld by that.
"""

import argparse
import math
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import numpy as np
from scipy import stats

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from opduel.comparator import (
    Bias,
    Looks,
    analyse_interim,
    compare_cases,
    fit_priors,
    plan_looks,
    run_aa_checks,
    standing_cases,
)
from opduel.harness.aa_selection import usual_count
from opduel.records import FLAGGED, USUAL_ROUNDS, Case, PairSample, Stage

ROUNDS = 400  # more than any run has
Disturbance = Callable[[np.random.Generator, int], np.ndarray]  # (rng, cases) -> log ratios, shape (ROUNDS, cases)


def _autocorrelated(rng: np.random.Generator, shape: tuple[int, ...], correlation: float) -> np.ndarray:
    """Standard normal values, each correlated with the one before along the first axis."""
    steps = rng.normal(size=shape) * math.sqrt(1 - correlation**2)
    steps[0] /= math.sqrt(1 - correlation**2)
    for number in range(1, len(steps)):
        steps[number] += correlation * steps[number - 1]
    return steps


def _on_both_sides(rng: np.random.Generator, sizes: np.ndarray, cases: int) -> np.ndarray:
    """A load of these sizes (shape (ROUNDS,)) hits each side of each case by an exponential share of its own."""
    sides = rng.exponential(size=(2, len(sizes), cases))
    return sizes[:, None] * (sides[1] - sides[0])


def steady(rng: np.random.Generator, cases: int) -> np.ndarray:
    """As large in all rounds."""
    return _on_both_sides(rng, np.full(ROUNDS, 0.05), cases)


def bursts(rng: np.random.Generator, cases: int) -> np.ndarray:
    """Four rounds in ten, thirty times as large as in the others."""
    return _on_both_sides(rng, np.where(rng.random(ROUNDS) < 0.4, 0.15, 0.005), cases)


def heavy(rng: np.random.Generator, cases: int) -> np.ndarray:
    """Cauchy, which has no variance: single values of a case are off by any factor."""
    return np.clip(0.02 * rng.standard_cauchy((ROUNDS, cases)), -3, 3)


def drift(rng: np.random.Generator, cases: int) -> np.ndarray:
    """A drift within each round, up to a fifth, which the order of a case's sides turns against either."""
    drifts = np.abs(rng.normal(0, 0.1, ROUNDS))
    return drifts[:, None] * rng.choice((-1.0, 1.0), (ROUNDS, cases)) * rng.uniform(0.5, 1.0, (ROUNDS, cases))


def waves(rng: np.random.Generator, cases: int) -> np.ndarray:
    """A load that comes and goes over some twenty rounds, over two orders of magnitude."""
    return _on_both_sides(rng, 0.03 * np.exp(1.5 * _autocorrelated(rng, (ROUNDS,), 0.95)), cases)


def shared(rng: np.random.Generator, cases: int) -> np.ndarray:
    """Bursts that hit the same side of all cases of a round."""
    sizes = np.where(rng.random(ROUNDS) < 0.4, 0.15, 0.005) * rng.exponential(size=ROUNDS)
    return np.outer(sizes * rng.choice((-1.0, 1.0), ROUNDS), np.ones(cases)) * rng.uniform(0.5, 1.0, (ROUNDS, cases))


def one_sided(rng: np.random.Generator, cases: int) -> np.ndarray:
    """A breach: the side that bears more is, for each case, likely that of the round before (correlation 0.6)."""
    return 0.1 * _autocorrelated(rng, (ROUNDS, cases), 0.6)


DISTURBANCES: dict[str, Disturbance] = {
    one.__name__: one for one in (steady, bursts, heavy, drift, waves, shared, one_sided)
}


def _in_all_rounds(biases: np.ndarray) -> np.ndarray:
    """Biases of the cases, in multiples of --bias, as a disturbance."""
    return np.tile(biases, (ROUNDS, 1))


def each(rng: np.random.Generator, cases: int) -> np.ndarray:
    """A bias of its own for each case, normal."""
    return _in_all_rounds(rng.normal(0, 1, cases))


def alike(rng: np.random.Generator, cases: int) -> np.ndarray:
    """The same for all cases of a run, but for a fifth."""
    return _in_all_rounds(rng.normal(0, 1) + rng.normal(0, 0.2, cases))


def tails(rng: np.random.Generator, cases: int) -> np.ndarray:
    """A bias of its own for each case, of a t distribution with three degrees of freedom."""
    return _in_all_rounds(rng.standard_t(3, cases))


def some(rng: np.random.Generator, cases: int) -> np.ndarray:
    """One case in ten has a bias, of twice the size."""
    return _in_all_rounds(rng.normal(0, 2, cases) * (rng.random(cases) < 0.1))


BIASES: dict[str, Disturbance] = {one.__name__: one for one in (each, alike, tails, some)}


def _of_size(size: float, disturbance: Disturbance, rng: np.random.Generator, cases: int) -> np.ndarray:
    return size * disturbance(rng, cases)


@dataclass
class Run:
    """One run in progress: base noise, disturbance and truth drawn before; samples are read off in order.

    ``aa_checks``: how many there are; their noise is that of further cases that haven't changed.
    """

    changes: Sequence[float]  # shares
    threshold: float
    disturbance: Disturbance
    rng: np.random.Generator
    aa_checks: int = 0

    def __post_init__(self) -> None:
        count = len(self.changes) + self.aa_checks
        made = [Case(f"case{i}", "op", "forward", {}, "float32", "cpu", self.threshold, 60.0) for i in range(count)]
        self.cases, self.aa_cases = made[: len(self.changes)], made[len(self.changes) :]
        self.samples: dict[str, list[PairSample]] = {case.id: [] for case in self.cases}
        scales = 0.014 * np.exp(self.rng.normal(0, 0.6, count))
        strays = (self.rng.random((2, ROUNDS, count)) < 0.04) * np.abs(self.rng.normal(0, 0.35, (2, ROUNDS, count)))
        sides = self.rng.normal(0, scales, (2, ROUNDS, count)) + strays
        felt = np.exp(self.rng.normal(0, 0.6, count))
        sides[1] += felt * self.disturbance(self.rng, count) + np.log1p([*self.changes, *[0.0] * self.aa_checks])
        self.control, self.treatment = sides
        self.round = 0

    def measure(self, wanted: dict[str, Stage]) -> None:
        """One round of these cases."""
        for case_id, stage in wanted.items():
            self.samples[case_id].append(self._sample(case_id, stage, self.round))
        self.round += 1

    def bias(self, looks: Looks) -> Bias | None:
        """What the A/A checks, measured in each round but the first, found; None for nothing."""
        samples = {
            case.id: [self._sample(case.id, "screening", number) for number in range(1, self.round)]
            for case in self.aa_cases
        }
        return Bias.of(run_aa_checks(self.aa_cases, samples, fit_priors(self.cases, self.samples, looks)))

    def _sample(self, case_id: str, stage: Stage, number: int) -> PairSample:
        column = int(case_id.removeprefix("case"))
        control, treatment = float(self.control[number, column]), float(self.treatment[number, column])
        return PairSample(case_id, stage, number, math.exp(control), math.exp(treatment), treatment - control, 1, 1)

    def settle(self, looks: Looks, alpha: float) -> None:
        """Rounds until all cases are settled, as on a quiet host."""
        while True:
            interim = analyse_interim(self.cases, self.samples, {}, looks, alpha)
            wanted = {case_id: one.stage for case_id, one in interim.items() if one.missing}
            if not wanted:
                return
            self.measure(wanted)

    def measure_on(self, looks: Looks, alpha: float) -> None:
        """Rounds until all verdicts stand or have no look left, as ``opduel.harness.schedule`` does."""
        while True:
            interim = analyse_interim(self.cases, self.samples, {}, looks, alpha)
            standing = standing_cases(self.cases, self.samples, {}, looks, alpha, closing=False)
            wanted: dict[str, Stage] = {}
            for case_id, samples in self.samples.items():
                is_open = interim[case_id].verdict != "inconclusive" and case_id not in standing
                if is_open and len(samples) < looks.counts[-1]:
                    wanted[case_id] = samples[-1].stage
            if not wanted:
                return
            self.measure(wanted)


@dataclass(frozen=True)
class Outcome:
    """What a run of which no case has changed beyond the threshold, or all have, came to."""

    reported: tuple[str, ...]  # the verdicts of --busy_host report
    standing: tuple[str, ...]  # those that stand, "withheld" or "inconclusive"
    rounds: tuple[float, float]  # a case: before it is measured on, and in all


def simulate(run: Run, looks: Looks, alpha: float) -> Outcome:
    """Both ways of reporting the same run."""
    run.settle(looks, alpha)
    before = sum(map(len, run.samples.values())) / len(run.cases)
    reported = compare_cases(run.cases, run.samples, {}, looks, alpha)
    run.measure_on(looks, alpha)
    standing = standing_cases(run.cases, run.samples, {}, looks, alpha)
    final = compare_cases(run.cases, run.samples, {}, looks, alpha)
    words = [one.verdict if one.verdict == "inconclusive" or one.case in standing else "withheld" for one in final]
    after = sum(map(len, run.samples.values())) / len(run.cases)
    return Outcome(tuple(one.verdict for one in reported), tuple(words), (before, after))


def simulate_biased(run: Run, looks: Looks, alpha: float) -> Outcome | None:
    """As ``simulate``, by the run's A/A checks on a host without load; None if they found nothing."""
    run.settle(looks, alpha)
    bias = run.bias(looks)
    if bias is None:
        return None
    reported = tuple(one.verdict for one in compare_cases(run.cases, run.samples, {}, looks, alpha))
    stand = standing_cases(run.cases, run.samples, {}, looks, alpha, loaded=False, bias=bias)
    words = zip(run.cases, reported, strict=True)
    rounds = sum(map(len, run.samples.values())) / len(run.cases)
    standing = (word if word == "inconclusive" or case.id in stand else "withheld" for case, word in words)
    return Outcome(reported, tuple(standing), (rounds, rounds))


def _share(count: int, total: int) -> str:
    low, high = stats.binomtest(count, total).proportion_ci(method="exact")
    return f"{count:5d} of {total:5d} = {count / total:6.2%} ({low:.2%} to {high:.2%})"


def tell(name: str, outcomes: Sequence[Outcome], changed: Sequence[bool]) -> None:
    """One scenario's rows."""
    if not outcomes:
        print(f"\n{name}: nothing")
        return
    rounds = np.mean([one.rounds for one in outcomes], axis=0)
    print(f"\n{name}: {rounds[0]:.1f} rounds a case, {rounds[1]:.1f} in all")
    still = [i for i, is_changed in enumerate(changed) if not is_changed]
    beyond = [i for i, is_changed in enumerate(changed) if is_changed]
    for how in ("reported", "standing"):
        runs = [getattr(one, how) for one in outcomes]
        if still:
            false = sum(any(run[i] in FLAGGED for i in still) for run in runs)
            print(f"  {how}: runs with a false flag {_share(false, len(runs))}")
            found = sum(run[i] == "unchanged" for run in runs for i in still)
            print(f"  {how}: unchanged, of those within {_share(found, len(runs) * len(still))}")
        if beyond:
            for verdict in ("regressed", "unchanged", "withheld"):
                found = sum(run[i] == verdict for run in runs for i in beyond)
                print(f"  {how}: {verdict:9s} of those beyond {_share(found, len(runs) * len(beyond))}")


def main(arguments: Sequence[str] | None = None) -> int:
    """Prints the table."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--runs", type=int, default=50, help="runs per scenario (default %(default)s)")
    parser.add_argument("--cases", type=int, default=40, help="cases per run (default %(default)s)")
    parser.add_argument("--seed", type=int, default=1, help="of the random numbers (default %(default)s)")
    parser.add_argument("--alpha", type=float, default=0.05)
    parser.add_argument("--threshold", type=float, default=0.02, help="as a share (default %(default)s)")
    parser.add_argument("--max_rounds", type=int, default=USUAL_ROUNDS, help="of a case (default %(default)s)")
    parser.add_argument("--only", default="", help="disturbances whose names contain this")
    parser.add_argument("--change", type=float, action="append", help="of every case, or of --changed (repeatable)")
    parser.add_argument("--changed", type=int, help="how many cases change (default: all)")
    parser.add_argument("--biased", action="store_true", help="biases, and the A/A checks that find them")
    parser.add_argument(
        "--bias",
        type=float,
        default=0.04,
        help="their standard deviation, before each case feels it by its own factor: a log ratio (default %(default)s)",
    )
    options = parser.parse_args(arguments)
    looks, count = plan_looks(options.max_rounds), options.changed or options.cases
    checks = usual_count(options.cases) if options.biased else 0
    for name, disturbance in (BIASES if options.biased else DISTURBANCES).items():
        for change in options.change or (0.0, 0.02, 0.0202, 0.5):
            if options.only not in name:
                continue
            changes = [change] * count + [0.0] * (options.cases - count)
            rng = np.random.default_rng(options.seed)
            size = options.bias if options.biased else 1.0
            felt = partial(_of_size, size, disturbance)
            made = [Run(changes, options.threshold, felt, one, checks) for one in rng.spawn(options.runs)]
            run = simulate_biased if options.biased else simulate
            outcomes = [outcome for one in made if (outcome := run(one, looks, options.alpha))]
            title = f"{name}, {change:+.2%}"
            if options.biased:
                title += f": an A/A check found a difference in {len(outcomes)} of {options.runs} runs; of these"
            tell(title, outcomes, [one > options.threshold for one in changes])
    return 0


if __name__ == "__main__":
    sys.exit(main())
