"""Evicting the processor's caches: before each timed call, outside of what is timed, on both sides alike."""

import importlib.util
import os
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from types import ModuleType

import pytest
from test_run import request
from test_single import measured
from toy_bench import toy_case

from opduel.harness.machine.cpus import (
    LEAST_WIPED,
    MOST_WIPED,
    USUAL_WIPED,
    WIPING_VARIABLE,
    largest_cache,
    plan_wiping,
)
from opduel.harness.processes.process import WORKER
from opduel.harness.rounds.block_plan import Regions, plan_blocks
from opduel.harness.run import run_ab
from opduel.records.measurement import SIDES


def load_worker() -> ModuleType:
    spec = importlib.util.spec_from_file_location("worker_with_wiping", WORKER)
    assert spec
    assert spec.loader
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def hosts(folder: Path, *sizes: str) -> Path:
    for number, size in enumerate(sizes):
        path = folder / "cpu0" / "cache" / f"index{number}" / "size"
        path.parent.mkdir(parents=True)
        path.write_text(f"{size}\n")
    return folder


@pytest.mark.parametrize(
    ("sizes", "largest", "read"),
    [
        (("48K", "32K", "1024K", "32768K"), 32 << 20, 64 << 20),
        (("64K",), 64 << 10, LEAST_WIPED),
        (("1G",), 1 << 30, MOST_WIPED),
        ((), 0, USUAL_WIPED),
        (("what", ""), 0, USUAL_WIPED),
    ],
)
def test_twice_the_largest_cache_is_read(tmp_path: Path, sizes: tuple[str, ...], largest: int, read: int) -> None:
    cpus = hosts(tmp_path, *sizes)
    assert largest_cache(cpus) == largest
    plan = plan_wiping(cpus)
    assert plan.size == read
    assert plan.ns > 0


def test_caches_are_evicted_before_each_sample_and_never_while_the_clock_runs(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(WIPING_VARIABLE, str(1 << 20))
    worker = load_worker()
    assert len(worker.timing.EVICTING) == 1 << 20
    assert set(worker.timing.EVICTING) == {1}  # of pages of its own: all zeros could be one page of memory
    happened: list[str] = []

    class Read:
        def __getitem__(self, place: slice) -> None:
            assert place == slice(None, None, worker.timing.CACHE_LINE)
            happened.append("wipe")

    def clock() -> int:
        happened.append("clock")
        return len(happened)

    worker.timing.EVICTING, worker.timing.clock = Read(), clock
    worker.timing.time_calls(lambda: happened.append("call"), calls=3, inner=1, spins=0)
    assert happened == ["clock", *["wipe", "clock", "call", "clock"] * 3]


def test_a_call_with_a_timer_is_timed_by_that() -> None:
    """As on a GPU: all calls of a sample are within one measurement of the device's. The injected work
    isn't: the device would work meanwhile, and nothing of it would show."""
    worker = load_worker()
    happened: list[str] = []

    class DeviceCall:
        def __call__(self) -> None:
            happened.append("call")

        def timer(self, work: Callable[[], None]) -> float:
            happened.append("start")
            work()
            happened.append("end")
            return 600.0

    now = 0

    def spin(spins: int) -> None:
        nonlocal now
        now += 10 * spins
        happened.append(f"spin {spins}")

    worker.timing.spin, worker.timing.clock = spin, lambda: now
    assert worker.timing.time_calls(DeviceCall(), calls=2, inner=3, spins=7) == [270.0, 270.0]
    assert happened == ["start", *["call"] * 3, "end", "spin 21"] * 2


def test_nothing_is_evicted_unless_asked_for(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(WIPING_VARIABLE, raising=False)
    assert len(load_worker().timing.EVICTING) == 0
    assert WIPING_VARIABLE not in os.environ


def test_a_sample_is_one_call_and_eviction_counts_as_time_spent() -> None:
    call_ns = dict.fromkeys(SIDES, 2_000.0)
    warm, cold = plan_blocks(call_ns), plan_blocks(call_ns, Regions(10e6, 1))
    assert (cold.inner, cold.calls["control"], cold.discard["control"]) == (1, 1, 0), "there are no caches to warm"
    assert warm.calls["control"] >= 100 * cold.calls["control"]
    assert 1 < cold.quads < warm.quads


@pytest.mark.nightly
def test_a_run_tells_that_caches_were_evicted() -> None:
    run_request = request(toy_case("a"), max_rounds=2)
    report = run_ab(replace(run_request, configuration=replace(run_request.configuration, wipe_cache=True)))
    assert report.run.wipe_cache == plan_wiping().size
    assert WIPING_VARIABLE not in report.run.environment  # of timed pairs alone: memory is not measured with it
    (comparison,) = report.comparisons
    assert comparison.samples
    assert all(sample.calls < 200 for sample in comparison.samples)


def test_one_build_alone_evicts_them_too() -> None:
    case = toy_case("a", turns=20_000)
    (cold,) = measured([case], rounds=1, wipe_cache=True).cases
    (warm,) = measured([case], rounds=1).cases
    assert (cold.failure, warm.failure) == (None, None)
    assert 0 < 2 * cold.calls < warm.calls, "evicting counts as time spent"
