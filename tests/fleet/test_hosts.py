"""What each host does, from what hosts say."""

from typing import Any

from opduel.fleet.hosts import BEFORE, IDLE, LOST, PREPARES, HostStates
from opduel.harness.measurement_plan import HostProgress


def event(host: str, kind: str, **more: Any) -> dict[str, Any]:
    return {"host": host, "event": kind, **more}


def test_a_shard_from_its_beginning_to_its_end() -> None:
    states = HostStates()
    states.see(["b", "a"])
    assert states.all == (HostProgress("a", IDLE), HostProgress("b", IDLE))
    states.hear(event("b", "began"), 4, 12)
    assert states.all[1] == HostProgress("b", PREPARES, 4, 0, 12)
    states.hear(event("b", "before_run"), 4, 12)
    assert states.all[1].doing == BEFORE
    states.hear(event("b", "progress", rounds=3, open=10, cases=12, verifying=False), 4, 12)
    states.hear(event("b", "round"), 4, 12)  # a text for the log
    assert states.all[1] == HostProgress("b", "round 3", 4, 2, 12)
    states.hear(event("b", "progress", rounds=4, open=1, cases=2, verifying=True), 4, 12)
    assert states.all[1].doing == "verify 4"
    states.hear(event("b", "began"), 5, 8)
    assert states.all[1] == HostProgress("b", PREPARES, 5, 0, 8)
    states.end_shard("b")
    assert states.all[1] == HostProgress("b", IDLE)


def test_hosts_that_go_and_come_back() -> None:
    states = HostStates()
    states.see(["a", "b", "c"])
    states.hear(event("a", "began"), 0, 8)
    states.end_shard("c", "left out: no space")
    states.see([])
    assert [state.doing for state in states.all] == [PREPARES, "left out: no space"]  # b had nothing to do
    states.end_shard("a", LOST)
    states.end_shard(None)  # a shard that no host had begun with
    assert [state.doing for state in states.all] == [LOST, "left out: no space"]
    states.see(["a", "b", "c"])
    assert [state.doing for state in states.all] == [IDLE, IDLE, "left out: no space"]
