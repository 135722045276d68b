"""Simulated runs on a disturbed host, for tests of which verdicts stand and how often a false one does.

The noise of simulated_runs.py, and on top of it a disturbance of the host: its size differs from round to round, is
common to all cases of a round, and each case feels it by a factor of its own. It falls on either side by chance, except
in ``one_sided``, a breach of the assumption. Every run is decided as on a quiet host first (``--busy_host report``);
then it is measured on, and verdicts stand or are withheld, as the harness does it.

A bias favours a side of each case, by as much in all rounds. The run's A/A checks, one for ten cases, are measured with
biases of the same kind, in every round; where one of them finds a difference, verdicts stand or are withheld by that.
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from opduel.comparator import Bias, Looks, RunAnalysis, fit_priors, run_aa_checks
from opduel.records import Case, PairSample, Stage

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
    disturbance.__name__: disturbance for disturbance in (steady, bursts, heavy, drift, waves, shared, one_sided)
}


def _in_all_rounds(biases: np.ndarray) -> np.ndarray:
    """Return the cases' biases as a disturbance."""
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


BIASES: dict[str, Disturbance] = {disturbance.__name__: disturbance for disturbance in (each, alike, tails, some)}


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
        cases = [Case(f"case{i}", "op", "forward", {}, "float32", "cpu", self.threshold, 60.0) for i in range(count)]
        self.cases, self.aa_cases = cases[: len(self.changes)], cases[len(self.changes) :]
        self.samples: dict[str, list[PairSample]] = {case.id: [] for case in self.cases}
        scales = 0.014 * np.exp(self.rng.normal(0, 0.6, count))
        strays = (self.rng.random((2, ROUNDS, count)) < 0.04) * np.abs(self.rng.normal(0, 0.35, (2, ROUNDS, count)))
        sides = self.rng.normal(0, scales, (2, ROUNDS, count)) + strays
        felt = np.exp(self.rng.normal(0, 0.6, count))
        sides[1] += felt * self.disturbance(self.rng, count) + np.log1p([*self.changes, *[0.0] * self.aa_checks])
        self.control, self.treatment = sides
        self.round = 0

    def measure(self, stages: dict[str, Stage]) -> None:
        """Measure one round of these cases."""
        for case_id, stage in stages.items():
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

    def analysis(self, looks: Looks, alpha: float) -> RunAnalysis:
        """Return the analysis of all samples so far."""
        return RunAnalysis(self.cases, self.samples, {}, looks, alpha)

    def settle(self, looks: Looks, alpha: float) -> None:
        """Rounds until all cases are settled, as on a quiet host."""
        while True:
            interim = self.analysis(looks, alpha).interim()
            stages = {case_id: place.stage for case_id, place in interim.items() if place.samples_needed}
            if not stages:
                return
            self.measure(stages)

    def measure_on(self, looks: Looks, alpha: float) -> None:
        """Rounds until all verdicts stand or have no look left, as ``opduel.harness.planning.schedule`` does."""
        while True:
            analysis = self.analysis(looks, alpha)
            interim, standing = analysis.interim(), analysis.standing_cases(closing=False)
            stages: dict[str, Stage] = {}
            for case_id, samples in self.samples.items():
                is_open = interim[case_id].verdict != "inconclusive" and case_id not in standing
                if is_open and len(samples) < looks.counts[-1]:
                    stages[case_id] = samples[-1].stage
            if not stages:
                return
            self.measure(stages)


@dataclass(frozen=True)
class Outcome:
    """What a run of which no case has changed beyond the threshold, or all have, came to."""

    reported: tuple[str, ...]  # the verdicts of --busy_host report
    standing: tuple[str, ...]  # those that stand, "withheld" or "inconclusive"


def simulate(run: Run, looks: Looks, alpha: float) -> Outcome:
    """Both ways of reporting the same run."""
    run.settle(looks, alpha)
    reported = run.analysis(looks, alpha).comparisons()
    run.measure_on(looks, alpha)
    standing = run.analysis(looks, alpha).standing_cases()
    final = run.analysis(looks, alpha).comparisons()
    verdicts = [
        comparison.verdict if comparison.verdict == "inconclusive" or comparison.case in standing else "withheld"
        for comparison in final
    ]
    return Outcome(tuple(comparison.verdict for comparison in reported), tuple(verdicts))


def simulate_biased(run: Run, looks: Looks, alpha: float) -> Outcome | None:
    """As ``simulate``, by the run's A/A checks on a host without load; None if they found nothing."""
    run.settle(looks, alpha)
    bias = run.bias(looks)
    if bias is None:
        return None
    reported = tuple(comparison.verdict for comparison in run.analysis(looks, alpha).comparisons())
    stand = run.analysis(looks, alpha).standing_cases(loaded=False, bias=bias)
    verdicts = zip(run.cases, reported, strict=True)
    standing = (verdict if verdict == "inconclusive" or case.id in stand else "withheld" for case, verdict in verdicts)
    return Outcome(reported, tuple(standing))
