"""Workers have a higher priority than what runs beside them, where they may."""

import os
import subprocess
import sys
from pathlib import Path

import psutil
import pytest
from toy_bench import ADAPTOR, toy_build

from opduel.frameworks import worker_environment
from opduel.harness.processes.channel import complete
from opduel.harness.processes.process import Worker

ROOT = Path(__file__).resolve().parent.parent.parent
AUTOGROUP = Path("/proc/self/autogroup")
CPUS = frozenset(os.sched_getaffinity(0))
USUAL = os.getpriority(os.PRIO_PROCESS, 0)
NOBODY = 65534
FIRST = "import os; os.setpriority(os.PRIO_PROCESS, 0, -20)"
MAY = subprocess.run([sys.executable, "-c", FIRST], stderr=subprocess.DEVNULL, check=False).returncode == 0
OF_WORKER = f"""
import os, sys
sys.path.insert(0, {str(ROOT / "harness" / "worker")!r})
import serving
"""

may = pytest.mark.skipif(not MAY, reason="needs the right to raise a priority (CAP_SYS_NICE)")


def run(code: str) -> str:
    """What a program prints that has the worker's functions; it leads a session, as workers do."""
    command = [sys.executable, "-c", OF_WORKER + code]
    finished = subprocess.run(command, capture_output=True, text=True, start_new_session=True, check=True)
    assert finished.stderr == ""
    return finished.stdout.strip()


def group_of(pid: int) -> str:
    """``nice N``, of the group of processes that a scheduler with such groups has it in."""
    return Path(f"/proc/{pid}/autogroup").read_text("ascii").split(None, 1)[1].strip()


@may
@pytest.mark.parametrize("fork", [True, False])
def test_a_worker_and_what_it_forks_have_the_highest_priority(fork: bool) -> None:
    with Worker("control", toy_build("control"), ADAPTOR, worker_environment(), CPUS) as worker:
        worker.wait_ready()
        case = complete(worker.beginning(fork))
        assert worker.nice == -20
        assert [psutil.Process(pid).nice() for pid in (worker.pid, case.pid)] == [-20, -20]
        if AUTOGROUP.exists():
            assert group_of(case.pid) == "nice -20"
    assert os.getpriority(os.PRIO_PROCESS, 0) == USUAL


def test_a_worker_keeps_its_priority_where_that_is_asked_for() -> None:
    build = toy_build("control", OPDUEL_PRIORITY="keep")
    with Worker("control", build, ADAPTOR, worker_environment(), CPUS) as worker:
        worker.wait_ready()
        assert worker.nice == psutil.Process(worker.pid).nice() == USUAL
        if AUTOGROUP.exists():
            assert group_of(worker.pid) == "nice 0"


@may
def test_threads_that_there_are_have_it_too() -> None:
    printed = run(
        "import threading\n"
        "ends = threading.Event()\n"
        "one = threading.Thread(target=ends.wait)\n"
        "one.start()\n"
        "print(serving.raise_priority(), os.getpriority(os.PRIO_PROCESS, one.native_id))\n"
        "ends.set()"
    )
    assert printed == "-20 -20"


@pytest.mark.skipif(os.geteuid() != 0, reason="needs root, to become nobody")
def test_who_has_no_right_to_it_measures_as_before() -> None:
    printed = run(f"os.setuid({NOBODY}); print(serving.raise_priority())")
    assert printed == str(USUAL)


def test_a_session_that_is_not_its_own_is_left_alone() -> None:
    printed = run(
        "if pid := os.fork():\n    os.waitpid(pid, 0)\nelse:\n    print(serving.raise_priority(), flush=True)\n"
    )
    assert printed == str(USUAL)


def test_a_system_that_has_been_asked_too_often_is_asked_again() -> None:
    printed = run(
        "answers = [BlockingIOError(), BlockingIOError(), 3]\n"
        "def write(group, text):\n"
        "    print(group, text)\n"
        "    answer = answers.pop(0)\n"
        "    if isinstance(answer, OSError):\n"
        "        raise answer\n"
        "serving.os.write, serving.ASKED_S = write, 0\n"
        "serving.give_priority(7)\n"
    )
    assert printed.splitlines() == ["7 b'-20'"] * 3
