"""What a call allocates: massif's files, functions by name, what is asked of workers, and real allocations."""

import math
import platform
import time
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from test_instructions import STAND_IN, real_counts
from test_run import Toy
from toy_bench import toy_bench, toy_case

from opduel.causes.attribution.shares import examine
from opduel.causes.collectors.allocation_parts import NOWHERE, part_name, parts_of
from opduel.causes.collectors.allocations import KINDS, MOST_CALLS, Kind, massif, observe_allocations, plan_calls
from opduel.causes.collectors.massif_file import UNKNOWN, Allocated, Function, Stack, allocated_between
from opduel.causes.collectors.valgrind_pairs import Observed
from opduel.harness.planning.budget import NO_TIME_LEFT
from opduel.harness.profiles import Profiling
from opduel.records import Case
from opduel.records.cause import CODE_OF, Part

# As valgrind 3.19 writes them, but for what was allocated before: three stacks, the second of which is new.
HEAD = """# callgrind format
version: 1
creator: xtree-1
pid: 21615
cmd: python u.py

positions: line
event: curB : currently allocated Bytes
event: totB : total allocated Bytes
events: curB  curBk  totB  totBk  totFdB  totFdBk \
"""
IMPORT = """
fl=(1) ./csu/libc_start_call_main.h
fn=(1) (below main)
58
cfi=(2) /build/Modules/main.c
cfn=(2) Py_BytesMain
calls=0 701
58 0 0 32 1 0 0
fl=(2)
fn=(2)
701 0 0 32 1 0 0
"""


def stack_of_zeros(size: int, blocks: int) -> str:
    return f"""
fl=(1)
fn=(1)
58
cfi=(3) UnknownFile???
cfn=(3) array_zeros
calls=0 0
58 0 0 {size} {blocks} 0 0
fl=(3)
fn=(3)
0
cfi=(3)
cfn=(4) default_calloc
calls=0 0
0 0 0 {size} {blocks} 0 0
fl=(3)
fn=(4)
0 0 0 {size} {blocks} 0 0
"""


FREED = """
fl=(1)
fn=(1)
0
cfi=(3)
cfn=(5) array_dealloc
calls=0 0
0 0 0 0 0 800 1
fl=(3)
fn=(5)
0 0 0 0 0 800 1
"""


def file_of(*stacks: str, size: int, blocks: int) -> bytes:
    return "".join((HEAD, *stacks, f"\ntotals: 0 0 {size} {blocks} 0 0\n")).encode()


BEFORE = file_of(IMPORT, stack_of_zeros(800, 1), size=832, blocks=2)
AFTER = file_of(IMPORT, stack_of_zeros(4000, 5), FREED, size=4032, blocks=6)
ZEROS = (
    Function("(below main)", "./csu/libc_start_call_main.h"),
    Function("array_zeros", ""),
    Function("default_calloc", ""),
)


def test_what_was_allocated_between_two_files() -> None:
    assert allocated_between(BEFORE, AFTER) == {ZEROS: Allocated(3200, 4)}
    assert allocated_between(AFTER, AFTER) == {}


def test_files_that_name_functions_otherwise_are_read_as_a_whole() -> None:
    """Where short names stand for others, equal text says nothing."""
    renamed = AFTER.replace(b"(4) default_calloc", b"(6) default_calloc").replace(b"fn=(4)", b"fn=(6)")
    moved = BEFORE.replace(b"(4) default_calloc", b"(5) default_calloc").replace(b"fn=(4)", b"fn=(5)")
    assert allocated_between(BEFORE, renamed) == {ZEROS: Allocated(3200, 4)}
    assert allocated_between(moved, AFTER) == {ZEROS: Allocated(3200, 4)}


@pytest.mark.parametrize(
    ("before", "after", "words"),
    [
        (b"", AFTER, "doesn't name what it counts"),
        (BEFORE, AFTER[:-40], "ends without totals"),
        (AFTER, BEFORE, "come to what the totals say"),
        (BEFORE, AFTER.replace(b"totals: 0 0 4032", b"totals: 0 0 4033"), "come to what the totals say"),
        (BEFORE, AFTER.replace(b"(4) default_calloc", b"(9) default_calloc"), "a name that is not defined: 4"),
        (
            BEFORE,
            AFTER.replace(b"fl=(1)\nfn=(1)\n58\ncfi=(3)", b"58\ncfi=(3)").replace(b"fl=(3)\n", b""),
            "not a stack",
        ),
        (BEFORE, AFTER.replace(b"totBk", b"total"), "doesn't name what it counts"),
    ],
)
def test_files_that_are_not_whole_are_said(before: bytes, after: bytes, words: str) -> None:
    with pytest.raises(ValueError, match=words):
        allocated_between(before, after)


def stack(*names: str) -> Stack:
    return tuple(Function(name, f"/src/{name}.c" if name == "known" else "") for name in names)


@pytest.mark.parametrize(
    ("names", "expected"),
    [
        (("main", "known", "malloc"), ("known", "/src/known.c", "main")),
        (("main", "known", "mkl_malloc", "_int_malloc"), ("known", "/src/known.c", "main")),
        (("f", "g", "std::vector<int>::push_back(int&&)", "operator new(unsigned long)"), ("g", "", "f")),
        (("f", "PyArray_Zeros_int", "PyDataMem_UserNEW_ZEROED", "default_calloc"), ("PyArray_Zeros_int", "", "f")),
        (("f", "smooth", "mmap"), ("smooth", "", "f")),
        (("f", "allocate_workspace"), ("allocate_workspace", "", "f")),
        (("g", "f", "f", "malloc"), ("f", "", "g")),
        (("main", "MXInvoke", UNKNOWN, UNKNOWN, "operator new(unsigned long)"), (f"{CODE_OF}MXInvoke", "", "main")),
        (("main", "_PyObject_MakeTpCall", UNKNOWN, "malloc"), (NOWHERE, "", "_PyObject_MakeTpCall")),
        ((UNKNOWN, UNKNOWN), (NOWHERE, "", "")),
        (("malloc",), ("malloc", "", "")),
    ],
)
def test_memory_belongs_to_what_asks_for_it(names: Sequence[str], expected: tuple[str, str, str]) -> None:
    assert part_name(stack(*names)) == expected


def test_parts_are_per_call_and_add_up() -> None:
    stacks = {
        stack("a", "known", "malloc"): Allocated(600, 6),
        stack("b", "known", "calloc"): Allocated(300, 2),
        stack("a", "other"): Allocated(100, 1),
        stack("a", "freed"): Allocated(0, 0),
    }
    numbers, sizes = parts_of(stacks, 2)
    callers = {"a": 0.75, "b": 0.25}
    assert numbers["known"] == Part(4.0, where="/src/known.c", callers=callers)
    assert sizes["known"] == Part(450.0, 4.0, "/src/known.c", callers)
    assert math.fsum(part.amount for part in sizes.values()) == 500
    assert numbers["freed"] == Part(0.0)


def test_large_calls_are_counted_once() -> None:
    assert plan_calls(1.0) == MOST_CALLS
    assert plan_calls(1e12) == 1


def observed(
    *cases: Case, kind: Kind = "allocations", pairs: int = 1, deadline: float = math.inf, **options: Any
) -> Any:
    profiling = Profiling(toy_bench(), Toy(), 1, 1, deadline)
    return observe_allocations(profiling, cases, kind, pairs=pairs, **options)


@pytest.mark.skipif(platform.machine() != "x86_64", reason="valgrind's counts are of x86-64")
def test_without_valgrind_or_time_a_line_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", "")
    missing = Observed(note="needs valgrind, which is not on the PATH")
    assert observed(toy_case("a")) == {"a": (missing, missing)}
    monkeypatch.setenv("PATH", str(Path(STAND_IN).parent))
    late = Observed(note=NO_TIME_LEFT)
    assert observed(toy_case("a"), deadline=time.monotonic()) == {"a": (late, late)}


@real_counts
def test_a_pair_that_takes_too_long_costs_the_rest_of_its_cases() -> None:
    """And a case that has no observation of the first pair is not looked at in further ones."""
    began, late = time.monotonic(), Observed(note=NO_TIME_LEFT)
    assert observed(toy_case("a"), pairs=3, longest_pair_s=0.01) == {"a": (late, late)}
    assert time.monotonic() - began < 30


def test_pages_are_counted_only_where_they_are_asked_for() -> None:
    assert ["--pages-as-heap=yes" in massif("valgrind", kind) for kind in KINDS] == [False, True]


@real_counts
def test_a_block_that_one_side_allocates_is_seen_and_who_asks_for_it() -> None:
    """One process pair: two starts of Python under valgrind, of a second each."""
    case = toy_case("more", "allocates", blocks=3, bytes=100_000)
    refused = toy_case("refuse", "refuse", only_on="treatment")
    observed_by_case = observed(case, refused)
    refusal = Observed(note="treatment: ValueError: Shapes (2,) and (3,) (under valgrind)")
    assert observed_by_case["refuse"] == (refusal, refusal)
    numbers, sizes = observed_by_case["more"]
    (pair,), (bytes_,) = numbers.observations, sizes.observations
    assert pair["control"] == {}, "a call that allocates nothing"
    assert {name: part.amount for name, part in pair["treatment"].items()} == {"PyByteArray_Resize": 3.0}
    assert {name: part.amount for name, part in bytes_["treatment"].items()} == {
        "PyByteArray_Resize": pytest.approx(300_000, rel=0.01)
    }
    assert "not Python's objects of up to 512 bytes" in numbers.note


@pytest.mark.nightly
@real_counts
@pytest.mark.parametrize("kind", KINDS)
def test_equal_sides_claim_nothing_and_added_memory_is_named(kind: Kind) -> None:
    equal = toy_case("equal", "allocates", blocks=3, bytes=400_000, on_both=True)
    more = toy_case("more", "allocates" if kind == "allocations" else "maps", blocks=3, bytes=400_000)
    observed_by_case = observed(equal, more, kind=kind, pairs=3)
    for case_observed, unit in zip(observed_by_case["equal"], ("count", "bytes"), strict=True):
        examination = examine(kind, unit, case_observed.observations, case_observed.note)
        assert (examination.pairs, examination.explained) == (3, None)
    examination = examine(kind, "bytes", observed_by_case["more"][1].observations)
    (candidate,) = examination.candidates
    assert (candidate.control, candidate.share) == (0.0, pytest.approx(1.0))
    assert candidate.treatment == pytest.approx(1_200_000, rel=0.02)
    assert replace(candidate, ci=(1.0, 1.0)) == candidate, "the same in every process"
