#!/usr/bin/env python3
"""The decision procedure on the noise of real process pairs, with changes whose size is known exactly.

    .venv/bin/python benchmarks/simulate_recorded.py

The noise is that of cases that were not slowed in the raw results of calibrate.py: their process pairs in the order in
which they were measured, each with a change added to its treatment's value.  So the size is exact, which that of an
injected slowdown is not, and cases can lie just at the threshold, where errors are most likely.  All unslowed cases of
the quiet runs at the smallest threshold count, which have most pairs, each of them twice: with its sides as they were
measured, and exchanged, which changes nothing where both sides are the same build.  A case that has fewer pairs than a
run asks for ends there, as if the time were over.
"""

import argparse
import math
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

import numpy as np

from benchmarks.calibration_data import read
from benchmarks.calibration_table import rate_cell
from benchmarks.raw_results import ROOT
from benchmarks.simulate_decisions import Noise, Scenario, Simulation, mean_rounds, run
from opduel.commands import options as kinds
from opduel.commands.entry import DONE, run_command
from opduel.comparator import Looks, plan_looks
from opduel.comparator.calibration import Rate
from opduel.records import CLAIMS, Comparison, PairSample, Stage, UsageError
from opduel.records.configuration import rounds_at
from opduel.records.measurement import STAGES

DATA = ROOT / "benchmarks" / "results" / "calibration.jsonl"
PARTS = (0.0, 1.0, 1.05, 1.5, 2.5)  # of the threshold, or times it: no change, just at it, and beyond it
COLUMNS = (
    "threshold | change of all cases | `regressed` | `improved` | `unchanged` | `not_worse` | `not_better` | "
    "rounds a case, screening + confirmation"
)
Stream = Sequence[PairSample]  # of one case, in the order in which they were measured


@dataclass(frozen=True)
class PowerLooks(Looks):
    """Looks spend their error in proportion to their samples to a power: 0 is the same for all, 1 as opduel does, 3 is
    near O'Brien and Fleming's rule (1979, Biometrics 35, 549-556)."""

    power: float = 1.0

    def weight(self, n: int) -> float:
        """As of ``Looks``, with the power."""
        reached = next((count for count in self.counts if count >= n), self.counts[-1])
        return float(reached**self.power / sum(count**self.power for count in self.counts))


@dataclass
class Replay(Simulation):
    """A run whose process pairs are recorded ones."""

    recorded: Sequence[Stream] = ()
    pairs: dict[str, Iterator[PairSample]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        super().__post_init__()
        self.pairs = {case.id: iter(stream) for case, stream in zip(self.cases, self.recorded, strict=True)}

    def measure(self, case_id: str, stage: Stage) -> None:
        """The next process pair of the case, with its change; without one the case has ended."""
        pair, shift = next(self.pairs[case_id], None), self.shifts[case_id]
        if pair is None:
            self.ended.add(case_id)
            return
        treatment = pair.treatment * math.exp(shift)
        forks = tuple((log_ratio + shift, standard_error) for log_ratio, standard_error in pair.fork_ratios)
        ratio = pair.log_ratio + shift
        changed = replace(pair, case_id=case_id, stage=stage, round=self.round, treatment=treatment, log_ratio=ratio)
        self.samples[case_id].append(replace(changed, fork_ratios=forks))


def streams_of(path: Path) -> list[Stream]:
    """The process pairs of every case that was not slowed, of the quiet runs with the smallest threshold.

    Raises:
        UsageError: the file can't be read.
    """
    quiet = [trial for trial in read(path) if trial.step.load == "quiet"]
    smallest = min((trial.step.threshold for trial in quiet), default=0.0)
    return [
        one.samples
        for trial in quiet
        if trial.step.threshold == smallest
        for one in trial.report.comparisons
        if not one.injected and one.verdict != "failed"
    ]


def exchanged(stream: Stream) -> Stream:
    """Return the pairs with control and treatment in each other's place."""
    return [
        replace(
            pair,
            control=pair.treatment,
            treatment=pair.control,
            log_ratio=-pair.log_ratio,
            fork_ratios=tuple((-log_ratio, standard_error) for log_ratio, standard_error in pair.fork_ratios),
        )
        for pair in stream
    ]


def runs_of(streams: Sequence[Stream], cases: int, rng: np.random.Generator) -> Iterator[list[Stream]]:
    """Runs of so many cases each, in which every stream comes once as it is and once exchanged; which of the two comes
    first is drawn for each. What is left over of either half makes no run."""
    first = rng.random(len(streams)) < 0.5
    for half in (first, ~first):
        order = rng.permutation(len(streams))
        for begin in range(0, len(order) - cases + 1, cases):
            yield [exchanged(streams[number]) if half[number] else streams[number] for number in order[begin:][:cases]]


def parse(arguments: Sequence[str] | None) -> argparse.Namespace:
    """The command line."""
    parser = kinds.Parser(
        prog="simulate_recorded.py", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--data", type=Path, default=DATA, help=f"(default {DATA.relative_to(ROOT)})")
    parser.add_argument("--thresholds", type=kinds.share, nargs="+", default=[0.02, 0.005, 0.0025], help="shares")
    parser.add_argument("--parts", type=float, nargs="+", default=PARTS, help="changes, in thresholds")
    parser.add_argument("--power", type=float, default=1.0, help="of the looks' shares of error (default %(default)s)")
    parser.add_argument("--cases", type=kinds.positive, default=40, help="per run (default %(default)s)")
    parser.add_argument("--seed", type=kinds.seed, default=1, help="of the random numbers (default %(default)s)")
    parser.add_argument("--alpha", type=kinds.probability, default=0.05)
    return parser.parse_args(arguments)


def line_of(change: float, threshold: float, results: Sequence[Sequence[Comparison]]) -> str:
    """A row of the table, with what the claims are about: at the threshold and within it any flag is wrong, beyond it
    ``improved`` and ``unchanged`` are."""
    verdicts = [result.verdict for run_of_forty in results for result in run_of_forty]
    claims = [rate_cell(Rate(verdicts.count(claim), len(verdicts))) for claim in CLAIMS]
    rounds = " + ".join(f"{mean_rounds(results, stage):.1f}" for stage in STAGES)
    cells = (f"{100 * threshold:g} %", f"{100 * change:+g} %", *claims, rounds)
    return f"| {' | '.join(cells)} |"


def main(arguments: Sequence[str] | None = None) -> int:
    """Print the table, in Markdown: for each threshold and size, what came of the runs."""
    options = parse(arguments)
    streams = streams_of(options.data)
    if len(streams) < options.cases:
        raise UsageError(f"--data {options.data}: only {len(streams)} cases have recorded noise: lower --cases")
    print(f"| {COLUMNS} |", "|" + "---|" * len(COLUMNS.split(" | ")), sep="\n")
    for threshold in options.thresholds:
        looks = PowerLooks(plan_looks(rounds_at(threshold)).counts, power=options.power)
        for part in options.parts:
            scenario = Scenario("", (part * threshold,) * options.cases, threshold)
            rng = np.random.default_rng(options.seed)
            results = [
                run(Replay(scenario, Noise(), rng, recorded=recorded), looks, options.alpha)
                for recorded in runs_of(streams, options.cases, rng)
            ]
            print(line_of(part * threshold, threshold, results), flush=True)
    return DONE


if __name__ == "__main__":
    sys.exit(run_command("simulate_recorded.py", main))
