"""How many of the inputs that opduel.strategies draws a build refuses, by operator.

.venv/bin/python benchmarks/strategies.py BUILD [--every N] [--draws N] [--seed N]
"""

import argparse
import sys
from collections import Counter
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from opduel.driver.builds import BuildCache, resolve_build
from opduel.frameworks import get_framework
from opduel.harness.smoke_check import smoke_check
from opduel.harness.specs import expand_cases, find_spec, load_spec
from opduel.harness.specs.strategies import case_of, drawn, examples
from opduel.harness.specs.template import templates
from opduel.strategies import CATALOGUE


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("build", help="a release, such as mxnet==1.9.1, or a path")
    parser.add_argument("--every", type=int, default=1, help="only every Nth kind of inputs (default: all)")
    parser.add_argument("--draws", type=int, default=4, help="of each kind of inputs (default: 4)")
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args()
    spec = load_spec(find_spec(CATALOGUE))
    framework = get_framework(spec.framework)
    build = resolve_build(options.build, framework, BuildCache(None))
    forward = [case for case in expand_cases(spec) if case.direction == "forward" and case.mode == "imperative"]
    kinds = [one for one in templates(forward) if one.limits][:: options.every]
    cases = [
        case_of(one, number)
        for kind in kinds
        for number, one in enumerate(examples(drawn(kind), options.draws, options.seed))
    ]
    refused: Counter[str] = Counter()
    drawn_of: Counter[str] = Counter(case.operator for case in cases)
    for attempt in smoke_check(build, framework, cases, limit_s=10.0):
        refused[attempt.case.operator] += attempt.reason is not None
    bad = sum(refused.values())
    print(f"{len(kinds)} kinds of inputs of {len(drawn_of)} operators: {bad} of {len(cases)} draws refused")
    for operator, count in refused.most_common(15):
        if count:
            print(f"  {operator}: {count} of {drawn_of[operator]}")


if __name__ == "__main__":
    main()
