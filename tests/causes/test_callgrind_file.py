"""Callgrind's files, read: names and positions that are compressed or not, recursion, no symbols, and garbage."""

import io
from collections import Counter

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from opduel.causes.collectors.callgrind_file import (
    MISSES,
    NAMELESS,
    CallgrindProfile,
    FunctionCost,
    FunctionId,
    read_callgrind,
)

HEADER = """# callgrind format
version: 1
creator: callgrind-3.19.0
pid: 7
cmd:  python3 worker.py
part: 2


desc: I1 cache:
desc: Trigger: Client Request

positions: line
events: Ir
summary: 400

"""
# As valgrind 3.19 writes them: main calls work twice, which calls itself, and a function of another library.
WRITTEN = """
ob=(1) /usr/bin/tool
fl=(1) /src/main.c
fn=(1) main
10 20
+2 5
cfi=(2) /src/work.c
cfn=(2) work
calls=2 30
* 350
-1 5

fl=(2)
fn=(2)
30 40
+3 60
fi=(3) /src/inlined.h
5 25
fe=(2)
40 5
cfn=(4) work'2
calls=3 30
+1 120
cob=(2) /usr/lib/libm.so.6
cfi=(4) ???
cfn=(6) exp
calls=8 0
* 100
cfi=(2)
cfn=(4)
calls=1 30
* 0

fn=(4)
30 100
* 20

ob=(2)
fl=(4)
fn=(6)
0 100

fn=(8) 0x0000000000012340
0 12
cfn=(10) 0x0000000000012399'2
calls=5 0
0 8

fn=(10)
0 8

totals: 400
"""
WORK, EXP = FunctionId("work", "/usr/bin/tool"), FunctionId("exp", "/usr/lib/libm.so.6")
MAIN, STRIPPED = FunctionId("main", "/usr/bin/tool"), FunctionId(NAMELESS, "/usr/lib/libm.so.6")


def read(text: str) -> CallgrindProfile:
    return read_callgrind(io.BytesIO(text.encode()))


def test_a_file_as_callgrind_writes_it() -> None:
    profile = read(HEADER + WRITTEN)
    assert profile.total == 400
    assert profile.functions == {
        MAIN: FunctionCost(30, 0, "/src/main.c", 10, {}),
        WORK: FunctionCost(250, 6, "/src/work.c", 30, {MAIN: 350}),
        EXP: FunctionCost(100, 8, "", 0, {WORK: 100}),
        STRIPPED: FunctionCost(20, 0, "", 0, {}),
    }, "recursion is one function, inlined lines belong to who has them, and what has no symbols is one by library"


def test_functions_that_call_each_other_are_callers_of_each_other() -> None:
    text = "events: Ir\nfn=a\n1 3\ncfn=b\ncalls=2 9\n1 7\nfn=b\n9 5\ncfn=a'2\ncalls=1 1\n9 2\nfn=a'2\n1 2\ntotals: 10\n"
    a, b = FunctionId("a", ""), FunctionId("b", "")
    assert read(text).functions == {a: FunctionCost(5, 1, "", 1, {b: 2}), b: FunctionCost(5, 2, "", 9, {a: 7})}


def test_one_of_several_events_and_addresses_beside_lines() -> None:
    """Costs left out at the end of a line are 0; jumps have none."""
    text = (
        "positions: instr line\nevents: Dr Ir Bc\nfl=(1) a.c\nfn=(1) f\n0x10 5 9 3 1\n+4 +2 1 4\n* * 7\n"
        "jcnd=1/2 +3 9\n+1 *\njump=4 0x99 *\n+2 +1\n+1 -4 0 5\ntotals: 17 12 1\n"
    )
    assert read(text).functions == {FunctionId("f", ""): FunctionCost(12, 0, "a.c", 4)}


def test_after_inlined_lines_a_function_begins_in_its_own_file() -> None:
    text = "events: Ir\nfl=own.c\nfn=f\n3 1\nfi=other.h\n1 1\nfn=g\n8 1\ntotals: 3\n"
    functions = read(text).functions
    assert {function.name: (cost.file, cost.line) for function, cost in functions.items()} == {
        "f": ("own.c", 3),
        "g": ("own.c", 8),
    }


def test_names_of_several_libraries_are_told_apart_and_any_name_is_taken_as_it_is() -> None:
    text = "events: Ir\nob=/a.so\nfn=(1) (below main)\n1 1\nob=/b.so\nfn=(2) f(int)'s::{lambda()#1}\n1 2\n"
    text += "fn=(1)\n1 4\ntotals: 7\n"
    assert {function[:2]: cost.self_cost for function, cost in read(text).functions.items()} == {
        ("(below main)", "/a.so"): 1,
        ("f(int)'s::{lambda()#1}", "/b.so"): 2,
        ("(below main)", "/b.so"): 4,
    }


def test_what_calls_cost_without_a_call_is_subtracted() -> None:
    profile, empty = read(HEADER + WRITTEN), read(HEADER + WRITTEN)
    empty.functions.pop(EXP)
    empty.functions[WORK] = FunctionCost(50, 1, callers=Counter({MAIN: 100}))
    empty.functions[MAIN].self_cost = 31
    empty.functions[FunctionId("other", "")] = FunctionCost(9)
    empty.total = 81
    profile.subtract(empty)
    assert profile.total == 319
    assert profile.functions[WORK] == FunctionCost(200, 5, "/src/work.c", 30, {MAIN: 250})
    assert (profile.functions[EXP].self_cost, profile.functions[MAIN].self_cost) == (100, 0)
    assert FunctionId("other", "") not in profile.functions


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("", "line 0: ends without totals"),
        ("events: Ir\nfn=f\n1 2\n", "line 3: ends without totals"),
        ("events: Ir\nfn=f\n1 2\ntotals: 3\n", "come to 2, and the totals say 3"),
        ("events: Cy\nfn=f\n1 2\n", "line 1: .* not in list"),
        ("fn=f\n1 2\ntotals: 0\n", "line 3: ends without totals"),
        ("events: Ir\n1 2\n", "line 2: .*a cost before any function"),
        ("events: Ir\nfn=(3)\n", r"line 2: not a line of callgrind's: b'fn=\(3\)"),
        ("events: Ir\nfn=f\nx2 2\n", "line 3: not a line of callgrind's"),
        ("events: Ir\nfn=f\nzz=2\n", "line 3: not a line of callgrind's"),
        ("events: Ir\nfn=f\n1 2.5\n", "line 3: not a line of callgrind's"),
        ("events: Ir\nfn=f\n1x 2\n", "line 3: not a line of callgrind's"),
        ("events: Ir\npositions: instr line\nfn=f\n3\n", "line 4: not a line of callgrind's"),
        ("events: Ir\nfn=f\ncalls=1 2\n1 2\n", "line 3: .*a call of no function"),
        ("events: Ir\nfn=f\ncfn=g\ncalls=1 2\n", "line 4: "),
        ("events: Ir\nfn=f\ncfn=g\ncalls=one 2\n1 2\n", "line 4: not a line of callgrind's"),
        ("\x7fELF\x02\x01\x01", "line 1: not a line of callgrind's"),
    ],
)
def test_garbage_is_refused_with_its_line(text: str, words: str) -> None:
    with pytest.raises(ValueError, match=words):
        read(text)


@given(st.binary(max_size=200), st.integers(0, len(WRITTEN)))
@settings(max_examples=50)
def test_damage_is_a_value_error_or_none(garbage: bytes, place: int) -> None:
    text = WRITTEN.encode()
    try:
        read_callgrind(io.BytesIO(HEADER.encode() + text[:place] + garbage + text[place:]))
    except ValueError:
        pass


COSTS = st.lists(st.tuples(st.integers(1, 500), st.integers(0, 10**12)), min_size=1, max_size=6)
FUNCTIONS = st.dictionaries(
    st.tuples(st.sampled_from(["f", "g", "std::h<int>(char const*)"]), st.sampled_from(["/a.so", "/b.so"])), COSTS
)


@given(FUNCTIONS, st.booleans(), st.booleans())
@settings(max_examples=50)
def test_compression_changes_nothing(
    functions: dict[tuple[str, str], list[tuple[int, int]]], names: bool, positions: bool
) -> None:
    lines, numbers, before = ["events: Ir"], dict[str, int](), 0

    def name(text: str) -> str:
        if not names:
            return text
        is_repeated = text in numbers
        return f"({numbers.setdefault(text, len(numbers))})" + ("" if is_repeated else f" {text}")

    for (function, library), costs in functions.items():
        lines += [f"ob={name(library)}", f"fl={name('x.c')}", f"fn={name(function)}"]
        for line, cost in costs:
            near = "*" if line == before else f"{line - before:+d}"
            lines.append(f"{near if positions else line} {cost}")
            before = line
    total = sum(cost for costs in functions.values() for _, cost in costs)
    profile = read("\n".join([*lines, f"totals: {total}", ""]))
    assert profile.functions == {
        FunctionId(*identity): FunctionCost(sum(cost for _, cost in costs), 0, "x.c", min(line for line, _ in costs))
        for identity, costs in functions.items()
    }


def test_misses_are_read_and_added_up_and_what_is_left_out_is_none() -> None:
    text = (
        b"events: Ir Dr D1mr D1mw\nfn=f\n1 9 4 3 2\n2 7\ncfn=g\ncalls=1 5\n2 8 1 1\nfn=g\n5 8 1 1\ntotals: 24 5 4 2\n"
    )
    profile = read_callgrind(io.BytesIO(text), events=MISSES)
    assert {function.name: cost.self_cost for function, cost in profile.functions.items()} == {"f": 5, "g": 1}
    assert profile.total == 6
    none = read_callgrind(io.BytesIO(b"events: Ir Dr D1mr D1mw\nfn=f\n1 9\ntotals: 9\n"), events=MISSES)
    assert none.total == 0
    with pytest.raises(ValueError, match=r"line 1: .*D1mr.* not in list"):
        read_callgrind(io.BytesIO(b"events: Ir\n"), events=MISSES)


# As valgrind 3.19 writes them with --dump-instr=yes and --branch-sim=yes: costs of 0 at a line's end are left out.
EACH_INSTRUCTION = """version: 1
positions: instr line
events: Ir Bc Bcm Bi Bim
summary: 290 80 12 6 3

ob=(1) /lib/libsum.so
fl=(1) ???
fn=(1) sum
0x10f0 0 10
+4 0 100 40 9
-2 0 70 40 0 6 3
* 0 20
cob=(2) /lib/libc.so.6
cfi=(2) ???
cfn=(2) free
calls=2 0x1080 0
+5 0 80 0 3
ob=(2)
fl=(2)
fn=(2)
0x1080 0 90 0 3
totals: 290 80 15 6 3
"""


def test_each_instruction_is_asked_for_its_vectors_and_branches_are_counted() -> None:
    addresses: list[tuple[str, int]] = []

    def size(library: str, address: int) -> int | None:
        addresses.append((library, address))
        return {0x10F0: 16, 0x10F4: 0, 0x10F2: 32}.get(address)

    profile = read_callgrind(io.BytesIO(EACH_INSTRUCTION.encode()), vector_size=size)
    assert profile.branches
    first, other = FunctionId("sum", "/lib/libsum.so"), FunctionId("free", "/lib/libc.so.6")
    assert profile.functions == {
        first: FunctionCost(200, looked_at=200, vectors={16: 10, 32: 90}, mispredicted=12),
        other: FunctionCost(90, 2, callers={first: 80}, mispredicted=3),
    }
    assert addresses == [*(("/lib/libsum.so", at) for at in (0x10F0, 0x10F4, 0x10F2)), ("/lib/libc.so.6", 0x1080)]
    less = read_callgrind(io.BytesIO(EACH_INSTRUCTION.encode()), vector_size=size)
    less.functions[first].vectors[32], less.functions[first].mispredicted = 40, 2
    profile.subtract(less)
    assert profile.functions[first] == FunctionCost(vectors=Counter({32: 50}), mispredicted=10)
    lines = read_callgrind(io.BytesIO(EACH_INSTRUCTION.replace(" Bcm", " Xx").replace(" Bim", " Yy").encode()))
    assert (lines.branches, lines.functions[first].mispredicted, lines.functions[first].looked_at) == (False, 0, 0)


def test_the_hottest_instructions_of_large_functions_are_kept() -> None:
    text = (
        "positions: instr line\nevents: Ir\nob=lib.so\nfn=f\n0x10 1 5\n0x14 1 900\n0x18 1 100\n0x18 2 60\n"
        "fn=small\n0x40 1 50\nob=\nfn=unknown\n0x80 1 800\ntotals: 1915\n"
    )
    functions = {function.name: cost for function, cost in read(text).functions.items()}
    assert {name: cost.hot for name, cost in functions.items()} == {
        "f": (0x14, 0x18),
        "small": (),
        "unknown": (),
    }
    joined = FunctionCost()
    for cost in (functions["small"], functions["f"], FunctionCost(9, hot=(1,), hot_of=9)):
        joined.add(cost)
    assert joined.hot == (0x14, 0x18), "those of the largest"
