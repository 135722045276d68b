#!/usr/bin/env python3
"""How far fresh process pairs of one build differ in the instructions that they count, and what counting costs.

    .venv/bin/python benchmarks/counts.py --rounds 4
    .venv/bin/python benchmarks/counts.py --control mxnet==1.8.0.post0 --treatment mxnet==1.9.1 --rounds 3 --load 4

For each case: instructions a call, the largest distance of a process pair's log ratio from 0, the spread of all
processes about their median, and the seconds that the case took a pair. --load keeps so many processes busy meanwhile.
"""

import argparse
import math
import random
import statistics
import subprocess
import sys
import time
from collections import defaultdict
from contextlib import ExitStack
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))

from opduel.driver.builds import BuildCache, resolve_build  # noqa: E402
from opduel.frameworks import get_framework, worker_environment  # noqa: E402
from opduel.harness.case_request import CaseRequest  # noqa: E402
from opduel.harness.cpus import plan_cpus  # noqa: E402
from opduel.harness.instructions import plan_counting, require_counting, run_counting_round  # noqa: E402
from opduel.harness.pair import Round, RoundResult  # noqa: E402
from opduel.harness.pair_pool import Bench, PairPool  # noqa: E402
from opduel.harness.specs import expand_cases, find_spec, load_spec, select_cases  # noqa: E402
from opduel.records import PairSample  # noqa: E402

BUSY = "while True: pass"


def line(case: str, samples: list[PairSample]) -> str:
    """One row of the table."""
    values = [math.log(value) for one in samples for value in (one.control, one.treatment)]
    middle = statistics.median(values)
    ratio = statistics.median(one.log_ratio for one in samples)
    return (
        f"  {case:36} {math.exp(middle):13,.0f}  median {100 * ratio:+8.4f} %"
        f"  pairs within {100 * max(abs(one.log_ratio) for one in samples):.4f} %"
        f"  processes within {100 * max(abs(value - middle) for value in values):.4f} %"
    )


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--control", default="mxnet==1.9.1")
    parser.add_argument("--treatment", default="mxnet==1.9.1")
    parser.add_argument("--spec", default="smoke")
    parser.add_argument("--operators", action="append", default=[])
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--inject", type=float, default=0.0, help="a share, on the treatment side of every case")
    parser.add_argument("--load", type=int, default=0)
    options = parser.parse_args()
    spec = load_spec(find_spec(options.spec))
    framework = get_framework(spec.framework)
    cases = select_cases(expand_cases(spec, metrics=["instructions"]), options.operators or ["*"])
    require_counting(framework, cases)
    control, treatment = (resolve_build(name, framework, BuildCache()) for name in (options.control, options.treatment))
    environment = {**worker_environment(), **framework.environment(1)}
    builds = {"control": control, "treatment": treatment}
    bench = Bench(builds, framework.adaptor, environment, plan_cpus(1), plan_counting(framework))
    samples: dict[str, list[PairSample]] = defaultdict(list)
    rng = random.Random(1)
    with ExitStack() as stack:
        for _ in range(options.load):
            stack.callback(subprocess.Popen([sys.executable, "-c", BUSY]).kill)
        for number in range(options.rounds):
            began, result = time.monotonic(), RoundResult()
            requests = [CaseRequest(case, 1, options.inject) for case in cases]
            run_counting_round(PairPool(bench, rng), Round(requests, number), rng, result)
            seconds = (time.monotonic() - began - result.start_s) / len(cases)
            print(f"pair {number}: {result.start_s:.1f} s to start, then {seconds:.1f} s a case", flush=True)
            for name, failure in {**result.refused, **result.lost}.items():
                print(f"  {name}: {failure.side}: {failure.reason}")
            for sample in result.samples:
                samples[sample.case_id].append(sample)
    for case in cases:
        if rows := samples.get(case.id):
            print(line(case.time_id, rows))


if __name__ == "__main__":
    main()
