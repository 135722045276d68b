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
from dataclasses import dataclass, field, replace
from pathlib import Path
from types import ModuleType
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))

from benchmarks.loads import LOADS, QUIET, load  # noqa: E402
from opduel.driver.builds import BuildCache, resolve_build  # noqa: E402
from opduel.frameworks import get_framework, worker_environment  # noqa: E402
from opduel.harness.machine.cpus import plan_cpus, this_thread_on  # noqa: E402
from opduel.harness.planning.effort import Repetitions  # noqa: E402
from opduel.harness.processes.case_request import CaseRequest  # noqa: E402
from opduel.harness.processes.pair_pool import Bench, PairPool  # noqa: E402
from opduel.harness.rounds.pair import Round, RoundResult, run_round  # noqa: E402
from opduel.harness.specs import expand_cases, find_spec, load_spec  # noqa: E402

LEAST_SPREAD = 1e-5


@dataclass
class SettingResult:
    """Log ratios by case, and the times of all rounds, under one setting."""

    log_ratios: dict[str, list[float]] = field(default_factory=lambda: defaultdict(list))
    wall_s: list[float] = field(default_factory=list)
    timed_s: list[float] = field(default_factory=list)

    def add(self, result: RoundResult) -> None:
        """Add a round."""
        for sample in result.samples:
            self.log_ratios[sample.case_id].append(sample.log_ratio)
        self.wall_s.append(result.wall_s)
        self.timed_s.append(result.timed_s)

    def lines(self, setting: str) -> Iterator[str]:
        """Yield a summary, and a line for each case."""
        spreads = {case_id: spread(ratios) for case_id, ratios in self.log_ratios.items()}
        mean = statistics.geometric_mean(max(value, LEAST_SPREAD) for value in spreads.values())
        wall_s, timed_s = statistics.median(self.wall_s), statistics.median(self.timed_s)
        cost = f"{1000 * wall_s / len(spreads):.0f} ms a case and round, {timed_s / wall_s:.0%} of it timed"
        yield f"{setting}: geometric mean of the spreads {100 * mean:.2f} %; {cost}"
        for case_id, ratios in self.log_ratios.items():
            extremes = f"from {100 * min(ratios):+6.1f} % to {100 * max(ratios):+6.1f} %"
            yield f"  {case_id:28} {100 * spreads[case_id]:6.2f} %  {extremes}"


def spread(values: Sequence[float]) -> float:
    """Return the median absolute deviation, scaled to a normal distribution's standard deviation."""
    middle = statistics.median(values)
    return 1.4826 * statistics.median(abs(value - middle) for value in values)


@contextmanager
def apply_setting(setting: str, bench: Bench) -> Iterator[Bench]:
    """Yield the bench under a setting, and restore the modules' numbers at the end."""
    original: list[tuple[ModuleType, str, Any]] = []
    variables: dict[str, str] = {}
    for name, value in (part.split("=", 1) for part in setting.split(",")):
        if name == "ahead":
            start = bench.cpus.start if value == "yes" else bench.cpus.measure
            bench = replace(bench, cpus=replace(bench.cpus, start=start))
        elif "." in name:
            module_name, _, constant = name.rpartition(".")
            module = importlib.import_module(module_name)
            original.append((module, constant, getattr(module, constant)))
            setattr(module, constant, type(original[-1][2])(float(value)))
        else:
            variables[name] = value
    try:
        yield replace(bench, environment={**bench.environment, **variables})
    finally:
        for module, constant, number in original:
            setattr(module, constant, number)


def measure(
    settings: Sequence[str], bench: Bench, requests: Sequence[CaseRequest], rounds: int, repetitions: Repetitions
) -> dict[str, SettingResult]:
    """Return the results by setting."""
    rng = random.Random(1)
    by_case = {request.case.id: repetitions for request in requests}
    results = {setting: SettingResult() for setting in settings}
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
                results[setting].add(result)
    return results


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--build", default="mxnet==1.9.1")
    parser.add_argument("--spec", default="smoke")
    parser.add_argument("--rounds", type=int, default=12)
    parser.add_argument("--forks", type=int, default=2, help="of each case and process pair (default %(default)s)")
    parser.add_argument("--quads", type=int, default=24, help="of each fork (default %(default)s)")
    parser.add_argument("--setting", action="append", default=[])
    parser.add_argument("--load", default=QUIET, choices=LOADS, help="beside the rounds (default quiet)")
    options = parser.parse_args()
    spec = load_spec(find_spec(options.spec))
    framework = get_framework(spec.framework)
    build = resolve_build(options.build, framework, BuildCache())
    environment = {**worker_environment(), **framework.environment(1)}
    bench = Bench({"control": build, "treatment": build}, framework.adaptor, environment, plan_cpus(1))
    requests = [CaseRequest(case, 1) for case in expand_cases(spec)]
    repetitions = Repetitions(options.forks, options.quads)
    with load(options.load):
        results = measure(options.setting or ["ahead=yes"], bench, requests, options.rounds, repetitions)
    for setting, result in results.items():
        print("\n".join(result.lines(setting)))


if __name__ == "__main__":
    main()
