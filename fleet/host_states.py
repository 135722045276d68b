"""The present activity of each host of a fleet, by its events, for the progress display."""

from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Any

from opduel.harness.measurement_plan import HostProgress

IDLE, PREPARES, BEFORE, LOST = "no shard", "prepares", "--before_run", "lost"


class HostStates:
    """The hosts of one run by name."""

    def __init__(self) -> None:
        self._hosts: dict[str, HostProgress] = {}

    @property
    def all(self) -> tuple[HostProgress, ...]:
        """Return the hosts in the order of their names."""
        return tuple(self._hosts[name] for name in sorted(self._hosts))

    def see(self, names: Iterable[str]) -> None:
        """Record which hosts are there now; absent ones without a shard are removed."""
        there = set(names)
        self._hosts = {name: state for name, state in self._hosts.items() if name in there or state.doing != IDLE}
        for name in there:
            if self._hosts.get(name, HostProgress(name, LOST)).doing == LOST:
                self._hosts[name] = HostProgress(name, IDLE)

    def hear(self, event: Mapping[str, Any], shard: int, cases: int) -> None:
        """Update a host by its event about a shard of so many cases."""
        name, kind = str(event["host"]), event["event"]
        state = self._hosts.get(name)
        if state is None or state.shard != shard or kind == "began":
            state = HostProgress(name, PREPARES, shard, 0, cases)
        if kind == "before_run":
            state = replace(state, doing=BEFORE)
        elif kind == "progress":
            phase = "verify" if event.get("verifying") else "round"
            state = replace(state, doing=f"{phase} {event['rounds']}", cases_done=event["cases"] - event["open"])
        self._hosts[name] = state

    def end_shard(self, name: str | None, why: str = IDLE) -> None:
        """Record that a host (None: no host had begun) has ended its shard, or why it does not."""
        if name is not None:
            self._hosts[name] = HostProgress(name, why)
