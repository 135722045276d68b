"""Whether the hottest code is the same on both sides, and where it begins in a line of memory."""

from collections.abc import Sequence
from dataclasses import replace
from types import SimpleNamespace

from opduel.causes.collectors.callgrind_file import CallgrindProfile, FunctionCost, FunctionId
from opduel.causes.collectors.code_placement import describe_placement
from opduel.records.cause import CODE_OF

# movss xmm0,[rcx+rax*4]; comiss xmm0,[rip+DISPLACEMENT]; call RELATIVE; add rax,1; jne to the first
LOOP = ("f30f100481", "0f2f05{}", "e8{}", "4883c001", "75ed")


def library(start: int, moved: str = "00000000", other: str = "") -> dict[int, bytes]:
    """Address -> the bytes from there on, of a loop; of another, if ``other`` has one of its instructions."""
    codes = [bytes.fromhex(instruction.format(moved)) for instruction in (*LOOP[:3], other or LOOP[3], LOOP[4])]
    code_by_address, at = {}, start
    for number, code in enumerate(codes):
        code_by_address[at] = b"".join(codes[number:]) + bytes(16)
        at += len(code)
    return code_by_address


def profile(path: str, addresses: Sequence[int], name: str = f"{CODE_OF}lib::Max::Compute") -> CallgrindProfile:
    hot = FunctionCost(9000, hot=tuple(addresses), hot_of=9000)
    return CallgrindProfile({FunctionId("small", path): FunctionCost(10), FunctionId(name, path): hot}, 9010)


def placed(
    control: dict[int, bytes],
    treatment: dict[int, bytes],
    hot: Sequence[int] = range(5),
) -> str:
    """``hot``: which of the treatment's instructions are among its hot ones."""
    both = {"/c/lib.so": control, "/t/lib.so": treatment}

    def at(path: str) -> SimpleNamespace:
        start = min(both[path])
        return SimpleNamespace(
            read=lambda address, size: both[path].get(address, b"")[:size], function_at=lambda address: start
        )

    some = [address for number, address in enumerate(treatment) if number in hot]
    return describe_placement(profile("/c/lib.so", list(control)), profile("/t/lib.so", some), set(), at)


def test_the_same_code_elsewhere() -> None:
    """What is relative to an instruction's own place moves with the code between."""
    assert placed(library(0x6DB908), library(0x6FCEA8, "12345678")) == (
        "the machine code of lib::Max::Compute is the same, 40 bytes into a line of 64 where it was 8"
    )
    assert placed(library(0x1008), library(0x2008)) == (
        "the machine code of lib::Max::Compute is the same, 8 bytes into a line of 64 as before"
    )


def test_what_is_hot_on_one_side_alone_is_compared_on_both() -> None:
    assert "is the same, 8 bytes" in placed(library(0x1008), library(0x2008), hot=(0, 1, 3, 4))
    assert "is the same, 13 bytes" in placed(library(0x1008), library(0x2008), hot=(1, 2, 3, 4))


def test_other_code_is_said() -> None:
    words = "the machine code of lib::Max::Compute is another"
    assert placed(library(0x1008), library(0x1008, other="4883c002")) == words


def test_nothing_is_said_of_code_that_cannot_be_read() -> None:
    assert placed(library(0x1008), library(0x1008, other="48ffc0")) == "", "no instruction begins there"
    loop_profile = profile("/c/lib.so", list(library(0x1008)))
    assert describe_placement(loop_profile, loop_profile, set(), lambda _: None) == ""


def test_nothing_is_said_where_another_function_is_the_largest_or_nothing_is_known() -> None:
    maximum, other = profile("/c/lib.so", (8,)), profile("/c/lib.so", (8,), "g")
    assert describe_placement(maximum, other, set()) == ""
    unknown = CallgrindProfile({FunctionId("g", "/c/lib.so"): FunctionCost(5)}, 5)
    assert describe_placement(other, unknown, set()) == ""
    assert describe_placement(CallgrindProfile(), CallgrindProfile(), set()) == ""
    interpreter = profile("/usr/lib/libpython3.11.so.1.0", (8,), "_PyEval_EvalFrameDefault")
    assert describe_placement(interpreter, interpreter, set()) == ""
    small = replace(other, total=20_000)
    assert describe_placement(small, small, set()) == "", "less than half of all"


def test_an_instruction_goes_as_far_as_it_surely_does() -> None:
    """Behind a jump lies what is never executed, and moves."""

    def jumping(start: int, behind: str) -> dict[int, bytes]:
        code = bytes.fromhex("eb06" + behind + "c3") + bytes(16)
        return {start: code, start + 8: code[8:]}

    control, treatment = jumping(0x1000, "488d05112233"), jumping(0x2000, "488d05445566")
    assert "is the same" in placed(control, treatment)
