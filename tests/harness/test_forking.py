"""Runs of several threads: whether their cases are measured in forks, as forks of the run's own builds say."""

import dataclasses
import os
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
import test_conformance as conformance

from opduel.driver.builds import BuildCache, resolve_build
from opduel.frameworks import Framework, get_framework, run_environment
from opduel.harness.conformance import check
from opduel.harness.machine.cpus import plan_cpus
from opduel.harness.processes.case_request import CaseRequest
from opduel.harness.processes.channel import complete
from opduel.harness.processes.forking import forks_record, why_not, with_checked_forks
from opduel.harness.processes.pair_pool import Bench
from opduel.harness.processes.process import Worker
from opduel.records import Build, Case, Failure
from opduel.records.measurement import Side
from opduel.records.run_record import ForksRecord

NUMPY = Build("numpy", "python", "interpreter", sys.executable, "1.0", "3.11", "digest")


def case_of(operator: str, **inputs: Any) -> Case:
    return Case("case", operator, "forward", inputs, "float32", "cpu", threshold=0.02, timeout_s=60.0)


PRODUCT = case_of("numpy.matmul", args=[[400, 400], [400, 400]])
INVERSE = case_of("scipy.linalg.inv", args=[[300, 300]])
EXPONENTIAL = case_of("nd.exp", data=[1000, 1000])
ENOUGH_NS = 10_000_000  # of processor time, for a thread to count as one that computes
CALLS_S = 0.1
FORKS = 200

several = pytest.mark.skipif(len(os.sched_getaffinity(0)) < 2, reason="needs two processors")


@pytest.mark.parametrize(
    ("answer", "why"),
    [
        ([{"lost": [], "compute": None}], ""),
        ([{"lost": [], "compute": 2}], ""),
        ([{"lost": ["pool", "pool"], "compute": 2}], "a fork loses 2 threads of the import (pool)"),
        ([{"lost": ["a"], "compute": None}], "a fork loses 1 thread of the import (a)"),
        ([{"lost": [], "compute": 1}], "in a fork an operator computes with 1 of 2 threads"),
        ([{"lost": None, "compute": 2}], "can't be seen"),
        (Failure("control", "crash", "killed by SIGSEGV"), "killed by SIGSEGV"),
    ],
)
def test_a_fork_must_keep_its_threads_and_compute_with_all(answer: Any, why: str) -> None:
    reason = why_not(answer, 2)
    assert why in reason
    assert bool(why) == bool(reason)


def checked(framework: Framework, builds: Mapping[Side, Build], cases: list[Case], threads: int) -> Framework:
    bench = Bench(builds, framework.adaptor, run_environment(framework, threads, {}), plan_cpus(1))
    return with_checked_forks(framework, bench, cases, threads)


def test_a_thread_of_the_import_on_one_side_alone_forbids_forks_of_several_threads_on_both() -> None:
    good, losing = conformance.subject(), conformance.subject("needs its thread")
    framework, cases = losing.framework, list(losing.cases)
    checked_framework = checked(framework, losing.builds, cases, 2)
    assert "control: a fork loses 1 thread of the import" in checked_framework.unforked
    assert (
        checked_framework.can_fork(2, "cpu"),
        checked_framework.can_fork(1, "cpu"),
        framework.can_fork(2, "cpu"),
    ) == (False, True, True)
    record = forks_record(checked_framework, cases, 2)
    assert record == ForksRecord(alone=1, reason=checked_framework.unforked)
    assert checked(framework, losing.builds, cases, 1) is framework, "with one thread nothing is asked"
    assert checked(good.framework, good.builds, cases, 2) is good.framework
    assert forks_record(good.framework, cases, 2) == ForksRecord(forked=1)


def test_a_build_that_does_not_start_is_none_to_be_forked() -> None:
    losing = conformance.subject("dies at import on one side")
    checked_framework = checked(losing.framework, losing.builds, list(losing.cases), 2)
    assert checked_framework.unforked.startswith("treatment: exited with code 1")


def test_the_conformance_test_says_that_several_threads_are_not_forked() -> None:
    notes = check("fork", conformance.subject("starts threads")).notes
    if len(os.sched_getaffinity(0)) < 2:
        assert "fewer than 2 processors" in notes[0]
    else:
        assert "with 2 threads every case gets a process pair of its own: control: a fork loses" in notes[0]


def threads_at_work(framework: Framework, build: Build, case: Case, threads: int, fork: bool) -> list[int]:
    """Processor time (ns) of each thread of the case's process, in calls of some tenths of a second; the least last."""
    environment = {**run_environment(framework, threads, {}), **framework.preparation([case])}
    with Worker("control", build, framework.adaptor, environment, plan_cpus(threads).start) as worker:
        worker.wait_ready()
        process = complete(worker.beginning(fork))
        call_ns = process.ask(CaseRequest(case, 1).message("control"), 60.0)["call_ns"]
        before = processor_time(process.pid)
        calls = max(10, round(1e9 * CALLS_S / call_ns))
        process.ask({"op": "block", "discard": 0, "calls": calls, "inner": 1}, 120.0)
        after = processor_time(process.pid)
    return sorted((spent - before.get(task, 0) for task, spent in after.items()), reverse=True)


def processor_time(pid: int) -> dict[str, int]:
    """What each thread of a process has had of the processors, in nanoseconds (proc(5), schedstat)."""
    tasks = Path(f"/proc/{pid}/task").iterdir()
    return {task.name: int((task / "schedstat").read_text().split()[0]) for task in tasks}


def assert_a_fork_computes_with_all_threads(framework: Framework, build: Build, case: Case) -> None:
    for fork in (True, False):
        times = threads_at_work(framework, build, case, 2, fork)
        assert sum(time_ns > ENOUGH_NS for time_ns in times) >= 2, f"fork: {fork}, {times}"


@several
def test_a_fork_of_numpy_computes_with_several_threads() -> None:
    """OpenBLAS begins its threads at the import, and in a fork once more."""
    framework = get_framework("python")
    assert checked(framework, {"control": NUMPY}, [PRODUCT], 2) is framework
    times = threads_at_work(framework, NUMPY, PRODUCT, 2, fork=True)
    assert sum(time_ns > ENOUGH_NS for time_ns in times) == 2, times


@several
@pytest.mark.nightly
@pytest.mark.mxnet
def test_a_fork_of_mxnet_computes_with_several_threads(mxnet_1_8: Build, mxnet_1_9: Build) -> None:
    """Its own fork handler switches OpenMP off; the adaptor switches it on again."""
    framework = get_framework("mxnet")
    assert checked(framework, {"control": mxnet_1_8, "treatment": mxnet_1_9}, [EXPONENTIAL], 2) is framework
    assert_a_fork_computes_with_all_threads(framework, mxnet_1_9, EXPONENTIAL)


@pytest.mark.nightly
@pytest.mark.mxnet
def test_an_mxnet_that_computes_with_fewer_threads_is_not_forked(mxnet_1_9: Build) -> None:
    framework = get_framework("mxnet")
    build = dataclasses.replace(mxnet_1_9, environment={**mxnet_1_9.environment, "OMP_NUM_THREADS": "1"})
    checked_framework = checked(framework, {"control": build}, [EXPONENTIAL], 2)
    assert checked_framework.unforked == "control: in a fork an operator computes with 1 of 2 threads"


@several
@pytest.mark.nightly
@pytest.mark.wheels
@pytest.mark.parametrize(
    ("name", "release", "case"),
    [
        ("python", "numpy==2.2.6", PRODUCT),
        ("python", "scipy==1.15.3", INVERSE),
        ("mxnet", "mxnet==1.9.1", EXPONENTIAL),
    ],
)
def test_no_fork_of_several_threads_hangs(name: str, release: str, case: Case) -> None:
    framework = get_framework(name)
    build = resolve_build(release, framework, BuildCache())
    assert checked(framework, {"control": build}, [case], 2) is framework
    environment = {**run_environment(framework, 2, {}), **framework.preparation([case])}
    with Worker("control", build, framework.adaptor, environment, plan_cpus(2).start) as worker:
        worker.wait_ready()
        for _ in range(FORKS):
            process = complete(worker.beginning(fork=True))
            assert process.ask(CaseRequest(case, 1).message("control"), case.timeout_s)["call_ns"] > 0
            process.end()
