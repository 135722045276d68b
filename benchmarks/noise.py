#!/usr/bin/env python3
"""Compare settings side by side: how far process pairs of one build differ, and what a case costs.

    .venv/bin/python benchmarks/noise.py --rounds 12 --setting A=1 --setting MXNET_ENGINE_TYPE=NaiveEngine
    .venv/bin/python benchmarks/noise.py --setting opduel.harness.rounds.blocks.LOW=0.1 --setting ahead=no --load bursts

A setting is NAME=VALUE[,NAME=VALUE]: an environment variable on both sides, a number in one of the harness's modules,
or ``ahead=no``, with which pairs and cases are prepared on the measuring processor. All settings are used in each
round, in random order. Printed are, for each, the spread of every case's log ratios over the pairs (from the median
absolute deviation), their extremes, and wall time and timed share of a case and round.
"""

import argparse
import importlib
import random
import statistics
import sys
from collections import defaultdict
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from pathlib import Path
from unittest.mock import patch

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from scipy import stats

from benchmarks.bench import MXNET, make_bench
from benchmarks.loads import LOADS, QUIET, load
from opduel.harness.machine.cpus import this_thread_on
from opduel.harness.planning.effort import Repetitions
from opduel.harness.processes.case_request import CaseRequest
from opduel.harness.processes.pair_pool import Bench, PairPool
from opduel.harness.rounds.pair import Round, RoundResult, run_round
from opduel.records import PairSample

LEAST_SPREAD = 1e-5
UNCHANGED = "ahead=yes"


def samples_by_case(rounds: Sequence[RoundResult]) -> dict[str, list[PairSample]]:
    """Return all samples of some rounds by case id."""
    samples: dict[str, list[PairSample]] = defaultdict(list)
    for result in rounds:
        for sample in result.samples:
            samples[sample.case_id].append(sample)
    return samples


def lines(setting: str, rounds: Sequence[RoundResult]) -> Iterator[str]:
    """Yield a summary of the rounds under one setting, and a line for each case."""
    ratios = {case: [sample.log_ratio for sample in samples] for case, samples in samples_by_case(rounds).items()}
    spreads = {case: float(stats.median_abs_deviation(values, scale="normal")) for case, values in ratios.items()}
    mean = statistics.geometric_mean(max(value, LEAST_SPREAD) for value in spreads.values())
    wall_s = statistics.median(result.wall_s for result in rounds)
    timed_s = statistics.median(result.timed_s for result in rounds)
    cost = f"{1000 * wall_s / len(spreads):.0f} ms a case and round, {timed_s / wall_s:.0%} of it timed"
    yield f"{setting}: geometric mean of the spreads {100 * mean:.2f} %; {cost}"
    for case, values in ratios.items():
        extremes = f"from {100 * min(values):+6.1f} % to {100 * max(values):+6.1f} %"
        yield f"  {case:28} {100 * spreads[case]:6.2f} %  {extremes}"


@contextmanager
def apply_setting(setting: str, bench: Bench) -> Iterator[Bench]:
    """Yield the bench under a setting, and restore the modules' numbers at the end."""
    variables = {}
    with ExitStack() as stack:
        for name, value in (part.split("=", 1) for part in setting.split(",")):
            module_name, _, constant = name.rpartition(".")
            if name == "ahead":
                start = bench.cpus.start if value == "yes" else bench.cpus.measure
                bench = replace(bench, cpus=replace(bench.cpus, start=start))
            elif module_name:
                module = importlib.import_module(module_name)
                kind = type(getattr(module, constant))
                stack.enter_context(patch.object(module, constant, kind(float(value))))
            else:
                variables[name] = value
        yield replace(bench, environment={**bench.environment, **variables})


def measure(
    settings: Sequence[str], bench: Bench, requests: Sequence[CaseRequest], rounds: int, repetitions: Repetitions
) -> dict[str, list[RoundResult]]:
    """Return the rounds by setting."""
    rng = random.Random(1)
    by_case = {request.case.id: repetitions for request in requests}
    results: dict[str, list[RoundResult]] = {setting: [] for setting in settings}
    with this_thread_on(bench.cpus.control), ExitStack() as stack:
        pools = {}
        for setting in settings:
            with apply_setting(setting, bench) as changed_bench:
                pools[setting] = stack.enter_context(PairPool(changed_bench, rng))
        for number in range(rounds):
            for setting in rng.sample(settings, len(settings)):
                result = RoundResult()
                with apply_setting(setting, bench):
                    run_round(pools[setting], Round(requests, number, repetitions=by_case), rng, result)
                results[setting].append(result)
    return results


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--spec", default="smoke")
    parser.add_argument("--rounds", type=int, default=12)
    parser.add_argument("--forks", type=int, default=2, help="of each case and process pair (default %(default)s)")
    parser.add_argument("--quads", type=int, default=24, help="of each fork (default %(default)s)")
    parser.add_argument("--setting", action="append", default=[])
    parser.add_argument("--load", default=QUIET, choices=LOADS, help="beside the rounds (default quiet)")
    options = parser.parse_args()
    bench, cases = make_bench(MXNET, options.spec)
    requests, repetitions = [CaseRequest(case, 1) for case in cases], Repetitions(options.forks, options.quads)
    with load(options.load):
        results = measure(options.setting or [UNCHANGED], bench, requests, options.rounds, repetitions)
    for setting, result in results.items():
        print("\n".join(lines(setting, result)))


if __name__ == "__main__":
    main()
