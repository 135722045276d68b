"""By hand: what a fleet of made-up hosts would gain in a bisection.

    .venv/bin/python benchmarks/simulate_fleet_bisection.py [--hosts 1 3 7 ...] [--commits 500] [--runs 50] [--seed N]

The search and what is measured ahead of it are real (``opduel.driver.bisection``, ``opduel.driver.speculation``);
hosts, commits and time are not. One case has one culprit, or two cases have one each, anywhere among the commits. An
A/B of two commits, whose builds are there, takes 1 on average (log-normal, standard deviation of the logarithm 50 %),
and its answer is right.

Prints a Markdown table, means over the runs: the time of the whole search where one A/B takes 1, how many times as fast
as one host, how many A/Bs were made for the search, and how many in vain.
"""

import argparse
import math
import random
import statistics
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))

from opduel.driver.bisection import Measure, Step, bisect  # noqa: E402
from opduel.driver.speculation import Answer, Question, likely_questions  # noqa: E402

HOSTS = (1, 2, 3, 4, 7, 8, 15, 16)
CHANGE = 0.3  # the log ratio that a culprit brings
HALF = 0.005  # half-width of the intervals
THRESHOLD = 0.02
SPREAD = 0.5  # of the logarithm of an A/B's time


def answer(between: tuple[int, int], cases: Sequence[str], culprits: Mapping[str, int]) -> dict[str, Step]:
    """What an A/B says of each case."""
    found = {}
    for case in cases:
        inside = between[0] < culprits[case] <= between[1]
        change = CHANGE if inside else 0.0
        found[case] = Step("regressed" if inside else "unchanged", change, change - HALF, change + HALF)
    return found


def search_time(commits: int, culprits: Mapping[str, int], hosts: int, rng: random.Random) -> tuple[float, int, int]:
    """How long a search takes on so many hosts; how many A/Bs it asked for, and how many more were begun.

    Raises:
        AssertionError: it did not find the culprits.
    """
    whole = answer((0, commits), sorted(culprits), culprits)
    known: dict[Question, Answer] = {}
    ends: dict[Question, float] = {}  # of what was begun and not given up
    begun = asked = 0
    now = 0.0

    def search(measure: Measure) -> list[tuple[int, int]]:
        found = bisect(commits, whole, measure, lambda _: True, (), dict.fromkeys(whole, THRESHOLD))
        return [(one.left, one.right) for one in found]

    def share_out(question: Question) -> None:
        nonlocal begun
        likely = likely_questions(search, whole, known, hosts) if hosts > 1 else []
        for one in [one for one in ends if one not in likely and one not in known and one != question]:
            del ends[one]
        free = hosts - sum(end > now for end in ends.values())
        for one in [one for one in dict.fromkeys([question, *likely]) if one not in ends][:free]:
            ends[one] = now + rng.lognormvariate(-(SPREAD**2) / 2, SPREAD)
            begun += 1

    def measure(left: int, right: int, cases: Sequence[str]) -> Answer:
        nonlocal now, asked
        asked += 1
        question = (left, right), tuple(cases)
        while question not in known:
            share_out(question)
            now = min(end for one, end in ends.items() if one not in known)
            known.update({one: answer(*one, culprits) for one, end in ends.items() if end <= now})
        return known[question]

    found = search(measure)
    assert found == sorted({(one - 1, one) for one in culprits.values()}), "the search is wrong"
    return now, asked, begun - asked


def main() -> int:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--hosts", type=int, nargs="+", default=HOSTS, metavar="N", help=f"default: {HOSTS}")
    parser.add_argument("--commits", type=int, default=500, metavar="N", help="default: 500")
    parser.add_argument("--runs", type=int, default=50, metavar="N", help="of each row (default: 50)")
    parser.add_argument("--seed", type=int, default=1, metavar="N", help="default: 1")
    options = parser.parse_args()
    titles = ("culprits", "hosts", "time", "times as fast", "log2(hosts + 1)", "A/Bs", "in vain")
    print(f"| {' | '.join(titles)} |\n|{'---|' * len(titles)}")
    for count in (1, 2):
        alone = 0.0
        for hosts in options.hosts:
            rows = []
            for number in range(options.runs):
                rng = random.Random(f"{options.seed} {count} {number}")
                culprits = {f"case {one}": rng.randint(1, options.commits) for one in range(count)}
                rows.append(search_time(options.commits, culprits, hosts, random.Random(f"{options.seed} {number}")))
            took, asked, vain = (statistics.fmean(column) for column in zip(*rows, strict=True))
            alone = alone or took * (1 if hosts == 1 else math.nan)
            cells = (str(count), str(hosts), f"{took:.1f}", f"{alone / took:.1f}", f"{math.log2(hosts + 1):.1f}")
            print(f"| {' | '.join([*cells, f'{asked:.1f}', f'{vain:.1f}'])} |", flush=True)
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
