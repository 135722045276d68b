"""The simulated slow host: all cases are settled, and those that move start from the beginning."""

import pytest
from made_samples import a_case

from benchmarks.simulate_fleet import DATA, real_costs, real_rounds
from benchmarks.simulate_stragglers import Fleet
from opduel.fleet.shards import Shard

CASES = tuple(a_case(f"c{number}") for number in range(40))
ROUNDS = {case.id: (5, 1.0) for case in CASES}
SHARDS = [Shard(number, CASES[10 * number : 10 * number + 10], 0.25) for number in range(4)]


def test_hosts_of_one_speed_end_together() -> None:
    fleet = Fleet([1.0, 1.0], ROUNDS, 0.0, True)
    assert fleet.wall_time(SHARDS) == pytest.approx(100)
    assert fleet.moved == 0


def test_without_moves_the_slow_host_is_waited_for() -> None:
    assert Fleet([1.0, 0.1], ROUNDS, 0.0, False).wall_time(SHARDS) == pytest.approx(500)
    assert Fleet([1.0, 0.5], ROUNDS, 8.0, False).wall_time(SHARDS) == pytest.approx(108 + 108)


def test_what_moves_is_measured_from_the_start() -> None:
    """Three shards are done after 150 s; the slow host has made one round of ten cases then, and all ten move."""
    fleet = Fleet([1.0, 0.1], ROUNDS, 0.0, True)
    assert fleet.wall_time(SHARDS) == pytest.approx(200)
    assert fleet.moved == 10


def test_rounds_are_those_of_real_runs() -> None:
    assert [count * seconds for count, seconds in real_rounds(DATA)] == real_costs(DATA)
