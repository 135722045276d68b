"""When numbers count as equal, and what is reported those that don't."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays

import opduel.comparator.allclose
from opduel.comparator.allclose import RELATIVE_BY_SIZE, ROUNDINGS, compare, usual_size
from opduel.records import Tolerance

ANY = Tolerance()
NAN, INF = math.nan, math.inf
FLOATS = st.sampled_from([np.float16, np.float32, np.float64])


@given(arrays.arrays(FLOATS, arrays.array_shapes(min_dims=0, min_side=0, max_side=6)))
def test_anything_is_equal_to_itself(a: np.ndarray) -> None:
    same = compare(a, a.copy(), ANY)
    assert same.close
    assert same.figure == 0


@given(
    arrays.arrays(np.float64, st.integers(1, 40), elements=st.floats(-1e3, 1e3)),
    st.integers(0, 39),
    st.floats(1.5, 1e6),
)
def test_the_first_element_beyond_the_tolerance_is_named(a: np.ndarray, place: int, by: float) -> None:
    place %= len(a)
    b = a.copy()
    relative, absolute = (
        RELATIVE_BY_SIZE[8],
        max(RELATIVE_BY_SIZE[8] * usual_size(a), ROUNDINGS * np.finfo(np.float64).eps),
    )
    b[place:] += by * (absolute + relative * np.abs(a[place:]))
    closeness = compare(a, b, ANY)
    assert closeness.first == (place,)
    assert closeness.different == len(a) - place
    assert closeness.values == (a[place], b[place])
    assert closeness.figure == pytest.approx(by, rel=1e-3)


def test_a_dtype_that_numpy_lacks_has_its_own_tolerance() -> None:
    """Beyond what a float16 holds; one step of bfloat16 apart, and four."""
    a = np.full(1000, 2.0**20, dtype=np.float32)
    near, far = a * np.float32(1 + 2**-7), a * np.float32(1 + 2**-5)
    assert compare(a, near, ANY, "bfloat16").close
    assert not compare(a, near, ANY).close
    assert not compare(a, far + a, ANY, "bfloat16").close
    assert compare(a, near, Tolerance(relative=0.0, absolute=1.0), "bfloat16").different == 1000


def test_rounding_is_no_difference_but_what_small_numbers_lose_is() -> None:
    """An absolute tolerance of 1e-3, MXNet's own for float32, would see nothing wrong with the last."""
    a = np.full(1000, 1e-3, dtype=np.float32)
    assert compare(a, np.nextafter(a, np.float32(1)), ANY).close
    assert not compare(a, a * np.float32(1.5), ANY).close


def test_cancellation_among_large_numbers_is_no_difference() -> None:
    a, b = (np.array([1e6, -1e6, small], dtype=np.float32) for small in (0.0, 0.25))
    assert compare(a, b, ANY).close


@pytest.mark.parametrize(
    ("a", "b", "close"),
    [(NAN, NAN, True), (INF, INF, True), (-INF, INF, False), (NAN, 1.0, False), (1.0, NAN, False), (1.0, INF, False)],
)
def test_what_is_not_finite_is_equal_only_to_the_same(a: float, b: float, close: bool) -> None:
    closeness = compare(np.array([1.0, a]), np.array([1.0, b]), ANY)
    assert closeness.close == close
    assert closeness.figure == (0 if close else INF)


@pytest.mark.parametrize(
    ("a", "b"),
    [
        (np.array([0, 7], dtype=np.int32), np.array([0, 8], dtype=np.int32)),
        (np.array([1, 0], dtype=np.uint8), np.array([1, 255], dtype=np.uint8)),
        (np.array([0, 2**62], dtype=np.int64), np.array([0, 2**62 + 1], dtype=np.int64)),
        (np.array([True, False]), np.array([True, True])),
    ],
)
def test_whole_numbers_are_equal_or_not(a: np.ndarray, b: np.ndarray) -> None:
    closeness = compare(a, b, ANY)
    assert (closeness.first, closeness.different) == ((1,), 1)
    assert closeness.figure >= 2


def test_a_tolerance_that_is_said_holds() -> None:
    a, b = np.array([10.0]), np.array([10.5])
    assert compare(a, b, Tolerance(absolute=0.6)).close
    assert compare(a, b, Tolerance(relative=0.06)).close
    assert compare(a, b, Tolerance(relative=0.04, absolute=0.0)).figure == pytest.approx(1.25)
    assert compare(np.array([3]), np.array([5]), Tolerance(absolute=2.0)).close


def test_large_arrays_are_looked_at_in_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(opduel.comparator.allclose, "CHUNK", 4)
    a = np.arange(24.0).reshape(2, 3, 4)
    b = a.copy()
    b[1, 0, 2] = b[1, 2, 3] = -1
    closeness = compare(a, b, ANY)
    assert (closeness.first, closeness.different, closeness.values) == ((1, 0, 2), 2, (14.0, -1.0))
    assert usual_size(a.reshape(-1)) == pytest.approx(math.sqrt(np.mean(a**2)))
