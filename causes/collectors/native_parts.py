"""Divides what callgrind counted among the parts of a call, by names that are the same for every build."""

import re
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from pathlib import PurePosixPath

from opduel.causes.attribution.flame import CallGraph
from opduel.causes.collectors.callgrind_file import NAMELESS, CallgrindProfile, FunctionCost, FunctionId
from opduel.records.cause import CODE_OF, ONE_BY_ONE, VECTORS, Part, without_clone
from opduel.records.measurement import SIDES, Side

LEAST_STRIPPED = 0.005  # a smaller share of code without symbols is not worth a note
# It moves the stack pointer before it calls, which callgrind takes for a return: what it calls counts for it.
FFI, BY_CTYPES = "libffi.so", "what ctypes calls (libffi.so)"
MANY, FEW = 0.2, 0.1  # shares of a function's instructions from which on it works on vectors, and up to which not
DECODED = 0.98  # share of them of which that must be known
GENERATED = "generated code"  # belongs to no library: compiled while the program runs
_TAG = re.compile(r"-[0-9a-f]{8}(?=\.)")  # by which wheels tell their copies of a library from others'
_SUFFIX = re.compile(r"(?:\.cpython-[\w-]+|\.abi3)?\.so(?:\.\d+)*$")


def library_name(path: str) -> str:
    """Return what a library is called in every build: without a wheel's tag, the interpreter's version and its own."""
    return _SUFFIX.sub(".so", _TAG.sub("", PurePosixPath(path).name))


def shared_names(profiles: Iterable[CallgrindProfile]) -> set[str]:
    """Return the names that functions of several libraries have, in one process."""
    shared: set[str] = set()
    for profile in profiles:
        libraries: dict[str, str] = {}
        for function, cost in profile.functions.items():
            library = library_name(function.library)
            if function.name != NAMELESS and cost.self_cost and libraries.setdefault(function.name, library) != library:
                shared.add(function.name)
    return shared


def part_name(function: FunctionId, shared: set[str]) -> str:
    """Return what a function is called in every build; with its library where the name is a ``shared`` one."""
    library = library_name(function.library) or GENERATED
    if library == FFI and (function.name == NAMELESS or function.name.startswith(CODE_OF)):
        return BY_CTYPES
    if function.name == NAMELESS:
        return f"{library} (no symbols)"
    return f"{function.name} ({library})" if function.name in shared else function.name


def parts_of(profile: CallgrindProfile, shared: set[str]) -> dict[str, Part]:
    """Return the functions that execute anything, by name, and with its library where the name is a ``shared`` one.
    Amounts are per call of the case."""
    merged: dict[str, FunctionCost] = {}
    callers: dict[str, Counter[str]] = defaultdict(Counter)
    where: dict[str, str] = {}
    for function, cost in sorted(profile.functions.items(), key=lambda item: -item[1].self_cost):
        if not cost.self_cost:
            break
        name = part_name(function, shared)
        total = merged.setdefault(name, FunctionCost())
        total.add(cost)
        where.setdefault(name, place_of(cost) or PurePosixPath(function.library).name)
        for caller, amount in cost.callers.items():
            if amount and (caller_name := part_name(caller, shared)) != name:
                callers[name][caller_name] += amount
    parts = {}
    for name, total in merged.items():
        # how often it is called isn't known of what is several functions that call each other
        often = None if name.startswith(CODE_OF) else total.calls / profile.calls or None
        shares = {caller: amount / callers[name].total() for caller, amount in callers[name].items()}
        vectors = describe_vectors(total)
        parts[name] = Part(total.self_cost / profile.calls, often, where[name], shares, implementation=vectors)
    return parts


def describe_vectors(cost: FunctionCost) -> str:
    """Return ``vectors of 32 bytes``, or ``one element at a time``; empty where it is neither clearly."""
    on_vectors = sum(cost.vectors.values())
    if not cost.self_cost or cost.looked_at < DECODED * cost.self_cost:
        return ""
    if on_vectors >= MANY * cost.self_cost:
        width = max(cost.vectors, key=lambda size: (cost.vectors[size] * size, size))
        return f"{VECTORS}{width} bytes"
    return ONE_BY_ONE if on_vectors <= FEW * cost.self_cost else ""


def call_graph(profiles: Sequence[CallgrindProfile], shared: set[str]) -> CallGraph:
    """Return one side's call graph, the mean over its processes. ``shared``: see ``shared_names``."""
    own: dict[str, float] = defaultdict(float)
    edges: dict[str, dict[str, float]] = defaultdict(lambda: defaultdict(float))
    for profile in profiles:
        weight = 1 / (profile.calls * len(profiles))
        names = {function: without_clone(part_name(function, shared)) for function in profile.functions}
        for function, cost in profile.functions.items():
            name = names[function]
            own[name] += cost.self_cost * weight
            for caller_id, amount in cost.callers.items():
                caller = names.get(caller_id) or without_clone(part_name(caller_id, shared))
                if amount and caller != name:
                    edges[caller][name] += amount * weight
    return CallGraph(own, edges)


def place_of(cost: FunctionCost) -> str:
    """Return the file that a function is in, and the line where that is known."""
    return f"{cost.file}:{cost.line}" if cost.file and cost.line else cost.file


def mispredicted(profile: CallgrindProfile, shared: set[str]) -> dict[str, Part]:
    """Return the functions with mispredicted branches of their own, by name; amounts are per call of the case."""
    branches = {
        function: FunctionCost(cost.mispredicted, file=cost.file, line=cost.line)
        for function, cost in profile.functions.items()
    }
    return parts_of(replace(profile, functions=branches), shared)


def describe_stripped(profiles: Mapping[Side, Sequence[CallgrindProfile]]) -> str:
    """Return in one line which share of either side's instructions is in code without symbols, whether it is known what
    it belongs to or not, and in which libraries; empty if none."""
    libraries: set[str] = set()
    shares = []
    for side in SIDES:
        stripped = {
            (number, function): cost.self_cost
            for number, profile in enumerate(profiles[side])
            for function, cost in profile.functions.items()
            if (function.name == NAMELESS or function.name.startswith(CODE_OF)) and cost.self_cost
        }
        libraries |= {library_name(function.library) or GENERATED for _, function in stripped}
        shares.append(sum(stripped.values()) / max(1, sum(profile.total for profile in profiles[side])))
    if max(shares) < LEAST_STRIPPED:
        return ""
    control, treatment = shares
    share = f"{control:.0%} of the control's instructions and {treatment:.0%} of the treatment's"
    return f"no symbols: {share} ({', '.join(sorted(libraries))})"
