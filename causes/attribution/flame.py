"""A call as one tree of frames with both sides' amounts: what a differential flame graph draws.

Python's profiler knows stacks. Callgrind knows each function's callers, and how much the calls of each execute: below a
function with several callers its callees are divided in proportion, as gprof does (Graham, Kessler and McKusick 1982,
"gprof: a call graph execution profiler", section 4). Functions that call each other are one frame, gprof's cycle.
"""

import heapq
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from opduel.causes.attribution.matching import match_parts
from opduel.causes.collectors.callgrind_file import CallgrindProfile
from opduel.causes.collectors.native_parts import part_name
from opduel.records import Frame, Observation
from opduel.records.cause import without_clone
from opduel.records.measurement import SIDES, Side

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
        """Functions that execute more than their callers account for, by what that is; they add up to the whole."""
        excess = dict(self.own)
        for caller, callees in self.calls.items():
            for callee, amount in callees.items():
                excess[caller] = excess.get(caller, 0.0) + amount
                excess[callee] = excess.get(callee, 0.0) - amount
        return _scaled({name: amount for name, amount in excess.items() if amount > 0}, sum(self.own.values()))

    def within(self, function: str, amount: float) -> dict[str, float]:
        """What a function calls, where ``amount`` is what it executes with all that it calls."""
        callees = self.calls.get(function, {})
        whole = self.own.get(function, 0.0) + sum(callees.values())
        return {name: amount * all_ / whole for name, all_ in callees.items()} if whole else {}

    def with_cycles(self, cycles: Mapping[str, str]) -> "CallGraph":
        """The same with each cycle (function -> its name) in place of its functions. What they execute by themselves is
        as if the cycle called them; how often they call each other has no part in it."""
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


def call_graph(profiles: Sequence[CallgrindProfile], calls: Sequence[int], shared: set[str]) -> CallGraph:
    """One side's, the mean over process pairs; ``calls`` of the case were counted in each. ``shared``: see
    ``native_parts.shared_names``."""
    own: dict[str, float] = {}
    edges: dict[str, dict[str, float]] = {}
    for profile, number in zip(profiles, calls, strict=True):
        weight = 1 / (number * len(profiles))
        names = {function: without_clone(part_name(function, shared)) for function in profile.functions}
        for function, cost in profile.functions.items():
            name = names[function]
            own[name] = own.get(name, 0.0) + cost.self_cost * weight
            for by, amount in cost.callers.items():
                caller = names.get(by) or without_clone(part_name(by, shared))
                if amount and caller != name:
                    callees = edges.setdefault(caller, {})
                    callees[name] = callees.get(name, 0.0) + amount * weight
    return CallGraph(own, edges)


def flame_of_graphs(graphs: Mapping[Side, CallGraph]) -> tuple[Frame, ...]:
    """The tree of both sides' call graphs, with the cycles of both together as one frame each."""
    cycles = _cycles([graphs[side] for side in SIDES])
    ordered = [graphs[side].with_cycles(cycles) for side in SIDES]

    def expand(path: Sequence[str], amounts: Amounts) -> dict[str, Amounts]:
        if not path:
            return _both(*(graph.outermost() for graph in ordered))
        return _both(*(graph.within(path[-1], amount) for graph, amount in zip(ordered, amounts, strict=True)))

    control, treatment = (sum(graph.own.values()) for graph in ordered)
    return _flame((control, treatment), expand)


def _cycles(graphs: Sequence[CallGraph]) -> dict[str, str]:
    """Functions that call each other, directly or through others: function -> the name of its cycle."""
    from scipy.sparse import coo_array  # here, because it takes long to import, and few runs explain anything
    from scipy.sparse.csgraph import connected_components

    edges = {(by, one) for graph in graphs for by, callees in graph.calls.items() for one in callees}
    places = {name: place for place, name in enumerate(sorted({name for edge in edges for name in edge}))}
    if not places:
        return {}
    rows, columns = zip(*((places[by], places[one]) for by, one in edges), strict=True)
    matrix = coo_array((np.ones(len(edges)), (rows, columns)), shape=(len(places), len(places)))
    _, components = connected_components(matrix, connection="strong")
    members: dict[int, list[str]] = {}
    for name, place in places.items():
        members.setdefault(int(components[place]), []).append(name)
    found: dict[str, str] = {}
    for names in members.values():
        if len(names) > 1:
            largest = max(names, key=lambda name: sum(graph.own.get(name, 0.0) for graph in graphs))
            found |= dict.fromkeys(names, f"{largest} and {len(names) - 1} more that call each other")
    return found


def same_functions(observations: Sequence[Observation]) -> dict[str, str]:
    """The control's name -> the treatment's, of functions that were renamed between the sides."""
    both = (part.names for part in match_parts(observations) if part.only_on is None)
    return {
        names["control"][0]: names["treatment"][0] for names in both if names["control"][0] != names["treatment"][0]
    }


def flame_of_stacks(
    stacks: Mapping[Side, Mapping[tuple[str, ...], float]], renamed: Mapping[str, str] | None = None
) -> tuple[Frame, ...]:
    """The tree of both sides' stacks, as ``python_functions.function_stacks`` has them. ``renamed``: see
    ``same_functions``."""
    names = renamed or {}
    below: dict[tuple[str, ...], dict[str, list[float]]] = {}
    for place, side in enumerate(SIDES):
        for found, amount in stacks.get(side, {}).items():
            stack = tuple(names.get(name, name) for name in found) if side == "control" else found
            for depth, name in enumerate(stack):
                below.setdefault(stack[:depth], {}).setdefault(name, [0.0, 0.0])[place] += amount
    control, treatment = (sum(stacks.get(side, {}).values()) for side in SIDES)

    def expand(path: Sequence[str], _: Amounts) -> dict[str, Amounts]:
        return {name: (one[0], one[1]) for name, one in below.get(tuple(path), {}).items()}

    return _flame((control, treatment), expand)


def _flame(whole: Amounts, expand: Callable[[Sequence[str], Amounts], Mapping[str, Amounts]]) -> tuple[Frame, ...]:
    """The largest frames of the tree whose frames below a path ``expand`` gives; empty if nothing was executed."""
    if max(whole) <= 0:
        return ()
    least = max(whole) * LEAST_SHARE
    found: dict[tuple[str, ...], Amounts] = {}
    waiting: list[tuple[float, tuple[str, ...], Amounts]] = [(-max(whole), (), whole)]
    while waiting and len(found) < MOST_FRAMES:  # no frame is larger than its caller, so that none lacks its caller
        _, path, amounts = heapq.heappop(waiting)
        found[path] = amounts
        if len(path) < DEEPEST:
            for name, one in expand(path, amounts).items():
                if max(one) >= least:
                    heapq.heappush(waiting, (-max(one), (*path, name), one))
    return tuple(_in_order(found))


def _in_order(found: Mapping[tuple[str, ...], Amounts]) -> Iterator[Frame]:
    """Depth first, of each frame the largest callee first."""
    callees: dict[tuple[str, ...], list[tuple[str, ...]]] = {}
    for path in found:  # the largest first
        if path:
            callees.setdefault(path[:-1], []).append(path)
    waiting: list[tuple[str, ...]] = [()]
    while waiting:
        path = waiting.pop()
        control, treatment = (float(f"{amount:.{_DIGITS}g}") for amount in found[path])
        name = path[-1] if path else WHOLE
        shown = name if len(name) <= LONGEST_NAME else f"{name[: LONGEST_NAME - 3]}..."
        yield Frame(shown, len(path), control, treatment)
        waiting += reversed(callees.get(path, []))


def _both(control: Mapping[str, float], treatment: Mapping[str, float]) -> dict[str, Amounts]:
    return {name: (control.get(name, 0.0), treatment.get(name, 0.0)) for name in _names(control, treatment)}


def _names(*sides: Iterable[str]) -> Iterable[str]:
    return dict.fromkeys(name for side in sides for name in side)


def _scaled(amounts: Mapping[str, float], whole: float) -> dict[str, float]:
    """The amounts in their proportion, so that they add up to ``whole``."""
    now = sum(amounts.values())
    return {name: amount * whole / now for name, amount in amounts.items()} if now else {}
