"""Builds and runs for the scripts: a build on both sides with the cases of a spec, and harness.py in a process."""

import subprocess
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path

from opduel.driver.builds import BuildCache, resolve_build
from opduel.frameworks import get_framework, worker_environment
from opduel.harness.machine.cpus import plan_cpus
from opduel.harness.processes.pair_pool import Bench
from opduel.harness.specs import expand_cases, find_spec, load_spec
from opduel.records import Case, Report
from opduel.records.measurement import SIDES
from opduel.reporters import read_report

ROOT = Path(__file__).resolve().parent.parent
MXNET = "mxnet==1.9.1"


def make_bench(build: str, spec_name: str) -> tuple[Bench, list[Case]]:
    """Return a bench with one build on both sides, and the spec's cases.

    Raises:
        OpduelError: as harness.py does.
    """
    spec = load_spec(find_spec(spec_name))
    framework = get_framework(spec.framework)
    builds = dict.fromkeys(SIDES, resolve_build(build, framework, BuildCache()))
    environment = {**worker_environment(), **framework.environment(1)}
    return Bench(builds, framework.adaptor, environment, plan_cpus(1)), expand_cases(spec)


@dataclass(frozen=True)
class HarnessRun:
    """How a run of harness.py ended: its exit code, its last message, and its report, if it wrote one."""

    exit_code: int
    message: str
    report: Report | None


def run_harness(*options: str) -> HarnessRun:
    """Run harness.py in a process of its own, until it ends."""
    with tempfile.TemporaryDirectory() as folder:
        command = [sys.executable, str(ROOT / "harness.py"), "--simple_local_reporter", folder, *options]
        process = subprocess.run(command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True, check=False)
        path = Path(folder, "report.json")
        report = read_report(path) if path.exists() else None
    *_, message = process.stderr.strip().splitlines() or [f"exit code {process.returncode}"]
    return HarnessRun(process.returncode, message, report)
