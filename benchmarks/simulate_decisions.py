"""Simulated runs through the real decision procedure: error rates, power and rounds under realistic noise.

    .venv/bin/python benchmarks/simulate_decisions.py [--runs 100] [--seed 1] [--cases 40] ...

A sample's log ratio is off by what process pairs add, by what the blocks within its fork add, whose size differs from
case to case and may wander from round to round, and now and then by any amount.  As real samples do, each brings the
standard error that its blocks show.  The schedule is that of the harness: every open case goes to its next look.  The
random numbers of a case hang on the seed alone, so that two settings are compared on the same noise.
"""

import argparse
import math
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

import numpy as np
from scipy import stats

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from opduel.comparator import Looks, Prior, analyse_interim, apply_replication, compare_cases, fit_priors, plan_looks
from opduel.records import FLAGGED, USUAL_ROUNDS, Case, Comparison, Forecast, PairSample, Stage, Verdict


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
    """A run: the true log ratio of each case, and how it is decided."""

    name: str
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
    ended: set[str] = field(default_factory=set)  # cases that can't be measured any more

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
    """Measure until every case is settled or has ended, every case up to its next look at a time."""
    measure_until_settled(simulation, simulation.cases, simulation.samples, looks, alpha)
    return compare_cases(simulation.cases, simulation.samples, {}, looks, alpha)


def measure_until_settled(
    simulation: Simulation,
    cases: Sequence[Case],
    samples: Mapping[str, Sequence[PairSample]],
    looks: Looks,
    alpha: float,
    priors: Mapping[str, Prior] | None = None,
) -> None:
    """Take open cases to their next look, again and again; those that have ended stay as they are."""
    while True:
        interim = analyse_interim(cases, samples, {}, looks, alpha, priors)
        open_cases = {
            case_id: place
            for case_id, place in interim.items()
            if not place.settled and case_id not in simulation.ended
        }
        if not open_cases:
            return
        simulation.round += 1
        for case_id, place in open_cases.items():
            for _ in range(place.missing):
                simulation.measure(case_id, place.stage)


def verified(simulation: Simulation, first: list[Comparison], looks: Looks, alpha: float) -> list[Comparison]:
    """Measure the run's flagged cases again, as ``opduel.harness.verification`` does."""
    flagged = [case for case, result in zip(simulation.cases, first, strict=True) if result.verdict in FLAGGED]
    priors = fit_priors(simulation.cases, simulation.samples, looks)
    for case in flagged:
        screening = [sample for sample in simulation.samples[case.id] if sample.stage == "screening"]
        simulation.samples[case.id] = screening
    samples = {case.id: simulation.samples[case.id] for case in flagged}
    measure_until_settled(simulation, flagged, samples, looks, alpha, priors)
    again = compare_cases(flagged, samples, {}, looks, alpha, priors=priors)
    return apply_replication(first, {result.case: result for result in again})


def forecast_rows(
    scenario: Scenario, noise: Noise, rng: np.random.Generator, looks: Looks, options: argparse.Namespace
) -> Iterator[tuple[str, int, int]]:
    """Say how good forecasts are: of runs that are ended after 5 to 40 rounds, and then go on to their end."""
    outcomes: list[tuple[Forecast, int | None]] = []  # with the further rounds after which the case was settled
    for _ in range(options.runs):
        simulation = Simulation(scenario, noise, rng)
        _measure_rounds(simulation, looks, options.alpha, int(rng.integers(5, 41)))
        ended = compare_cases(simulation.cases, simulation.samples, {}, looks, options.alpha)
        rounds_before = {case_id: len(samples) for case_id, samples in simulation.samples.items()}
        rounds_by_verdict = _measure_rounds(simulation, looks, options.alpha, None)
        for result in ended:
            if result.forecast:
                settling = [
                    rounds - rounds_before[result.case]
                    for verdict, rounds in rounds_by_verdict[result.case].items()
                    if verdict in ("unchanged", *FLAGGED) or not result.suspected
                ]
                outcomes.append((result.forecast, min(settling, default=None)))
    for low, high in ((1, 5), (6, 10), (11, 20), (21, 60)):
        some = [(forecast, after) for forecast, after in outcomes if forecast.rounds and low <= forecast.rounds <= high]
        if some:
            met = sum(after is not None and after <= (forecast.rounds or 0) for forecast, after in some)
            yield f"{low} to {high} rounds: settled by then", met, len(some)
    hard = [(forecast, after) for forecast, after in outcomes if forecast.rounds is None]
    for lowest, highest in ((0.0, 0.2), (0.2, 0.5), (0.5, 0.8)):
        some = [(forecast, after) for forecast, after in hard if lowest <= forecast.chance < highest]
        if some:
            share = np.mean([forecast.chance for forecast, _ in some])
            yield f"chance of {share:.0%}: ever settled", sum(after is not None for _, after in some), len(some)


def _measure_rounds(
    simulation: Simulation, looks: Looks, alpha: float, most: int | None
) -> dict[str, dict[Verdict, int]]:
    """Measure rounds of all open cases, at most so many: by case and verdict the samples at which it got it."""
    rounds_by_verdict: dict[str, dict[Verdict, int]] = {case.id: {} for case in simulation.cases}
    while True:
        interim = analyse_interim(simulation.cases, simulation.samples, {}, looks, alpha)
        for case_id, now in interim.items():
            if now.verdict != "inconclusive":
                rounds_by_verdict[case_id].setdefault(now.verdict, len(simulation.samples[case_id]))
        stages = {case_id: now.stage for case_id, now in interim.items() if now.missing}
        if not stages or most == 0:
            return rounds_by_verdict
        most = None if most is None else most - 1
        for case_id, stage in stages.items():
            simulation.measure(case_id, stage)


def rows(results: Sequence[list[Comparison]], scenario: Scenario) -> Iterator[tuple[str, int, int]]:
    """Return (what, how often, out of how many) for one scenario's runs."""
    bound = math.log1p(scenario.threshold)
    is_changed = [abs(math.log1p(change)) > bound for change in scenario.changes]
    beyond = [i for i, changed in enumerate(is_changed) if changed]
    within = [i for i, changed in enumerate(is_changed) if not changed]
    verdicts = [[comparison.verdict for comparison in run] for run in results]
    if within:
        total = len(verdicts) * len(within)
        yield "runs with a false flag", sum(any(run[i] in FLAGGED for i in within) for run in verdicts), len(verdicts)
        yield "false flags", sum(run[i] in FLAGGED for run in verdicts for i in within), total
        yield "unchanged, rightly", sum(run[i] == "unchanged" for run in verdicts for i in within), total
        yield "with an answer", sum(run[i] != "inconclusive" for run in verdicts for i in within), total
    if beyond:
        rises = [scenario.changes[i] > 0 for i in beyond]
        total = len(verdicts) * len(beyond)
        claims = [(run[i], rise) for run in verdicts for i, rise in zip(beyond, rises, strict=True)]
        yield "found", sum(verdict == ("regressed" if rise else "improved") for verdict, rise in claims), total
        yield "unchanged, wrongly", sum(verdict == "unchanged" for verdict, _ in claims), total
        wrong = sum(verdict == ("not_worse" if rise else "not_better") for verdict, rise in claims)
        yield "on the wrong side", wrong, total
    flagged = [
        (result.ci, change)
        for run in results
        for result, change in zip(run, scenario.changes, strict=True)
        if result.verdict in FLAGGED and result.ci is not None
    ]
    if flagged:
        yield (
            "ci of a flag holds truth",
            sum(low <= 1 + change <= high for (low, high), change in flagged),
            len(flagged),
        )


def mean_rounds(results: Sequence[Sequence[Comparison]], stage: Stage) -> float:
    """Return the rounds of a stage per case."""
    counts = [sum(s.stage == stage for s in comparison.samples) for run in results for comparison in run]
    return float(np.mean(counts))


def scenarios(cases: int) -> list[Scenario]:
    """What the table's rows are about."""
    half, rest = cases // 2, cases - cases // 2
    return [
        Scenario("A/A at 2 %", (0.0,) * cases, 0.02),
        Scenario("every second +5 % at 2 %", (0.05,) * half + (0.0,) * rest, 0.02),
        Scenario("every second +10 % at 2 %", (0.10,) * half + (0.0,) * rest, 0.02),
        Scenario("every second +50 % at 2 %", (0.50,) * half + (0.0,) * rest, 0.02),
        Scenario("every second +300 % at 2 %", (3.0,) * half + (0.0,) * rest, 0.02),
        Scenario("one of them +5 % at 2 %", (0.05,) + (0.0,) * (cases - 1), 0.02),
        Scenario("every second +2 % at 0.5 %", (0.02,) * half + (0.0,) * rest, 0.005),
        Scenario("all at the boundary, +2 % at 2 %", (0.02,) * cases, 0.02),
        Scenario("all a shade beyond, +2.1 % at 2 %", (0.021,) * cases, 0.02),
    ]


def parse(arguments: Sequence[str] | None = None) -> argparse.Namespace:
    """The command line."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--runs", type=int, default=50, help="runs per scenario (default %(default)s)")
    parser.add_argument("--cases", type=int, default=40, help="cases per run (default %(default)s)")
    parser.add_argument("--seed", type=int, default=1, help="of the random numbers (default %(default)s)")
    parser.add_argument("--alpha", type=float, default=0.05)
    parser.add_argument("--max_rounds", type=int, default=USUAL_ROUNDS, help="of a case (default %(default)s)")
    parser.add_argument("--noise", type=float, default=Noise.blocks, help="what blocks add (default %(default)s)")
    parser.add_argument("--pair", type=float, default=Noise.pair, help="what pairs add (default %(default)s)")
    parser.add_argument("--wandering", type=float, default=Noise.wandering, help="of blocks from round to round")
    parser.add_argument("--tails", type=float, default=Noise.tails, help="degrees of freedom of pairs' noise")
    parser.add_argument("--strays", type=float, default=Noise.stray_share, help="share of stray pairs")
    parser.add_argument(
        "--verify", action="store_true", help="measure flagged cases again, and count what is replicated"
    )
    parser.add_argument("--forecasts", action="store_true", help="how good the forecasts of ended runs are, instead")
    parser.add_argument("--looks", type=_counts, help="samples at looks, as 6,9,14 (default: planned)")
    parser.add_argument("--only", default="", help="scenarios whose names contain this")
    parser.add_argument("--suspect_level", type=float, default=Looks.suspect_level, help="(default %(default)s)")
    return parser.parse_args(arguments)


def _counts(text: str) -> tuple[int, ...]:
    return tuple(int(part) for part in text.split(","))


def main(arguments: Sequence[str] | None = None) -> int:
    """Prints the table."""
    options = parse(arguments)
    looks = Looks(options.looks or plan_looks(options.max_rounds).counts, options.suspect_level)
    noise = Noise(options.pair, options.noise, wandering=options.wandering, tails=options.tails)
    noise = replace(noise, stray_share=options.strays)
    print(f"looks: {looks.counts}; {noise}; {options.runs} runs of {options.cases} cases")
    for scenario in (each for each in scenarios(options.cases) if options.only in each.name):
        rng = np.random.default_rng(options.seed)
        if options.forecasts:
            print(f"\n{scenario.name}")
            _show(forecast_rows(scenario, noise, rng, looks, options))
            continue
        results = []
        for _ in range(options.runs):
            simulation = Simulation(scenario, noise, rng)
            first = run(simulation, looks, options.alpha)
            results.append(verified(simulation, first, looks, options.alpha) if options.verify else first)
        print(f"\n{scenario.name}: rounds a case: {mean_rounds(results, 'screening'):.1f} screening", end="")
        print(f" + {mean_rounds(results, 'confirmation'):.1f} confirmation")
        _show(rows(results, scenario))
    return 0


def _show(lines: Iterator[tuple[str, int, int]]) -> None:
    for what, count, total in lines:
        low, high = stats.binomtest(count, total).proportion_ci(method="exact")
        print(f"  {what:36s} {count:6d} of {total:6d} = {count / total:7.2%}  ({low:.2%} to {high:.2%})")


if __name__ == "__main__":
    sys.exit(main())
