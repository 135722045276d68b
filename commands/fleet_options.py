"""harness.py's options on where a run is measured."""

import argparse
from pathlib import Path

import platformdirs

from opduel.commands.option_types import path, seconds
from opduel.reporters.arguments import Parser

# No run is another one for these.
HOST_OPTIONS = (
    *("fleet", "fleet_tag", "devices", "excluded_devices", "fleet_timeout", "fleet_silence", "fleet_certificates"),
)
FLEET_OPTIONS = (*HOST_OPTIONS, "across")


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


def _names(text: str) -> list[str]:
    names = [name.strip() for name in text.split(",")]
    if not all(names):
        raise argparse.ArgumentTypeError(f"{text!r}: give names, separated by commas")
    return names
