"""Builds that only the client's host has, sent to those that are to measure them."""

import contextlib
import logging
import secrets
import tempfile
import threading
from collections import defaultdict
from collections.abc import Iterator, Sequence
from pathlib import Path

from distributed import Client

from opduel.driver.builds.transfer import pack
from opduel.fleet.host import has_archive, receive
from opduel.records import Build

PIECE = 8 * 2**20  # bytes

log = logging.getLogger(__name__)
# By address of a host: several runs of this process may send it the same build, as nights and bisections do.
_sending: defaultdict[str, threading.Lock] = defaultdict(threading.Lock)


class Archives:
    """The builds of commits, which hosts can't make by themselves; packed when the first host needs them."""

    def __init__(self, folder: Path, builds: Sequence[Build]) -> None:
        self._folder = folder
        self._builds = {build.digest: build for build in builds}
        self._packed: dict[str, str] = {}  # digest -> SHA-256 of the archive

    @classmethod
    @contextlib.contextmanager
    def of(cls, *builds: Build) -> Iterator["Archives"]:
        """Of those of the builds that were made of a commit."""
        with tempfile.TemporaryDirectory(prefix="opduel-builds-") as folder:
            yield cls(Path(folder), [one for one in builds if one.commit is not None and one.directory is not None])

    @property
    def digests(self) -> tuple[str, ...]:
        """The builds'."""
        return tuple(self._builds)

    def send(self, client: Client, host: str, address: str, digests: Sequence[str]) -> str | None:
        """Send these builds to a host, one after the other; returns why it could not take one.

        Raises:
            OSError: the host can't be reached.
            RunError: a build can't be packed.
        """
        with _sending[address]:
            for digest in digests:
                if client.run(has_archive, digest, workers=[address])[address]:
                    continue  # another run has sent it
                if why := self._send_one(client, host, address, digest):
                    return why
        return None

    def _send_one(self, client: Client, host: str, address: str, digest: str) -> str | None:
        path, sender = self._folder / digest, secrets.token_hex(8)
        if digest not in self._packed:
            self._packed[digest] = pack(self._builds[digest], path)
        whole, sha256 = path.stat().st_size, self._packed[digest]
        log.info("fleet: sending %s (%.0f MB) to %s", self._builds[digest].requested, whole / 1e6, host)
        with path.open("rb") as file:
            while content := file.read(PIECE):
                offset = file.tell() - len(content)
                told = client.run(receive, digest, sender, offset, content, whole, sha256, workers=[address])
                if why := told[address]:
                    return str(why)
        return None
