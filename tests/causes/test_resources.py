"""What a cause's sentence says of the memory that a case asks for, and when it is looked at."""

from dataclasses import replace

import pytest
from sentences import GROWN, examined, sentence
from test_sentence import NATIVE, PROD

from opduel.causes.wording.processor import SAME_WORK
from opduel.causes.wording.resources import by_allocations, concerns_memory
from opduel.records.cause import Examination, Part

SAME = examined("native functions", "instructions", {"f": Part(100)}, {"f": Part(100)})
FAULTS = examined("resources", "count", {"page faults": Part(7)}, {"page faults": Part(520)})
KERNEL = examined(
    "resources", "ns", {"user code": Part(90), "kernel": Part(10)}, {"user code": Part(95), "kernel": Part(17)}
)
MIB = 2.0**20


def allocated(control: dict[str, Part], treatment: dict[str, Part]) -> Examination:
    return examined("allocations", "bytes", control, treatment)


def mapped(control: dict[str, Part], treatment: dict[str, Part]) -> Examination:
    return examined("mapped memory", "bytes", control, treatment)


NEW = allocated({"g": Part(500, 2)}, {"g": Part(500, 2), "foo": Part(4 * MIB, 1)})


def test_a_block_that_is_new_is_said_beside_page_faults() -> None:
    faults = "page faults: 513 more per call, while instructions are the same"
    assert sentence(SAME, FAULTS, NEW) == f"{faults}; 1 allocation of 4 MiB per call, new, by foo"
    assert sentence(SAME, FAULTS, mapped({}, {"smooth": Part(392 * 1024)})) == (
        f"{faults}; 392 KiB per call mapped by smooth, new"
    )


def test_it_is_said_beside_the_kernel_s_part_and_beside_nothing() -> None:
    python = "2 calls of numpy.prod per call, new (fromnumeric.py:2955), account for 100 % of the added time"
    assert sentence(PROD, KERNEL, NEW) == (
        f"{python}; 58 % of the added time is the kernel's; 1 allocation of 4 MiB per call, new, by foo"
    )
    assert sentence(SAME, NEW) == (
        f"not explained by what is executed: {SAME_WORK}; 1 allocation of 4 MiB per call, new, by foo"
    )


def test_memory_says_nothing_where_instructions_explain_the_change() -> None:
    assert "allocation" not in sentence(NATIVE, NEW)
    assert "allocation" not in sentence(PROD, NEW)


@pytest.mark.parametrize(
    ("control", "treatment", "more", "words"),
    [
        ({}, {"f": Part(3 * MIB, 3)}, True, "3 allocations of 3 MiB together per call, new, by f"),
        ({}, {"f": Part(3 * MIB, 2.5)}, True, "allocations of 3 MiB per call, new, by f"),
        ({"f": Part(MIB, 1)}, {"f": Part(2 * MIB, 1)}, True, "f allocates 2 MiB per call where it was 1 MiB"),
        ({"f": Part(1.5 * MIB, 1)}, {}, False, "1 allocation of 1.5 MiB per call, gone, by f"),
        ({"f": Part(1.5 * MIB, 1)}, {}, True, ""),  # what is gone makes nothing slower
        ({}, {"f": Part(4000, 1)}, True, ""),  # less than a page
        ({}, {"f": Part(MIB, 0.05)}, True, ""),  # once in twenty calls
        ({"f": Part(MIB, 1)}, {"f": Part(MIB, 1)}, True, ""),
    ],
)
def test_what_is_allocated_in_words(
    control: dict[str, Part], treatment: dict[str, Part], more: bool, words: str
) -> None:
    assert by_allocations([allocated(control, treatment)], more) == (f"; {words}" if words else "")


@pytest.mark.parametrize(
    ("control", "treatment", "words"),
    [
        ({"f": Part(MIB)}, {"f": Part(3 * MIB)}, "; f maps 3 MiB per call where it was 1 MiB"),
        ({}, {"f": Part(5 * 2.0**30)}, "; 5 GiB per call mapped by f, new"),
        ({}, {"_PyObject_Arena": Part(MIB)}, ""),  # for Python's objects, once in many calls
    ],
)
def test_what_is_mapped_in_words(control: dict[str, Part], treatment: dict[str, Part], words: str) -> None:
    assert by_allocations([mapped(control, treatment)], True) == words


def test_memory_that_is_mapped_is_said_only_where_nothing_is_allocated() -> None:
    other = mapped({}, {"thread_start": Part(8 * MIB)})
    assert by_allocations([NEW, other], True) == "; 1 allocation of 4 MiB per call, new, by foo"


def test_cache_misses_are_said_where_they_can_make_a_good_part_of_the_change() -> None:
    missed = examined("simulated cache misses", "count", {"sums": Part(131_000)}, {"sums": Part(1_048_700)})
    slow = replace(GROWN, control=1e6, treatment=1.12e6)
    unexplained = f"not explained by what is executed: {SAME_WORK}"
    words = f"{unexplained}; simulated cache misses: 918,000 more per call, in sums"
    assert sentence(SAME, missed, comparison=slow) == words
    long = replace(GROWN, control=1e10, treatment=1.12e10)  # a hundred times as long as all of them take at most
    assert sentence(SAME, missed, comparison=long) == unexplained
    fewer = replace(slow, ratio=0.9, verdict="improved")
    assert "misses" not in sentence(SAME, missed, comparison=fewer)
    assert "misses" not in sentence(NATIVE, missed, comparison=slow), "instructions explain it"


def test_when_memory_is_looked_at() -> None:
    few = examined("native functions", "instructions", {"f": Part(100)}, {"f": Part(104)})
    fewer = examined("native functions", "instructions", {"f": Part(100)}, {"f": Part(90)})
    assert concerns_memory([SAME], 1.12)
    assert concerns_memory([few], 1.12)
    assert concerns_memory([fewer], 1.12), "less is executed, and it takes longer"
    assert not concerns_memory([NATIVE], 1.12)
    assert not concerns_memory([fewer], 0.9)
    assert concerns_memory([NATIVE, KERNEL], 1.12)
    assert concerns_memory([NATIVE, FAULTS], 1.12)
    assert not concerns_memory([], 1.12), "valgrind could not look at the case"
    assert not concerns_memory([SAME], 1.0)


def test_a_case_that_is_counted_in_instructions_is_not_explained_by_memory_alone() -> None:
    words = sentence(NEW, comparison=replace(GROWN, metric="instructions"))
    assert words == "not explained: nothing could be looked at"
