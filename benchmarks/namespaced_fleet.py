"""By hand: a command with a fleet of network namespaces of this machine; needs root.

    .venv/bin/python benchmarks/namespaced_fleet.py [--hosts 3] -- .venv/bin/python harness.py -b smoke ...

Starts a scheduler and that many workers, each in a namespace of its own and with certificates, runs the command with
``--fleet`` and ``--fleet_certificates`` added, and ends all. The exit code is the command's.
"""

import argparse
import contextlib
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))

from benchmarks.fleet_kills import Machines  # noqa: E402


def main() -> int:
    """Run it; returns the command's exit code."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--hosts", type=int, default=3, metavar="N", help="default: 3")
    parser.add_argument("command", nargs="+", metavar="COMMAND")
    options = parser.parse_args()
    with contextlib.ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="opduel-fleet-")))
        machines = Machines(folder, options.hosts, True, None, stack)
        place = ["--fleet", machines.address, "--fleet_certificates", str(machines.certificates)]
        return subprocess.run([*options.command, *place], check=False).returncode


if __name__ == "__main__":
    raise SystemExit(main())
