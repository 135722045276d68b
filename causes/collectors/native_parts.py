"""Callgrind's functions as parts of a call, by names that are the same for every build."""

import re
from collections.abc import Iterable, Mapping, Sequence
from pathlib import PurePosixPath

from opduel.causes.collectors.callgrind_file import NAMELESS, CallgrindProfile, FunctionCost, FunctionId
from opduel.causes.collectors.vectors import describe_vectors
from opduel.records.cause import CODE_OF, Part
from opduel.records.measurement import SIDES, Side

SAID = 0.005  # a smaller share of code without symbols is not worth a note
# It moves the stack pointer before it calls, which callgrind takes for a return: what it calls counts for it.
FFI, BY_CTYPES = "libffi.so", "what ctypes calls (libffi.so)"
GENERATED = "generated code"  # belongs to no library: compiled while the program runs
_TAG = re.compile(r"-[0-9a-f]{8}(?=\.)")  # by which wheels tell their copies of a library from others'
_SUFFIX = re.compile(r"(?:\.cpython-[\w-]+|\.abi3)?\.so(?:\.\d+)*$")


def library_name(path: str) -> str:
    """What a library is called in every build: without a wheel's tag, the interpreter's version and its own."""
    return _SUFFIX.sub(".so", _TAG.sub("", PurePosixPath(path).name))


def shared_names(profiles: Iterable[CallgrindProfile]) -> set[str]:
    """Names that functions of several libraries have, in one process."""
    shared: set[str] = set()
    for profile in profiles:
        libraries: dict[str, str] = {}
        for function, cost in profile.functions.items():
            library = library_name(function.library)
            if function.name != NAMELESS and cost.self_cost and libraries.setdefault(function.name, library) != library:
                shared.add(function.name)
    return shared


def part_name(function: FunctionId, shared: set[str]) -> str:
    """What a function is called in every build; with its library where the name is a ``shared`` one."""
    library = library_name(function.library) or GENERATED
    if library == FFI and (function.name == NAMELESS or function.name.startswith(CODE_OF)):
        return BY_CTYPES
    if function.name == NAMELESS:
        return f"{library} (no symbols)"
    return f"{function.name} ({library})" if function.name in shared else function.name


def parts_of(profile: CallgrindProfile, calls: int, shared: set[str]) -> dict[str, Part]:
    """The functions that execute anything, by name, and with its library where the name is a ``shared`` one.

    Amounts are instructions per call of the case, of which there were ``calls``.
    """
    merged: dict[str, FunctionCost] = {}
    callers: dict[str, dict[str, int]] = {}
    where: dict[str, str] = {}
    for function, cost in sorted(profile.functions.items(), key=lambda item: -item[1].self_cost):
        if not cost.self_cost:
            break
        name = part_name(function, shared)
        whole = merged.setdefault(name, FunctionCost())
        whole.add(cost)
        where.setdefault(name, place_of(cost) or PurePosixPath(function.library).name)
        by = callers.setdefault(name, {})
        for caller, amount in cost.callers.items():
            if amount and (other := part_name(caller, shared)) != name:
                by[other] = by.get(other, 0) + amount
    return {
        name: Part(
            whole.self_cost / calls,
            _calls(name, whole, calls),
            where[name],
            _shares(callers[name]),
            implementation=describe_vectors(whole),
        )
        for name, whole in merged.items()
    }


def place_of(cost: FunctionCost) -> str:
    """The file that a function is in, and the line where that is known."""
    return f"{cost.file}:{cost.line}" if cost.file and cost.line else cost.file


def mispredicted(profile: CallgrindProfile, calls: int, shared: set[str]) -> dict[str, Part]:
    """The functions with mispredicted branches of their own, by name; amounts are per call of the case."""
    found: dict[str, float] = {}
    where: dict[str, str] = {}
    for function, cost in sorted(profile.functions.items(), key=lambda item: -item[1].self_cost):
        if cost.mispredicted:
            name = part_name(function, shared)
            found[name] = found.get(name, 0.0) + cost.mispredicted / calls
            where.setdefault(name, place_of(cost) or PurePosixPath(function.library).name)
    return {name: Part(amount, where=where[name]) for name, amount in found.items()}


def _calls(name: str, cost: FunctionCost, calls: int) -> float | None:
    """How often a call of the case calls it; None for what is several functions that call each other."""
    return None if name.startswith(CODE_OF) else cost.calls / calls or None


def _shares(amounts: Mapping[str, int]) -> dict[str, float]:
    """Each as a share of all."""
    whole = sum(amounts.values())
    return {name: amount / whole for name, amount in amounts.items()}


def without_symbols(profiles: Mapping[Side, Sequence[CallgrindProfile]]) -> str:
    """Which share of either side's instructions is in code without symbols, whether it is known what it belongs to or
    not, and in which libraries; empty if none."""
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
        shares.append(sum(stripped.values()) / max(1, sum(one.total for one in profiles[side])))
    if max(shares) < SAID:
        return ""
    control, treatment = shares
    share = f"{control:.0%} of the control's instructions and {treatment:.0%} of the treatment's"
    return f"no symbols: {share} ({', '.join(sorted(libraries))})"
