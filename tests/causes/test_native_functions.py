"""Instructions by native function: which parts a call has, what is asked of workers, and real functions."""

import math
import os
import platform
import re
import time
from collections import Counter
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from test_instructions import HERE, STAND_IN, VALGRIND, counting_module, real_counts
from test_run import Toy
from toy_bench import toy_bench, toy_case
from watching import Watch

import opduel.causes.collectors.native_functions
from opduel.causes.attribution.shares import examine
from opduel.causes.collectors import valgrind_pairs
from opduel.causes.collectors.callgrind_file import NAMELESS, CallgrindProfile, FunctionCost, FunctionId
from opduel.causes.collectors.native_functions import (
    LARGE_CALL,
    NO_AVX512,
    SCRIPT,
    has_avx512,
    observe_native,
    plan_calls,
)
from opduel.causes.collectors.native_parts import (
    describe_stripped,
    describe_vectors,
    library_name,
    parts_of,
    shared_names,
)
from opduel.causes.collectors.valgrind_pairs import Observed, why_not
from opduel.frameworks import Cases
from opduel.harness.planning.budget import NO_TIME_LEFT
from opduel.harness.processes.process import CaseProcess
from opduel.harness.profiles import Profiling
from opduel.harness.rounds.instructions import MACHINES, MOST_CALLS
from opduel.records import Case, Frame
from opduel.records.cause import CODE_OF, ONE_BY_ONE, Part

NUMPY = "/x/site-packages/numpy/_core/_multiarray_umath.cpython-311-x86_64-linux-gnu.so"


@pytest.fixture
def stand_in(monkeypatch: pytest.MonkeyPatch) -> None:
    """In place of valgrind: the worker counts turns of the toy's work, and writes files as callgrind does."""
    if platform.machine() not in MACHINES:
        pytest.skip("valgrind's counts are of x86-64")
    monkeypatch.setenv("PATH", f"{Path(STAND_IN).parent}{os.pathsep}{os.environ['PATH']}")


def observed(
    *cases: Case,
    pairs: int = 2,
    environment: Mapping[str, str] | None = None,
    deadline: float = math.inf,
    **options: Any,
) -> Any:
    bench = toy_bench(PYTHONPATH=str(HERE), TOY_COUNTING=str(SCRIPT), **(environment or {}))
    profiling = Profiling(bench, Toy(), 1, 1, deadline)
    return observe_native(profiling, cases, pairs=pairs, **options)


def frames_of_work(control: float, treatment: float) -> tuple[Frame, ...]:
    return tuple(Frame(name, depth, control, treatment) for depth, name in enumerate(("a call", "work")))


@pytest.mark.usefixtures("stand_in")
def test_each_process_pair_is_an_observation_per_call(tmp_path: Path) -> None:
    observed_by_case = observed(toy_case("a/forward", turns=2000, slower=1.5), toy_case("b"), folder=tmp_path)
    part = Part(2000.0, None, "toy.c:7")
    slower = {"control": {"work": part}, "treatment": {"work": replace(part, amount=3000.0)}}
    note = NO_AVX512 if has_avx512() else ""
    assert observed_by_case["a/forward"] == Observed([slower] * 2, note, frames_of_work(2000.0, 3000.0))
    equal = {"control": {"work": part}, "treatment": {"work": part}}
    assert observed_by_case["b"] == Observed([equal] * 2, note, frames_of_work(2000.0, 2000.0))
    paths = sorted(str(path.relative_to(tmp_path)) for path in tmp_path.rglob("*.*"))
    assert paths == [f"{case}/{side}/callgrind.out" for case in ("a/forward", "b") for side in ("control", "treatment")]
    text = (tmp_path / "a" / "forward" / "treatment" / "callgrind.out").read_text()
    assert f"totals: {3000 * MOST_CALLS + 14}" in text, "for KCachegrind, as it was"


@pytest.mark.usefixtures("stand_in")
def test_a_case_that_fails_costs_no_other_and_says_why(monkeypatch: pytest.MonkeyPatch) -> None:
    watch, tried = Watch(monkeypatch), Counter[str]()

    def note(process: CaseProcess, request: Mapping[str, Any]) -> None:
        if request["op"] == "prepare" and process._worker.side == "treatment":
            tried[request["case"]["id"]] += 1

    watch.asking.append(note)
    bad = [toy_case(name, name, only_on="treatment") for name in ("refuse", "abort")]
    observed_by_case = observed(toy_case("a"), *bad)
    assert len(observed_by_case["a"].observations) == 2
    assert tried == {"a": 2, "refuse": 1, "abort": 1}, "what fails is not tried again"
    assert (observed_by_case["refuse"].observations, observed_by_case["abort"].observations) == ((), ())
    assert observed_by_case["refuse"].note == "treatment: ValueError: Shapes (2,) and (3,) (under valgrind)"
    assert observed_by_case["abort"].note == "treatment: killed by SIGABRT (under valgrind)"


@pytest.mark.usefixtures("stand_in")
@pytest.mark.parametrize(
    ("environment", "words"),
    [
        ({"TOY_IMPORT": "dies"}, "exited with code 1: cannot import toy: no such library (under valgrind)"),
        ({"TOY_COUNTS": "garbled"}, "callgrind's file: the functions' costs come to"),
        ({"TOY_COUNTS": "nothing"}, "executes nothing in the functions that are counted"),
    ],
)
def test_workers_that_do_not_work_cost_the_observations(environment: Mapping[str, str], words: str) -> None:
    case_observed = observed(toy_case("a"), environment=environment, pairs=1)["a"]
    assert case_observed.observations == ()
    assert words in case_observed.note


@pytest.mark.usefixtures("stand_in")
def test_a_folder_that_can_not_be_written_is_said(tmp_path: Path) -> None:
    (tmp_path / "a").touch()
    assert "callgrind's file: Not a directory" in observed(toy_case("a"), pairs=1, folder=tmp_path)["a"].note


@pytest.mark.usefixtures("stand_in")
def test_ids_that_are_alike_as_paths_have_the_folders_of_the_profiles(tmp_path: Path) -> None:
    first, second = toy_case("a_b"), toy_case("a b")
    observed(second, pairs=1, folder=tmp_path, among=[first, second])
    (folder,) = {path.relative_to(tmp_path).parts[0] for path in tmp_path.rglob("callgrind.out")}
    assert re.fullmatch("a_b-[0-9a-f]{8}", folder)


@pytest.mark.usefixtures("stand_in")
def test_files_that_would_be_too_large_together_are_not_kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    cases = [toy_case("a"), toy_case("b")]
    observed(*cases, pairs=1, folder=tmp_path / "all")
    sizes = sorted(path.stat().st_size for path in (tmp_path / "all").rglob("callgrind.out"))
    monkeypatch.setattr(opduel.causes.collectors.native_functions, "MOST_STORED_BYTES", sum(sizes) - 1)
    observed_by_case = observed(*cases, pairs=3, folder=tmp_path / "less")
    assert len(list((tmp_path / "less").rglob("callgrind.out"))) == 3, "those of further pairs replace the first"
    assert [len(observed_by_case[case.id].observations) for case in cases] == [3, 3]


@pytest.mark.usefixtures("stand_in")
def test_after_the_deadline_nothing_is_begun() -> None:
    began = time.monotonic()
    assert observed(toy_case("a"), deadline=began)["a"] == Observed(note=NO_TIME_LEFT)


@pytest.mark.usefixtures("stand_in")
def test_fewer_pairs_than_were_asked_for_are_said(monkeypatch: pytest.MonkeyPatch) -> None:
    """The time is up after the first of them."""
    look = valgrind_pairs._look_in_a_pair

    def look_in_the_first(profiling: Profiling, requests: Any, number: int, *further: Any) -> dict[str, str]:
        late = replace(profiling, deadline=0.0)
        return look(late if number else profiling, requests, number, *further)

    monkeypatch.setattr(valgrind_pairs, "_look_in_a_pair", look_in_the_first)
    case_observed = observed(toy_case("a"), pairs=3, deadline=time.monotonic() + 100)["a"]
    assert len(case_observed.observations) == 1
    assert case_observed.note.startswith(f"1 of 3 process pairs: {NO_TIME_LEFT}")


@pytest.mark.usefixtures("stand_in")
def test_what_can_not_be_looked_at_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    class OnProcessors(Toy):
        cases = Cases(networks=("zoo",))

        def can_fork(self, threads: int, context: str) -> bool:
            return context == "cpu"

    class Programs(Toy):
        calls_in_worker = False

    case, framework = toy_case("a"), OnProcessors()
    assert why_not(framework, case) == ""
    for any_framework in (framework, Toy()):  # whether or not it can be forked there
        assert why_not(any_framework, replace(case, context="gpu")) == "a case on gpu can't be looked at under valgrind"
    assert "whole network" in why_not(framework, replace(case, operator="zoo.resnet"))
    assert "program" in why_not(Programs(), case)
    monkeypatch.setattr(platform, "machine", lambda: "aarch64")
    assert why_not(framework, case) == "works only on x86-64, not on aarch64"
    monkeypatch.setenv("PATH", "")
    bench = toy_bench()
    assert (
        observe_native(Profiling(bench, framework, 1, 1), [case])["a"].note
        == "needs valgrind, which is not on the PATH"
    )


def test_large_calls_are_counted_once() -> None:
    assert plan_calls({"control": 10, "treatment": LARGE_CALL + 1}) == (0, 1)
    discard, calls = plan_calls({"control": 10, "treatment": LARGE_CALL})
    assert discard >= 1
    assert calls >= 2
    assert plan_calls({"control": 1, "treatment": 1})[1] == MOST_CALLS


def test_processors_with_avx512_are_known(tmp_path: Path) -> None:
    (tmp_path / "cpuinfo").write_text("model name\t: AVX\nflags\t\t: fpu avx2 avx512f sha_ni\n")
    assert has_avx512(tmp_path)
    (tmp_path / "cpuinfo").write_text("flags\t\t: fpu avx2\nbugs\t: avx512f\n")
    assert not has_avx512(tmp_path)


def test_libraries_have_the_same_name_in_every_build() -> None:
    assert library_name(NUMPY) == "_multiarray_umath.so"
    assert library_name("/x/numpy.libs/libscipy_openblas64_-99b71e71.so") == "libscipy_openblas64_.so"
    assert library_name("/x/numpy.libs/libgfortran-040039e1.so.5.0.0") == "libgfortran.so"
    assert library_name("/usr/lib/libpython3.11.so.1.0") == "libpython3.11.so"
    assert library_name("/x/_rust.abi3.so") == "_rust.so"
    assert library_name("/usr/bin/python3.11") == "python3.11"


def profile(functions: Mapping[FunctionId, FunctionCost]) -> CallgrindProfile:
    return CallgrindProfile(dict(functions), sum(cost.self_cost for cost in functions.values()))


def test_parts_are_functions_by_name_with_their_callers() -> None:
    add, malloc, other = (
        FunctionId("add", NUMPY),
        FunctionId("malloc", "/lib/libc.so.6"),
        FunctionId("malloc", "/lib/ld.so"),
    )
    stripped, generated = FunctionId(NAMELESS, "/lib/libblas-0123abcd.so.3"), FunctionId(NAMELESS, "")
    callgrind_profile = profile(
        {
            add: FunctionCost(600, 2, "/src/add.c", 12),
            malloc: FunctionCost(300, 6, callers={add: 300, stripped: 100}),
            other: FunctionCost(40, 2, callers={malloc: 40}),
            stripped: FunctionCost(50, 0, callers={add: 0}),
            generated: FunctionCost(10, 4, callers={generated: 30, add: 10}),
            FunctionId("nothing", NUMPY): FunctionCost(0, 3),
        }
    )
    shared = shared_names([callgrind_profile])
    assert shared == {"malloc"}
    assert parts_of(replace(callgrind_profile, calls=2), shared) == {
        "add": Part(300.0, 1.0, "/src/add.c:12"),
        "malloc (libc.so)": Part(150.0, 3.0, "libc.so.6", {"add": 0.75, "libblas.so (no symbols)": 0.25}),
        "malloc (ld.so)": Part(20.0, 1.0, "ld.so", {"malloc (libc.so)": 1.0}),
        "libblas.so (no symbols)": Part(25.0, None, "libblas-0123abcd.so.3"),
        "generated code (no symbols)": Part(5.0, 2.0, "", {"add": 1.0}),
    }
    assert describe_stripped({"control": [callgrind_profile], "treatment": [profile({add: FunctionCost(1)})]}) == (
        "no symbols: 6% of the control's instructions and 0% of the treatment's (generated code, libblas.so)"
    )
    assert describe_stripped({"control": [profile({add: FunctionCost(1)})], "treatment": []}) == ""


def test_a_library_under_another_name_has_the_same_functions() -> None:
    """No process has two of them: the name is enough on both sides."""
    sides = [profile({FunctionId("dgemm", f"/x/lib{name}.so"): FunctionCost(1)}) for name in ("blas", "openblas")]
    assert shared_names(sides) == set()


def test_what_ctypes_calls_counts_for_the_library_that_calls_it() -> None:
    """callgrind takes libffi's way to call for a return: a name that says so is better than that of the library."""
    ffi = FunctionId(NAMELESS, "/usr/lib/x86_64-linux-gnu/libffi.so.8.1.2")
    assert list(parts_of(profile({ffi: FunctionCost(10, 1)}), set())) == ["what ctypes calls (libffi.so)"]


def test_files_of_calls_and_of_none(tmp_path: Path) -> None:
    """Of calls that are set up one by one, too: as many beginnings and ends, and the set-up isn't counted."""
    counting = counting_module()

    class Stub:
        count, on, dumps = 0, False, 0

        def toggle(self) -> None:
            self.on = not self.on
            self.count += 100

        def dump(self) -> str:
            self.dumps += 1
            (tmp_path / str(self.dumps)).write_text(f"totals: {self.count}\n")
            self.count = 0
            return str(tmp_path / str(self.dumps))

        def take(self, amount: int) -> None:
            self.count += amount * self.on

    stub, set_up = Stub(), list[int]()

    def call() -> None:
        stub.take(10)

    session = counting.CountingSession(SimpleNamespace(), stub)
    session.call, session.whole_calls = call, True
    assert session.functions(2, 5) == {"count": 50, "dump": str(tmp_path / "2"), "empty": str(tmp_path / "3")}
    assert sorted(path.name for path in tmp_path.iterdir()) == ["2", "3"], "what was discarded is gone"
    assert (tmp_path / "3").read_text() == "totals: 200\n"

    call.before = lambda: (set_up.append(1), stub.take(1000))  # type: ignore[attr-defined]
    assert session.functions(0, 3)["count"] == 30
    assert (tmp_path / "5").read_text() == "totals: 600\n"
    assert len(set_up) == 6


@real_counts
def test_a_function_that_one_side_calls_is_seen_and_what_valgrind_lacks_is_said(tmp_path: Path) -> None:
    assert VALGRIND
    more = toy_case("more", "checksums", bytes=40_000)
    vector = toy_case("vector", "vector", only_on="treatment")
    observed_by_case = observed(more, vector, pairs=1)
    lacking = "under valgrind, which lacks AVX-512 and some other instructions"
    assert observed_by_case["vector"] == Observed(note=f"treatment: killed by SIGILL ({lacking})")
    (pair,) = observed_by_case["more"].observations
    control, treatment = pair["control"], pair["treatment"]
    assert (NO_AVX512 in observed_by_case["more"].note) == has_avx512()
    assert treatment["crc32_z"].amount == pytest.approx(control["crc32_z"].amount, rel=0.001)
    assert treatment["crc32_z"].calls == 1.0
    assert "adler32_z" not in control
    assert treatment["adler32_z"].implementation, "what each of its instructions works on is known"
    (mispredicted,) = observed_by_case["more"].branches
    assert all(part.amount > 0 for parts in mispredicted.values() for part in parts.values())
    assert set(mispredicted) == {"control", "treatment"}
    added = treatment["adler32_z"]
    assert (added.calls, math.fsum(added.callers.values())) == (1.0, pytest.approx(1.0))
    assert added.amount > 40_000, "each byte takes more than one instruction"
    totals = [math.fsum(part.amount for part in side.values()) for side in (control, treatment)]
    assert added.amount == pytest.approx(totals[1] - totals[0], rel=0.02)


@pytest.mark.nightly
@real_counts
def test_cache_misses_are_seen_where_as_much_is_executed() -> None:
    size = 20_000
    strides = toy_case("strides", "strides", bytes=size)
    instructions = examine("native functions", "instructions", observed(strides, pairs=3)["strides"].observations)
    observed_by_case = observed(strides, pairs=3, misses=True)["strides"]
    missed = examine("simulated cache misses", "count", observed_by_case.observations, observed_by_case.note)
    assert observed_by_case.note.startswith("valgrind's model")
    assert observed_by_case.flame == ()
    assert instructions.treatment == pytest.approx(instructions.control, rel=0.01)
    assert missed.candidates[0].difference == pytest.approx(size * (1 - 2 / 64), rel=0.1)


def test_what_ctypes_calls_is_one_part_whatever_libffi_says_of_itself() -> None:
    call, nameless = FunctionId(f"{CODE_OF}ffi_call", "/lib/libffi.so.8"), FunctionId(NAMELESS, "/lib/libffi.so.8")
    callgrind_profile = profile(
        {call: FunctionCost(6), nameless: FunctionCost(4), FunctionId(f"{CODE_OF}f", NUMPY): FunctionCost(5, 9)}
    )
    parts = {name: (part.amount, part.calls) for name, part in parts_of(callgrind_profile, set()).items()}
    assert parts == {"what ctypes calls (libffi.so)": (10.0, None), f"{CODE_OF}f": (5.0, None)}


def test_functions_work_on_vectors_or_single_elements() -> None:
    def cost(**changes: object) -> FunctionCost:
        return FunctionCost(1000, **{"looked_at": 1000, **changes})  # type: ignore[arg-type]

    assert describe_vectors(cost(vectors={16: 50, 32: 400})) == "vectors of 32 bytes"
    assert describe_vectors(cost(vectors={16: 400, 32: 50})) == "vectors of 16 bytes"
    assert describe_vectors(cost(vectors={16: 20})) == ONE_BY_ONE
    assert describe_vectors(cost()) == ONE_BY_ONE
    assert describe_vectors(cost(vectors={16: 150})) == "", "neither clearly"
    assert describe_vectors(cost(looked_at=900)) == "", "of some of its instructions it isn't known"
    assert describe_vectors(FunctionCost()) == ""
