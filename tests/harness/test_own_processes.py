"""Calls that are processes of their own: how often a worker makes them, and that none outlives it."""

import importlib.util
import os
import subprocess
import sys
import time
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest

from opduel.harness.processes.process import WORKER, kill_session

LEADER = """
import subprocess
child = subprocess.Popen(["sleep", "600"], process_group=0)
print(child.pid, flush=True)
child.wait()
"""


@pytest.fixture
def worker() -> ModuleType:
    spec = importlib.util.spec_from_file_location("worker_of_programs", WORKER)
    assert spec
    assert spec.loader
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.mark.parametrize(("own", "warm_up", "block"), [(True, 3, 2), (False, 12, 5)])
def test_a_process_leaves_nothing_behind_that_calls_would_have_to_be_thrown_away_for(
    worker: ModuleType, monkeypatch: pytest.MonkeyPatch, own: bool, warm_up: int, block: int
) -> None:
    calls: list[float] = []

    def call() -> None:
        calls.append(1)

    call.own_process = own  # type: ignore[attr-defined]
    times = iter(range(0, 10**12, 5_000_000))  # each look at the clock is 5 ms later
    monkeypatch.setattr(worker.timing, "clock", lambda: next(times))
    session = worker.Session(SimpleNamespace(make_call=lambda case, seed: call))
    session.prepare({}, 0, 0.0, False)
    assert len(calls) == warm_up
    session.block(3, 2, 1)
    assert len(calls) == warm_up + block


def test_a_workers_end_is_the_end_of_what_has_a_process_group_of_its_own() -> None:
    options: dict[str, Any] = {"stdout": subprocess.PIPE, "text": True, "start_new_session": True}
    with subprocess.Popen([sys.executable, "-c", LEADER], **options) as leader:
        assert leader.stdout
        child = int(leader.stdout.readline())
        group = os.getpgid(child)
        kill_session(leader.pid)
        leader.wait(timeout=60)
    assert group == child
    deadline = time.monotonic() + 60
    while state(child) not in ("", "Z") and time.monotonic() < deadline:
        time.sleep(0.01)
    assert state(child) in ("", "Z")


def state(pid: int) -> str:
    """As in /proc/PID/stat; empty for a process that isn't there."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except OSError:
        return ""
