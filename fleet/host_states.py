"""What each host of a fleet does at the moment, from what hosts say; for those who watch."""

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
        """In the order of their names."""
        return tuple(self._hosts[name] for name in sorted(self._hosts))

    def see(self, names: Iterable[str]) -> None:
        """These hosts are there now; of the others, those that have nothing to do are forgotten."""
        there = set(names)
        self._hosts = {name: one for name, one in self._hosts.items() if name in there or one.doing != IDLE}
        for name in there:
            if self._hosts.get(name, HostProgress(name, LOST)).doing == LOST:
                self._hosts[name] = HostProgress(name, IDLE)

    def hear(self, event: Mapping[str, Any], shard: int, cases: int) -> None:
        """A host said something of the shard of this number, with so many cases."""
        name, kind = str(event["host"]), event["event"]
        known = self._hosts.get(name)
        if known is None or known.shard != shard or kind == "began":
            known = HostProgress(name, PREPARES, shard, 0, cases)
        if kind == "before_run":
            known = replace(known, doing=BEFORE)
        elif kind == "progress":
            phase = "verify" if event.get("verifying") else "round"
            known = replace(known, doing=f"{phase} {event['rounds']}", cases_done=event["cases"] - event["open"])
        self._hosts[name] = known

    def ended(self, name: str | None, why: str = IDLE) -> None:
        """A host is done with its shard, or why it won't be; None: no host had begun with it."""
        if name is not None:
            self._hosts[name] = HostProgress(name, why)
