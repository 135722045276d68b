"""A fleet of real programs for tests: a scheduler and workers, with certificates."""

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Any

from host_network import Network

from opduel.commands.fleet import run_fleet_command
from opduel.commands.fleet_options import FleetPart

ROOT = Path(__file__).resolve().parent.parent.parent
FUNCTIONS = ("exp", "sqrt")
LONG_S = 120.0  # against hanging for ever


class Fleet:
    """A scheduler, and workers on demand."""

    def __init__(self, folder: Path, stack: ExitStack, network: Network | None = None) -> None:
        """``network``: in which each worker is a host."""
        self.folder, self._stack, self._network = folder, stack, network
        self.certificates = folder / "certificates"
        assert run_fleet_command(FleetPart("certificates", folder=self.certificates)) == 0
        self.address = f"tls://{network.address if network else '127.0.0.1'}:0"
        self.scheduler, log = self.start("scheduler", "scheduler", self.address)
        self.wait_for(lambda: "scheduler at " in log.read_text())
        self.address = log.read_text().partition("scheduler at ")[2].split()[0]

    def start(
        self,
        name: str,
        *words: str,
        certificates: Path | None = None,
        env: Mapping[str, str] | None = None,
        within: Sequence[str] = (),
    ) -> tuple[subprocess.Popen[bytes], Path]:
        """One of its programs, run by the command ``within``, and its log; ``env``: further variables."""
        log = self.folder / f"{name}.log"
        command = [*within, sys.executable, "-m", "opduel", "fleet", *words]
        command += ["--certificates", str(certificates or self.certificates)]
        if self._network and words[0] == "worker":
            command = self._network.command(name, command)
        with log.open("wb") as errors:
            process = subprocess.Popen(
                command, cwd=ROOT, stderr=errors, start_new_session=True, env={**os.environ, **(env or {})}
            )
        self._stack.callback(end_process, process)
        return process, log

    def worker(
        self, name: str, *words: str, env: Mapping[str, str] | None = None, within: Sequence[str] = ()
    ) -> subprocess.Popen[bytes]:
        """A measuring host, when it is there."""
        place = () if "--folder" in words else ("--folder", str(self.folder / name))
        named = ("worker", self.address, "--name", name)
        process, log = self.start(name, *named, *place, *words, env=env, within=within)
        self.wait_for(lambda: f"{name} measures for" in log.read_text())
        return process

    def wait_for(self, holds: Callable[[], object]) -> None:
        """Until it is true."""
        end = time.monotonic() + LONG_S
        while not holds():
            assert time.monotonic() < end
            time.sleep(0.05)


def end_process(process: subprocess.Popen[bytes]) -> None:
    if process.poll() is None:
        process.send_signal(signal.SIGTERM)
    try:
        process.wait(20)
    except subprocess.TimeoutExpired:
        os.killpg(process.pid, signal.SIGKILL)
        process.wait()


def spec(folder: Path, functions: Sequence[str] = FUNCTIONS) -> Path:
    """Functions of NumPy, a case each."""
    tests = [{"operator": f"numpy.{name}", "inputs": {"args": [[64]]}} for name in functions]
    path = folder / "spec.json"
    path.write_text(json.dumps({"framework": "python", "tests": tests}), encoding="utf-8")
    return path


def command(folder: Path, fleet: Fleet, *words: str, functions: Sequence[str] = FUNCTIONS) -> list[str]:
    """harness.py on the fleet: our own Python against itself, on these functions."""
    own = str(Path(sys.executable).parent.parent)
    sides = ["--control", own, "--treatment", own]
    bounds = ["--max_rounds", "2", "--sentinels", "0", "--busy_host", "report", "--explain", "none"]
    place = ["--fleet", fleet.address, "--fleet_certificates", str(fleet.certificates)]
    harness = [sys.executable, str(ROOT / "harness.py"), "-b", str(spec(folder, functions)), *sides, *bounds]
    return [*harness, "--simple_local_reporter", str(folder / "report"), *place, *words]


def report(folder: Path) -> dict[str, Any]:
    """The run's report, as it was written."""
    read: dict[str, Any] = json.loads((folder / "report" / "report.json").read_text(encoding="utf-8"))
    return read
