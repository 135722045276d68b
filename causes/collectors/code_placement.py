"""Whether the code that a call executes most is the same on both sides, and where it begins in a line of memory.

A processor fetches and decodes code by lines of 64 bytes, and what a jump costs depends on where in them it lies (Intel
64 and IA-32 Architectures Optimization Reference Manual, 3.4.1.4 and 3.4.2.2). The same loop, moved by 32 bytes, can
take a third longer.
"""

from collections.abc import Callable

from opduel.causes.collectors.callgrind_file import CallgrindProfile, FunctionCost, FunctionId
from opduel.causes.collectors.machine_code import LONGEST, without_relative_parts
from opduel.causes.collectors.native_parts import part_name, place_of
from opduel.causes.collectors.stripped import StrippedLibrary, library_at
from opduel.causes.function_names import is_of_the_interpreter, short_name
from opduel.records.cause import CODE_OF, ELSEWHERE

OpenLibrary = Callable[[str], StrippedLibrary | None]
LINE = 64  # bytes
MOST = 0.5  # share of all instructions from which on a function's place may be what differs


def describe_placement(
    control: CallgrindProfile, treatment: CallgrindProfile, shared: set[str], open_library: OpenLibrary = library_at
) -> str:
    """Return a line about the function that executes most by itself on both sides; empty if it is another one on either
    side or Python's interpreter's, executes less than half of all, or its code can't be read."""
    before, after = (_largest(profile) for profile in (control, treatment))
    if before is None or after is None or part_name(before[0], shared) != part_name(after[0], shared):
        return ""
    codes = _hot_codes(before, after, open_library=open_library)
    if codes is None:
        return ""
    name = short_name(part_name(after[0], shared).removeprefix(CODE_OF))
    control_place, treatment_place = (cost.hot[0] % LINE for _, cost in (before, after))
    if codes[0] != codes[1]:
        return f"the machine code of {name} is another"
    same = f"the machine code of {name} is the same, {treatment_place} bytes into a line of {LINE}"
    return f"{same} as before" if control_place == treatment_place else f"{same} {ELSEWHERE} {control_place}"


def _largest(profile: CallgrindProfile) -> tuple[FunctionId, FunctionCost] | None:
    """Return the function that executes most by itself, if that is most of all and its hot instructions are known."""
    largest = max(profile.functions.items(), key=lambda item: (item[1].self_cost, item[0]), default=None)
    if largest is None or not largest[1].hot or largest[1].self_cost < MOST * profile.total:
        return None
    function, cost = largest
    return None if is_of_the_interpreter(function.name, place_of(cost) or function.library) else largest


def _hot_codes(*sides: tuple[FunctionId, FunctionCost], open_library: OpenLibrary) -> list[list[bytes]] | None:
    """Return for each side the instructions that are hot on one of them, without what is relative to their own place;
    None if a file doesn't have them. They are found by their distance from the function's beginning."""
    libraries = [library for function, _ in sides if (library := open_library(function.library))]
    if len(libraries) < len(sides):
        return None
    first_hot = [(library, cost.hot[0]) for library, (_, cost) in zip(libraries, sides, strict=True)]
    starts = [start for library, address in first_hot if (start := library.function_at(address)) is not None]
    if len(starts) < len(sides):
        return None
    hot = [cost.hot for _, cost in sides]
    distances = sorted({address - start for of_side, start in zip(hot, starts, strict=True) for address in of_side})
    codes = [
        [without_relative_parts(library.read(start + distance, LONGEST)) for distance in distances]
        for library, start in zip(libraries, starts, strict=True)
    ]
    return codes if all(all(code) for code in codes) else None
