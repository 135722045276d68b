"""Noise by level for the toy's simulated clock, and what a run should cost beside it: by calculation, as naively as can
be."""

import itertools
import json
import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from statistics import NormalDist, fmean

import pytest
from test_run import request
from toy_bench import toy_case

from opduel.comparator import Looks, plan_looks
from opduel.harness.planning.effort import CaseTime, Costs, Noise
from opduel.harness.planning.effort_planner import EffortPlanner
from opduel.harness.run import run_ab
from opduel.records import Comparison, Report

THRESHOLD, ALPHA, SLOWED = 0.02, 0.05, 0.05
ROUNDS = 60
LOOKS = plan_looks(ROUNDS)
CHANCE = 0.9  # with which a case is to be decided rightly
MOST_FORKS, MOST_QUADS = 150, 150


@dataclass(frozen=True)
class SimulatedNoise:
    """Standard deviations of a log ratio by level, as ``simulated_clock.LEVELS``; and what varies in other ways.

    ``modes``: the share of forks that are slow, and by which factor.  ``wandering``: the factor by which the processor
    is slower in every second turn, and the standard deviation of its quads then.
    """

    pair: float = 0.0
    fork: float = 0.003
    quad: float = 0.005
    modes: tuple[float, float] = (0.0, 1.0)
    wandering: tuple[float, float] | None = None

    def variables(self, folder: Path, seed: int = 1) -> dict[str, str]:
        """Return the toy's environment; ``folder`` is an empty one."""
        settings = {"pair": self.pair, "fork": self.fork, "quad": self.quad, "modes": self.modes}
        settings |= {"seed": seed, "folder": str(folder)} | ({"wandering": self.wandering} if self.wandering else {})
        return {"TOY_NOISE": json.dumps(settings)}

    @property
    def variances(self) -> Noise:
        """By level. Both sides have two modes, each its own; the processor is slow for half of the time."""
        share, factor = self.modes
        fork = self.fork**2 + 2 * share * (1 - share) * math.log(factor) ** 2
        quad = self.quad**2 + (self.wandering[1] ** 2 / 2 if self.wandering else 0.0)
        return Noise(quad, fork, self.pair**2)


@dataclass(frozen=True)
class Design:
    """Process pairs, forks in each, and quads in each of these."""

    pairs: int
    forks: int
    quads: int

    def standard_error(self, noise: Noise) -> float:
        """Of the mean log ratio."""
        return math.sqrt((noise.pair + (noise.fork + noise.quad / self.quads) / self.forks) / self.pairs)

    def seconds(self, costs: Costs) -> float:
        """What it takes."""
        return self.pairs * (costs.pair_s + self.forks * (costs.beside_s + self.quads * costs.quad_s))


def cheapest(noise: Noise, costs: Costs, looks: Looks = LOOKS) -> Design:
    """Return how a case that has not changed, and whose noise is known, is shown to be within its threshold at least
    cost (Kalibera and Jones 2013, section 9, where the goal is the width of an interval).

    That is, of all numbers of pairs at which there is a look, of forks and of quads, those with which the interval lies
    within the threshold with a chance of ``CHANCE``.
    """
    normal = NormalDist()
    off = normal.inv_cdf((1 + CHANCE) / 2)  # standard errors that the estimate may be off, on either side
    errors = {pairs: off - normal.inv_cdf(looks.level(pairs, ALPHA / 2)) for pairs in looks.counts}

    def decides(design: Design) -> bool:
        return errors[design.pairs] * design.standard_error(noise) <= math.log1p(THRESHOLD)

    designs = []  # of as many pairs and forks the one with the fewest quads
    for pairs, forks in itertools.product(errors, range(1, MOST_FORKS + 1)):
        if decides(Design(pairs, forks, MOST_QUADS)):
            designs.append(
                next(design for quads in itertools.count(1) if decides(design := Design(pairs, forks, quads)))
            )
    return min(designs, key=lambda design: design.seconds(costs))


def seconds_of_fresh_pairs(costs: Costs, looks: Looks = LOOKS) -> float:
    """Return what a case that has changed takes beyond one that has not, from the first look to the next: pairs of the
    least effort, for which the change is too large to need more."""
    first, following = looks.counts[:2]
    return Design(following - first, 1, 1).seconds(costs)


def mean_seconds(comparisons: Iterable[Comparison], costs: Costs) -> float:
    """Return what the samples of a case cost, by their pairs, forks and quads."""
    return fmean(
        sum(
            costs.pair_s + sample.forks * costs.beside_s + sample.blocks / 2 * costs.quad_s
            for sample in comparison.samples
        )
        for comparison in comparisons
    )


def simulate_costs(monkeypatch: pytest.MonkeyPatch, costs: Costs) -> None:
    """Let the harness believe that pairs, forks and quads cost so much, whatever they do."""
    note_round = EffortPlanner.note_round

    def note(planner: EffortPlanner, times: Mapping[str, CaseTime], *_: float) -> None:
        simulated = {
            case_id: CaseTime(
                time.forks, time.quads, beside_s=time.forks * costs.beside_s, quads_s=time.quads * costs.quad_s
            )
            for case_id, time in times.items()
        }
        note_round(planner, simulated, 0.0, len(times) * costs.pair_s, costs.overlaps)
        planner.start_s = 0.0  # no round waits for its pair

    monkeypatch.setattr(EffortPlanner, "note_round", note)


def run_beside(noise: SimulatedNoise, folder: Path, same: int, slowed: int, turns: int = 2000, seed: int = 1) -> Report:
    """Run the toy beside this noise: so many cases of which both sides are the same, and so many that are slower."""
    cases = [toy_case(f"same_{number}", turns=turns) for number in range(same)]
    cases += [toy_case(f"slowed_{number}", turns=turns, slower=1 + SLOWED) for number in range(slowed)]
    run_request = request(*cases, max_rounds=ROUNDS, **noise.variables(folder, seed))
    return run_ab(run_request.configured(sentinels=0, busy_host="report"))
