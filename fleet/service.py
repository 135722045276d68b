"""The services of a fleet: the scheduler, the worker on each measuring host, and a client's connection."""

import asyncio
import contextlib
import logging
import os
import platform
import signal
import socket
import threading
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from types import MappingProxyType
from typing import Any

import dask
import platformdirs
from distributed import Client, Nanny, Scheduler, Security, SpecCluster

from opduel.fleet.address import FleetAddress, FleetChoice
from opduel.fleet.host import HostPlugin
from opduel.fleet.job import KIND_RESOURCE, SLOT, HostSettings, tag_resource
from opduel.fleet.kinds import features_of, host_kind
from opduel.fleet.security import security_of
from opduel.harness.machine.host import PROC, cpu_info, host_name
from opduel.records import RunError
from opduel.support.text import one_line

LOOPBACK = "127.0.0.1"
NO_PAGES = f"{LOOPBACK}:0"  # where Dask's web server listens, which can't be turned off
PAGES = "distributed.scheduler.http.routes"
QUIET = "DASK_LOGGING__DISTRIBUTED"
RETRY_S = 5.0  # between attempts to reach a scheduler
# Dask would look at the worker's Python every 10 ms, and restart a worker that seems to hang.
SETTINGS = {
    "distributed.worker.profile.enabled": False,
    "distributed.worker.memory.target": False,
    "distributed.worker.memory.spill": False,
    "distributed.worker.memory.pause": False,
    "distributed.worker.memory.terminate": False,
    "distributed.scheduler.work-stealing": False,
    "distributed.scheduler.allowed-failures": 3,
    "distributed.admin.system-monitor.interval": "5s",
    "distributed.admin.low-level-log-length": 100,
    "distributed.comm.timeouts.connect": "10s",
    # Dask serves pages on hosts and tasks without encryption, also where its connections are encrypted.
    PAGES: [],
    "distributed.worker.http.routes": [],
    # What Dask would set for workers (malloc, threads) would change what is measured; and it logs on standard error.
    "distributed.nanny.pre-spawn-environ": {QUIET: "critical"},
}

log = logging.getLogger(__name__)


def nanny_options(settings: HostSettings, tags: Sequence[str], security: Security | None) -> dict[str, Any]:
    """Return the arguments of Dask's nanny: a worker with one slot, and the host's kind and tags."""
    return {
        "nthreads": 1,
        "name": settings.name,
        "memory_limit": 0,
        "dashboard": False,
        "dashboard_address": NO_PAGES,
        "resources": dict.fromkeys([SLOT, KIND_RESOURCE + host_kind(), *map(tag_resource, tags)], 1.0),
        "security": security,
        "plugins": (HostPlugin(settings),),
        "local_directory": str(settings.folder / ".dask"),
    }


def default_folder() -> Path:
    """Return the folder in which a host keeps its shards."""
    return platformdirs.user_cache_path("opduel") / "fleet"


def host_tags(proc: Path = PROC) -> list[str]:
    """Return this machine's tags: ``linux-x86_64``, the instructions that its processor has, ``gpu``."""
    tags = [f"{platform.system()}-{platform.machine()}".lower()]
    tags += features_of(cpu_info(proc))
    return [*tags, "gpu"] if Path("/dev/nvidia0").exists() else tags


def run_scheduler(address: FleetAddress, security: Security | None, dashboard_port: int | None = None) -> None:
    """Run a scheduler, and Dask's dashboard on a port of loopback if given, until a signal ends it. Raise RunError for
    an address in use."""

    async def serve() -> None:
        try:
            scheduler = await Scheduler(
                protocol=address.text.partition(":")[0],
                host=address.text.partition("//")[2].rpartition(":")[0],
                port=int(address.text.rpartition(":")[2]),
                security=security,
                dashboard=dashboard_port is not None,
                dashboard_address=f"{LOOPBACK}:{dashboard_port or 0}",
            )
        except OSError as error:
            raise RunError(f"{address.text}: cannot be listened at ({error.strerror or error}): give another") from None
        async with scheduler:
            log.info("scheduler at %s", scheduler.address)
            if dashboard_port is not None:
                server: Any = scheduler.http_server  # on another port if that one is in use
                log.info("dashboard at http://%s:%d/status", LOOPBACK, server.port)
            await _signal()

    routes = dask.config.get(PAGES)
    _run(serve(), {PAGES: routes} if dashboard_port is not None else {})


def run_worker(address: FleetAddress, settings: HostSettings, tags: Sequence[str], security: Security | None) -> None:
    """Run a worker until a signal ends it; retry a scheduler that can't be reached."""
    options = nanny_options(settings, tags, security)

    async def serve() -> None:
        signal_came = asyncio.ensure_future(_signal())
        while not signal_came.done():
            nanny = Nanny(address.text, **options)
            try:
                started = asyncio.ensure_future(nanny.start())
                await asyncio.wait({started, signal_came}, return_when=asyncio.FIRST_COMPLETED)
                if started.done():
                    await started
                    log.info("%s measures for %s", settings.name, address.text)
                    await asyncio.wait(
                        {asyncio.ensure_future(nanny.finished()), signal_came}, return_when=asyncio.FIRST_COMPLETED
                    )
            except Exception as error:
                log.warning("%s: %s; trying again", address.text, _why(error))
            finally:
                with contextlib.suppress(Exception):
                    await nanny.close(timeout=30)
            if not signal_came.done():
                await asyncio.wait({signal_came}, timeout=RETRY_S)

    _run(serve())


def _why(error: BaseException) -> str:
    """Return the first cause of an error of Dask's, in one line."""
    while error.__cause__ is not None:
        error = error.__cause__
    if "CERTIFICATE" in str(error) or "certificate" in str(error):
        return f"the certificates are not of the same fleet, or have expired ({one_line(str(error))})"
    return one_line(str(error)) or type(error).__name__


def _run(served: Any, settings: Mapping[str, Any] = MappingProxyType({})) -> None:
    _quiet()
    with dask.config.set({**SETTINGS, **settings}):
        asyncio.run(served)


async def _signal() -> None:
    """Wait for the first signal."""
    heard = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        loop.add_signal_handler(number, heard.set)
    await heard.wait()


def _quiet() -> None:
    """Silence Dask's own log, which is of no use to people who don't know Dask."""
    logging.getLogger("distributed").setLevel(logging.CRITICAL)
    logging.getLogger("tornado").setLevel(logging.CRITICAL)


@contextlib.contextmanager
def connect(choice: FleetChoice) -> Iterator[Client]:
    """Yield a client of the fleet. Raise UsageError for bad certificates, RunError if no scheduler of it answers."""
    _quiet()
    address = choice.address
    security = security_of(choice.certificates) if address.is_encrypted else None
    with contextlib.ExitStack() as stack:
        dask.config.set(SETTINGS)
        place: Any = address.text
        if address.workers is not None:
            place = stack.enter_context(_LOCAL.started(address.workers))
        try:
            client = Client(place, security=security, timeout=choice.timeout_s, set_as_default=False, name="opduel")
        except (OSError, TimeoutError, ValueError) as error:
            hint = "" if address.is_encrypted else "; a fleet with certificates has a tls:// address"
            raise RunError(
                f"--fleet {address.text}: no scheduler of this fleet answers ({_why(error)}){hint}"
            ) from None
        yield stack.enter_context(client)


class _LocalFleets:
    """The fleets on this machine (``local:N``), each shared by the clients of this process."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._clients: Counter[int] = Counter()  # by the fleet's number of workers
        self._fleets: dict[int, tuple[SpecCluster, contextlib.ExitStack]] = {}

    @contextlib.contextmanager
    def started(self, count: int) -> Iterator[SpecCluster]:
        """Yield a fleet of so many workers, which ends with its last client."""
        with self._lock:
            if not self._clients[count]:
                stack = contextlib.ExitStack()
                self._fleets[count] = stack.enter_context(_local_fleet(count)), stack
            self._clients[count] += 1
        try:
            yield self._fleets[count][0]
        finally:
            with self._lock:
                self._clients[count] -= 1
                if not self._clients[count]:
                    self._fleets.pop(count)[1].close()


_LOCAL = _LocalFleets()


@contextlib.contextmanager
def _local_fleet(count: int) -> Iterator[SpecCluster]:
    """Yield a cluster of workers on this machine; each has processors of its own if there are enough."""
    allowed = sorted(os.sched_getaffinity(0))
    each = len(allowed) // count
    workers = {}
    for number in range(count):
        own = frozenset(allowed[number * each : (number + 1) * each]) if each else None
        name = f"local-{number + 1}"
        settings = HostSettings(name, default_folder() / name, cpus=own)
        settings.folder.mkdir(parents=True, exist_ok=True)
        workers[name] = {"cls": Nanny, "options": nanny_options(settings, host_tags(), None)}
    options = {"dashboard": False, "dashboard_address": NO_PAGES, "port": 0, "host": LOOPBACK}
    scheduler = {"cls": Scheduler, "options": options}
    if not each:
        log.warning("fleet: %d workers share %d processors, and disturb each other", count, len(allowed))
    with SpecCluster(scheduler=scheduler, workers=workers, silence_logs=logging.CRITICAL) as cluster:
        yield cluster


def own_name() -> str:
    """Return a host's default name."""
    return host_name() or socket.gethostname()
