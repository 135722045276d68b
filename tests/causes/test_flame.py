"""The tree of a call's frames: amounts of both sides, from stacks and from callgrind's callers."""

from collections.abc import Mapping, Sequence
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from opduel.causes.attribution.flame import (
    LEAST_SHARE,
    LONGEST_NAME,
    MOST_FRAMES,
    WHOLE,
    CallGraph,
    flame_of_graphs,
    flame_of_stacks,
    same_functions,
)
from opduel.causes.collectors.callgrind_file import NAMELESS, CallgrindProfile, FunctionCost, FunctionId
from opduel.causes.collectors.native_parts import call_graph
from opduel.records import Frame, Part
from opduel.records.measurement import SIDES, Side

NAMES = st.sampled_from("abcdef")
AMOUNTS = st.floats(1, 1000)
STACKS = st.dictionaries(st.lists(NAMES, min_size=1, max_size=4).map(tuple), AMOUNTS, max_size=8)
GRAPHS = st.builds(
    CallGraph,
    st.fixed_dictionaries(dict.fromkeys("abcdef", AMOUNTS)),
    st.dictionaries(NAMES, st.dictionaries(NAMES, AMOUNTS, max_size=4), max_size=6).map(
        lambda calls: {
            caller: {callee: amount for callee, amount in callees.items() if callee != caller}
            for caller, callees in calls.items()
        }
    ),
)


def paths(frames: Sequence[Frame]) -> dict[tuple[str, ...], Frame]:
    """Each frame by the names of those around it; the whole call is ``()``."""
    frame_by_path: dict[tuple[str, ...], Frame] = {}
    path: tuple[str, ...] = ()
    for frame in frames:
        assert frame.depth <= len(path) + 1
        path = (*path[: frame.depth - 1], frame.name) if frame.depth else ()
        assert path not in frame_by_path
        frame_by_path[path] = frame
    return frame_by_path


def assert_callees_fit(frames: Sequence[Frame]) -> None:
    """No frame's callees come to more than it has itself, on either side, but for rounding."""
    frame_by_path = paths(frames)
    for path, frame in frame_by_path.items():
        within = [callee for other, callee in frame_by_path.items() if other[:-1] == path and other]
        assert sum(callee.control for callee in within) <= frame.control * 1.001
        assert sum(callee.treatment for callee in within) <= frame.treatment * 1.001


def within(stacks: Mapping[tuple[str, ...], float], path: tuple[str, ...]) -> float:
    return sum(amount for stack, amount in stacks.items() if stack[: len(path)] == path)


@given(STACKS, STACKS)
def test_a_frame_has_what_all_stacks_through_it_have(
    control: dict[tuple[str, ...], float], treatment: dict[tuple[str, ...], float]
) -> None:
    frames = flame_of_stacks({"control": control, "treatment": treatment})
    least = LEAST_SHARE * max(sum(control.values()), sum(treatment.values()))
    stacks = [*control, *treatment]
    every = {stack[:depth] for stack in stacks for depth in range(len(stack) + 1)} | {()}
    expected = {path: (within(control, path), within(treatment, path)) for path in every}
    frame_by_path = paths(frames)
    assert set(frame_by_path) == {path for path, amounts in expected.items() if max(amounts) >= least and any(amounts)}
    for path, frame in frame_by_path.items():
        assert (frame.control, frame.treatment) == pytest.approx(expected[path], rel=1e-4)
    assert_callees_fit(frames)


@given(GRAPHS, GRAPHS)
def test_callees_never_come_to_more_than_their_caller(control: CallGraph, treatment: CallGraph) -> None:
    frames = flame_of_graphs({"control": control, "treatment": treatment})
    assert_callees_fit(frames)
    assert [(frame.name, frame.depth) for frame in frames[:1]] == [(WHOLE, 0)]
    assert all(len(set(path)) == len(path) for path in paths(frames))


def profile(*functions: tuple[str, int, dict[str, int]]) -> CallgrindProfile:
    """Of functions of one library: name, own instructions, and what callers made it execute."""
    costs = {
        FunctionId(name, "/x/lib.so"): FunctionCost(
            own, 1, callers={FunctionId(by, "/x/lib.so"): amount for by, amount in callers.items()}
        )
        for name, own, callers in functions
    }
    return CallgrindProfile(costs, sum(cost.self_cost for cost in costs.values()))


def test_what_two_callers_share_is_divided_in_proportion() -> None:
    control = profile(("main", 10, {}), ("a", 10, {"main": 40}), ("b", 20, {"main": 80}), ("f", 30, {"a": 30, "b": 60}))
    control.functions[FunctionId("leaf", "/x/lib.so")] = FunctionCost(60, 1, callers={FunctionId("f", "/x/lib.so"): 60})
    control.total += 60
    slower = profile(("main", 10, {}), ("a", 10, {"main": 10}), ("b.constprop.0", 500, {"main": 500}))
    graphs: dict[Side, CallGraph] = {
        "control": call_graph([control, control], set()),
        "treatment": call_graph([replace(slower, calls=2)], set()),
    }
    amounts_by_path = {
        path: (control.control, control.treatment) for path, control in paths(flame_of_graphs(graphs)).items()
    }
    assert amounts_by_path == {
        (): (130, 260),
        ("main",): (130, 260),
        ("main", "a"): (40, 5),
        ("main", "a", "f"): (30, 0),
        ("main", "a", "f", "leaf"): (20, 0),
        ("main", "b"): (80, 250),  # a clone is the same frame
        ("main", "b", "f"): (60, 0),
        ("main", "b", "f", "leaf"): (40, 0),
    }


def test_functions_that_call_each_other_are_one_frame_and_what_they_call_keeps_its_amount() -> None:
    """main runs eval, which runs call, which runs eval again, which runs call: 30 and 15 instructions a time."""
    side = profile(
        ("eval", 60, {"main": 590, "call": 545}),
        ("call", 30, {"eval": 560 + 515}),
        ("sort", 500, {"call": 500}),
        ("main", 10, {}),
    )
    cycle = "eval and 1 more that call each other"
    frame_by_path = paths(flame_of_graphs(dict.fromkeys(SIDES, call_graph([side], set()))))
    assert {path: frame.control for path, frame in frame_by_path.items()} == {
        (): 600,
        ("main",): 600,
        ("main", cycle): 590,
        ("main", cycle, "sort"): 500,
        ("main", cycle, "eval"): 60,
        ("main", cycle, "call"): 30,
    }


def test_a_renamed_function_is_one_frame_of_both_sides() -> None:
    def parts_in(module: str) -> dict[str, Part]:
        return {f"{module}.partition": Part(10.0), "sort": Part(90.0)}

    renamed = same_functions([{"control": parts_in("numpy.core"), "treatment": parts_in("numpy._core")}] * 3)
    stacks: dict[Side, dict[tuple[str, ...], float]] = {
        "control": {("numpy.core.partition",): 10.0, ("numpy.core.partition", "sort"): 90.0},
        "treatment": {("numpy._core.partition", "sort"): 90.0},
    }
    frame_by_path = paths(flame_of_stacks(stacks, renamed))
    assert set(frame_by_path) == {(), ("numpy._core.partition",), ("numpy._core.partition", "sort")}
    assert (frame_by_path["numpy._core.partition",].control, frame_by_path["numpy._core.partition",].treatment) == (
        100,
        90,
    )


def test_code_without_symbols_is_one_frame_a_library() -> None:
    side = profile((NAMELESS, 60, {}), ("f", 40, {NAMELESS: 40}))
    frame_by_path = paths(flame_of_graphs(dict.fromkeys(SIDES, call_graph([side], set()))))
    assert set(frame_by_path) == {(), ("lib.so (no symbols)",), ("lib.so (no symbols)", "f")}


def test_a_tree_stays_small_and_keeps_the_largest_frames() -> None:
    stacks: dict[tuple[str, ...], float] = {(f"{'x' * 400}{number}",): 1000.0 + number for number in range(500)}
    frames = flame_of_stacks({"control": stacks, "treatment": {}})
    least = LEAST_SHARE * sum(stacks.values())
    assert len(frames) == 1 + sum(amount >= least for amount in stacks.values()) < MOST_FRAMES
    wide: dict[tuple[str, ...], float] = {
        (f"{place}", f"{number}", *"abcdef"): 1.0 for place in range(20) for number in range(20)
    }
    frames = flame_of_stacks({"control": wide, "treatment": {}})
    assert len(frames) == MOST_FRAMES
    assert all(len(frame.name) <= LONGEST_NAME for frame in frames)
    assert sum(frame.depth == 1 for frame in frames) == 20  # before anything smaller


def test_nothing_seen_is_no_tree() -> None:
    assert flame_of_stacks({}) == ()
    assert flame_of_graphs({side: CallGraph() for side in SIDES}) == ()
