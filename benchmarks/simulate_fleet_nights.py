"""By hand: what a fleet of made-up hosts gains when the commits of a night run at the same time.

    .venv/bin/python benchmarks/simulate_fleet_nights.py [--hosts 1 2 4 8 ...] [--commits 8] [--runs 20] [--seed N]

As benchmarks/simulate_fleet.py, whose costs, speeds of hosts, and seconds of a shard's start these are: the shards are
real, hosts and time are not. Every commit is benchmarked on the cases of a spec, no case is flagged, and every build is
there. "One after the other": a commit's benchmark begins when that of the one before has ended. "At the same time": a
free host takes a shard of the earliest commit that has any left.

Prints a Markdown table, means over the runs: minutes of the night either way, and how many times as fast as one host.
"""

import argparse
import random
import statistics
import sys
from collections.abc import Sequence
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))

from benchmarks.simulate_fleet import DATA, SPREAD, real_costs, wall_time  # noqa: E402
from opduel.fleet.shards import cut  # noqa: E402
from opduel.harness.specs import expand_cases, find_spec, load_spec  # noqa: E402
from opduel.records import Case  # noqa: E402

HOSTS = (1, 2, 3, 4, 8, 16, 32, 64)
SPECS = ("smoke", "all")


def night(
    cases: Sequence[Case], costs: Sequence[float], hosts: int, options: argparse.Namespace, number: int
) -> list[float]:
    """Seconds of one night: on one host of speed 1 without a fleet, one after the other, and at the same time."""
    rng = random.Random(f"{options.seed} {hosts} {number}")
    seconds = {case.id: rng.choice(costs) for case in cases}
    speeds = [rng.lognormvariate(0.0, SPREAD) for _ in range(hosts)]
    runs = []
    for commit in range(options.commits):
        shards = cut(cases, lambda case: seconds[case.id], hosts, number * options.commits + commit)
        runs.append([sum(seconds[case.id] for case in shard.cases) for shard in shards])
    alone = options.commits * (options.start + sum(seconds.values()))
    one_by_one = sum(wall_time(shards, speeds, options.start, {}, 0.0)[0] for shards in runs)
    together, _ = wall_time([shard for shards in runs for shard in shards], speeds, options.start, {}, 0.0)
    return [alone, one_by_one, together]


def main() -> int:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--hosts", type=int, nargs="+", default=HOSTS, metavar="N", help=f"default: {HOSTS}")
    parser.add_argument("--commits", type=int, default=8, metavar="N", help="that are due (default: 8)")
    parser.add_argument("--runs", type=int, default=20, metavar="N", help="of each row (default: 20)")
    parser.add_argument("--start", type=float, default=8.0, metavar="SECONDS", help="of a shard (default: 8)")
    parser.add_argument("--seed", type=int, default=1, metavar="N", help="default: 1")
    options = parser.parse_args()
    costs = real_costs(DATA)
    titles = ("cases", "hosts", "one after the other, min", "times as fast", "at the same time, min", "times as fast")
    print(f"| {' | '.join(titles)} |\n|{'---|' * len(titles)}")
    for spec in SPECS:
        cases = expand_cases(load_spec(find_spec(spec)))
        for hosts in options.hosts:
            rows = [night(cases, costs, hosts, options, number) for number in range(options.runs)]
            alone, *both = (statistics.fmean(column) for column in zip(*rows, strict=True))
            cells = [f"{took / 60:.1f} | {alone / took:.1f}" for took in both]
            print(f"| {len(cases)} | {hosts} | {' | '.join(cells)} |", flush=True)
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
