"""A fleet's address, that of its dashboard, and the choice of its hosts."""

import argparse
import ipaddress
import re
from collections.abc import Mapping
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path

from opduel.records import UsageError

LOCAL = "local"
_REMOTE = re.compile(r"(tls|tcp)://[^\s/:]+(:\d{1,5})|(tls|tcp)://\[[0-9a-fA-F:]+\](:\d{1,5})")
FORMS = "give tls://HOST:PORT of a scheduler (opduel fleet scheduler), or local:N for N workers on this machine"
DASHBOARD_TOPIC = "opduel dashboard"  # of the scheduler's events, which clients can read
LOOPBACK = "127.0.0.1"
_DASHBOARD = re.compile(r"(?:(?P<host>[^\s/:]+):)?(?P<port>\d{1,5})")


@dataclass(frozen=True)
class FleetAddress:
    """A scheduler's address (``tls://host:8786``), or a number of workers to start on this machine."""

    text: str
    workers: int | None = None  # of ``local:N``

    @property
    def is_encrypted(self) -> bool:
        """Return whether connections need certificates."""
        return self.text.startswith("tls:")


def parse_address(text: str, option: str = "--fleet") -> FleetAddress:
    """Parse a fleet's address, given to ``option``. Raise UsageError if it is not an address of a fleet."""
    kind, _, number = text.partition(":")
    if kind == LOCAL:
        if not re.fullmatch("[0-9]{1,2}", number) or not 1 <= int(number) <= 64:
            raise UsageError(f"{option} {text}: give a number of workers from 1 to 64, as in local:2")
        return FleetAddress(text, int(number))
    if not _REMOTE.fullmatch(text) or int(text.rpartition(":")[2]) > 65535:
        raise UsageError(f"{option} {text}: is no address of a fleet: {FORMS}")
    return FleetAddress(text)


@dataclass(frozen=True)
class FleetChoice:
    """The fleet and its hosts, by the options of ``--fleet``.

    ``tags``: a host must have them all. ``hosts``, ``excluded``: names of hosts. ``timeout_s``: how long to wait for
    the fleet, and for a suitable host. ``priority``: of shards that wait for the same host the highest goes first.
    ``silence_s``: a host that sends nothing for so long is given up. ``across``: each kind of host measures every case;
    ``platforms``: tags that are used in place of kinds; ``kind``: only hosts of this kind.
    """

    address: FleetAddress
    certificates: Path
    timeout_s: float = 60.0
    tags: tuple[str, ...] = ()
    hosts: tuple[str, ...] = ()
    excluded: tuple[str, ...] = ()
    priority: int = 0
    across: bool = False
    platforms: tuple[str, ...] = ()
    kind: str | None = None
    silence_s: float = 900.0

    def wants(self, name: str, tags: frozenset[str], kind: str | None = None) -> bool:
        """Return whether a host of this name, with these tags and of this kind, may measure."""
        named = not self.hosts or name in self.hosts
        return named and name not in self.excluded and set(self.tags) <= tags and self.kind in (None, kind)

    @property
    def each_kind(self) -> bool:
        """Return whether each kind of host measures every case."""
        return self.across or bool(self.platforms)

    @property
    def words(self) -> str:
        """Describe a suitable host in words."""
        parts = [f"the tag {tag}" for tag in self.tags]
        parts += [f"a name among {', '.join(self.hosts)}"] if self.hosts else []
        parts += [f"another name than {', '.join(self.excluded)}"] if self.excluded else []
        kind = f" of the kind {self.kind}" if self.kind else ""
        return f"a host{kind}" + (f" with {' and '.join(parts)}" if parts else "")


@dataclass(frozen=True)
class DashboardAddress:
    """The host and port of Dask's dashboard; port 0 is any free one.

    It is plain HTTP without a password, so it is on loopback unless another address is given.
    """

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
    match = _DASHBOARD.fullmatch(text)
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
