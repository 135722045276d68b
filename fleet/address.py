"""A fleet's address, and the choice of its hosts."""

import re
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path

from opduel.records import UsageError

LOCAL = "local"
_REMOTE = re.compile(r"(tls|tcp)://[^\s/:]+(:\d{1,5})|(tls|tcp)://\[[0-9a-fA-F:]+\](:\d{1,5})")
FORMS = "give tls://HOST:PORT of a scheduler (opduel fleet scheduler), or local:N for N workers on this machine"


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


def require_bokeh() -> None:
    """Raise UsageError if bokeh is not installed; Dask would serve an empty page."""
    if find_spec("bokeh") is None:
        raise UsageError("--dashboard: Dask draws it with bokeh: install that with pip install 'bokeh>=3.1'")
