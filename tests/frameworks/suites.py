"""What tests of suites' adaptors share: what a build discovers, a worker of a suite, and cases as it gets them."""

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from opduel.frameworks import get_framework, worker_environment
from opduel.harness.processes.restarting_worker import RestartingWorker
from opduel.records import Build


def discovered(framework: str, root: Path, *files: str) -> dict[str, Any]:
    """Return what this environment, as a build, discovers of a suite."""
    command = [sys.executable, str(get_framework(framework).scripts.suite), "discover", str(root), *files]
    process = subprocess.run(command, capture_output=True, text=True, check=True, cwd=root.parent)
    document: dict[str, Any] = json.loads(process.stdout)
    return document


@contextmanager
def suite_worker(framework: str, suite: Path, work: Path, **variables: str) -> Iterator[RestartingWorker]:
    """Yield a worker of this environment for a suite, which works in the new folder ``work``."""
    work.mkdir()
    build = Build(framework, "this", "environment", sys.executable, "1", "3", "d")
    environment = {**worker_environment(), "OPDUEL_SUITE": str(suite), "OPDUEL_SUITE_WORK": str(work), **variables}
    adaptor, cpus = get_framework(framework).adaptor, frozenset(os.sched_getaffinity(0))
    with RestartingWorker("control", build, adaptor, environment, cpus) as worker:
        yield worker


def case_of(operator: str, **inputs: str) -> dict[str, Any]:
    """Return a case as an adaptor gets it."""
    return {"id": operator, "operator": operator, "inputs": inputs, "direction": "forward", "context": "cpu"}


def prepare(operator: str, **inputs: str) -> dict[str, Any]:
    """Return the request to prepare a case."""
    return {"op": "prepare", "case": case_of(operator, **inputs), "seed": 1, "inject": 0.0, "slow": False}
