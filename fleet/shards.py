"""A run's cases in parts, each measured on one host.  Pure: cases and costs in, parts out."""

import math
import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from opduel.records import Case

FEWEST = 8  # cases of a shard: with fewer, they say too little of each other's noise


@dataclass(frozen=True)
class Shard:
    """Cases that one host measures, as a run of their own. ``share``: of what all of the run's cases cost."""

    number: int
    cases: tuple[Case, ...]
    share: float


def cut(cases: Sequence[Case], cost: Callable[[Case], float], hosts: int, seed: int) -> list[Shard]:
    """The cases in shards, in the order in which hosts are to take them, for so many hosts.

    Hosts take the next shard as soon as they are free.  Each shard costs half of a host's part of what is left, so that
    hosts end together although nobody knows how fast each is (guided self-scheduling, Polychronopoulos and Kuck 1987,
    IEEE Transactions on Computers C-36; half as in factoring, Hummel, Schonberg and Flynn 1992).  What is left for
    shards of ``FEWEST`` cases is shared out evenly.  Cases are drawn in random order, so that the noise of those of a
    shard is like that of all; those that measure the same by several metrics stay together.

    Raises:
        ValueError: ``hosts`` is not positive.
    """
    if hosts < 1:
        raise ValueError(f"hosts must be positive, not {hosts}")
    groups: dict[tuple[str, str], list[Case]] = {}
    for case in cases:
        groups.setdefault((case.time_id, case.context), []).append(case)
    left = random.Random(f"shards {seed}").sample(list(groups.values()), len(groups))
    costs = [sum(map(cost, group)) for group in left]
    whole = sum(costs) or 1.0
    parts: list[list[list[Case]]] = []
    while left:
        most = sum(costs) / (2 * hosts)
        count, spent = 0, 0.0
        while count < len(left) and (count == 0 or spent + costs[count] / 2 <= most):
            spent += costs[count]
            count += 1
        if count < FEWEST:
            break
        parts.append(left[:count])
        del left[:count], costs[:count]
    parts += _evenly(left, costs, hosts)
    order = {case.id: number for number, case in enumerate(cases)}
    shards = []
    for number, part in enumerate(parts):
        own = sorted((case for group in part for case in group), key=lambda case: order[case.id])
        shards.append(Shard(number, tuple(own), sum(map(cost, own)) / whole))
    return shards


def _evenly(left: Sequence[list[Case]], costs: Sequence[float], hosts: int) -> list[list[list[Case]]]:
    """Groups in shards of about equal cost: as many for each host as give each ``FEWEST``, or as many as there are."""
    if not left:
        return []
    count = hosts * (len(left) // (FEWEST * hosts)) or min(hosts, math.ceil(len(left) / FEWEST))
    shards: list[list[list[Case]]] = [[] for _ in range(count)]
    loads = [0.0] * count
    for group, cost in sorted(zip(left, costs, strict=True), key=lambda one: -one[1]):
        lightest = min(range(count), key=lambda number: (loads[number], len(shards[number])))
        shards[lightest].append(group)
        loads[lightest] += cost
    return sorted((shard for shard in shards if shard), key=lambda shard: -len(shard))
