#!/usr/bin/env python3
"""How far fresh process pairs of one build differ, case by case: the noise that a verdict has to see through.

    .venv/bin/python benchmarks/noise.py --rounds 12 --setting A=1 --setting MXNET_ENGINE_TYPE=NaiveEngine

For each --setting (environment variables, NAME=VALUE[,NAME=VALUE], added on both sides; all settings in each round):
the standard deviation of the log ratio over the pairs (from the median absolute deviation), and its extremes.
"""

import argparse
import math
import random
import statistics
import sys
from collections import defaultdict
from dataclasses import replace
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))

from driver.builds import BuildCache, resolve_build  # noqa: E402
from frameworks import get_framework, worker_environment  # noqa: E402
from harness.blocks import CaseRequest  # noqa: E402
from harness.cpus import plan_cpus  # noqa: E402
from harness.pair import Round, RoundResult, run_round  # noqa: E402
from harness.specs import expand_cases, find_spec, load_spec  # noqa: E402
from harness.supply import Bench, PairSupply  # noqa: E402


def spread(values: list[float]) -> float:
    """The median absolute deviation, scaled to a normal distribution's standard deviation."""
    middle = statistics.median(values)
    return 1.4826 * statistics.median(abs(value - middle) for value in values)


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--build", default="mxnet==1.9.1")
    parser.add_argument("--spec", default="smoke")
    parser.add_argument("--rounds", type=int, default=12)
    parser.add_argument("--setting", action="append", default=[])
    options = parser.parse_args()
    spec = load_spec(find_spec(options.spec))
    framework = get_framework(spec.framework)
    build = resolve_build(options.build, framework, BuildCache())
    environment = {**worker_environment(), **framework.environment(1)}
    bench = Bench({"control": build, "treatment": build}, framework.adaptor, environment, plan_cpus(1))
    requests = [CaseRequest(case, 1) for case in expand_cases(spec)]
    coin = random.Random(1)
    ratios: dict[str, dict[str, list[float]]] = defaultdict(lambda: defaultdict(list))
    settings = options.setting or ["A=1"]
    for number in range(options.rounds):
        for setting in coin.sample(settings, len(settings)):
            added = dict(pair.split("=", 1) for pair in setting.split(","))
            result = RoundResult()
            with PairSupply(replace(bench, environment={**environment, **added}), coin) as supply:
                run_round(supply, Round(requests, number), coin, result)
            for sample in result.samples:
                ratios[setting][sample.case_id].append(sample.log_ratio)
    for setting in settings:
        rows = ratios[setting]
        typical = math.exp(statistics.fmean(math.log(max(spread(row), 1e-5)) for row in rows.values()))
        print(f"{setting}: geometric mean of the spreads {100 * typical:.2f} %")
        for case, row in rows.items():
            print(f"  {case:28} {100 * spread(row):6.2f} %  from {100 * min(row):+6.1f} % to {100 * max(row):+6.1f} %")


if __name__ == "__main__":
    main()
