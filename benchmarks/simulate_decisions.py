"""Simulated runs through the real decision procedure: error rates, power and rounds under realistic noise.

    .venv/bin/python benchmarks/simulate_decisions.py [--runs 100] [--seed 1] [--cases 40] ...

Each side's process value is off by a normal error, its standard deviation drawn per case from a lognormal
distribution, and one process in 25 by up to tens of per cent more: what facts measured of real processes.  The
schedule is that of the harness: screening rounds for all open cases, confirmation rounds for suspects.  The random
numbers of a case and stage hang on the seed alone, so that two settings are compared on the same noise.
"""

import argparse
import math
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
from scipy import stats

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from opduel.comparator import Looks, analyse_interim, apply_replication, compare_cases, fit_priors, plan_looks
from opduel.records import FLAGGED, Case, Comparison, Forecast, PairSample, Stage
from opduel.records.measurement import STAGES


@dataclass(frozen=True)
class Noise:
    """One side's process value: normal with sd ``typical`` times a lognormal factor per case, plus strays."""

    typical: float = 0.014
    spread: float = 0.6  # sd of the log of that factor
    stray_share: float = 0.04
    stray_sd: float = 0.35  # a stray process is off by |N(0, this)|


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
    streams: dict[tuple[str, Stage], np.random.Generator] = field(default_factory=dict)
    ended: set[str] = field(default_factory=set)  # cases that can't be measured any more

    def __post_init__(self) -> None:
        count = len(self.scenario.changes)
        self.cases = [_case(i, self.scenario.threshold) for i in range(count)]
        self.shifts = dict(zip([case.id for case in self.cases], np.log1p(self.scenario.changes), strict=True))
        factors = np.exp(self.rng.normal(0, self.noise.spread, count))
        self.scales = dict(zip(self.shifts, self.noise.typical * factors, strict=True))
        self.samples = {case.id: [] for case in self.cases}
        keys: list[tuple[str, Stage]] = [(case.id, stage) for case in self.cases for stage in STAGES]
        self.streams = dict(zip(keys, self.rng.spawn(len(keys)), strict=True))

    def measure(self, case_id: str, stage: Stage) -> None:
        """One more process pair of a case."""
        rng = self.streams[case_id, stage]
        strays = (rng.random(2) < self.noise.stray_share) * np.abs(rng.normal(0, self.noise.stray_sd, 2))
        control, treatment = rng.normal(0, self.scales[case_id], 2) + strays
        treatment += self.shifts[case_id]
        self.samples[case_id].append(
            PairSample(case_id, stage, self.round, math.exp(control), math.exp(treatment), treatment - control, 1, 1)
        )


def _case(index: int, threshold: float) -> Case:
    return Case(f"case{index}", "op", "forward", {}, "float32", "cpu", threshold, 60.0)


def run(simulation: Simulation, looks: Looks, alpha: float) -> list[Comparison]:
    """Measures until every case is settled or has ended, every case up to its next look at a time."""
    while True:
        interim = analyse_interim(simulation.cases, simulation.samples, {}, looks, alpha)
        wanted = {case_id: s for case_id, s in interim.items() if not s.settled and case_id not in simulation.ended}
        if not wanted:
            return compare_cases(simulation.cases, simulation.samples, {}, looks, alpha)
        simulation.round += 1
        for case_id, s in wanted.items():
            for _ in range(s.missing):
                simulation.measure(case_id, s.stage)


def verified(simulation: Simulation, first: list[Comparison], looks: Looks, alpha: float) -> list[Comparison]:
    """The run with its flagged cases measured again, as ``opduel.harness.verification`` does."""
    flagged = [case for case, one in zip(simulation.cases, first, strict=True) if one.verdict in FLAGGED]
    priors = fit_priors(simulation.cases, simulation.samples, looks)
    for case in flagged:
        simulation.samples[case.id] = [one for one in simulation.samples[case.id] if one.stage == "screening"]
    samples = {case.id: simulation.samples[case.id] for case in flagged}
    while True:
        interim = analyse_interim(flagged, samples, {}, looks, alpha, priors)
        wanted = {case_id: s for case_id, s in interim.items() if not s.settled}
        if not wanted:
            again = compare_cases(flagged, samples, {}, looks, alpha, priors=priors)
            return apply_replication(first, {one.case: one for one in again})
        for case_id, s in wanted.items():
            for _ in range(s.missing):
                simulation.measure(case_id, s.stage)


def forecast_rows(
    scenario: Scenario, noise: Noise, rng: np.random.Generator, looks: Looks, options: argparse.Namespace
) -> Iterator[tuple[str, int, int]]:
    """How good forecasts are: runs that are ended after 5 to 40 rounds, and then go on to see what becomes of them."""
    told: list[tuple[Forecast, int | None]] = []
    for _ in range(options.runs):
        simulation = Simulation(scenario, noise, rng)
        _rounds(simulation, looks, options.alpha, int(rng.integers(5, 41)))
        ended = compare_cases(simulation.cases, simulation.samples, {}, looks, options.alpha)
        before = {case_id: len(samples) for case_id, samples in simulation.samples.items()}
        settled = _rounds(simulation, looks, options.alpha, None)
        for one in ended:
            if one.forecast:
                after = settled.get(one.case)
                told.append((one.forecast, None if after is None else after - before[one.case]))
    for low, high in ((1, 5), (6, 10), (11, 20), (21, 60)):
        some = [(one, after) for one, after in told if one.rounds and low <= one.rounds <= high]
        if some:
            met = sum(after is not None and one.rounds is not None and after <= one.rounds for one, after in some)
            yield f"{low} to {high} rounds: settled by then", met, len(some)
    hard = [(one, after) for one, after in told if one.rounds is None]
    for low, high in ((0.0, 0.2), (0.2, 0.5), (0.5, 0.8)):
        some = [(one, after) for one, after in hard if low <= one.chance < high]
        if some:
            share = np.mean([one.chance for one, _ in some])
            yield f"chance of {share:.0%}: ever settled", sum(after is not None for _, after in some), len(some)


def _rounds(simulation: Simulation, looks: Looks, alpha: float, most: int | None) -> dict[str, int]:
    """Rounds of all open cases, at most so many: samples of each case at which it got a verdict, of those that did."""
    settled: dict[str, int] = {}
    while True:
        interim = analyse_interim(simulation.cases, simulation.samples, {}, looks, alpha)
        for case_id, now in interim.items():
            if now.settled and now.verdict != "inconclusive":
                settled.setdefault(case_id, len(simulation.samples[case_id]))
        wanted = {case_id: now.stage for case_id, now in interim.items() if now.missing}
        if not wanted or most == 0:
            return settled
        most = None if most is None else most - 1
        for case_id, stage in wanted.items():
            simulation.measure(case_id, stage)


def rows(results: Sequence[list[Comparison]], scenario: Scenario) -> Iterator[tuple[str, int, int]]:
    """(what, how often, out of how many) for one scenario's runs."""
    bound = math.log1p(scenario.threshold)
    changed = [abs(math.log1p(change)) > bound for change in scenario.changes]
    beyond = [i for i, is_changed in enumerate(changed) if is_changed]
    still = [i for i, is_changed in enumerate(changed) if not is_changed]
    verdicts = [[comparison.verdict for comparison in run] for run in results]
    flags = sum(run[i] in FLAGGED for run in verdicts for i in still)
    if still:
        yield "runs with a false flag", sum(_any_flag(run, still) for run in verdicts), len(verdicts)
        yield "false flags", flags, len(verdicts) * len(still)
        yield (
            "unchanged, rightly",
            sum(run[i] == "unchanged" for run in verdicts for i in still),
            len(verdicts) * len(still),
        )
    if beyond:
        right = ["regressed" if scenario.changes[i] > 0 else "improved" for i in beyond]
        total = len(verdicts) * len(beyond)
        found = sum(run[i] == want for run in verdicts for i, want in zip(beyond, right, strict=True))
        yield "found", found, total
        early = [
            run[i] for run in results for i in beyond if run[i].verdict in FLAGGED and run[i].decided_on == "screening"
        ]
        yield "found at screening", len(early), total
        yield "unchanged, wrongly", sum(run[i] == "unchanged" for run in verdicts for i in beyond), total
    flagged = [
        (one, change)
        for run in results
        for one, change in zip(run, scenario.changes, strict=True)
        if one.verdict in FLAGGED and one.ci is not None
    ]
    for stage, name in (("screening", "screening"), ("confirmation", "confirmation")):
        intervals = [(one.ci, change) for one, change in flagged if one.decided_on == stage and one.ci]
        if intervals:
            held = sum(low <= 1 + change <= high for (low, high), change in intervals)
            yield f"{name}: ci holds truth", held, len(intervals)
            bound = 1 + scenario.threshold
            touching = sum(low <= bound and high >= 1 / bound for (low, high), _ in intervals)
            yield f"{name}: ci touches limit", touching, len(intervals)


def _any_flag(verdicts: Sequence[str], still: Sequence[int]) -> bool:
    return any(verdicts[i] in FLAGGED for i in still)


def mean_rounds(results: Sequence[Sequence[Comparison]], stage: Stage) -> float:
    """Rounds of a stage per case."""
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
    parser.add_argument("--max_rounds", type=int, default=30, help="of a case in each stage (default %(default)s)")
    parser.add_argument("--noise", type=float, default=Noise.typical, help="sd of a process (default %(default)s)")
    parser.add_argument("--strays", type=float, default=Noise.stray_share, help="share of stray processes")
    parser.add_argument(
        "--verify", action="store_true", help="measure flagged cases again, and count what is replicated"
    )
    parser.add_argument("--forecasts", action="store_true", help="how good the forecasts of ended runs are, instead")
    parser.add_argument("--screen", type=_counts, help="looks at screening, as 6,9,14 (default: planned)")
    parser.add_argument("--own", type=_counts, help="looks at a case's own samples (default: planned)")
    parser.add_argument("--screening_share", type=float, default=Looks.screening_share, help="(default %(default)s)")
    parser.add_argument("--only", default="", help="scenarios whose names contain this")
    parser.add_argument("--suspect_level", type=float, default=Looks.suspect_level, help="(default %(default)s)")
    return parser.parse_args(arguments)


def _counts(text: str) -> tuple[int, ...]:
    return tuple(int(part) for part in text.split(","))


def main(arguments: Sequence[str] | None = None) -> int:
    """Prints the table."""
    options = parse(arguments)
    planned = plan_looks(options.max_rounds)
    screening, confirmation = options.screen or planned.screening, options.own or planned.confirmation
    looks = Looks(screening, confirmation, options.suspect_level, options.screening_share)
    noise = Noise(typical=options.noise, stray_share=options.strays)
    print(
        f"looks: screening {looks.screening}, confirmation {looks.confirmation}; {noise}; "
        f"{options.runs} runs of {options.cases} cases"
    )
    for scenario in (one for one in scenarios(options.cases) if options.only in one.name):
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


def _show(found: Iterator[tuple[str, int, int]]) -> None:
    for what, count, total in found:
        low, high = stats.binomtest(count, total).proportion_ci(method="exact")
        print(f"  {what:36s} {count:6d} of {total:6d} = {count / total:7.2%}  ({low:.2%} to {high:.2%})")


if __name__ == "__main__":
    sys.exit(main())
