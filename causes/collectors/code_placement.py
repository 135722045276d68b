"""Whether the code that a call executes most is the same on both sides, and where it begins in a line of memory.

A processor fetches and decodes code by lines of 64 bytes, and what a jump costs depends on where in them it lies (Intel
64 and IA-32 Architectures Optimization Reference Manual, 3.4.1.4 and 3.4.2.2). The same loop, moved by 32 bytes, can
take a third longer.
"""

import re

from opduel.causes.collectors.callgrind_file import CallgrindProfile, FunctionCost, FunctionId
from opduel.causes.collectors.native_parts import part_name, place_of
from opduel.causes.collectors.stripped import library_at
from opduel.causes.collectors.vectors import LONGEST as LONGEST_INSTRUCTION
from opduel.causes.wording.phrases import is_of_the_interpreter, short_name
from opduel.records.cause import CODE_OF, ELSEWHERE, Candidate

LINE = 64  # bytes
MOST = 0.5  # share of all instructions from which on a function's place may be what differs
AT_LEAST = 2  # bytes of an instruction whose length isn't known

# Jumps and returns, behind which anything may lie that is never executed: their lengths.
_JUMPS = ((re.compile(rb"[\x70-\x7f\xeb]"), 2), (re.compile(rb"\xe9"), 5), (re.compile(rb"\x0f[\x80-\x8f]"), 6))
_RETURN = re.compile(rb"\xc3")
# Opcodes of one byte that a ModR/M byte follows.
_WITH_MODRM = rb"[\x00-\x03\x08-\x0b\x10-\x13\x18-\x1b\x20-\x23\x28-\x2b\x30-\x33\x38-\x3b\x63\x69\x6b\x80\x81\x83-\x8f"
_WITH_MODRM += rb"\xc0\xc1\xc6\xc7\xd0-\xd3\xd8-\xdf\xf6\xf7\xfe\xff]"
_LEGACY = (
    rb"[\x66\xf2\xf3\x2e\x36\x3e\x26\x64\x65\x67]*[\x40-\x4f]?(?:\x0f[\x38\x3a].|\x0f[^\x80-\x8f]|"
    + _WITH_MODRM
    + rb")"
)
# Before four bytes that are relative to the instruction's own place: a ModR/M byte that says so, or a jump or call.
_RELATIVE = re.compile(
    rb"(?:[\xe8\xe9]|\x0f[\x80-\x8f]|(?:"
    + _LEGACY
    + rb"|\xc5.{2}|\xc4.{3}|\x62.{4})[\x05\x0d\x15\x1d\x25\x2d\x35\x3d])",
    re.S,
)


def placement(control: CallgrindProfile, treatment: CallgrindProfile, shared: set[str]) -> str:
    """In one line, of the function that executes most by itself on both sides; empty if it is another one on either
    side or Python's interpreter's, executes less than half of all, or its code can't be read."""
    before, after = (_largest(profile) for profile in (control, treatment))
    if before is None or after is None or part_name(before[0], shared) != part_name(after[0], shared):
        return ""
    codes = _codes(before, after)
    if codes is None:
        return ""
    name = short_name(part_name(after[0], shared).removeprefix(CODE_OF))
    places = [cost.hot[0][0] % LINE for _, cost in (before, after)]
    if codes[0] != codes[1]:
        return f"the machine code of {name} is another"
    if places[0] == places[1]:
        return f"the machine code of {name} is the same, {places[1]} bytes into a line of {LINE} as before"
    return f"the machine code of {name} is the same, {places[1]} bytes into a line of {LINE} {ELSEWHERE} {places[0]}"


def _largest(profile: CallgrindProfile) -> tuple[FunctionId, FunctionCost] | None:
    """The function that executes most by itself, if that is most of all and its hot instructions are known."""
    found = max(profile.functions.items(), key=lambda item: (item[1].self_cost, item[0]), default=None)
    if found is None or not found[1].hot or found[1].self_cost < MOST * profile.total:
        return None
    where = place_of(found[1]) or found[0].library
    return None if is_of_the_interpreter(Candidate(found[0].name, 0.0, 0.0, where=where)) else found


def _codes(*sides: tuple[FunctionId, FunctionCost]) -> list[list[bytes]] | None:
    """Of either side, the instructions that are hot on one of them, without what is relative to their own place; None
    if a file doesn't have them. They are found by their distance from the first hot one, or, if they differ so, from
    the function's beginning: either may be another on one side."""
    libraries = [library_at(function.library) for function, _ in sides]
    firsts: list[int | None] = [cost.hot[0][0] for _, cost in sides]
    begins = [
        library.function_at(cost.hot[0][0]) if library else None
        for library, (_, cost) in zip(libraries, sides, strict=True)
    ]
    found = None
    for starts in (firsts, begins):
        hot = dict[int, int]()
        for (_, cost), start in zip(sides, starts, strict=True):
            for at, gap in cost.hot:
                hot[at - (start or 0)] = min(gap, hot.get(at - (start or 0), gap))
        codes = [
            [_instruction(library.instruction(start + at), hot[at]) if library and start else b"" for at in sorted(hot)]
            for library, start in zip(libraries, starts, strict=True)
        ]
        if all(all(code) for code in codes):
            found = found or codes
            if codes[0] == codes[1]:
                return codes
    return found


def _instruction(code: bytes, gap: int) -> bytes:
    """An instruction, behind which the next that is executed lies ``gap`` bytes further: as far as it surely goes."""
    length = next((size for jump, size in _JUMPS if jump.match(code)), 1 if _RETURN.match(code) else gap)
    return masked(code[: length if 0 < length <= LONGEST_INSTRUCTION else AT_LEAST])


def masked(code: bytes) -> bytes:
    """An instruction with zeros for what is relative to its own place, which moves with any code between."""
    relative = _RELATIVE.match(code)
    if relative is None or len(code) < relative.end() + 4:
        return code
    return code[: relative.end()] + bytes(4) + code[relative.end() + 4 :]
