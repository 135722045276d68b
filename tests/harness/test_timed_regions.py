"""Calls that say how they are timed: what runs before a timed region, its number of calls, or a clock of their own."""

import importlib.util
import time
from collections.abc import Callable, Iterator
from types import ModuleType
from typing import Any

import numpy as np
import pytest

from opduel.harness.processes.process import WORKER
from opduel.harness.rounds.block_plan import BLOCK_NS, LONG_PILOT_NS, Regions, plan_blocks


@pytest.fixture(scope="module")
def worker() -> Iterator[ModuleType]:
    spec = importlib.util.spec_from_file_location("worker_of_regions", WORKER)
    assert spec
    assert spec.loader
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(module.COMMON)  # as after an adaptor was loaded
        yield module


class Adaptor:
    """Hands out one call, made beforehand."""

    def __init__(self, call: Any) -> None:
        self.call = call

    def make_call(self, case: object, seed: int) -> Any:
        return self.call


def consuming(number: int) -> Any:
    """A call that uses up what ``before`` has made, ``number`` times."""
    remaining: list[int] = []
    calls_made: list[int] = []

    def before() -> None:
        remaining[:] = range(number)
        calls_made.append(1)

    def call() -> None:
        remaining.pop()

    call.before, call.number, call.calls_made = before, number, calls_made  # type: ignore[attr-defined]
    return call


@pytest.mark.parametrize("number", [1, 3])
def test_before_is_called_untimed_before_each_region_of_as_many_calls_as_it_allows(
    worker: ModuleType, number: int
) -> None:
    call = consuming(number)
    samples = worker.timing.time_calls(call, 4, 100, 0)  # the 100 are the controller's: the call knows better
    assert len(samples) == 4
    assert len(call.calls_made) == 4


def test_a_slow_before_is_no_part_of_the_time(worker: ModuleType, monkeypatch: pytest.MonkeyPatch) -> None:
    now = [0]
    monkeypatch.setattr(worker.timing, "clock", lambda: now[0])

    def call() -> None:
        now[0] += 7

    call.before = lambda: now.__setitem__(0, now[0] + 1000)  # type: ignore[attr-defined]
    assert worker.timing.time_calls(call, 3, 1, 0) == [7.0, 7.0, 7.0]
    assert worker.timing.inner_of(call, 7.0) == 1
    assert worker.timing.around(call, 1) == 1000


def test_a_case_is_prepared_slowed_and_measured_with_what_comes_before(worker: ModuleType) -> None:
    session = worker.Session(Adaptor(consuming(2)))
    answer = session.prepare({}, 1, 0.5, True)
    assert answer["inner"] == 2
    assert answer["around_ns"] > 0
    assert answer["spins"] >= 1
    assert len(session.block(1, 5, 50)["ns"]) == 5
    assert session.resident(3)["bytes"] > 0


def test_a_region_may_be_of_many_calls_after_what_comes_before_it(worker: ModuleType) -> None:
    call = consuming(10000)
    del call.number
    answer = worker.Session(Adaptor(call)).prepare({}, 1, 0.0, False)
    assert "inner" not in answer
    assert answer["around_ns"] > 0


def test_the_peak_of_calls_is_without_what_comes_before_them(worker: ModuleType) -> None:
    def call() -> None:
        bytearray(20 << 20)

    without = worker.resident_peak(call, 2)
    call.before = lambda: bytearray(200 << 20)  # type: ignore[attr-defined]
    assert 0 < worker.resident_peak(call, 3) < without + (100 << 20)


def test_a_slowdown_is_calibrated_in_bounded_time(worker: ModuleType, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(worker.timing, "SPIN_LIMIT_NS", 50 * 1000 * 1000)
    calls_before: list[float] = []

    def call() -> None:
        pass

    call.before = lambda: (calls_before.append(1), time.sleep(0.03))  # type: ignore[attr-defined]
    assert worker.timing.spins_for(call, 100.0, 0.5) >= 1
    assert len(calls_before) <= 2


def test_a_call_with_a_clock_of_its_own_is_believed_and_slowed_all_the_same(worker: ModuleType) -> None:
    def call() -> None:
        raise AssertionError("it is not called")

    call.sample = lambda: 5.0e6  # type: ignore[attr-defined]
    assert worker.timing.time_calls(call, 2, 10, 0) == [5.0e6, 5.0e6]
    assert worker.timing.time_calls(call, 1, 1, 100000)[0] > 5.0e6
    call.sample = lambda: 0.0  # type: ignore[attr-defined]
    assert worker.timing.time_calls(call, 1, 1, 0) == [1.0]  # a ratio needs more than nothing


class OfDevice:
    """A call of which a device does the work in 100 us, the first one in 2 s; its clock counts in steps of 500 ns."""

    def __init__(self) -> None:
        self.regions: list[int] = []
        self.calls = 0
        self.now = 0.0

    def __call__(self) -> None:
        self.calls += 1

    def timer(self, work: Callable[[], None]) -> float:
        before = self.calls
        work()
        self.regions.append(self.calls - before)
        took = 1e5 * (self.calls - before) if before else 2e9
        self.now += took
        return took


def test_a_device_s_region_is_as_long_as_its_clock_can_resolve(
    worker: ModuleType, monkeypatch: pytest.MonkeyPatch
) -> None:
    call = OfDevice()
    monkeypatch.setattr(worker.timing, "clock", lambda: call.now)
    answer = worker.Session(Adaptor(call)).prepare({}, 1, 0, False)
    assert answer["call_ns"] == 1e5, "the first call loads libraries: it says nothing of the others"
    assert answer["inner"] == 3
    assert answer["around_ns"] >= 0
    assert worker.timing.inner_of(call, 9e6) == 1


def test_what_slows_a_device_s_call_is_a_share_of_what_one_takes_in_such_a_region(worker: ModuleType) -> None:
    call = OfDevice()
    few = worker.timing.spins_for(call, 1e5, 0.1)
    assert set(call.regions) == {3}
    assert worker.timing.spins_for(call, 1e5, 0.4) > 2 * few


def test_an_ordinary_call_is_timed_as_before(worker: ModuleType) -> None:
    counted: list[int] = []

    def call() -> None:
        counted.append(1)

    worker.timing.time_calls(call, 2, 10, 0)
    assert len(counted) == 20
    assert set(worker.Session(Adaptor(call)).prepare({}, 1, 0, False)) == {"call_ns", "spins", "took_ns"}


def test_what_a_call_leaves_is_put_away_when_its_case_ends_whatever_that_raises(worker: ModuleType) -> None:
    closed: list[int] = []

    def call() -> None: ...

    def close() -> None:
        closed.append(1)
        raise RuntimeError("as it was made to")

    call.close = close  # type: ignore[attr-defined]
    worker.serving.close(call)
    worker.serving.close(None)
    assert closed == [1]
    session = worker.Session(Adaptor(call))
    session.prepare({}, 1, 0, False)
    assert closed == [1]
    session.prepare({}, 1, 0, False)
    assert closed == [1, 1], "a process may have another case"


class Drawing:
    """Hands out a call for each seed, which notes it."""

    def __init__(self) -> None:
        self.called: list[int] = []
        self.closed: list[int] = []

    def make_call(self, case: object, seed: int) -> Any:
        def call() -> None:
            self.called.append(seed)

        call.close = lambda: self.closed.append(seed)  # type: ignore[attr-defined]
        call.timer = lambda work: work() or 1000.0  # type: ignore[attr-defined]
        return call


def test_calls_take_several_sets_of_inputs_in_turn(worker: ModuleType) -> None:
    adaptor = Drawing()
    session = worker.Session(adaptor)
    session.prepare({}, 7, inject=0.0, slow=False, sets=3)
    adaptor.called.clear()
    session.block(discard=1, calls=2, inner=4)
    seeds = adaptor.called[:3]
    assert adaptor.called == seeds * 4
    assert len(set(seeds)) == 3
    assert 7 in seeds
    assert session.block(discard=0, calls=1, inner=4) == {"ns": [250.0]}, "by the device's clock"
    session.call.close()
    assert sorted(adaptor.closed) == sorted(seeds)


def test_one_set_of_inputs_is_the_first_of_several(worker: ModuleType) -> None:
    adaptor = Drawing()
    worker.Session(adaptor).prepare({}, 7, inject=0.0, slow=False)
    assert set(adaptor.called) == {7}


def test_calls_that_are_timed_in_another_way_take_no_turns(worker: ModuleType) -> None:
    session = worker.Session(Adaptor(consuming(1)))
    with pytest.raises(worker.serving.Unseen, match="leave input_sets out"):
        session.prepare({}, 7, inject=0.0, slow=False, sets=2)


def test_blocks_allow_for_what_comes_before_their_regions() -> None:
    call_ns = {"control": 500.0, "treatment": 500.0}
    plain = plan_blocks(call_ns)  # type: ignore[arg-type]
    regions = Regions.of([{"call_ns": 500}, {"call_ns": 500, "inner": 3, "around_ns": 20e6}])
    assert regions == Regions(20e6, 3)
    slow = plan_blocks(call_ns, regions)  # type: ignore[arg-type]
    assert plain.inner == 10
    assert (slow.inner, slow.calls["control"], slow.quads) == (3, 1, 2)
    assert slow.takes_ns <= LONG_PILOT_NS
    cheap = plan_blocks(call_ns, Regions(1e3, 3))  # type: ignore[arg-type]
    assert cheap.calls["control"] * (3 * 500 + 1e3) == pytest.approx(BLOCK_NS, rel=0.01)
    assert Regions.of([{"call_ns": 1.0}], 1e6) == Regions(1e6, 1)
    assert Regions.of([{"call_ns": 1.0}, {"call_ns": 1.0, "around_ns": 2e6}]) == Regions(2e6, None)


def test_a_low_block_is_the_decile_of_the_same_calls(worker: ModuleType) -> None:
    """The 20 values of a call that times itself, whose order tells nothing."""
    values = [float(7 * number % 20 + 100) for number in range(20)]

    def call() -> None: ...

    call.sample = iter([50.0, *values]).__next__  # type: ignore[attr-defined]
    session = worker.Session(None)
    session.call = call
    answer = session.low_block(discard=1, calls=20, inner=1, most_ns=1e9, share=0.1)
    assert answer == {"low": pytest.approx(float(np.quantile(values, 0.1))), "timed_ns": sum(values), "calls": 20}


def test_calls_are_discarded_after_a_switch_alone(worker: ModuleType, monkeypatch: pytest.MonkeyPatch) -> None:
    calls_made = []
    session = worker.Session(None)
    session.call = lambda: calls_made.append(1)
    counts = []

    def take_turns(block: Callable[[bool], Any], *of_turns: object) -> list[Any]:
        for switched in (True, False):
            block(switched)
            counts.append(len(calls_made))
        return []

    monkeypatch.setattr(worker.timing, "take_turns", take_turns)
    session.turns([2], True, "", "", discard=2, calls=3, inner=1, most_ns=1e9, share=0.1)
    assert counts == [2 + 3, 2 + 3 + 3]


def test_a_block_ends_when_its_calls_take_too_long(worker: ModuleType) -> None:
    """Calls of 1 ms, of which thousands were to be made: those discarded end, too."""
    calls_made = []

    def call() -> None:
        calls_made.append(time.perf_counter())
        while time.perf_counter() < calls_made[-1] + 1e-3:
            pass

    session = worker.Session(None)
    session.call = call
    answer = session.low_block(discard=3000, calls=3000, inner=1, most_ns=4e6, share=0.1)
    assert answer["low"] >= 1e6
    assert len(calls_made) <= 2 * 6  # the longest isn't counted
    assert 2 <= answer["calls"] < len(calls_made)
    assert answer["timed_ns"] >= 1e6 * answer["calls"]


def test_one_interruption_does_not_end_a_block(worker: ModuleType, monkeypatch: pytest.MonkeyPatch) -> None:
    now = [0.0]
    took = iter([1.0, 1.0, 50.0, 1.0, 1.0, 1.0, 1.0, 1.0, 1.0])
    monkeypatch.setattr(worker.timing, "clock", lambda: now[0])

    def call() -> None:
        now[0] += next(took)

    samples = worker.timing.time_calls(call, calls=9, inner=1, spins=0, most_ns=6.5)
    assert samples == [1.0, 1.0, 50.0, 1.0, 1.0, 1.0, 1.0, 1.0]  # and those that are slow together do
