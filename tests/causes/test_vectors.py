"""Which instructions work on vectors: as this machine's assembler writes them, and what is said of a function."""

import platform
import shutil
import subprocess
from pathlib import Path

import pytest

from opduel.causes.collectors.callgrind_file import FunctionCost
from opduel.causes.collectors.vectors import LONGEST, said_of, vector_bytes
from opduel.records.cause import ONE_BY_ONE

INSTRUCTIONS = {
    # whole vectors
    "addps %xmm1, %xmm2": 16,
    "mulpd (%rax), %xmm9": 16,
    "movups (%rax,%rcx,4), %xmm1": 16,
    "movdqu %xmm10, 64(%rdi)": 16,
    "paddd %xmm1, %xmm2": 16,
    "pcmpeqb %xmm1, %xmm2": 16,
    "pshufd $27, %xmm1, %xmm2": 16,
    "pshufb %xmm1, %xmm2": 16,
    "roundps $4, %xmm1, %xmm2": 16,
    "cvtdq2ps %xmm1, %xmm2": 16,
    "vaddps %ymm1, %ymm2, %ymm3": 32,
    "vmovups (%r8), %ymm1": 32,
    "vpaddb %ymm1, %ymm2, %ymm3": 32,
    "vfmadd231ps (%rdi,%rax), %ymm8, %ymm9": 32,
    "vfmadd213pd %xmm1, %xmm2, %xmm3": 16,
    "vblendvps %ymm1, %ymm2, %ymm3, %ymm4": 32,
    "vpmulld %ymm11, %ymm2, %ymm3": 32,
    "vaddps %zmm1, %zmm2, %zmm3": 64,
    "vpaddd %zmm20, %zmm2, %zmm3{%k1}{z}": 64,
    "vmovdqu8 (%rax), %ymm17": 32,
    # single elements, and what scalar code has, too
    "addss %xmm1, %xmm2": 0,
    "mulsd (%rax), %xmm9": 0,
    "movss (%rax), %xmm1": 0,
    "movq %xmm1, %rax": 0,
    "movd %eax, %xmm1": 0,
    "movaps %xmm1, %xmm2": 0,
    "pxor %xmm1, %xmm1": 0,
    "andps (%rax), %xmm1": 0,
    "cvtsi2ssl %eax, %xmm1": 0,
    "cvttss2si %xmm1, %eax": 0,
    "roundss $4, %xmm1, %xmm2": 0,
    "punpcklqdq %xmm1, %xmm2": 0,
    "ucomiss %xmm1, %xmm2": 0,
    "vaddss %xmm1, %xmm2, %xmm3": 0,
    "vfmadd231ss %xmm1, %xmm2, %xmm3": 0,
    "vfmadd132sd (%rax), %xmm2, %xmm3": 0,
    # of the general registers
    "addl %eax, %ebx": 0,
    "lock cmpxchgq %rax, (%rdi)": 0,
    "rep movsb": 0,
    "andnq %rax, %rbx, %rcx": 0,
    "shlxq %rax, %rbx, %rcx": 0,
    "ret": 0,
    "jne .": 0,
}


@pytest.mark.skipif(
    platform.machine() != "x86_64" or not all(map(shutil.which, ("as", "objcopy"))), reason="needs binutils on x86-64"
)
def test_instructions_as_the_assembler_writes_them(tmp_path: Path) -> None:
    text = "".join(f".p2align 4\n{one}\n" for one in INSTRUCTIONS)
    subprocess.run(["as", "-o", "code.o", "-"], cwd=tmp_path, input=text, text=True, check=True)
    subprocess.run(["objcopy", "-O", "binary", "-j", ".text", "code.o", "code"], cwd=tmp_path, check=True)
    code = (tmp_path / "code").read_bytes()
    found = {one: vector_bytes(code[16 * at :][:LONGEST]) for at, one in enumerate(INSTRUCTIONS)}
    assert found == INSTRUCTIONS


def test_bytes_that_are_cut_off_are_no_vectors() -> None:
    whole = bytes.fromhex("62f16d48fecb"), bytes.fromhex("c4e275b8c2"), bytes.fromhex("c5fc58c1"), b"\x0f\x58\xc1"
    for code in whole:
        assert vector_bytes(code)
        assert [vector_bytes(code[:length]) for length in range(len(code))] == [0] * len(code)


def test_what_is_said_of_a_function() -> None:
    def cost(**given: object) -> FunctionCost:
        return FunctionCost(1000, **{"looked_at": 1000, **given})  # type: ignore[arg-type]

    assert said_of(cost(vectors={16: 50, 32: 400})) == "vectors of 32 bytes"
    assert said_of(cost(vectors={16: 400, 32: 50})) == "vectors of 16 bytes"
    assert said_of(cost(vectors={16: 20})) == ONE_BY_ONE
    assert said_of(cost()) == ONE_BY_ONE
    assert said_of(cost(vectors={16: 150})) == "", "neither clearly"
    assert said_of(cost(looked_at=900)) == "", "of some of its instructions it isn't known"
    assert said_of(FunctionCost()) == ""
