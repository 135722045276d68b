"""Dask's dashboard: where a scheduler serves it, and what a client says of it.

It is plain HTTP and asks for no password: on loopback, unless another address is asked for.
"""

import argparse
import ipaddress
import re
from collections.abc import Mapping
from dataclasses import dataclass
from importlib.util import find_spec

from opduel.fleet.address import FleetAddress
from opduel.records import UsageError

TOPIC = "opduel dashboard"  # of the scheduler's events, the only thing that clients can ask it for
LOOPBACK = "127.0.0.1"
_ADDRESS = re.compile(r"(?:(?P<host>[^\s/:]+):)?(?P<port>\d{1,5})")


@dataclass(frozen=True)
class DashboardAddress:
    """Where it is served; port 0: any that is free."""

    host: str
    port: int

    @property
    def is_open(self) -> bool:
        """Whether others than this machine reach it."""
        return not _is_loopback(self.host)

    @property
    def everywhere(self) -> bool:
        """Whether it is served on all of the machine's addresses."""
        return self.host in ("0.0.0.0", "*")

    def link(self, name: str | None = None) -> str:
        """Its URL; ``name``: of the machine, in place of "all addresses"."""
        return f"http://{name if name and self.everywhere else self.host}:{self.port}/status"


def parse_dashboard(text: str) -> DashboardAddress:
    """``HOST:PORT``, or a port on loopback; a type for argparse."""
    found = _ADDRESS.fullmatch(text)
    if found is None or int(found["port"]) > 65535:
        raise argparse.ArgumentTypeError(f"{text!r}: give a port, as 8787, or HOST:PORT")
    return DashboardAddress(found["host"] or LOOPBACK, int(found["port"]))


def require_bokeh() -> None:
    """UsageError: it is not there, without which Dask serves an empty page."""
    if find_spec("bokeh") is None:
        raise UsageError("--dashboard: Dask draws it with bokeh: install that with pip install 'bokeh>=3.1'")


def described(event: Mapping[str, object], scheduler: FleetAddress) -> str:
    """What a client is told: the URL, and how to reach it from another machine than the scheduler's."""
    where = DashboardAddress(str(event["host"]), int(str(event["port"])))
    machine = scheduler.text.partition("//")[2].rpartition(":")[0]
    if where.is_open or _is_loopback(machine):
        return where.link(machine)
    return f"{where.link()} on the scheduler's machine (ssh -L {where.port}:{LOOPBACK}:{where.port} {machine})"


def _is_loopback(host: str) -> bool:
    try:
        return ipaddress.ip_address(host.strip("[]")).is_loopback
    except ValueError:
        return host == "localhost"
