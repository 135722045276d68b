"""The hosts of a fleet that are there and suit a run."""

import time
from collections.abc import Callable, Iterator

from distributed import Client

from opduel.fleet.address import FleetChoice
from opduel.fleet.job import SLOT, tag_resource
from opduel.fleet.kinds import kind_of
from opduel.records import RunError

POLL_S = 0.3


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
