"""Archives that only the client can make, sent to hosts that need them: builds of commits, a suite, files of cases."""

import logging
import secrets
import threading
from collections import defaultdict
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path

from distributed import Client

from opduel.driver.builds.transfer import pack
from opduel.driver.suites.elsewhere import ChosenSuite, pack_suite
from opduel.fleet.host import has_archive, receive
from opduel.fleet.job import SuiteJob
from opduel.harness.models import checksum_of, original_of
from opduel.harness.run_request import RunRequest
from opduel.records import Case, ModelFile, RunError
from opduel.support.digests import file_digest

PIECE = 8 * 2**20  # bytes

log = logging.getLogger(__name__)
# By a host's address, since several runs of this process (nights, bisections) may send it the same build.
_sending: defaultdict[str, threading.Lock] = defaultdict(threading.Lock)


class Archives:
    """The archives of a run by digest; each is packed when the first host needs it."""

    def __init__(self, folder: Path, request: RunRequest, suite: ChosenSuite | None) -> None:
        """Collect the builds of commits, the suite, and the files of the cases that were fetched on this host."""
        self._folder, self._suite, self._framework = folder, suite, request.framework
        # digest -> its name, and what writes it to a path, or returns the file that holds it already
        self._contents: dict[str, tuple[str, Callable[[Path], Path | None]]] = {}
        self._packed: dict[str, tuple[Path, str]] = {}  # digest -> the archive, and its SHA-256
        for build in (request.control, request.treatment):
            if build.commit is not None and build.directory is not None:
                self._contents[build.digest] = build.requested, partial(pack, build)
        if suite is not None:
            name = f"the suite {suite.suite.name}"
            self._contents[suite.suite.digest] = name, partial(pack_suite, suite.suite)
        self._of_all = tuple(self._contents)  # needed by every case
        for file in (file for case in request.cases for file in case.files.values()):
            if file.path is not None:
                self._contents[checksum_of(file)] = file.location, partial(_fetched_file, file)

    def needed_by(self, cases: Sequence[Case]) -> tuple[str, ...]:
        """Return the digests of all that these cases need."""
        files = dict.fromkeys(checksum_of(file) for case in cases for file in case.files.values())
        return (*self._of_all, *(digest for digest in files if digest in self._contents))

    def suite_for(self, cases: Sequence[Case]) -> SuiteJob | None:
        """Return the suite's part of a job with these cases; None without a suite."""
        if self._suite is None:
            return None
        suite, variables = self._suite.suite, self._framework.suite_variables
        orders = tuple(self._suite.needed_by(cases))
        requirements = suite.configuration.requirements
        return SuiteJob(suite.digest, suite.folder.name, requirements, dict(variables), orders, suite.parts)

    def send(self, client: Client, host: str, address: str, digests: Sequence[str]) -> str | None:
        """Send archives to a host, and return why it could not take one, or None. OSError: the host can't be reached;
        RunError: one can't be packed."""
        with _sending[address]:
            for digest in digests:
                if client.run(has_archive, digest, workers=[address])[address]:
                    continue  # another run has sent it
                if why := self._send_one(client, host, address, digest):
                    return why
        return None

    def _send_one(self, client: Client, host: str, address: str, digest: str) -> str | None:
        (name, write), sender = self._contents[digest], secrets.token_hex(8)
        if digest not in self._packed:
            file = write(self._folder / digest) or self._folder / digest
            self._packed[digest] = file, file_digest(file)
        path, sha256 = self._packed[digest]
        size = path.stat().st_size
        log.info("fleet: sending %s (%.1f MB) to %s", name, size / 1e6, host)
        with path.open("rb") as stream:
            while (piece := stream.read(PIECE)) or not size:
                offset = stream.tell() - len(piece)
                reply_by_address = client.run(receive, digest, sender, offset, piece, size, sha256, workers=[address])
                if (why := reply_by_address[address]) or not size:
                    return None if why is None else str(why)
        return None


def _fetched_file(file: ModelFile, _: Path) -> Path:
    """Return the file that was fetched. Raise RunError if it is no longer that."""
    try:
        path = original_of(file)
    except OSError as error:
        raise RunError(f"{file.path}: cannot be read ({error.strerror}): start the run again") from None
    if path is None:
        raise RunError(f"{file.path}: is no longer the file that was fetched: start the run again")
    return path
