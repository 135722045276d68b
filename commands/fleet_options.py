"""Options on where a run is measured, and those of the parts of a fleet."""

import argparse
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import platformdirs

from opduel.commands.option_types import frequency, path, positive, seconds
from opduel.reporters.arguments import Parser

# No run is another one for these.
HOST_OPTIONS = (
    *("fleet", "fleet_tag", "devices", "excluded_devices", "fleet_timeout", "fleet_silence", "fleet_certificates"),
)
FLEET_OPTIONS = (*HOST_OPTIONS, "across")
CERTIFICATE_DAYS = 365
BEFORE_RUN_S = 600.0


def default_certificates() -> Path:
    """Where certificates are looked for."""
    return platformdirs.user_config_path("opduel") / "fleet"


def add_fleet_options(parser: Parser) -> None:
    """harness.py's options on where a run is measured."""
    add = parser.options("on many hosts")
    add(
        "--fleet ADDRESS",
        "measure on the hosts of a fleet, each case on one of them: tls://HOST:PORT of its scheduler, or local:N for "
        "N workers on this machine, for a try; see opduel fleet --help",
    )
    add("--fleet_tag TAG", "only on hosts with this tag, such as avx512f or gpu; repeatable", action="append")
    add("--devices -d --device NAMES", "only on the hosts of these names, separated by commas", type=_names)
    add("--excluded_devices NAMES", "not on the hosts of these names", type=_names)
    add(
        "--across",
        "hosts: measure every case on each kind of host by itself, by processor, its instructions, and GPU; for other "
        "kinds, name tags with --platforms",
        choices=("hosts",),
    )
    add(
        "--fleet_timeout SECONDS",
        "how long to wait for the scheduler, and for a host of the wanted kind (default: 60)",
        type=seconds,
        default=60,
    )
    add(
        "--fleet_silence SECONDS",
        "a host that says nothing for so long is given up; explaining causes takes five minutes (default: 900)",
        type=seconds,
        default=900,
    )
    add(
        "--fleet_certificates DIR",
        "the folder of the fleet's certificates (default: in the user's configuration)",
        type=path,
    )


@dataclass(frozen=True)
class FleetPart:
    """The options of ``opduel fleet``: which part it runs (``do``), and how."""

    do: str
    address: str = ""
    dashboard: int | None = None
    certificates: Path | None = None
    name: str | None = None
    tag: Sequence[str] | None = None
    folder: Path | None = None
    exec_dir: Path | None = None
    before_run: str | None = None
    before_run_timeout: float = BEFORE_RUN_S
    set_freq: str | None = None
    days: int = CERTIFICATE_DAYS


def fleet_parser() -> Parser:
    parser = Parser(
        prog="opduel fleet",
        description="The parts of a fleet: a scheduler anywhere, a worker on each host that measures, and the "
        "certificates by which they know each other. Then: opduel compare --fleet ADDRESS.",
    )
    kinds = parser.add_subparsers(dest="do", metavar="SUBCOMMAND", required=True)

    def kind(name: str, summary: str) -> Parser:
        subparser: Parser = kinds.add_parser(name, help=summary, description=f"{summary[:1].upper()}{summary[1:]}.")
        return subparser

    def certified(subparser: Parser) -> None:
        subparser.options()(
            "--certificates DIR",
            "the folder of the fleet's certificates (default: in the user's configuration)",
            type=path,
        )

    scheduler = kind("scheduler", "run the scheduler, which hosts and clients connect to")
    scheduler.options()("address ADDRESS", "where it listens, such as tls://0.0.0.0:8786")
    scheduler.options()(
        "--dashboard PORT",
        "serve Dask's dashboard on this port of the machine's loopback, as plain HTTP (default: no dashboard)",
        type=positive,
    )
    certified(scheduler)
    worker = kind("worker", "be a measuring host of a fleet")
    add = worker.options()
    add("address ADDRESS", "the scheduler's, such as tls://bench-1:8786")
    add("--name NAME", "this host's name in the fleet and in reports (default: its host name)")
    add("--tag TAG", "a further tag that runs can ask for with --fleet_tag; repeatable", action="append")
    add("--folder DIR", "where shards are kept while they are measured (default: in the user's cache)", type=path)
    add("--exec_dir DIR", "the folder in which builds are kept (default: in the user's cache)", type=path)
    add(
        "--before_run COMMAND",
        "a shell command that is run on this host before each shard, to drop caches or wait until it has cooled down; "
        "if it fails, the host does not measure for that run",
    )
    add(
        "--before_run_timeout SECONDS",
        f"how long it may take; then it is ended, and has failed (default: {BEFORE_RUN_S:g})",
        type=seconds,
        default=BEFORE_RUN_S,
    )
    add(
        "--set_freq FREQUENCY",
        "one frequency for all processors while this is a worker: a number in MHz, or max, mid or min; put back at "
        "its end",
        type=frequency,
    )
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


def _names(text: str) -> list[str]:
    names = [name.strip() for name in text.split(",")]
    if not all(names):
        raise argparse.ArgumentTypeError(f"{text!r}: give names, separated by commas")
    return names
