"""The simulated fleet: shards are all done, and a lost host costs what it had not finished."""

import pytest

from benchmarks.simulate_fleet import DATA, real_costs, wall_time


def test_one_host_does_all_and_two_share() -> None:
    assert wall_time([5.0, 3.0, 2.0], [1.0], 1.0, {}, 0.0) == (13.0, 13.0)
    assert wall_time([5.0, 3.0, 2.0], [1.0, 1.0], 1.0, {}, 0.0) == (7.0, 13.0)
    assert wall_time([5.0, 3.0, 2.0], [1.0, 2.0], 0.0, {}, 0.0) == (5.0, 7.5)


def test_what_a_lost_host_had_not_finished_is_done_by_others() -> None:
    assert wall_time([4.0, 4.0], [1.0, 1.0], 0.0, {1: 3.0}, 2.0) == (9.0, 8.0)
    assert wall_time([4.0, 4.0], [1.0, 1.0], 0.0, {1: 5.0}, 2.0) == (4.0, 8.0)
    with pytest.raises(ValueError, match="no host is left"):
        wall_time([4.0], [1.0], 0.0, {0: 1.0}, 0.0)


def test_costs_are_those_of_real_runs() -> None:
    costs = real_costs(DATA)
    assert len(costs) > 400
    assert min(costs) > 0
