"""Whether the hottest code is the same on both sides, and where it begins in a line of memory."""

from types import SimpleNamespace

import pytest

from opduel.harness.explain import placement
from opduel.harness.explain.callgrind_file import CallgrindProfile, FunctionCost, FunctionId
from opduel.records.cause import CODE_OF

# movss xmm0,[rcx+rax*4]; comiss xmm0,[rip+DISPLACEMENT]; call RELATIVE; add rax,1; jne to the first
LOOP = ("f30f100481", "0f2f05{}", "e8{}", "4883c001", "75ed")


def library(start: int, moved: str = "00000000", other: str = "") -> dict[int, bytes]:
    """Address -> the bytes from there on, of a loop; of another, if ``other`` has one of its instructions."""
    codes = [bytes.fromhex(one.format(moved)) for one in (*LOOP[:3], other or LOOP[3], LOOP[4])]
    found, at = {}, start
    for number, code in enumerate(codes):
        found[at] = b"".join(codes[number:]) + bytes(16)
        at += len(code)
    return found


def profile(path: str, addresses: tuple[int, ...], name: str = f"{CODE_OF}lib::Max::Compute") -> CallgrindProfile:
    hot = FunctionCost(9000, hot=addresses, hot_of=9000)
    return CallgrindProfile({FunctionId("small", path): FunctionCost(10), FunctionId(name, path): hot}, 9010)


def placed(monkeypatch: pytest.MonkeyPatch, control: dict[int, bytes], treatment: dict[int, bytes]) -> str:
    both = {"/c/lib.so": control, "/t/lib.so": treatment}

    def at(path: str) -> SimpleNamespace:
        return SimpleNamespace(instruction=both[path].__getitem__)

    monkeypatch.setattr(placement, "library_at", at)
    sides = (profile(path, tuple(code)) for path, code in both.items())
    return placement.placement(*sides, shared=set())


def test_the_same_code_elsewhere(monkeypatch: pytest.MonkeyPatch) -> None:
    """What is relative to an instruction's own place moves with the code between."""
    assert placed(monkeypatch, library(0x6DB908), library(0x6FCEA8, "12345678")) == (
        "the machine code of lib::Max::Compute is the same, 40 bytes into a line of 64 where it was 8"
    )
    assert placed(monkeypatch, library(0x1008), library(0x2008)) == (
        "the machine code of lib::Max::Compute is the same, 8 bytes into a line of 64 as before"
    )


def test_other_code_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    words = "the machine code of lib::Max::Compute is another"
    assert placed(monkeypatch, library(0x1008), library(0x1008, other="4883c002")) == words
    assert placed(monkeypatch, library(0x1008), library(0x1008, other="48ffc0")) == words


def test_nothing_is_said_where_another_function_is_the_largest_or_nothing_is_known() -> None:
    one, other = profile("/c/lib.so", (8,)), profile("/c/lib.so", (8,), "g")
    assert placement.placement(one, other, set()) == ""
    unknown = CallgrindProfile({FunctionId("g", "/c/lib.so"): FunctionCost(5)}, 5)
    assert placement.placement(other, unknown, set()) == ""
    assert placement.placement(CallgrindProfile(), CallgrindProfile(), set()) == ""


@pytest.mark.parametrize(
    ("code", "kept"),
    [
        ("e8 11223344 90", "e8 00000000 90"),
        ("0f84 11223344", "0f84 00000000"),
        ("75ed 11223344", "75ed 11223344"),  # by one byte: within the loop
        ("f30f1005 11223344", "f30f1005 00000000"),  # movss xmm0,[rip+..]
        ("c5fa1005 11223344", "c5fa1005 00000000"),  # vmovss
        ("c4e27d180d 11223344", "c4e27d180d 00000000"),  # vbroadcastss ymm1,[rip+..]
        ("62f17c481005 11223344", "62f17c481005 00000000"),  # vmovups zmm0,[rip+..]
        ("48813d 11223344 00010000", "48813d 00000000 00010000"),  # cmp qword [rip+..],256
        ("f30f100481 11223344", "f30f100481 11223344"),  # [rcx+rax*4]
        ("488d05 1122", "488d05 1122"),  # cut off
    ],
)
def test_what_is_relative_to_the_instruction_is_left_out(code: str, kept: str) -> None:
    assert placement.masked(bytes.fromhex(code.replace(" ", ""))) == bytes.fromhex(kept.replace(" ", ""))
