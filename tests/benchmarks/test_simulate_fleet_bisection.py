"""The simulation's clock: on one host the A/Bs of a search follow each other, on more they overlap."""

import random

from benchmarks.simulate_fleet_bisection import search_time


def test_one_host_measures_nothing_in_vain() -> None:
    took, asked, vain = search_time(64, {"a": 20}, 1, random.Random(1))
    assert vain == 0
    assert 6 <= asked <= 13
    assert took > 0


def test_more_hosts_are_faster_and_measure_in_vain() -> None:
    alone = sum(search_time(200, {"a": culprit}, 1, random.Random(culprit))[0] for culprit in range(5, 200, 20))
    searches = [search_time(200, {"a": culprit}, 3, random.Random(culprit)) for culprit in range(5, 200, 20)]
    assert sum(took for took, _, _ in searches) < 0.8 * alone
    assert sum(vain for _, _, vain in searches) > 0
