"""Whether an x86-64 instruction works on whole vector registers: by its bytes, at an address where one begins.

Intel 64 and IA-32 Architectures Software Developer's Manual, volume 2: prefixes (2.1, 2.2), VEX (2.3), EVEX (2.7), and
the opcode maps (appendix A).  What scalar code has, too, counts as scalar: moves between registers, bitwise logic (by
which it takes absolute values and zeroes registers), and conversions and shuffles of single elements.
"""

import re
from functools import cache

from opduel.causes.collectors.callgrind_file import FunctionCost
from opduel.records.cause import ONE_BY_ONE, VECTORS

LONGEST = 15  # bytes of an instruction
MANY, FEW = 0.2, 0.1  # shares of a function's instructions from which on it works on vectors, and up to which not
KNOWN = 0.98  # share of them of which that must be known

_LEGACY = re.compile(rb"([\x66\xf2\xf3\x2e\x36\x3e\x26\x64\x65\x67]*)[\x40-\x4f]?\x0f(\x38|\x3a)?(.)(.)", re.S)
_NONE, _66, _F3, _F2 = range(4)  # the prefix that is part of the opcode, as VEX has it
_FLOAT = frozenset((0x51, 0x52, 0x53, 0x58, 0x59, 0x5C, 0x5D, 0x5E, 0x5F, 0xC2, 0xC6))
_INTEGER = frozenset(
    (*range(0x60, 0x6C), *range(0x71, 0x77), *range(0xD1, 0xD6), *range(0xD8, 0xDB), *range(0xDC, 0xDF))
) | frozenset((*range(0xE0, 0xE6), *range(0xE8, 0xEB), *range(0xEC, 0xEF), *range(0xF1, 0xF7), *range(0xF8, 0xFF)))
_MOVES = {
    _NONE: frozenset((0x10, 0x11, 0x28, 0x29, 0x2B)),
    _F3: frozenset((0x6F, 0x7F)),
    _F2: frozenset((0x6F, 0x7F, 0xF0)),
}
_MOVES[_66] = _MOVES[_NONE] | frozenset((0x6F, 0x7F, 0xE7))
_CONVERSIONS = frozenset(((_NONE, 0x5B), (_66, 0x5B), (_F3, 0x5B), (_66, 0xE6), (_F2, 0xE6), (_F3, 0xE6)))
_SHUFFLES = frozenset(((_66, 0x70), (_F3, 0x70), (_F2, 0x70)))
_MAP_38 = frozenset((*range(0x18), *range(0x1C, 0x1F), *range(0x20, 0x26), *range(0x28, 0x42), *range(0x45, 0x48)))
_MAP_38 |= frozenset((*range(0x50, 0x54), 0x8C, 0x8E, *range(0x90, 0x94)))
_FUSED = tuple(frozenset(range(first, first + 10)) for first in (0x96, 0xA6, 0xB6))  # multiply and add
_MAP_3A = frozenset((*range(0x0A), *range(0x0C, 0x10), 0x38, 0x39, 0x40, 0x42, 0x46, *range(0x4A, 0x4D)))


@cache
def vector_bytes(code: bytes) -> int:
    """How many bytes the vectors have that the instruction at the beginning of ``code`` works on; 0: it works on none,
    or on single elements of one."""
    if code[:1] == b"\xc5" and len(code) > 3:
        return _of(1, code[1] & 3, 16 << (code[1] >> 2 & 1), code[2], code[3])
    if code[:1] == b"\xc4" and len(code) > 4:
        return _of(code[1] & 0x1F, code[2] & 3, 16 << (code[2] >> 2 & 1), code[3], code[4])
    if code[:1] == b"\x62" and len(code) > 5:
        return _of(code[1] & 7, code[2] & 3, min(64, 16 << (code[3] >> 5 & 3)), code[4], code[5])
    found = _LEGACY.match(code)
    if found is None:
        return 0
    prefixes, escape, opcode, operands = found.groups()
    prefix = _F3 if b"\xf3" in prefixes else _F2 if b"\xf2" in prefixes else _66 if b"\x66" in prefixes else _NONE
    return _of({None: 1, b"\x38": 2, b"\x3a": 3}[escape], prefix, 16, opcode[0], operands[0])


def _of(opcodes: int, prefix: int, width: int, opcode: int, operands: int) -> int:
    """``width`` if the instruction of that opcode map works on whole vectors."""
    if opcodes == 1:
        packed = (
            (prefix in (_NONE, _66) and opcode in _FLOAT)
            or (prefix == _66 and opcode in _INTEGER)
            or (prefix, opcode) in _CONVERSIONS | _SHUFFLES
            or (opcode in _MOVES[prefix] and operands < 0xC0)  # from or to memory
        )
    elif opcodes == 2:
        fused = any(opcode in group for group in _FUSED) and opcode & 0xF in (6, 7, 8, 0xA, 0xC, 0xE)
        packed = prefix == _66 and (fused or opcode in _MAP_38)
    else:
        packed = opcodes == 3 and prefix == _66 and opcode in _MAP_3A
    return width if packed else 0


def said_of(cost: FunctionCost) -> str:
    """``vectors of 32 bytes``, or ``one element at a time``, by what a function executes itself; empty where it is
    neither clearly."""
    on_vectors = sum(cost.vectors.values())
    if not cost.self_cost or cost.looked_at < KNOWN * cost.self_cost:
        return ""
    if on_vectors >= MANY * cost.self_cost:
        width = max(cost.vectors, key=lambda one: (cost.vectors[one] * one, one))
        return f"{VECTORS}{width} bytes"
    return ONE_BY_ONE if on_vectors <= FEW * cost.self_cost else ""
