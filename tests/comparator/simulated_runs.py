"""Simulated runs through the real decision procedure, for tests of error rates under realistic noise.

A sample's log ratio is off by what process pairs add, by what the blocks within its fork add, whose size differs from
case to case and may wander from round to round, and now and then by any amount. As real samples do, each brings the
standard error that its blocks show. The schedule is that of the harness: every open case goes to its next look. The
random numbers of a case depend on the seed alone, so that two settings are compared on the same noise.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from opduel.comparator import Looks, Prior, RunAnalysis
from opduel.records import Case, Comparison, PairSample, Stage


@dataclass(frozen=True)
class Noise:
    """Standard deviations of a sample's log ratio, by what they are of."""

    pair: float = 0.006
    blocks: float = 0.018  # times a lognormal factor for each case
    spread: float = 0.7  # sd of the log of that factor
    wandering: float = 0.0  # sd of the log of a further factor for each round
    tails: float = math.inf  # degrees of freedom of a pair's t distribution
    stray_share: float = 0.04
    stray_sd: float = 0.35  # a stray pair is off by N(0, this)
    freedom: int = 24  # of each standard error that blocks show


@dataclass(frozen=True)
class Scenario:
    """The true change of each case of a run, and the threshold by which it is decided."""

    changes: tuple[float, ...]  # shares
    threshold: float


@dataclass
class Simulation:
    """One run in progress: what has been measured, and the random numbers that it came from."""

    scenario: Scenario
    noise: Noise
    rng: np.random.Generator
    samples: dict[str, list[PairSample]] = field(default_factory=dict)
    round: int = 0
    streams: dict[str, np.random.Generator] = field(default_factory=dict)

    def __post_init__(self) -> None:
        count = len(self.scenario.changes)
        self.cases = [_case(i, self.scenario.threshold) for i in range(count)]
        self.shifts = dict(zip([case.id for case in self.cases], np.log1p(self.scenario.changes), strict=True))
        factors = np.exp(self.rng.normal(0, self.noise.spread, count))
        self.block_sds = dict(zip(self.shifts, self.noise.blocks * factors, strict=True))
        self.samples = {case.id: [] for case in self.cases}
        self.streams = dict(zip(self.shifts, self.rng.spawn(count), strict=True))

    def measure(self, case_id: str, stage: Stage) -> None:
        """Measure one more process pair of a case."""
        rng, noise = self.streams[case_id], self.noise
        block_sd = self.block_sds[case_id] * math.exp(rng.normal(0, noise.wandering))
        stray = (rng.random() < noise.stray_share) * rng.normal(0, noise.stray_sd)
        pair = rng.standard_t(noise.tails) if noise.tails < math.inf else rng.normal()
        log_ratio = float(self.shifts[case_id] + noise.pair * pair + rng.normal(0, block_sd) + stray)
        standard_error = float(block_sd * math.sqrt(rng.chisquare(noise.freedom) / noise.freedom))
        self.samples[case_id].append(
            PairSample(
                case_id,
                stage,
                self.round,
                control=1.0,
                treatment=math.exp(log_ratio),
                log_ratio=log_ratio,
                blocks=2 * noise.freedom,
                calls=1,
                fork_ratios=((log_ratio, standard_error),),
            )
        )


def _case(index: int, threshold: float) -> Case:
    return Case(f"case{index}", "op", "forward", {}, "float32", "cpu", threshold, 60.0)


def run(simulation: Simulation, looks: Looks, alpha: float) -> list[Comparison]:
    """Measure until every case is settled, every case up to its next look at a time."""
    measure_until_settled(simulation, simulation.cases, simulation.samples, looks, alpha)
    return RunAnalysis(simulation.cases, simulation.samples, {}, looks, alpha).comparisons()


def measure_until_settled(
    simulation: Simulation,
    cases: Sequence[Case],
    samples: Mapping[str, Sequence[PairSample]],
    looks: Looks,
    alpha: float,
    priors: Mapping[str, Prior] | None = None,
) -> None:
    """Take open cases to their next look, again and again."""
    while True:
        interim = RunAnalysis(cases, samples, {}, looks, alpha, priors=priors).interim()
        open_cases = {case_id: place for case_id, place in interim.items() if not place.settled}
        if not open_cases:
            return
        simulation.round += 1
        for case_id, place in open_cases.items():
            for _ in range(place.samples_needed):
                simulation.measure(case_id, place.stage)
