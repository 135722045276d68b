"""By hand: what a fleet of made-up hosts would gain, and what it costs when some of them are lost.

    .venv/bin/python benchmarks/simulate_fleet.py [--hosts 1 2 4 8 ...] [--runs 50] [--seed N]

The cases, their shards and their order are real (``opduel.fleet.shards.cut`` on MXNet's whole catalogue); hosts and
time are not. What a case costs is drawn from the quiet runs without a slowed case in
benchmarks/results/calibration-median-quad.jsonl: its rounds, times the seconds of a round of a case in that run. Hosts
differ in speed (log-normal, standard deviation 20 %). A shard costs --start seconds on top, for its processes and their
imports. A free host takes the next shard, as with Dask's scheduler and one slot a host.

Prints a Markdown table, means over the runs: wall time, how many times as fast as one host of speed 1 without a fleet,
the share of the time in which hosts had nothing to do, and the same when a tenth of the hosts (one at least, of two or
more) dies at a random moment: their shards start from the beginning on others, --notice seconds later.
"""

import argparse
import heapq
import json
import random
import statistics
import sys
from collections.abc import Sequence
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))

from opduel.fleet.shards import cut  # noqa: E402
from opduel.harness.specs import expand_cases, find_spec, load_spec  # noqa: E402
from opduel.records import Case  # noqa: E402

DATA = ROOT / "benchmarks" / "results" / "calibration-median-quad.jsonl"
SPREAD = 0.2  # of the logarithm of hosts' speeds
HOSTS = (1, 2, 4, 8, 16, 32, 64, 128, 256)


def real_costs(path: Path) -> list[float]:
    """Seconds that cases took in the quiet runs without a slowed case."""
    return [rounds * seconds for rounds, seconds in real_rounds(path)]


def real_rounds(path: Path) -> list[tuple[int, float]]:
    """Of these cases: how many rounds each had, and the seconds of a round."""
    found = []
    for line in path.read_text(encoding="utf-8").splitlines():
        run = json.loads(line)
        if run["step"]["inject"] or run["step"]["load"] != "quiet":
            continue
        rounds = [len(one.get("screening", ())) + len(one.get("confirmation", ())) for one in run["comparisons"]]
        second = run["run"]["wall_s"] / max(1, sum(rounds))
        found += [(count, second) for count in rounds if count]
    return found


def wall_time(
    shards: Sequence[float], speeds: Sequence[float], start_s: float, lost: dict[int, float], notice_s: float
) -> tuple[float, float]:
    """Seconds until the last shard (each given in seconds of a host of speed 1) is done, and those in which all hosts
    together worked on shards that they finished. ``lost``: host -> when it dies.

    Raises:
        ValueError: all hosts die.
    """
    free = [(0.0, host) for host in range(len(speeds))]
    heapq.heapify(free)
    waiting = [(0.0, number, seconds) for number, seconds in enumerate(shards)]
    heapq.heapify(waiting)  # by when they can be taken, then in their order
    ended = worked = 0.0
    while waiting:
        if not free:
            raise ValueError("no host is left")
        at, host = heapq.heappop(free)
        ready, number, seconds = heapq.heappop(waiting)
        begins = max(at, ready)
        took = start_s + seconds / speeds[host]
        dies = lost.get(host, float("inf"))
        if begins + took > dies:  # it never comes back
            heapq.heappush(waiting, (max(dies, begins) + notice_s, number, seconds))
            continue
        ended, worked = max(ended, begins + took), worked + took
        heapq.heappush(free, (begins + took, host))
    return ended, worked


def simulate(
    cases: Sequence[Case], costs: Sequence[float], hosts: int, known: bool, options: argparse.Namespace
) -> list[float]:
    """Means over the runs: wall seconds, speed-up, idle share, and wall seconds and speed-up with a tenth lost.
    ``known``: shards are cut by what cases cost; else as if all cost the same."""
    rows = []
    for number in range(options.runs):
        rng = random.Random(f"{options.seed} {hosts} {number}")
        seconds = {case.id: rng.choice(costs) for case in cases}
        speeds = [rng.lognormvariate(0.0, SPREAD) for _ in range(hosts)]
        made = cut(cases, lambda case, of=seconds: of[case.id] if known else 1.0, hosts, number)
        shards = [sum(seconds[case.id] for case in shard.cases) for shard in made]
        alone = options.start + sum(seconds.values())
        wall, worked = wall_time(shards, speeds, options.start, {}, options.notice)
        gone = rng.sample(range(hosts), max(1, hosts // 10)) if hosts > 1 else []
        lost = {host: rng.uniform(0, wall) for host in gone}
        later, _ = wall_time(shards, speeds, options.start, lost, options.notice)
        rows.append([wall, alone / wall, 1 - worked / (hosts * wall), later, alone / later])
    return [statistics.fmean(column) for column in zip(*rows, strict=True)]


def main() -> int:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--hosts", type=int, nargs="+", default=HOSTS, metavar="N", help=f"default: {HOSTS}")
    parser.add_argument("--runs", type=int, default=20, metavar="N", help="of each row (default: 20)")
    parser.add_argument("--start", type=float, default=8.0, metavar="SECONDS", help="of a shard (default: 8)")
    parser.add_argument("--notice", type=float, default=30.0, metavar="SECONDS", help="of a loss (default: 30)")
    parser.add_argument("--spec", default="all", help="default: all")
    parser.add_argument("--seed", type=int, default=1, metavar="N", help="default: 1")
    options = parser.parse_args()
    cases, costs = expand_cases(load_spec(find_spec(options.spec))), real_costs(DATA)
    print(f"{len(cases)} cases of {options.spec}, of {statistics.fmean(costs):.2f} s on average\n")
    titles = ("costs", "hosts", "wall time, min", "times as fast", "idle", "a tenth lost: min", "times as fast")
    print(f"| {' | '.join(titles)} |\n|{'---|' * len(titles)}")
    for known in (True, False):
        for hosts in options.hosts:
            wall, faster, idle, later, left = simulate(cases, costs, hosts, known, options)
            cells = ("known" if known else "unknown", str(hosts), f"{wall / 60:.1f}", f"{faster:.1f}", f"{idle:.0%}")
            print(f"| {' | '.join([*cells, f'{later / 60:.1f}', f'{left:.1f}'])} |", flush=True)
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
