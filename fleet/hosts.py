"""The hosts of a fleet: those that are there and suit a run, and what each is doing."""

import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import replace
from typing import Any

from distributed import Client

from opduel.fleet.address import FleetChoice
from opduel.fleet.job import SLOT, tag_resource
from opduel.fleet.kinds import kind_of
from opduel.harness.measurement_plan import HostProgress
from opduel.records import RunError

POLL_S = 0.3
IDLE, PREPARES, BEFORE, LOST = "no shard", "prepares", "--before_run", "lost"


def _wanted_hosts(client: Client, choice: FleetChoice) -> Iterator[tuple[str, str, str | None]]:
    """Yield name, worker's address and kind of each suitable host."""
    for address, worker in client.scheduler_info(n_workers=-1)["workers"].items():
        resources = worker.get("resources") or {}
        tags = frozenset(tag for tag in choice.tags if tag_resource(tag) in resources)
        kind = kind_of(resources, choice.platforms)
        if SLOT in resources and choice.wants(str(worker["name"]), tags, kind):
            yield str(worker["name"]), address, kind


def hosts_of(client: Client, choice: FleetChoice) -> dict[str, str]:
    """Return the workers' addresses of the suitable hosts, by name."""
    return {name: address for name, address, _ in _wanted_hosts(client, choice)}


def kinds_there(client: Client, choice: FleetChoice) -> list[str]:
    """Return the kinds of the suitable hosts, in alphabetical order."""
    return sorted({kind for _, _, kind in _wanted_hosts(client, choice) if kind is not None})


def wait_for_hosts(
    client: Client, choice: FleetChoice, while_waiting: Callable[[], None] = lambda: None
) -> dict[str, str]:
    """Return the suitable hosts, by name; wait for the first one. Raise RunError if none comes in time."""
    end = time.monotonic() + choice.timeout_s
    while not (address_by_name := hosts_of(client, choice)):
        while_waiting()
        if time.monotonic() > end:
            workers = client.scheduler_info(n_workers=-1)["workers"].values()
            there = ", ".join(sorted(str(worker["name"]) for worker in workers)) or "none"
            raise RunError(
                f"--fleet {choice.address.text}: no worker is {choice.words} within {choice.timeout_s:g} s "
                f"(workers there: {there}): start one with opduel fleet worker"
            )
        time.sleep(POLL_S)
    return address_by_name


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
