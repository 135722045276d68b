"""Which instructions work on vectors, as this machine's assembler writes them; and what moves with the code around."""

import platform
import shutil
import subprocess
from pathlib import Path

import pytest

from opduel.causes.collectors.machine_code import LONGEST, references, vector_bytes, without_relative_parts

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
    text = "".join(f".p2align 4\n{instruction}\n" for instruction in INSTRUCTIONS)
    subprocess.run(["as", "-o", "code.o", "-"], cwd=tmp_path, input=text, text=True, check=True)
    subprocess.run(["objcopy", "-O", "binary", "-j", ".text", "code.o", "code"], cwd=tmp_path, check=True)
    code = (tmp_path / "code").read_bytes()
    sizes = {instruction: vector_bytes(code[16 * at :][:LONGEST]) for at, instruction in enumerate(INSTRUCTIONS)}
    assert sizes == INSTRUCTIONS


def test_bytes_that_are_cut_off_are_not_decoded() -> None:
    for code in map(bytes.fromhex, ("62f16d48fecb", "c4e275b8c2", "c5fc58c1", "0f58c1")):
        assert vector_bytes(code)
        assert {vector_bytes(code[:length]) for length in range(len(code))} == {None}
        assert without_relative_parts(code[:-1]) == b""


def test_addresses_that_code_takes_reads_and_jumps_to() -> None:
    code = bytes.fromhex("488d05010000000f8411000000e811000000eb05488d4004488d3dfcffffff488b05f0000000c3")
    assert list(references(code, 0x1000)) == [
        ("lea", 0x1008),
        ("je", 0x101E),
        ("jmp", 0x1019),
        ("lea", 0x101B),
        ("mov", 0x1116),
    ]


@pytest.mark.parametrize(
    ("code", "expected"),
    [
        ("e8 11223344", "e8 00000000"),
        ("0f84 11223344", "0f84 00000000"),
        ("75ed", "75ed"),  # by one byte: within the loop
        ("f30f1005 11223344", "f30f1005 00000000"),  # movss xmm0,[rip+..]
        ("c5fa1005 11223344", "c5fa1005 00000000"),  # vmovss
        ("c4e27d180d 11223344", "c4e27d180d 00000000"),  # vbroadcastss ymm1,[rip+..]
        ("62f17c481005 11223344", "62f17c481005 00000000"),  # vmovups zmm0,[rip+..]
        ("48813d 11223344 00010000", "48813d 00000000 00010000"),  # cmp qword [rip+..],256
        ("f30f100481 11223344", "f30f100481"),  # [rcx+rax*4]
        ("483d 11223344", "483d 11223344"),  # cmp rax,..
        ("483d 0d223344", "483d 0d223344"),
        ("4805 11223344", "4805 11223344"),  # add rax,..
        ("48b8 0d11223344556677", "48b8 0d11223344556677"),  # movabs rax,..
    ],
)
def test_what_is_relative_to_the_instruction_is_left_out(code: str, expected: str) -> None:
    assert without_relative_parts(bytes.fromhex(code.replace(" ", ""))) == bytes.fromhex(expected.replace(" ", ""))
