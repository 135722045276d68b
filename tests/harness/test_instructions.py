"""Counting instructions: what both sides are asked, what is case of their answers, and real counts under valgrind."""

import importlib.util
import io
import math
import os
import platform
import random
import shutil
import stat
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from test_run import Toy
from toy_bench import toy_bench, toy_case

from opduel.comparator import RunAnalysis, plan_looks
from opduel.frameworks import Cases, ProfilingSetup, worker_environment
from opduel.harness.measurement_plan import MeasurementPlan
from opduel.harness.planning.schedule import Schedule
from opduel.harness.processes.case_request import CaseRequest
from opduel.harness.processes.pair_pool import Bench, Counting, PairPool
from opduel.harness.rounds.instructions import (
    CASE_INSTRUCTIONS,
    FEWEST_CALLS,
    MOST_CALLS,
    SCRIPT,
    SLOWDOWN,
    callgrind,
    plan_counting,
    plan_counts,
    require_counting,
    run_counting_round,
)
from opduel.harness.rounds.pair import Round, RoundResult
from opduel.records import Case, UsageError

HERE = Path(__file__).resolve().parent
VALGRIND = shutil.which("valgrind")
STAND_IN = str(HERE / "stand_in" / "valgrind")
real_counts = pytest.mark.skipif(
    VALGRIND is None or platform.machine() != "x86_64", reason="instructions are counted by valgrind, on x86-64"
)


def counted(name: str, operator: str = "work", **inputs: Any) -> Case:
    case = replace(toy_case(f"{name}/instructions", operator, **inputs), metric="instructions", threshold=0.005)
    assert case.time_id == name
    return case


def with_counting(functions: tuple[str, ...] = ("work*",), valgrind: str = STAND_IN, **environment: str) -> Bench:
    """The toy's bench, its workers under ``valgrind``; its stand-in counts turns."""
    variables = {**worker_environment(), "PYTHONPATH": str(HERE), "TOY_COUNTING": str(SCRIPT), **environment}
    return replace(toy_bench(**environment), counting=Counting(valgrind, functions, variables))


def one_round(bench: Bench, *cases: Case, inject: float = 0.0) -> RoundResult:
    result = RoundResult()
    requests = [CaseRequest(case, 1, inject) for case in cases]
    rng = random.Random(1)
    run_counting_round(PairPool(bench, rng), Round(requests, 7), rng, result)
    return result


def test_a_sample_is_the_count_a_call_on_either_side() -> None:
    result = one_round(with_counting(), counted("a", turns=2000, slower=1.5))
    (sample,) = result.samples
    assert (sample.control, sample.treatment) == (2000, 3000)
    assert sample.log_ratio == pytest.approx(math.log(1.5))
    assert (sample.case_id, sample.round, sample.stage, sample.calls) == ("a/instructions", 7, "screening", MOST_CALLS)
    assert (result.refused, result.lost, result.lost_worker, result.unmeasured) == ({}, {}, None, [])
    assert result.timed_s == 0, "nothing was timed"
    assert 0 < result.start_s < result.wall_s


def test_an_injection_makes_that_share_of_calls_more() -> None:
    (sample,) = one_round(with_counting(), counted("a"), inject=0.01).samples
    assert (sample.control, sample.treatment, sample.calls) == (2000, 2020, 100)


def test_cases_that_fail_cost_no_other() -> None:
    kinds = {"refuse": "error", "missing": "missing", "abort": "crash", "kill": "killed", "hang": "timeout"}
    bad_cases = [
        replace(counted(operator, operator, only_on="treatment"), timeout_s=2.0 / SLOWDOWN) for operator in kinds
    ]
    result = one_round(with_counting(), counted("a"), *bad_cases, counted("both", "refuse"), counted("b"))
    assert {sample.case_id for sample in result.samples} == {"a/instructions", "b/instructions"}
    failures = {case_id.partition("/")[0]: failure for case_id, failure in {**result.refused, **result.lost}.items()}
    both = failures.pop("both")
    assert (both.side, both.reason) == ("both", "ValueError: Shapes (2,) and (3,)")
    assert {name: (failure.side, failure.kind) for name, failure in failures.items()} == {
        operator: ("treatment", kind) for operator, kind in kinds.items()
    }
    assert result.lost_worker is None


def test_a_call_in_which_nothing_is_counted_is_refused() -> None:
    failure = one_round(with_counting(TOY_COUNTS="nothing"), counted("a")).refused["a/instructions"]
    assert (failure.side, failure.kind) == ("both", "error")
    assert "executes nothing in the functions that are counted" in failure.reason


def test_a_run_measures_by_both_metrics_and_finds_one_percent() -> None:
    cases = [replace(toy_case("a"), threshold=0.5), counted("a", slower=1.01), counted("b")]
    looks = plan_looks(5)
    result = Schedule(with_counting(), MeasurementPlan(cases, looks, 0.05, 1)).run()
    comparisons = {
        comparison.case: comparison
        for comparison in RunAnalysis(cases, result.samples, result.failures, looks).comparisons()
    }
    assert comparisons["a/instructions"].verdict == "regressed"
    assert comparisons["a/instructions"].ratio == pytest.approx(1.01)
    assert comparisons["a/instructions"].rounds == 3, "a percent of counts needs no confirmation"
    assert (comparisons["b/instructions"].verdict, comparisons["b/instructions"].rounds) == ("unchanged", 3)
    assert comparisons["a"].rounds == looks.counts[0]
    assert result.stopped is None


def test_what_does_not_fit_into_the_budget_leaves_the_rest_its_time() -> None:
    cases = [replace(toy_case("a"), threshold=1e-6), counted("a")]
    schedule = Schedule(with_counting(), MeasurementPlan(cases, plan_looks(30), 0.05, 1, time_budget=500.0))
    schedule._durations.last_start_s["instructions"] = 1000.0  # as if a pair that counts took that long to start
    schedule.result.rounds = 1
    result = schedule.run()
    assert result.samples["a/instructions"] == []
    assert len(result.samples["a"]) >= 5
    assert result.stopped is not None
    assert "the time budget" in result.stopped, "too little of it is left for a pair that counts"


def test_twins_are_injected_together() -> None:
    cases = [case for name in "abcdef" for case in (toy_case(name), counted(name))]
    for seed in range(5):
        injected = MeasurementPlan(cases, plan_looks(5), 0.05, seed, inject=0.1).injected
        times = {name for name in injected if not name.endswith("/instructions")}
        assert len(times) == 3
        assert injected == times | {f"{name}/instructions" for name in times}


@pytest.mark.parametrize(
    ("first", "calls"),
    [
        ({"control": 10, "treatment": 1}, MOST_CALLS),
        ({"control": CASE_INSTRUCTIONS // 10, "treatment": 1}, 10),
        ({"control": 1, "treatment": CASE_INSTRUCTIONS // 10}, 10),
        ({"control": 100 * CASE_INSTRUCTIONS, "treatment": 1}, FEWEST_CALLS),
    ],
)
def test_both_sides_make_as_many_calls(first: Mapping[Any, int], calls: int) -> None:
    plan = plan_counts(first, 0.0)
    assert plan.calls == {"control": calls, "treatment": calls}
    assert plan.scale == calls
    assert plan.discard >= 1


@pytest.mark.parametrize("inject", [0.001, 0.005, 0.01, 0.03, 0.1, 0.333, 0.5, 0.99])
@pytest.mark.parametrize("first", [1000, 1_000_000, 10**10])
def test_an_injection_is_as_large_as_it_says(inject: float, first: int) -> None:
    plan = plan_counts({"control": first, "treatment": first}, inject)
    assert plan.calls["treatment"] / plan.scale == pytest.approx(1 + inject, abs=0.011 * inject)
    assert plan.calls["control"] == plan.scale


def test_counting_asks_for_what_it_needs(monkeypatch: pytest.MonkeyPatch) -> None:
    class Countable(Toy):
        profiling = ProfilingSetup(counts_instructions=True, counted_functions=("work*",))

    class OnProcessors(Countable):
        def can_fork(self, threads: int, context: str) -> bool:
            return context == "cpu"

    class OfNetworks(Countable):
        cases = Cases(networks=(toy_case("a").operator,))

    monkeypatch.setenv("PATH", "")
    require_counting(Toy(), [toy_case("a")])
    with pytest.raises(UsageError, match=r"needs valgrind.*apt install valgrind"):
        require_counting(Countable(), [toy_case("a"), counted("a")])
    monkeypatch.setenv("PATH", str(HERE / "stand_in"))
    require_counting(Countable(), [counted("a")])
    with pytest.raises(UsageError, match="which functions to count in"):
        require_counting(Toy(), [counted("a")])
    for framework in (OnProcessors(), Countable()):  # whether or not it can be forked there
        with pytest.raises(UsageError, match=r"a/instructions: the instructions of gpu can't be counted.*--operators"):
            require_counting(framework, [replace(counted("a"), context="gpu")])
    with pytest.raises(UsageError, match=r"a/instructions: instructions of whole networks are not counted"):
        require_counting(OfNetworks(), [counted("a")])
    monkeypatch.setattr(platform, "machine", lambda: "aarch64")
    with pytest.raises(UsageError, match="only on x86-64, not on aarch64"):
        require_counting(Countable(), [counted("a")])


def test_counting_has_one_thread_and_the_frameworks_own_environment() -> None:
    class Countable(Toy):
        profiling = ProfilingSetup(
            counting_variables={"TOY_ENGINE": "plain"},
            counts_instructions=True,
            counted_functions=("work*", "more*"),
        )

    assert plan_counting(Countable(), {"GIVEN": "here"}).environment["GIVEN"] == "here"
    counting = plan_counting(Countable())
    assert counting.environment["TOY_THREADS"] == "1"
    assert counting.environment["TOY_ENGINE"] == "plain"
    command = callgrind(counting, Path("/tmp/x"))
    assert [word for word in command if "toggle" in word] == ["--toggle-collect=work*", "--toggle-collect=more*"]
    assert command[-1] == "--callgrind-out-file=/tmp/x.%p"


def fake_valgrind(folder: Path, body: str) -> str:
    path = folder / "valgrind"
    path.write_text(f"#!/bin/sh\n{body}\n")
    path.chmod(path.stat().st_mode | stat.S_IXUSR)
    return str(path)


@pytest.mark.parametrize(
    ("body", "kind", "words"),
    [
        ("echo cannot run on this processor >&2; exit 3", "crash", "cannot run on this processor"),
        ('while [ "${1#--}" != "$1" ]; do shift; done; exec "$@"', "crash", "not running on valgrind"),
    ],
)
def test_a_valgrind_that_does_not_work_is_reported(tmp_path: Path, body: str, kind: str, words: str) -> None:
    result = one_round(with_counting(("work*",), fake_valgrind(tmp_path, body)), counted("a"))
    assert result.lost_worker is not None
    assert result.lost_worker.kind == kind
    assert words in result.lost_worker.output_tail
    assert [request.case.id for request in result.unmeasured] == ["a/instructions"]


def test_a_valgrind_that_has_gone_is_reported(tmp_path: Path) -> None:
    result = one_round(with_counting(("work*",), str(tmp_path / "valgrind")), counted("a"))
    assert result.lost_worker is not None
    assert result.lost_worker.kind == "start"
    assert str(tmp_path / "valgrind") in result.lost_worker.reason


def counting_module() -> Any:
    spec = importlib.util.spec_from_file_location("counting", SCRIPT)
    assert spec
    assert spec.loader
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_totals_are_read_from_what_callgrind_writes() -> None:
    total_of = counting_module().total_of
    assert total_of(io.BytesIO(b"# callgrind format\nsummary: 1\n\nfn=(1) totals\n0 9\ntotals: 7087562\n")) == 7087562
    with pytest.raises(ValueError, match="no totals"):
        total_of(io.BytesIO(b"# callgrind format\n"))


@pytest.mark.skipif(platform.machine() != "x86_64", reason="machine code of x86-64")
def test_without_valgrind_a_request_does_nothing() -> None:
    with pytest.raises(RuntimeError, match="not running on valgrind"):
        counting_module().Valgrind()


@real_counts
def test_real_counts_repeat_and_grow_with_the_work_and_failures_are_reported(temporary: Path) -> None:
    """zlib's crc32 runs in a library of its own, under a name that valgrind sees."""
    assert VALGRIND
    result = one_round(
        with_counting(("crc32_z",), VALGRIND),
        counted("same", "checksum", bytes=40_000),
        counted("more", "checksum", bytes=40_000, slower=1.01),
        counted("none", "work"),
        counted("bad", "abort"),
    )
    samples = {sample.case_id: sample for sample in result.samples}
    assert samples["same/instructions"].control > 10_000
    assert abs(samples["same/instructions"].log_ratio) < 0.001
    assert samples["more/instructions"].log_ratio == pytest.approx(math.log(1.01), rel=0.2)
    assert "executes nothing" in result.refused["none/instructions"].reason
    crash = result.lost["bad/instructions"]
    assert (crash.side, crash.kind) == ("both", "crash")
    assert "SIGABRT" in crash.reason
    assert os.listdir(temporary) == [], "what callgrind wrote is gone"


def test_of_whole_calls_what_surrounds_them_is_subtracted(monkeypatch: pytest.MonkeyPatch) -> None:
    counting = counting_module()

    class Stub:
        counts, on = 0, False

        def start(self) -> None:
            self.counts += 7  # before anything is counted

        def toggle(self) -> None:
            self.on = not self.on
            self.counts += 100  # the way back from switching it on, and to switching it off

        def count(self) -> int:
            counts, self.counts = self.counts, 0
            return counts

        def call(self) -> None:
            self.counts += 10 * self.on

    stub = Stub()
    monkeypatch.setattr(counting, "level_allocator", lambda: None)
    session = counting.CountingSession(SimpleNamespace(make_call=lambda case, seed: stub.call), stub)
    assert session.prepare({}, 1, whole_calls=True) == {"count": 10}
    assert session.count(3, 5) == {"count": 50}
    assert not stub.on


@real_counts
@pytest.mark.nightly
def test_real_counts_of_whole_calls_repeat_and_grow_with_the_work() -> None:
    """Of what Python itself executes, too: the toy's work is a loop of the interpreter."""
    assert VALGRIND
    same, more = counted("same", turns=20_000), counted("more", turns=20_000, slower=1.01)
    samples = {sample.case_id: sample for sample in one_round(with_counting((), VALGRIND), same, more).samples}
    assert samples["same/instructions"].control > 100_000
    assert abs(samples["same/instructions"].log_ratio) < 0.001
    assert samples["more/instructions"].log_ratio == pytest.approx(math.log(1.01), rel=0.2)
