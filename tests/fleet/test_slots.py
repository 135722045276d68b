"""Runs at the same time: no more shards than hosts, and the most urgent run is next."""

from opduel.fleet.slots import FRESH_S, Slots


def test_no_more_shards_than_hosts_of_all_runs_together() -> None:
    slots = Slots()
    assert slots.take("now", 0, 2)
    assert slots.take("ahead", -1, 2)
    assert not slots.take("now", 0, 2)
    assert not slots.take("ahead", -1, 2)
    assert slots.free(2) == 0
    assert slots.free(3) == 1
    slots.keep("ahead", 0)
    assert slots.free(2) == 1


def test_the_most_urgent_run_that_waits_is_next() -> None:
    slots = Slots()
    assert slots.take("first", -5, 1)
    assert not slots.take("later", -5, 1)
    assert not slots.take("now", 0, 1)
    slots.keep("first", 0)
    assert not slots.take("later", -5, 1)
    assert slots.take("now", 0, 1)
    slots.leave("now")
    assert slots.take("later", -5, 1)


def test_a_run_that_stopped_asking_or_ended_holds_up_no_other() -> None:
    now = 0.0
    slots = Slots(lambda: now)
    assert slots.take("first", 0, 1)
    assert not slots.take("sends builds", 0, 1)
    assert not slots.take("ends", 0, 1)
    assert not slots.take("ahead", -1, 1)
    slots.leave("first")
    slots.leave("ends")
    assert not slots.take("ahead", -1, 1)
    now = FRESH_S
    assert slots.take("ahead", -1, 1)
