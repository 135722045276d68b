"""Whether the code that a call executes most is the same on both sides, and where it begins in a line of memory.

A processor fetches and decodes code by lines of 64 bytes, and what a jump costs depends on where in them it lies (Intel
64 and IA-32 Architectures Optimization Reference Manual, 3.4.1.4 and 3.4.2.2). The same loop, moved by 32 bytes, can
take a third longer: benchmarks/code_placement.py times it at each place.
"""

import re
from collections.abc import Sequence

from opduel.comparator.cause_wording import short_name
from opduel.harness.explain.callgrind_file import CallgrindProfile, FunctionCost, FunctionId
from opduel.harness.explain.native_parts import part_name
from opduel.harness.explain.stripped import library_at
from opduel.harness.explain.vectors import LONGEST as LONGEST_INSTRUCTION
from opduel.records.cause import CODE_OF, ELSEWHERE

LINE = 64  # bytes
AT_LEAST = 2  # bytes of an instruction whose length isn't known

_PREFIXES = rb"(?:[\x66\xf2\xf3\x2e\x36\x3e\x26\x64\x65\x67]*[\x40-\x4f]?"
_OPCODE = rb"(?:\x0f[\x38\x3a].|\x0f.|[^\x0f])|\xc5.{2}|\xc4.{3}|\x62.{4})"
# Before four bytes that are relative to the instruction's own place: a ModR/M byte that says so, or a jump or call.
_RELATIVE = re.compile(
    rb"(?:[\xe8\xe9]|\x0f[\x80-\x8f]|" + _PREFIXES + _OPCODE + rb"[\x05\x0d\x15\x1d\x25\x2d\x35\x3d])", re.S
)


def placement(control: CallgrindProfile, treatment: CallgrindProfile, shared: set[str]) -> str:
    """In one line, of the function that executes most by itself on both sides; empty if it is another one on either
    side, or its instructions are not known, or it executes less than a tenth of all."""
    found = [_largest(profile, shared) for profile in (control, treatment)]
    (before, one), (after, other) = found
    if one is None or other is None or before != after:
        return ""
    name, places = short_name(after.removeprefix(CODE_OF)), [hot[0] % LINE for _, hot in (one, other)]
    if _code(*one) != _code(*other):
        return f"the machine code of {name} is another"
    if places[0] == places[1]:
        return f"the machine code of {name} is the same, {places[1]} bytes into a line of {LINE} as before"
    return f"the machine code of {name} is the same, {places[1]} bytes into a line of {LINE} {ELSEWHERE} {places[0]}"


def _largest(profile: CallgrindProfile, shared: set[str]) -> tuple[str, tuple[str, Sequence[int]] | None]:
    """The name of the function that executes most by itself, its library's path, and its hot instructions."""

    def size(item: tuple[FunctionId, FunctionCost]) -> tuple[int, FunctionId]:
        return item[1].self_cost, item[0]

    if not profile.functions:
        return "", None
    function, cost = max(profile.functions.items(), key=size)
    return part_name(function, shared), (function.library, cost.hot) if cost.hot else None


def _code(path: str, addresses: Sequence[int]) -> list[tuple[int, bytes]]:
    """Instructions by their distance from the first: their bytes, without what is relative to their own place."""
    library, found = library_at(path), []
    for at, following in zip(addresses, (*addresses[1:], 0), strict=True):
        length = following - at
        code = library.instruction(at) if library is not None else b""
        found.append((at - addresses[0], masked(code[: length if 0 < length <= LONGEST_INSTRUCTION else AT_LEAST])))
    return found


def masked(code: bytes) -> bytes:
    """An instruction with zeros for what is relative to its own place, which moves with any code between."""
    relative = _RELATIVE.match(code)
    if relative is None or len(code) < relative.end() + 4:
        return code
    return code[: relative.end()] + bytes(4) + code[relative.end() + 4 :]
