"""The processes of a run share their input arrays: which are drawn, which copied, and which not stored."""

import os
from collections.abc import Iterator
from typing import Any

import numpy
import pytest
from adaptor_modules import COMMON, load

MODULE = load(COMMON / "opduel_common" / "shared_arrays.py")
SHAPE, NBYTES = (512, 256), 4 * 512 * 256
ROOM = 14 * NBYTES


class Draws:
    """Draws different numbers each time, and counts."""

    def __init__(self, shape: tuple[int, ...] = SHAPE) -> None:
        self.count, self.shape = 0, shape

    def __call__(self) -> Any:
        self.count += 1
        return numpy.random.default_rng().normal(size=self.shape).astype("float32")


@pytest.fixture
def memory(monkeypatch: pytest.MonkeyPatch) -> Iterator[int]:
    descriptor = os.memfd_create("test")
    monkeypatch.setenv(MODULE.VARIABLE, f"{descriptor},{ROOM}")
    yield descriptor
    os.close(descriptor)


def draw_once(key: str, make: Draws) -> Any:
    return MODULE.shared_array(key, SHAPE, "float32", make)


def test_what_was_drawn_is_copied_afterwards(memory: int) -> None:
    make = Draws()
    array_by_key = {key: draw_once(key, make) for key in "abc"}
    assert make.count == 3
    for key, array in array_by_key.items():
        copy = draw_once(key, make)
        assert numpy.array_equal(copy, array)
        assert not numpy.shares_memory(copy, array)
        copy += 1  # a call may write to its inputs: the next process gets what was drawn
        assert numpy.array_equal(draw_once(key, make), array)
    assert make.count == 3
    assert not numpy.array_equal(array_by_key["a"], array_by_key["b"])


def test_without_memory_everything_is_drawn(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(MODULE.VARIABLE, raising=False)
    make = Draws()
    assert not numpy.array_equal(draw_once("a", make), draw_once("a", make))
    assert make.count == 2


@pytest.mark.parametrize(
    ("shape", "dtype", "drawn_shape"),
    [((16, 16), "float32", (16, 16)), (SHAPE, "float16", SHAPE), ((512, 255), "float32", SHAPE)],
    ids=["small", "another dtype", "another shape"],
)
def test_what_is_small_or_not_as_the_key_says_is_drawn_each_time(
    memory: int, shape: tuple[int, ...], dtype: str, drawn_shape: tuple[int, ...]
) -> None:
    make = Draws(drawn_shape)
    for _ in range(2):
        assert MODULE.shared_array("a", shape, dtype, make).shape == drawn_shape
    assert make.count == 2
    assert os.fstat(memory).st_size == 0


def test_the_memory_is_bounded_and_what_is_in_it_stays(memory: int) -> None:
    make = Draws()
    first = [draw_once(f"{number}", make) for number in range(20)]
    assert os.fstat(memory).st_size <= ROOM
    again = [draw_once(f"{number}", make) for number in range(20)]
    same = [numpy.array_equal(before, after) for before, after in zip(first, again, strict=True)]
    assert same == [True] * 13 + [False] * 7, "fourteen have no room for what is said of them"


def test_a_process_that_ends_in_between_leaves_no_array(memory: int, monkeypatch: pytest.MonkeyPatch) -> None:
    original, make = os.pwrite, Draws()

    def write_half(descriptor: int, content: Any, offset: int) -> int:
        if offset == 0:
            raise KeyboardInterrupt
        return original(descriptor, content[: len(content) // 2] or content, offset)

    with monkeypatch.context() as patch:
        patch.setattr(os, "pwrite", write_half)
        with pytest.raises(KeyboardInterrupt):
            draw_once("a", make)
    assert os.fstat(memory).st_size > NBYTES
    small = Draws((256, 257))  # after which what was left would be taken for another array's head
    second = MODULE.shared_array("b", small.shape, "float32", small)
    third = draw_once("c", make)
    assert (make.count, small.count) == (2, 1)
    assert numpy.array_equal(MODULE.shared_array("b", small.shape, "float32", small), second)
    assert numpy.array_equal(draw_once("c", make), third)
    draw_once("a", make)
    assert (make.count, small.count) == (3, 1)


def test_without_the_file_everything_is_drawn(monkeypatch: pytest.MonkeyPatch) -> None:
    """As in a program that a call starts: it has the variable, and not the file."""
    monkeypatch.setenv(MODULE.VARIABLE, f"999,{ROOM}")
    make = Draws()
    for _ in range(2):
        assert draw_once("a", make).shape == SHAPE
    assert make.count == 2


def test_processes_at_the_same_time_keep_an_array_once(memory: int) -> None:
    children = []
    for _ in range(4):
        if not (pid := os.fork()):
            try:
                make = Draws()
                for number in range(5):
                    draw_once(f"{number}", make)
                os._exit(0)
            finally:
                os._exit(1)
        children.append(pid)
    assert [os.waitpid(pid, 0)[1] for pid in children] == [0] * 4
    assert os.fstat(memory).st_size == 5 * (MODULE.PAGE + NBYTES)
    make = Draws()
    assert all(numpy.array_equal(draw_once(f"{number}", make), draw_once(f"{number}", make)) for number in range(5))
    assert make.count == 0


def test_inputs_are_the_same_with_and_without_it(memory: int, monkeypatch: pytest.MonkeyPatch) -> None:
    from opduel_common.inputs import Inputs

    def make_array(case_id: str, seed: int, size: int, **values: Any) -> Any:
        case = {"id": case_id, "dtype": "float32", "inputs": {"a": {"shape": [size, 512], **values}}}
        return Inputs(case, seed).arguments()[1]["a"]

    requests: list[tuple[tuple[str, int, int], dict[str, Any]]] = [
        (("a", 1, 300), {}),
        (("a", 2, 300), {}),
        (("b", 1, 300), {}),
        (("a", 1, 301), {}),
        (("a", 1, 300), {"dtype": "float64"}),
        (("a", 1, 300), {"init": "uniform"}),
        (("a", 1, 300), {"init": "uniform", "high": 2.0}),
        (("a", 1, 300), {"dtype": "int64"}),
        (("a", 1, 300), {"init": "zeros"}),
    ]
    several = [[make_array(*key, **values) for key, values in requests] for _ in range(2)]
    sizes = [MODULE.PAGE + -(-array.nbytes // MODULE.PAGE) * MODULE.PAGE for array in several[0][:-1]]
    assert -MODULE.PAGE < os.fstat(memory).st_size - sum(sizes) <= 0, "all but the zeros are kept"
    monkeypatch.delenv(MODULE.VARIABLE)
    drawn = [make_array(*key, **values) for key, values in requests]
    for arrays in several:
        assert [array.dtype for array in arrays] == [array.dtype for array in drawn]
        assert all(numpy.array_equal(array, expected) for array, expected in zip(arrays, drawn, strict=True))
