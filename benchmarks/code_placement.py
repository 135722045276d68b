#!/usr/bin/env python3
"""What does it cost a loop where its code lies? Copies it from a library to every place in a line, and times it there.

    .venv/bin/python benchmarks/code_placement.py LIBRARY 0x6db908 0x6db921 rcx=@0 rdx=@1 rsi=4096 rax=0 --turns 4096

The loop is the library's own machine code from the first address to before the second, as its file has them: it begins
and ends with its first and last instruction, jumps nowhere else, calls nothing, and touches no stack. With --function
it is a whole function, which is called. REGISTER=VALUE says what it starts with: a number, or @N, which is memory of
its own, 1 MiB of zeros, and @N+BYTES; @N+BYTES=VALUE is what 8 bytes of that memory have. --turns is how often it turns
by these. A line is 64 bytes. x86-64 and Linux only.

All places take turns in random order, many times; of each the lower quartile counts. The table (Markdown, standard
output) has ns a turn, and that against the fastest place.
"""

import argparse
import ctypes
import mmap
import random
import struct
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))

from opduel.harness.explain.stripped import Library  # noqa: E402

REGISTERS = ("rax", "rcx", "rdx", "rbx", "rsp", "rbp", "rsi", "rdi", *(f"r{number}" for number in range(8, 16)))
KEPT = ("rbx", "rbp", "r12", "r13", "r14", "r15")  # by the called function: System V ABI, AMD64, 3.2.1
LINE = 64  # bytes
BLOCK = 1 << 20  # bytes of memory that a register points to
LONGEST_LOOP = 2900  # bytes
BATCHES, CALLS = 200, 20


def pushed(names: Sequence[str], opcode: int) -> bytes:
    """``push`` (0x50) or ``pop`` (0x58) of registers."""
    numbers = [REGISTERS.index(name) for name in names]
    return b"".join((b"\x41" if number > 7 else b"") + bytes((opcode + (number & 7),)) for number in numbers)


def assigned(values: Mapping[str, int]) -> bytes:
    """``mov REGISTER, VALUE`` each."""
    found = b""
    for name, value in values.items():
        number = REGISTERS.index(name)
        found += bytes((0x49 if number > 7 else 0x48, 0xB8 + (number & 7))) + struct.pack("<q", value)
    return found


def placed(loop: bytes, values: Mapping[str, int], offset: int, is_function: bool) -> Callable[[], None]:
    """A function that runs the loop, whose copy begins ``offset`` bytes into a line."""
    memory = mmap.mmap(-1, 1 << 13, prot=mmap.PROT_READ | mmap.PROT_WRITE | mmap.PROT_EXEC)
    at, out = 1024 + offset, 4096
    before = pushed(KEPT, 0x50) + assigned(values)
    before += b"\x48\x83\xec\x08"  # sub rsp,8: to a multiple of 16
    before += (b"\xe8" if is_function else b"\xe9") + struct.pack("<i", at - len(before) - 5)  # call, or jmp
    back = at + len(loop)
    memory[:out] = b"\xcc" * out  # int3
    memory[: len(before) + 5] = before + b"\xe9" + struct.pack("<i", out - len(before) - 5)
    memory[at : back + 5] = loop + b"\xe9" + struct.pack("<i", out - back - 5)
    after = b"\x48\x83\xc4\x08" + pushed(KEPT[::-1], 0x58) + b"\xc3"
    memory[out : out + len(after)] = after
    KEPT_ALIVE.append(memory)
    return ctypes.CFUNCTYPE(None)(ctypes.addressof(ctypes.c_char.from_buffer(memory)))


def value_of(text: str) -> int:
    """A number, or the address of a block: ``@1+4096``."""
    if not text.startswith("@"):
        return int(text, 0)
    number, _, more = text[1:].partition("+")
    if number not in BLOCKS:
        BLOCKS[number] = mmap.mmap(-1, BLOCK)
    return ctypes.addressof(ctypes.c_char.from_buffer(BLOCKS[number])) + int(more or "0", 0)


def start_of(texts: Sequence[str]) -> dict[str, int]:
    """Registers with their values; those of memory are written there."""
    values = {}
    for name, _, text in (one.partition("=") for one in texts):
        if name.startswith("@"):
            ctypes.c_int64.from_address(value_of(name)).value = value_of(text)
        else:
            values[name] = value_of(text)
    return values


BLOCKS: dict[str, mmap.mmap] = {}
KEPT_ALIVE: list[mmap.mmap] = []


def lower_quartile(values: Sequence[float]) -> float:
    return sorted(values)[len(values) // 4]


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("library")
    parser.add_argument("start", type=lambda text: int(text, 0))
    parser.add_argument("end", type=lambda text: int(text, 0))
    parser.add_argument("registers", nargs="*", metavar="REGISTER=VALUE")
    parser.add_argument("--function", action="store_true", help="it is a whole function")
    parser.add_argument("--turns", type=int, required=True)
    parser.add_argument("--step", type=int, default=4, help="bytes between places (default 4)")
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_intermixed_args()
    loop = Library(options.library).code(options.start, options.end)
    if not 0 < len(loop) <= LONGEST_LOOP:
        parser.error(f"{options.library} has no code of 1 to {LONGEST_LOOP} bytes at these addresses")
    values = start_of(options.registers)
    places = {offset: placed(loop, values, offset, options.function) for offset in range(0, LINE, options.step)}
    times: dict[int, list[float]] = {offset: [] for offset in places}
    rng = random.Random(options.seed)
    for _ in range(BATCHES):
        for offset in rng.sample(sorted(places), len(places)):
            run = places[offset]
            run()
            start = time.perf_counter_ns()
            for _ in range(CALLS):
                run()
            times[offset].append((time.perf_counter_ns() - start) / CALLS / options.turns)
    found = {offset: lower_quartile(several) for offset, several in times.items()}
    best = min(found.values())
    print("| bytes into a line | ns a turn | against the fastest |\n|---|---|---|")
    for offset, ns in found.items():
        print(f"| {offset} | {ns:.3f} | {ns / best - 1:+.1%} |")
    return 0


if __name__ == "__main__":
    sys.exit(main())
