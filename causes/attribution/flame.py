"""Joins both sides' calls into one tree of frames: what a differential flame graph draws.

Python's profiler knows stacks. Callgrind knows each function's callers: below a function with several callers its
callees are divided in proportion, as gprof does (Graham, Kessler and McKusick 1982). Functions that call each other are
one frame, gprof's cycle.
"""

import heapq
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from opduel.causes.attribution.matching import match_parts
from opduel.records import Frame, Observation
from opduel.records.measurement import SIDES, Side
from opduel.support.text import clipped

LEAST_SHARE = 0.002  # of the larger side's whole: a smaller frame is left out, and its time stays its caller's
MOST_FRAMES = 400  # of one tree, the largest
DEEPEST = 100
WHOLE = "a call"  # the name of the outermost frame
LONGEST_NAME = 300  # characters: names of C++ may have tens of thousands
_DIGITS = 5

Amounts = tuple[float, float]  # control, treatment


@dataclass(frozen=True)
class CallGraph:
    """Of one side, per call of the case: what each function executes by itself, and caller -> callee -> what the
    callee executes when it is called from there, with all that it calls in turn."""

    own: Mapping[str, float] = field(default_factory=dict)
    calls: Mapping[str, Mapping[str, float]] = field(default_factory=dict)

    def outermost(self) -> dict[str, float]:
        """Return how much each function executes more than its callers account for; these add up to the whole."""
        excess = dict(self.own)
        for caller, callees in self.calls.items():
            for callee, amount in callees.items():
                excess[caller] = excess.get(caller, 0.0) + amount
                excess[callee] = excess.get(callee, 0.0) - amount
        own, total = sum(self.own.values()), sum(amount for amount in excess.values() if amount > 0)
        return {name: amount * own / total for name, amount in excess.items() if amount > 0}

    def within(self, function: str, amount: float) -> dict[str, float]:
        """Return what a function calls, where ``amount`` is what it executes with all that it calls."""
        callees = self.calls.get(function, {})
        total = self.own.get(function, 0.0) + sum(callees.values())
        return {name: amount * callee_amount / total for name, callee_amount in callees.items()} if total else {}

    def with_cycles(self, cycles: Mapping[str, str]) -> "CallGraph":
        """Return the graph with each cycle (function -> its name) in place of its functions. What they execute by
        themselves is as if the cycle called them; how often they call each other has no part in it."""
        own = {name: amount for name, amount in self.own.items() if amount}
        calls: dict[str, dict[str, float]] = {}
        for name, amount in own.items():
            if name in cycles:
                calls.setdefault(cycles[name], {})[name] = amount
        for caller, callees in self.calls.items():
            for callee, amount in callees.items():
                by, called = cycles.get(caller, caller), cycles.get(callee, callee)
                if by != called:
                    below = calls.setdefault(by, {})
                    below[called] = below.get(called, 0.0) + amount
        return CallGraph(own, calls)


def flame_of_graphs(graphs: Mapping[Side, CallGraph]) -> tuple[Frame, ...]:
    """Return the tree of both sides' call graphs, with the cycles of both together as one frame each."""
    cycles = _cycles([graphs[side] for side in SIDES])
    ordered = [graphs[side].with_cycles(cycles) for side in SIDES]

    def expand(path: Sequence[str], amounts: Amounts) -> dict[str, Amounts]:
        if not path:
            return _both(*(graph.outermost() for graph in ordered))
        return _both(*(graph.within(path[-1], amount) for graph, amount in zip(ordered, amounts, strict=True)))

    control, treatment = (sum(graph.own.values()) for graph in ordered)
    return _flame((control, treatment), expand)


def _cycles(graphs: Sequence[CallGraph]) -> dict[str, str]:
    """Return the name of its cycle for each function that calls itself through others."""
    from scipy.sparse import coo_array  # here, because it takes long to import, and few runs explain anything
    from scipy.sparse.csgraph import connected_components

    edges = {(caller, callee) for graph in graphs for caller, callees in graph.calls.items() for callee in callees}
    places = {name: place for place, name in enumerate(sorted({name for edge in edges for name in edge}))}
    if not places:
        return {}
    rows, columns = zip(*((places[caller], places[callee]) for caller, callee in edges), strict=True)
    matrix = coo_array((np.ones(len(edges)), (rows, columns)), shape=(len(places), len(places)))
    _, components = connected_components(matrix, connection="strong")
    members: dict[int, list[str]] = {}
    for name, place in places.items():
        members.setdefault(int(components[place]), []).append(name)
    cycle_names: dict[str, str] = {}
    for names in members.values():
        if len(names) > 1:
            largest = max(names, key=lambda name: sum(graph.own.get(name, 0.0) for graph in graphs))
            cycle_names |= dict.fromkeys(names, f"{largest} and {len(names) - 1} more that call each other")
    return cycle_names


def same_functions(observations: Sequence[Observation]) -> dict[str, str]:
    """Return control's name -> treatment's name of functions that were renamed between the sides."""
    both = (part.names for part in match_parts(observations) if part.only_on is None)
    return {
        names["control"][0]: names["treatment"][0] for names in both if names["control"][0] != names["treatment"][0]
    }


def flame_of_stacks(
    stacks: Mapping[Side, Mapping[tuple[str, ...], float]], renamed: Mapping[str, str] | None = None
) -> tuple[Frame, ...]:
    """Return the tree of both sides' stacks, as ``python_functions.function_stacks`` has them. ``renamed``: see
    ``same_functions``."""
    names = renamed or {}
    below: dict[tuple[str, ...], dict[str, list[float]]] = {}
    for place, side in enumerate(SIDES):
        for names_inwards, amount in stacks.get(side, {}).items():
            stack = tuple(names.get(name, name) for name in names_inwards) if side == "control" else names_inwards
            for depth, name in enumerate(stack):
                below.setdefault(stack[:depth], {}).setdefault(name, [0.0, 0.0])[place] += amount
    control, treatment = (sum(stacks.get(side, {}).values()) for side in SIDES)

    def expand(path: Sequence[str], _: Amounts) -> dict[str, Amounts]:
        return {name: (amounts[0], amounts[1]) for name, amounts in below.get(tuple(path), {}).items()}

    return _flame((control, treatment), expand)


def _flame(
    call_amounts: Amounts, expand: Callable[[Sequence[str], Amounts], Mapping[str, Amounts]]
) -> tuple[Frame, ...]:
    """Return the largest frames of the tree; ``expand`` gives those below a path. Empty if nothing was executed."""
    if max(call_amounts) <= 0:
        return ()
    least = max(call_amounts) * LEAST_SHARE
    frames: dict[tuple[str, ...], Amounts] = {}
    waiting: list[tuple[float, tuple[str, ...], Amounts]] = [(-max(call_amounts), (), call_amounts)]
    while waiting and len(frames) < MOST_FRAMES:  # no frame is larger than its caller, so that none lacks its caller
        _, path, amounts = heapq.heappop(waiting)
        frames[path] = amounts
        if len(path) < DEEPEST:
            for name, callee_amounts in expand(path, amounts).items():
                if max(callee_amounts) >= least:
                    heapq.heappush(waiting, (-max(callee_amounts), (*path, name), callee_amounts))
    return tuple(_in_order(frames))


def _in_order(frames: Mapping[tuple[str, ...], Amounts]) -> Iterator[Frame]:
    callees: dict[tuple[str, ...], list[tuple[str, ...]]] = {}
    for path in frames:  # the largest first
        if path:
            callees.setdefault(path[:-1], []).append(path)
    waiting: list[tuple[str, ...]] = [()]
    while waiting:
        path = waiting.pop()
        control, treatment = (float(f"{amount:.{_DIGITS}g}") for amount in frames[path])
        name = path[-1] if path else WHOLE
        yield Frame(clipped(name, LONGEST_NAME), len(path), control, treatment)
        waiting += reversed(callees.get(path, []))


def _both(control: Mapping[str, float], treatment: Mapping[str, float]) -> dict[str, Amounts]:
    return {name: (control.get(name, 0.0), treatment.get(name, 0.0)) for name in {**control, **treatment}}
