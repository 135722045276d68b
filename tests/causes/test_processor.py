"""What is said of vectors and of branches beside the cause: where it is much, and only of what differs."""

from dataclasses import replace
from functools import partial

import pytest
import sentences
from made_samples import a_case
from sentences import examined

from opduel.causes.attribution.shares import examine
from opduel.causes.wording.processor import SAME_WORK
from opduel.records import Comparison
from opduel.records.cause import CODE_OF, ONE_BY_ONE, VECTORS, Examination, Part

# A call of 100 us that takes 20 us now.
FASTER = replace(
    Comparison.without_figures(a_case("where", 0.02), "improved"), ratio=0.2, ci=(0.19, 0.21), control=100_000.0,
    treatment=20_000.0,
)  # fmt: skip
KERNEL = f"{CODE_OF}lib::Where<float>"


def native(
    before: str, after: str, amounts: tuple[float, float] = (100_000, 40_000), other_amount: float = 0
) -> Examination:
    control, treatment = (
        {KERNEL: Part(amount, implementation=implementation), "rest": Part(other_amount)}
        for amount, implementation in zip(amounts, (before, after), strict=True)
    )
    return examined("native functions", "instructions", control, treatment)


def branches(control: float, treatment: float) -> Examination:
    return examined(
        "mispredicted branches", "count", {KERNEL: Part(control), "f": Part(2)}, {KERNEL: Part(treatment), "f": Part(2)}
    )


PYTHON = examined("Python functions", "ns", {"run": Part(100_000, 1)}, {"run": Part(20_000, 1)})


sentence = partial(sentences.sentence, comparison=FASTER)


def test_a_function_that_works_on_vectors_now_and_mispredicts_no_branches() -> None:
    words = sentence(PYTHON, native(ONE_BY_ONE, f"{VECTORS}16 bytes"), branches(6500.0, 2.0))
    assert words == (
        f"run accounts for 100 % of the time saved; in native code, {KERNEL} accounts for 100 % of the instructions "
        f"saved; {KERNEL} works on vectors of 16 bytes, where it was single elements; 6,498 fewer branches are "
        f"mispredicted per call, 100 % of them in {KERNEL}"
    )


@pytest.mark.parametrize(
    ("before", "after", "words"),
    [
        (f"{VECTORS}16 bytes", f"{VECTORS}32 bytes", "works on vectors of 32 bytes, where it was vectors of 16 bytes"),
        (f"{VECTORS}16 bytes", ONE_BY_ONE, "works on single elements, where it was vectors of 16 bytes"),
        (ONE_BY_ONE, ONE_BY_ONE, ""),
        ("", f"{VECTORS}16 bytes", ""),
    ],
)
def test_vectors_are_said_where_both_sides_are_clear_and_differ(before: str, after: str, words: str) -> None:
    explanation = sentence(PYTHON, native(before, after))
    assert (words in explanation) if words else ("works on" not in explanation)
    assert "whose" not in explanation


def test_of_functions_that_are_counted_as_one_nothing_is_said_of_vectors() -> None:
    """What is left of the kernel is scalar; the rest of it, which is on vectors as before, has another name."""
    control = {KERNEL: Part(100_000.0, implementation=f"{VECTORS}16 bytes"), "f": Part(10.0)}
    inlined = Part(90_000.0, implementation=f"{VECTORS}16 bytes", callers={KERNEL: 1.0})
    treatment = {KERNEL: Part(2000.0, implementation=ONE_BY_ONE), "run_rows": inlined, "f": Part(10.0)}
    examination = examined("native functions", "instructions", control, treatment)
    assert any(candidate.merged for candidate in examination.candidates)
    assert "works on" not in sentence(PYTHON, examination)


def test_too_few_process_pairs_say_nothing_of_vectors() -> None:
    control = {KERNEL: Part(9e4, implementation=ONE_BY_ONE)}
    few = [{"control": control, "treatment": {KERNEL: Part(2e4, implementation=f"{VECTORS}16 bytes")}}]
    assert "works on" not in sentence(PYTHON, examine("native functions", "instructions", few * 2))


def test_a_small_function_is_no_matter() -> None:
    small = native(ONE_BY_ONE, f"{VECTORS}16 bytes", (100.0, 40.0), other_amount=100_000.0)
    assert "works on" not in sentence(PYTHON, small)


def test_branches_are_said_where_they_cost_a_good_part_of_the_change() -> None:
    assert "mispredicted" not in sentence(PYTHON, branches(2600.0, 2.0)), "8 us at most of 80"
    assert "mispredicted" not in sentence(PYTHON, branches(2.0, 6500.0)), "more of them make no call faster"
    assert sentence(PYTHON, branches(2700.0, 2.0)).endswith(f"; 2,698 fewer {said_of_the_kernel()}")


def said_of_the_kernel() -> str:
    return f"branches are mispredicted per call, 100 % of them in {KERNEL}"


def test_as_much_work_as_before_is_said() -> None:
    words = "run accounts for 100 % of the time saved"
    same = native(ONE_BY_ONE, ONE_BY_ONE, (100_000.0, 100_020.0))
    assert (
        sentence(PYTHON, same) == f"{words}; native code executes as many instructions as before, in the same functions"
    )
    moved = examined(
        "native functions", "instructions", {"f": Part(50.0), "g": Part(50.0)}, {"f": Part(60.0), "g": Part(40.2)}
    )
    assert sentence(PYTHON, moved) == words, "as many, in others"
    assert sentence(PYTHON, native(ONE_BY_ONE, ONE_BY_ONE, (100_000.0, 120_000.0))) == words


def test_of_more_instructions_in_less_time_branches_are_what_is_left() -> None:
    """Nothing else explains it: a loop without a branch executes more, and is faster."""
    more = native(ONE_BY_ONE, ONE_BY_ONE, (100_000.0, 120_000.0))
    assert sentence(more, branches(6500.0, 0.0)) == (
        f"6,500 fewer {said_of_the_kernel()}; its share of the time is open"
    )
    assert sentence(more).startswith("not explained: instructions by function grew by 20 % although time fell by 80 %")


def test_shares_above_all_with_nothing_named_on_the_other_side_are_no_exchange() -> None:
    """Two functions make up for more than all of it, against thirty that are too small to be named."""
    small_parts = {f"h{number}": (Part(10.0), Part(1500.0)) for number in range(30)}
    control = {"f": Part(100_000.0), "g": Part(60_000.0), **{name: sides[0] for name, sides in small_parts.items()}}
    treatment = {"f": Part(10_000.0), "g": Part(20_000.0), **{name: sides[1] for name, sides in small_parts.items()}}
    words = "run accounts for 100 % of the time saved; in native code, f accounts for 106 % of the instructions saved"
    assert sentence(PYTHON, examined("native functions", "instructions", control, treatment)) == words


COMPILERS = {"liba.so": "GCC 14.2.1, before GCC 12.2.1", "": "GCC 14.2.1, before GCC 12.2.1"}


def test_another_compiler_of_the_library_is_said_where_the_sentence_names_its_code() -> None:
    def of(where: str) -> Examination:
        control, treatment = ({KERNEL: Part(amount, where=where)} for amount in (100_000, 20_000))
        return examined("native functions", "instructions", control, treatment)

    def sentence_with(examinations: list[Examination], compilers: dict[str, str] = COMPILERS) -> bool:
        return sentence(*examinations, compilers=compilers).endswith("; compiled by GCC 14.2.1, before GCC 12.2.1")

    assert sentence_with([of("liba.so")])
    assert sentence_with([PYTHON, of("liba.so")]), "beside a Python function"
    assert sentence_with([of("src/pad.cc")]), "a source file is taken for the framework's"
    assert not sentence_with([of("liba.so")], {})
    assert not sentence_with([of("libc.so.6")]), "which another compiler did not compile"
    assert not sentence_with([of("src/pad.cc")], {"liba.so": COMPILERS["liba.so"]})
    assert not sentence_with([PYTHON]), "no native code is named"
    unnamed = examined(
        "native functions", "instructions", *({"un": Part(n, where="liba.so")} for n in (100_000, 99_000))
    )
    assert not sentence_with([PYTHON, unnamed]), "only a part of another name"


def test_another_compiler_is_said_where_instructions_are_as_many() -> None:
    same = native(ONE_BY_ONE, ONE_BY_ONE, (100_000, 100_000))
    words = sentence(PYTHON, same, compilers=COMPILERS)
    assert words.endswith(f"{SAME_WORK}; compiled by GCC 14.2.1, before GCC 12.2.1")


def placed(words: str) -> Examination:
    return Examination("code placement", "", 3, note=words)


MOVED = "the machine code of lib::Where is the same, 40 bytes into a line of 64 where it was 8"


def test_where_code_lies_is_said_where_as_much_is_executed() -> None:
    words = f"run accounts for 100 % of the time saved; {SAME_WORK}; {MOVED}"
    same = native(ONE_BY_ONE, ONE_BY_ONE, (100_000.0, 100_020.0))
    assert sentence(PYTHON, same, placed(MOVED)) == words
    assert MOVED not in sentence(PYTHON, native(ONE_BY_ONE, ONE_BY_ONE), placed(MOVED))


def test_where_code_lies_is_said_beside_waiting_and_where_nothing_else_explains_the_change() -> None:
    same = native(ONE_BY_ONE, ONE_BY_ONE, (100_000.0, 100_020.0))
    assert sentence(same, placed(MOVED)) == (f"perhaps where code lies: {SAME_WORK}; {MOVED}")
    for note in (
        "the machine code of f is the same, 8 bytes into a line of 64 as before",
        "the machine code of f is another",
    ):
        assert sentence(same, placed(note)) == f"not explained by what is executed: {SAME_WORK}; {note}"
    assert sentence(same) == f"not explained by what is executed: {SAME_WORK}"
    waiting = examined("resources", "ns", {"waiting": Part(100_000.0)}, {"waiting": Part(20_000.0)})
    assert sentence(waiting, same, placed(MOVED)) == (
        f"waiting accounts for 100 % of the time saved; {SAME_WORK}; {MOVED}"
    )


def test_what_other_sources_say_stays_beside_where_code_lies() -> None:
    same = native(ONE_BY_ONE, ONE_BY_ONE, (100_000.0, 100_020.0))
    slower = examined("Python functions", "ns", {"run": Part(100_000)}, {"run": Part(110_000)})
    assert sentence(same, placed(MOVED), slower) == (
        f"perhaps where code lies: {SAME_WORK}; {MOVED}; time by function grew by 10 % although time fell by 80 %"
    )


def test_what_is_not_clear_is_left_out_beside_where_code_lies() -> None:
    same = native(ONE_BY_ONE, ONE_BY_ONE, (100_000.0, 100_020.0))
    noisy = [{"control": {"f": Part(100.0)}, "treatment": {"f": Part(amount)}} for amount in (150.0, 90.0, 110.0)]
    unclear = examine("Python functions", "ns", noisy, "", (-30.0, -20.0, -10.0))
    assert sentence(same, placed(MOVED), unclear) == f"perhaps where code lies: {SAME_WORK}; {MOVED}"


def test_a_change_of_instructions_is_no_matter_of_where_code_lies() -> None:
    fewer = replace(FASTER, metric="instructions", unit="instructions")
    same = native(ONE_BY_ONE, ONE_BY_ONE, (100_000.0, 100_020.0))
    assert MOVED not in sentence(same, placed(MOVED), comparison=fewer)


def test_branches_of_the_interpreter_are_no_matter() -> None:
    for where, is_said in (("libpython3.11.so.1.0", False), ("_multiarray_umath.so", True)):
        examination = examined("mispredicted branches", "count", {"_PyAdd": Part(6500, where=where)}, {})
        assert ("mispredicted" in sentence(PYTHON, examination)) is is_said
