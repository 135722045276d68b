"""How often --baseline flags a build against itself: one build measured several times, each run compared with others.

    .venv/bin/python -m benchmarks.baseline_flags mxnet==1.9.1 -b smoke --runs 6

Every run is compared with the one before it, and with the first; whatever is flagged is false.
"""

import argparse
import sys
from collections.abc import Sequence
from itertools import pairwise

from opduel.comparator.baseline import compare_with_baseline
from opduel.driver.builds import BuildCache, resolve_build
from opduel.frameworks import get_framework
from opduel.harness.single import SingleRequest, run_single
from opduel.harness.specs import expand_cases, find_spec, load_spec
from opduel.records.single import SingleReport

THRESHOLDS = (0.02, 0.05, 0.10, 0.20, 0.50)


def main(arguments: Sequence[str] | None = None) -> int:
    """Measure, and print a line for each threshold."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("build", help="as for harness.py --treatment")
    parser.add_argument("-b", "--benchmark_file", default="smoke", help="the spec (default: smoke)")
    parser.add_argument("--runs", type=int, default=6, help="single-build runs (default: 6)")
    options = parser.parse_args(arguments)
    if options.runs < 2:
        parser.error(f"--runs {options.runs}: give 2 or more, which are compared")
    spec = load_spec(find_spec(options.benchmark_file))
    framework = get_framework(spec.framework)
    build = resolve_build(options.build, framework, BuildCache())
    cases = expand_cases(spec, metrics=["time"])
    reports = []
    for number in range(options.runs):
        reports.append(run_single(SingleRequest(framework, build, cases, seed=1)))
        others = (reports[-1].host["during"] or {}).get("other_cpu") or {}
        share = others.get("mean", float("nan"))
        print(f"run {number + 1} of {options.runs}: others took {share:.0%} of all processors' time", file=sys.stderr)
    print(f"{len(cases)} cases of {options.benchmark_file}, {options.runs} runs of {options.build}")
    print("threshold  slower than the run before  faster  slower than the first  faster")
    for threshold in THRESHOLDS:
        before = flags(list(pairwise(reports)), threshold)
        first = flags([(reports[0], one) for one in reports[1:]], threshold)
        print(f"{threshold:9.0%}  {before[0]:26.1%}  {before[1]:6.1%}  {first[0]:21.1%}  {first[1]:6.1%}")
    return 0


def flags(pairs: Sequence[tuple[SingleReport, SingleReport]], threshold: float) -> tuple[float, float]:
    """The shares of all comparisons that are ``slower`` and ``faster``; a pair is (then, now)."""
    verdicts = [one.verdict for then, now in pairs for one in compare_with_baseline(now, then, threshold)]
    return verdicts.count("slower") / len(verdicts), verdicts.count("faster") / len(verdicts)


if __name__ == "__main__":
    sys.exit(main())
