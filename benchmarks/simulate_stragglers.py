"""By hand: a fleet of made-up hosts one of which is slow; what does it gain that its open cases move?

    .venv/bin/python benchmarks/simulate_stragglers.py [--hosts 2 4 8 ...] [--slow 2 10] [--runs 20] [--seed N]

Real are the cases (MXNet's whole catalogue), their shards, and the choice of what moves (``opduel.fleet.shards.cut``,
``opduel.fleet.stragglers.straggler``); hosts and time are not, as in simulate_fleet.py. A case is measured for the
rounds, and takes the seconds a round, of a case in the quiet runs of
benchmarks/results/calibration-median-quad.jsonl, on any host:
one that moves starts from the beginning. All of a shard's open cases are measured once before any is a second time.
One host, drawn at random, takes --slow times as long for everything, from the beginning.

Prints a Markdown table, means over the runs: wall time without a slow host, with one, and with one whose open cases
move; how many cases move.
"""

import argparse
import random
import statistics
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))

from benchmarks.simulate_fleet import DATA, SPREAD, real_rounds  # noqa: E402
from opduel.fleet.shards import Shard, cut  # noqa: E402
from opduel.fleet.stragglers import Pace, UnderWay, straggler  # noqa: E402
from opduel.harness.specs import expand_cases, find_spec, load_spec  # noqa: E402
from opduel.records import Case  # noqa: E402

HOSTS = (2, 4, 8, 16, 32)
LOOK_S = 5.0  # between looks at who is slow
ROUND = tuple[int, float]  # of a case: how many rounds it takes, and the seconds of one


@dataclass(frozen=True)
class Running:
    """A shard on a host, since when, and whether its cases have moved once."""

    shard: Shard
    began: float
    moved: bool


class Fleet:
    """Made-up hosts that measure shards: a clock, and who has what."""

    def __init__(self, speeds: Sequence[float], rounds: dict[str, ROUND], start_s: float, moves: bool) -> None:
        self._speeds, self._rounds, self._start_s, self._moves = speeds, rounds, start_s, moves
        self._now = 0.0
        self._todo: list[tuple[Shard, bool]] = []
        self._running: dict[int, Running] = {}
        self._slow: set[int] = set()
        self._seconds: list[float] = []  # of a sample, in each finished shard
        self._samples = self._cases = 0
        self.moved = 0

    def wall_time(self, shards: Sequence[Shard]) -> float:
        """Seconds until all cases are settled."""
        self._todo = [(shard, False) for shard in shards]
        while self._todo or self._running:
            self._begin()
            ends = min(self._end_of(host) for host in self._running)
            looks = self._moves and not self._todo and len(self._running) < len(self._speeds)
            self._now = min(ends, self._now + LOOK_S) if looks else ends
            self._finish()
            if self._moves and not self._todo:
                self._relieve()
        return self._now

    def _idle(self) -> list[int]:
        idle = [host for host in range(len(self._speeds)) if host not in self._running]
        return [host for host in idle if host not in self._slow]

    def _begin(self) -> None:
        for host in self._idle():
            if self._todo:
                shard, moved = self._todo.pop(0)
                self._running[host] = Running(shard, self._now, moved)

    def _end_of(self, host: int) -> float:
        one = self._running[host]
        work = sum(rounds * seconds for rounds, seconds in map(self._of, one.shard.cases))
        return one.began + self._start_s + work / self._speeds[host]

    def _of(self, case: Case) -> ROUND:
        return self._rounds[case.id]

    def _finish(self) -> None:
        for host, one in list(self._running.items()):
            if self._end_of(host) <= self._now + 1e-9:
                del self._running[host]
                samples = sum(self._of(case)[0] for case in one.shard.cases)
                self._seconds.append((self._now - one.began) / samples)
                self._samples, self._cases = self._samples + samples, self._cases + len(one.shard.cases)

    def _open(self, host: int) -> tuple[list[Case], int]:
        """The cases that the host has not settled yet, and how many samples it has of all."""
        one = self._running[host]
        left = max(0.0, self._now - one.began - self._start_s) * self._speeds[host]
        samples, made = 0, 0
        still_open = list(one.shard.cases)
        while still_open:
            wave = sum(self._of(case)[1] for case in still_open)
            if wave > left:
                break
            left, made, samples = left - wave, made + 1, samples + len(still_open)
            still_open = [case for case in still_open if self._of(case)[0] > made]
        return still_open, samples

    def _relieve(self) -> None:
        idle = len(self._idle())
        if not idle or not self._seconds:
            return
        pace = Pace(statistics.median(self._seconds), self._samples / self._cases)
        seen = {}
        for host, one in self._running.items():
            if not one.moved:
                still_open, samples = self._open(host)
                elapsed_s = max(1e-9, self._now - one.began)
                seen[str(host)] = UnderWay(len(one.shard.cases), len(still_open), samples, elapsed_s)
        chosen = straggler(seen, pace, idle)
        if chosen is None:
            return
        still_open, _ = self._open(int(chosen))
        del self._running[int(chosen)]
        self._slow.add(int(chosen))
        self._todo = [(shard, True) for shard in cut(still_open, lambda case: 1.0, idle, 0)]
        self.moved += len(still_open)


def simulate(
    cases: Sequence[Case], real: Sequence[ROUND], hosts: int, slow: float, options: argparse.Namespace
) -> list[float]:
    """Means over the runs: wall seconds without a slow host, with one, and with one whose cases move; how many do."""
    rows = []
    for number in range(options.runs):
        rng = random.Random(f"{options.seed} {hosts} {number}")
        rounds = {case.id: rng.choice(real) for case in cases}
        speeds = [rng.lognormvariate(0.0, SPREAD) for _ in range(hosts)]
        shards = cut(cases, lambda case, of=rounds: of[case.id][0] * of[case.id][1], hosts, number)
        usual = Fleet(speeds, rounds, options.start, False).wall_time(shards)
        speeds[rng.randrange(hosts)] /= slow
        stays, moves = (Fleet(speeds, rounds, options.start, moves) for moves in (False, True))
        rows.append([usual, stays.wall_time(shards), moves.wall_time(shards), float(moves.moved)])
    return [statistics.fmean(column) for column in zip(*rows, strict=True)]


def main() -> int:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--hosts", type=int, nargs="+", default=HOSTS, metavar="N", help=f"default: {HOSTS}")
    parser.add_argument("--slow", type=float, nargs="+", default=(2.0, 10.0), metavar="TIMES", help="default: 2 10")
    parser.add_argument("--runs", type=int, default=20, metavar="N", help="of each row (default: 20)")
    parser.add_argument("--start", type=float, default=8.0, metavar="SECONDS", help="of a shard (default: 8)")
    parser.add_argument("--spec", default="all", help="default: all")
    parser.add_argument("--seed", type=int, default=1, metavar="N", help="default: 1")
    options = parser.parse_args()
    cases, real = expand_cases(load_spec(find_spec(options.spec))), real_rounds(DATA)
    titles = ("slow", "hosts", "no slow host, min", "one slow host", "its cases move", "cases that move")
    print(f"| {' | '.join(titles)} |\n|{'---|' * len(titles)}")
    for slow in options.slow:
        for hosts in options.hosts:
            *times, moved = simulate(cases, real, hosts, slow, options)
            cells = [f"{slow:g} times", str(hosts), *(f"{seconds / 60:.1f}" for seconds in times), f"{moved:.0f}"]
            print(f"| {' | '.join(cells)} |", flush=True)
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
