"""Dask's dashboard: its address, and how a client describes it.

It is plain HTTP without a password, so it is on loopback unless another address is given.
"""

import argparse
import ipaddress
import re
from collections.abc import Mapping
from dataclasses import dataclass
from importlib.util import find_spec

from opduel.fleet.address import FleetAddress
from opduel.records import UsageError

TOPIC = "opduel dashboard"  # of the scheduler's events, which clients can read
LOOPBACK = "127.0.0.1"
_ADDRESS = re.compile(r"(?:(?P<host>[^\s/:]+):)?(?P<port>\d{1,5})")


@dataclass(frozen=True)
class DashboardAddress:
    """The dashboard's host and port; port 0 is any free one."""

    host: str
    port: int

    @property
    def is_open(self) -> bool:
        """Return whether other machines can reach it."""
        return not _is_loopback(self.host)

    @property
    def everywhere(self) -> bool:
        """Return whether it is served on all of the machine's addresses."""
        return self.host in ("0.0.0.0", "*")

    def link(self, name: str | None = None) -> str:
        """Return its URL; ``name`` is the machine's, used in place of "all addresses"."""
        return f"http://{name if name and self.everywhere else self.host}:{self.port}/status"


def parse_dashboard(text: str) -> DashboardAddress:
    """Parse ``HOST:PORT``, or a port on loopback; a type for argparse."""
    match = _ADDRESS.fullmatch(text)
    if match is None or int(match["port"]) > 65535:
        raise argparse.ArgumentTypeError(f"{text!r}: give a port, as 8787, or HOST:PORT")
    return DashboardAddress(match["host"] or LOOPBACK, int(match["port"]))


def require_bokeh() -> None:
    """Raise UsageError if bokeh is not installed; Dask would serve an empty page."""
    if find_spec("bokeh") is None:
        raise UsageError("--dashboard: Dask draws it with bokeh: install that with pip install 'bokeh>=3.1'")


def describe_dashboard(event: Mapping[str, object], scheduler: FleetAddress) -> str:
    """Describe the dashboard to a client: its URL, and how to reach it if only the scheduler's machine can."""
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
