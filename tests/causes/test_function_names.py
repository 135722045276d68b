"""Names of functions: how one is shortened, and which are of Python's interpreter."""

import pytest

from opduel.causes.function_names import bare, is_of_the_interpreter


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("sort", "sort"),
        ("numpy.core.sort", "numpy.core.sort"),
        ("int quicksort_<npy::int_tag, int>(int*, long)", "quicksort_<npy::int_tag, int>"),
        ("void a::b<c::d>(e<f>*, double) const", "a::b<c::d>"),
        ("void a::(anonymous namespace)::b<(anonymous namespace)::c>(float*, int)", "a::b<c>"),
        ("int f<aaaaaaaaaaaaaaaaaaaaaaaa, bbbbbbb>(x) [clone .isra.0]", "f<...>"),
        ("(all else)", "(all else)"),
        ("libblas.so (no symbols)", "libblas.so (no symbols)"),
    ],
)
def test_a_name_is_short(name: str, expected: str) -> None:
    assert bare(name) == expected


@pytest.mark.parametrize(
    ("name", "where", "is_one"),
    [
        ("_PyEval_EvalFrameDefault", "/tmp/python-build/Python-3.11.7/Python/ceval.c:1630", True),
        ("insertdict", "Objects/dictobject.c:361", True),
        ("_PyObject_Malloc", "libpython3.11.so.1.0", True),
        ("PyObject_Call", "", True),
        ("PyArray_NewFromDescr_int", "_multiarray_umath.cpython-311-x86_64-linux-gnu.so", False),
        ("PyArray_Scalar", "numpy/core/src/multiarray/scalarapi.c:575", False),
        ("introselect", "", False),
    ],
)
def test_which_functions_are_the_interpreters(name: str, where: str, is_one: bool) -> None:
    assert is_of_the_interpreter(name, where) == is_one
