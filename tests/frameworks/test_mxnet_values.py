"""The values of tensors, and temporary files, without MXNet: values within what is asked for and their dtype holds."""

import os
from pathlib import Path
from typing import Any

import numpy
import pytest
from adaptor_modules import COMMON, load
from hypothesis import given
from hypothesis import strategies as st

VALUES = load(COMMON / "opduel_common" / "values.py")
INTEGERS = ["int8", "uint8", "int32", "int64", "bool"]


def make(init: str | None, dtype: str, low: Any = None, high: Any = None, count: int = 500) -> Any:
    return VALUES.make_array(numpy.random.RandomState(1), (count,), dtype, init, low, high)


@pytest.mark.parametrize("dtype", INTEGERS)
def test_a_divisor_of_whole_numbers_is_never_zero(dtype: str) -> None:
    assert set(make("uniform", dtype, 0.5, 2.0).tolist()) == {1}


def test_whole_numbers_are_those_within_the_range() -> None:
    assert set(make("uniform", "int32", 0.1, 3.0).tolist()) == {1, 2}
    assert set(make("uniform", "int32", -0.9, 0.9).tolist()) == {0}
    assert set(make("uniform", "uint8", -3.0, 2.0).tolist()) == {0, 1}
    assert make("randint", "int8", 0, 1024).min() >= 0, "an index stays an index"
    assert make("randint", "float16", 0, 10_000).max() <= 2048, "beyond, float16 has not all of them"
    assert make("normal", "uint8").max() < 10, "a negative number isn't wrapped into a large one"
    assert set(make(None, "bool").tolist()) == {False, True}


@given(st.sampled_from(INTEGERS), st.floats(-1e3, 1e3), st.floats(0.01, 1e3))
def test_every_number_lies_in_the_range_or_there_is_none(dtype: str, low: float, width: float) -> None:
    smallest, largest = VALUES.whole_range(dtype)
    high = low + width
    if not any(low <= number < high and smallest <= number <= largest for number in range(int(low) - 1, int(high) + 2)):
        with pytest.raises(ValueError, match=f"no {dtype} is at least"):
            make("uniform", dtype, low, high)
        return
    values = make("uniform", dtype, low, high).astype(float)
    assert low <= values.min()
    assert values.max() < high


def test_floats_are_what_they_were() -> None:
    """The values of committed histories' cases stay the same."""
    random = numpy.random.RandomState(1)
    assert make("uniform", "float64", 0.5, 2.0, 3).tolist() == random.uniform(0.5, 2.0, size=3).tolist()
    random = numpy.random.RandomState(1)
    assert make("randint", "float32", 0, 1000, 3).tolist() == random.randint(0, 1000, size=3).tolist()
    random = numpy.random.RandomState(1)
    assert make(None, "int32", 1, 100, 3).tolist() == random.randint(1, 100, size=3).tolist()


def test_a_temporary_file_has_no_name_that_could_be_left_behind() -> None:
    path = VALUES.file_holding(b"abc")
    assert Path(path).read_bytes() == b"abc"
    Path(path).write_bytes(b"d")
    assert Path(path).read_bytes() == b"d", "written again by each call"
    assert os.fstat(path.file.fileno()).st_nlink == 0
    assert Path(VALUES.file_holding(None)).read_bytes() == b""
    assert Path(VALUES.file_holding(lambda where: Path(where).write_bytes(b"x"))).read_bytes() == b"x"
