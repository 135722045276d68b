"""benchmarks/loads.py: a load runs as long as its context, and slows what it is meant to slow."""

import statistics
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager

import psutil
import pytest

from benchmarks.loads import load
from opduel.harness.machine.cpus import plan_cpus, this_thread_on
from opduel.records import UsageError


@contextmanager
def load_or_skip(name: str) -> Iterator[None]:
    with ExitStack() as stack:
        try:
            stack.enter_context(load(name))
        except UsageError as error:
            pytest.skip(str(error))
        yield


@pytest.mark.parametrize("name", ["bursts", "wandering"])
def test_a_load_runs_as_long_as_its_context(name: str) -> None:
    before = {child.pid for child in psutil.Process().children()}
    with load_or_skip(name):
        children = [child for child in psutil.Process().children() if child.pid not in before]
        spent_s = [sum(child.cpu_times()[:2]) for child in children]
        deadline = time.monotonic() + 60  # bursts rest, and other tests take processors
        while all(sum(child.cpu_times()[:2]) <= spent for child, spent in zip(children, spent_s, strict=True)):
            assert time.monotonic() < deadline
            time.sleep(0.05)
    assert not any(child.is_running() for child in children)


@pytest.mark.measures
def test_beside_a_wandering_neighbour_calls_take_one_of_two_times() -> None:
    """One of half a millisecond takes 1.3 times as long and more for tenths of a second, and as long as without it for
    others."""

    def tenth_of_a_second() -> float:
        times, end = [], time.perf_counter() + 0.1
        while (start := time.perf_counter()) < end:
            sum(range(20_000))
            times.append(time.perf_counter() - start)
        return statistics.median(times)

    with this_thread_on(plan_cpus(1).measure):
        alone = statistics.median(tenth_of_a_second() for _ in range(5))
    with load_or_skip("wandering"), this_thread_on(plan_cpus(1).measure):
        deadline, slow, fast = time.monotonic() + 60, 0, 0
        while min(slow, fast) < 3:
            assert time.monotonic() < deadline
            share = tenth_of_a_second() / alone
            slow, fast = slow + (share > 1.3), fast + (share < 1.1)
