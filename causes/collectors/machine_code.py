"""What x86-64 instructions do, as capstone decodes them: by their bytes, at an address where one begins."""

import re
from collections.abc import Iterator
from functools import cache

from capstone import CS_ARCH_X86, CS_MODE_64, CS_OP_IMM, CS_OP_MEM, Cs
from capstone.x86 import X86_GRP_BRANCH_RELATIVE, X86_REG_RIP

LONGEST = 15  # bytes of an instruction
_VECTORS = ((64, "zmm"), (32, "ymm"), (16, "xmm"))  # bytes of a register, and what its name begins with
_PACKED = re.compile(r"v?(?:\w+p[sd]|p\w+|cvtt?p[sd]2dq|mpsadbw|lddqu|mov(?:ntdqa?|dq[au]\d*))$")
_MOVE = re.compile(r"v?mov(?:[au]p[sd]|dq[au]\d*)$")
# What scalar code has, too: bitwise logic (by which it takes absolute values and zeroes registers), and conversions and
# shuffles of single elements.
_SCALAR = re.compile(
    r"v?(?:p?(?:and|andn|or|xor)(?:p?[sd]|q)?|pternlog[dq]|p?movmsk(?:b|p[sd])|p?unpck[lh](?:p[sd]|qdq)|cvtp[sd]2p[sd]"
    r"|mov[lh]p[sd]|pbroadcast\w+|pextr\w|pinsr\w|pclmul\w+|pcmp[ei]str\w)$"
)
_RELATIVE = re.compile(r"\[rip ([+-]) (0x[0-9a-f]+|\d+)\]")


def vector_bytes(code: bytes) -> int | None:
    """Return how many bytes the vectors have that the first instruction works on; 0: it works on none, or on single
    elements of one; None if it can't be decoded."""
    instruction = next(_decoder(False).disasm_lite(code, 0, 1), None)
    if instruction is None:
        return None
    _, _, name, operands = instruction
    if not _PACKED.match(name) or _SCALAR.match(name) or (_MOVE.match(name) and "[" not in operands):
        return 0
    return next((size for size, register in _VECTORS if register in operands), 0)


def without_relative_parts(code: bytes) -> bytes:
    """Return the first instruction with zeros for what is relative to its own place, but for a jump by one byte: what
    moves with any code between; empty if it can't be decoded."""
    instruction = next(_decoder(True).disasm(code, 0, 1), None)
    if instruction is None:
        return b""
    encoding, cleared = instruction.encoding, bytearray(code[: instruction.size])
    if any(operand.type == CS_OP_MEM and operand.mem.base == X86_REG_RIP for operand in instruction.operands):
        cleared[encoding.disp_offset : encoding.disp_offset + 4] = bytes(4)
    jumps = X86_GRP_BRANCH_RELATIVE in instruction.groups and instruction.operands[0].type == CS_OP_IMM
    if jumps and encoding.imm_size == 4:
        cleared[encoding.imm_offset : encoding.imm_offset + 4] = bytes(4)
    return bytes(cleared)


def references(code: bytes, start: int) -> Iterator[tuple[str, int]]:
    """Yield the name of each instruction of a function that refers to an address (relative to its own place) or jumps
    to one, and that address."""
    for address, size, name, operands in _decoder(False).disasm_lite(code, start):
        if "[rip" in operands and (match := _RELATIVE.search(operands)):
            yield name, address + size + int(match[1] + match[2], 0)
        elif name[0] == "j" and operands.startswith("0x"):
            yield name, int(operands, 16)


@cache
def _decoder(in_detail: bool) -> Cs:
    decoder = Cs(CS_ARCH_X86, CS_MODE_64)
    decoder.detail = in_detail
    return decoder
