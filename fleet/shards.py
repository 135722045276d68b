"""Division of a run's cases into shards, each of which one host measures. No Dask."""

import math
import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from opduel.records import Case

FEWEST = 8  # cases of a shard: fewer tell too little about each other's noise


@dataclass(frozen=True)
class Shard:
    """Cases that one host measures, as a run of their own. ``share``: their part of the cost of all cases, 0 to 1."""

    number: int
    cases: tuple[Case, ...]
    share: float


def cut(cases: Sequence[Case], cost: Callable[[Case], float], hosts: int, seed: int) -> list[Shard]:
    """Return the cases in shards for so many hosts, in the order in which hosts take them when they are free.

    Each shard costs half of a host's part of the remaining cost, so that hosts of unknown speeds end together (guided
    self-scheduling, Polychronopoulos and Kuck 1987, IEEE Transactions on Computers C-36; half as in factoring, Hummel,
    Schonberg and Flynn 1992). The last cases, enough for shards of ``FEWEST``, are divided evenly. The order of cases
    is random, so that the noise in a shard is like that of all; cases that measure the same by several metrics stay
    together. ValueError: ``hosts`` is not positive.
    """
    if hosts < 1:
        raise ValueError(f"hosts must be positive, not {hosts}")
    groups: dict[tuple[str, str], list[Case]] = {}
    for case in cases:
        groups.setdefault((case.time_id, case.context), []).append(case)
    groups_left = random.Random(f"shards {seed}").sample(list(groups.values()), len(groups))
    costs = [sum(map(cost, group)) for group in groups_left]
    total_cost = sum(costs) or 1.0
    parts: list[list[list[Case]]] = []
    while groups_left:
        most = sum(costs) / (2 * hosts)
        count, spent = 0, 0.0
        while count < len(groups_left) and (count == 0 or spent + costs[count] / 2 <= most):
            spent += costs[count]
            count += 1
        if count < FEWEST:
            break
        parts.append(groups_left[:count])
        del groups_left[:count], costs[:count]
    parts += _evenly(groups_left, costs, hosts)
    order = {case.id: number for number, case in enumerate(cases)}
    shards = []
    for number, part in enumerate(parts):
        own = sorted((case for group in part for case in group), key=lambda case: order[case.id])
        shards.append(Shard(number, tuple(own), sum(map(cost, own)) / total_cost))
    return shards


def _evenly(groups: Sequence[list[Case]], costs: Sequence[float], hosts: int) -> list[list[list[Case]]]:
    """Return groups in shards of about equal cost: as many per host as leave ``FEWEST`` in each, at least one shard."""
    if not groups:
        return []
    count = hosts * (len(groups) // (FEWEST * hosts)) or min(hosts, math.ceil(len(groups) / FEWEST))
    shards: list[list[list[Case]]] = [[] for _ in range(count)]
    loads = [0.0] * count
    for group, cost in sorted(zip(groups, costs, strict=True), key=lambda pair: -pair[1]):
        lightest = min(range(count), key=lambda number: (loads[number], len(shards[number])))
        shards[lightest].append(group)
        loads[lightest] += cost
    return sorted((shard for shard in shards if shard), key=lambda shard: -len(shard))
