"""--fleet: a run on many hosts; and ``opduel fleet``, the parts that these hosts run."""

import argparse
import os
from collections.abc import Callable, Sequence
from dataclasses import replace

from opduel.commands.entry import DONE, log
from opduel.commands.fleet_options import default_certificates
from opduel.commands.option_types import path, positive
from opduel.driver.suites.elsewhere import ChosenSuite
from opduel.fleet.address import FleetChoice, parse_address
from opduel.harness.measurement_plan import Progress
from opduel.harness.run import RunRequest, run_ab
from opduel.records import Report, RunError, UsageError
from opduel.reporters.arguments import Parser

NEEDS_EXTRA = "needs the extra fleet: install it with pip install 'opduel[fleet]'"
CERTIFICATE_DAYS = 365
AFTER_ALL = -1_000_000  # the priority of what may turn out to be measured in vain
# What is of one host alone.
_NOT_IN_A_FLEET = {
    "golden": "outputs are compared with stored ones on one host: leave one of the two options out",
    "fuzz": "random inputs are compared and shrunk on one host: leave one of the two options out",
    "profile_output": "profiles lie on the hosts that make them: leave one of the two options out",
}
_WITH_IT = ("fleet_tag", "devices", "excluded_devices", "fleet_certificates")

Measure = Callable[[RunRequest, Callable[[Progress], None]], Report]


def fleet_choice(options: argparse.Namespace) -> FleetChoice | None:
    """The fleet that is asked for; None without ``--fleet``. UsageError: options that don't go together."""
    if options.fleet is None:
        for name in _WITH_IT:
            if getattr(options, name) is not None:
                raise UsageError(f"--{name}: chooses hosts of a fleet: add --fleet ADDRESS, or leave it out")
        return None
    for name, why in _NOT_IN_A_FLEET.items():
        if getattr(options, name) is not None:
            raise UsageError(f"--{name}: does not go with --fleet: {why}")
    return FleetChoice(
        parse_address(options.fleet),
        options.fleet_certificates or default_certificates(),
        options.fleet_timeout,
        tuple(options.fleet_tag or ()),
        tuple(options.devices or ()),
        tuple(options.excluded_devices or ()),
    )


def measurer(options: argparse.Namespace, ahead: bool = False, suite: ChosenSuite | None = None) -> Measure:
    """What measures: this host, or the fleet that the options name; ``ahead``: after what is not measured ahead;
    ``suite``: the one that the cases are of. UsageError: as ``fleet_choice``, or the extra is not installed."""
    choice = fleet_choice(options)
    if choice is None:
        return run_ab
    if ahead:
        choice = replace(choice, priority=AFTER_ALL)
    try:
        from opduel.fleet.client import run_fleet  # Dask is an extra, and takes a second to load
    except ImportError:
        raise UsageError(f"--fleet: {NEEDS_EXTRA}") from None

    def measure(request: RunRequest, on_progress: Callable[[Progress], None]) -> Report:
        return run_fleet(request, choice, on_progress, suite)

    return measure


def count_hosts(options: argparse.Namespace) -> int:
    """How many hosts would measure now: 1 without a fleet, or if its scheduler doesn't answer."""
    choice = fleet_choice(options)
    if choice is None:
        return 1
    from opduel.fleet.client import wait_for_hosts  # measurer() has said what is missing
    from opduel.fleet.service import connect

    try:
        with connect(choice) as client:
            return len(wait_for_hosts(client, choice))
    except RunError as error:  # whoever measures next says so
        log.debug("%s", error)
        return 1


def fleet_parser() -> Parser:
    """``opduel fleet``."""
    parser = Parser(
        prog="opduel fleet",
        description="The parts of a fleet: a scheduler anywhere, a worker on each host that measures, and the "
        "certificates by which they know each other. Then: opduel compare --fleet ADDRESS.",
    )
    kinds = parser.add_subparsers(dest="do", metavar="SUBCOMMAND", required=True)

    def kind(name: str, summary: str) -> Parser:
        found: Parser = kinds.add_parser(name, help=summary, description=f"{summary[:1].upper()}{summary[1:]}.")
        return found

    def certified(one: Parser) -> None:
        one.options()(
            "--certificates DIR",
            "the folder of the fleet's certificates (default: in the user's configuration)",
            type=path,
        )

    scheduler = kind("scheduler", "run the scheduler, which hosts and clients connect to")
    scheduler.options()("address ADDRESS", "where it listens, such as tls://0.0.0.0:8786")
    certified(scheduler)
    worker = kind("worker", "be a measuring host of a fleet")
    add = worker.options()
    add("address ADDRESS", "the scheduler's, such as tls://bench-1:8786")
    add("--name NAME", "this host's name in the fleet and in reports (default: its host name)")
    add("--tag TAG", "a further tag that runs can ask for with --fleet_tag; repeatable", action="append")
    add("--folder DIR", "where shards are kept while they are measured (default: in the user's cache)", type=path)
    add("--exec_dir DIR", "the folder in which builds are kept (default: in the user's cache)", type=path)
    add("--before_run COMMAND", "a shell command before each shard; if it fails, the host doesn't measure it")
    certified(worker)
    certificates = kind("certificates", "make the certificates of a fleet, or a new one when it expires")
    add = certificates.options()
    add("folder FOLDER", "where they are written; the authority's key stays there", type=path)
    add(
        "--days N",
        f"how long the certificate is valid (default: {CERTIFICATE_DAYS})",
        type=positive,
        default=CERTIFICATE_DAYS,
    )
    return parser


def run_fleet_command(arguments: Sequence[str]) -> int:
    """``opduel fleet``; returns the exit code, or raises an OpduelError that has it."""
    options = fleet_parser().parse_args(list(arguments))
    try:
        from opduel.fleet import security, service  # Dask is an extra
        from opduel.fleet.host import HostSettings
    except ImportError:
        raise UsageError(f"opduel fleet {NEEDS_EXTRA}") from None
    if options.do == "certificates":
        for written in security.make_certificates(options.folder, options.days):
            print(written)
        return DONE
    address = parse_address(options.address, "ADDRESS")
    if address.workers is not None:
        raise UsageError(f"ADDRESS {address.text}: give the scheduler's, such as tls://HOST:8786")
    folder = options.certificates or default_certificates()
    secured = security.security_of(folder, "--certificates") if address.is_encrypted else None
    if options.do == "scheduler":
        service.run_scheduler(address, secured)
        return DONE
    place = (options.folder or service.default_folder()).absolute()
    try:
        place.mkdir(parents=True, exist_ok=True, mode=0o700)
    except OSError as error:
        raise UsageError(f"--folder {place}: cannot be made ({error.strerror}): give another") from None
    if not os.access(place, os.W_OK):
        raise UsageError(f"--folder {place}: cannot be written: give another")
    settings = HostSettings(options.name or service.own_name(), place, options.exec_dir, None, options.before_run)
    tags = tuple(dict.fromkeys([*service.host_tags(), *(options.tag or ())]))
    service.run_worker(address, service.WorkerOptions(settings, tags), secured)
    return DONE
