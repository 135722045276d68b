"""Specs whose operators are functions of any package: dotted names, and calls that make arguments."""

from typing import Any

import numpy
import pytest
from schema_validator import VALIDATOR

from opduel.harness.specs import Settings, expand_cases, validate
from opduel.records import UsageError

CALL = {
    "call": "numpy.random.rand",
    "args": [3, 2.5, "x", True, [4], {"call": "numpy.ones"}],
    "kwargs": {"dtype": "f4"},
}


FUNCTION = {"function": "numpy.sum"}


def document(operator: str, inputs: dict[str, Any], framework: str = "python", **test: Any) -> dict[str, Any]:
    return {"framework": framework, "tests": [{"operator": operator, "inputs": inputs, **test}]}


@pytest.mark.parametrize(
    ("operator", "inputs"),
    [
        ("numpy.sort", {"a": [3], "kind": "stable"}),
        ("numpy.load", {"args": [CALL]}),  # another framework's words for what isn't an operator
        ("pandas.DataFrame.groupby", {"self": CALL, "by": "a"}),
        (
            "scipy.optimize.minimize",
            {"fun": FUNCTION, "x0": {"call": "a.b", "kwargs": {"f": FUNCTION, "function": "x"}}},
        ),
        ("scipy.interpolate.CubicSpline.__call__", {"self": CALL, "x": [3]}),
    ],
)
def test_dotted_names_and_calls(operator: str, inputs: dict[str, Any]) -> None:
    data = document(operator, inputs)
    (case,) = expand_cases(validate(data))
    assert (case.operator, case.inputs) == (operator, inputs)  # as written
    VALIDATOR.validate(data)


def test_sizes_in_a_call_are_drawn() -> None:
    """Those of shapes; a text among a call's arguments is that text, whatever the test draws."""
    call = {
        "call": "a.b",
        "args": ["n", ["n"], {"size": "n"}],
        "kwargs": {"c": {"call": "a.d", "args": [["n"]]}, "e": "n"},
    }
    (case,) = expand_cases(validate(document("numpy.sort", {"a": ["n"], "b": call}, random={"n": [1, 9]})))
    (size,) = case.inputs["a"]
    inner = {"call": "a.d", "args": [[size]]}
    assert case.inputs["b"] == {"call": "a.b", "args": ["n", [size], size], "kwargs": {"c": inner, "e": "n"}}
    with pytest.raises(UsageError, match=r"tests\[0\].inputs.b.args\[1\]\[0\] is 'n': use an integer"):
        validate(document("numpy.sort", {"b": call}))


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (document("sort", {"a": [3]}), r"tests\[0\].operator is 'sort': use a function's dotted name"),
        (document("numpy.", {"a": [3]}), r"tests\[0\].operator is 'numpy.': use a function's dotted name"),
        (document("numpy.a b", {"a": [3]}), r"tests\[0\].operator is 'numpy.a b': use a function's dotted name"),
        (document("numpy.x.__class__", {"a": [3]}), r"tests\[0\].operator is 'numpy.x.__class__'"),
        (document("numpy.sort", {"a": {"call": "ones"}}), r"tests\[0\].inputs.a.call is 'ones': use a function's"),
        (document("numpy.sort", {"a": {"call": "a.b", "arg": []}}), r"a.arg is not a field: did you mean args"),
        (document("numpy.sort", {"a": {"call": "a.b", "kwargs": {"x y": 1}}}), r"use the name of another argument"),
        (document("numpy.sort", {"a": [3]}, "mxnet"), r"tests\[0\].operator is 'numpy.sort': use an operator's name"),
        (document("nd.exp", {"data": CALL}, "mxnet"), r"tests\[0\].inputs.data is a call, which needs .* python"),
        (document("nd.exp", {"args": [CALL]}, "mxnet"), r"tests\[0\].inputs.args\[0\] is a call"),
        (document("nd.exp", {"data": [CALL]}, "mxnet"), r"tests\[0\].inputs.data\[0\] is a call"),
        (
            document("nd.x", {"body": FUNCTION}, "mxnet"),
            r"inputs.body.function is 'numpy.sum': use the name of a function",
        ),
        (
            document("numpy.x", {"f": {"function": "softmax"}}),
            r"inputs.f.function is 'softmax': use a function's dotted",
        ),
        (
            document("numpy.x", {"a": {"call": "a.b", "args": [{"function": "f"}]}}),
            r"inputs.a.args\[0\].function is 'f'",
        ),
    ],
)
def test_what_is_refused(data: dict[str, Any], message: str) -> None:
    with pytest.raises(UsageError, match=message):
        validate(data)


A, B = {"a": [1000]}, {"a": {"shape": [60, 60], "init": "positive_definite"}}


@pytest.mark.parametrize(
    ("operator", "inputs", "name"),
    [
        ("numpy.sort", A, "sort(1000, float64)"),
        ("numpy.sort", {**A, "kind": "stable", "case": {"dtype": "int32"}}, "sort(1000, kind=stable, int32)"),
        ("numpy.sort", {**A, "case": {"dtype": "double"}}, "sort(1000, float64)"),
        ("numpy.sort", {**A, "case": {"dtype": "U10"}}, "sort(1000, U10)"),
        ("numpy.sort", {**A, "case": {"identifier": "mine"}}, "mine"),
        ("numpy.sort", {**A, "case": {"identifier": "mine_{SHAPE}", "dtype": "complex128"}}, "mine_1000/complex128"),
        ("numpy.linalg.inv", B, "inv(60x60 positive_definite, float64)"),
        ("numpy.exp", {"args": [[3], {"shape": [3], "dtype": "bool"}]}, "exp(3, 3 bool, float64)"),
        ("numpy.exp", {"args": [{"shape": [3], "dtype": "complex64"}]}, "exp(3 complex64)"),
        ("numpy.sum", {"a": {"shape": [9], "low": 0, "high": 5.5}, "axis": None}, "sum(9 0..5.5, axis=None, float64)"),
        ("numpy.concatenate", {"args": [{"tuple": [[5], []]}]}, "concatenate((5, scalar), float64)"),
        ("numpy.einsum", {"args": [{"value": "i/j,j"}, [2, 3], [3]]}, "einsum(i_j,j, 2x3, 3, float64)"),
        ("numpy.fft.fft", {"a": {"call": "numpy.random.rand", "args": [8192]}}, "fft(rand(8192))"),
        ("numpy.ndarray.__add__", {"self": [2], "value": {"value": [1, 2]}}, "add(2, value=[1,2], float64)"),
        (
            "scipy.optimize.minimize",
            {"fun": FUNCTION, "x0": {"call": "a.b", "kwargs": {"c": 1}}},
            "minimize(sum, b(c=1))",
        ),
        (
            "scipy.sparse.linalg.cg",
            {"args": [{"shape": [9, 9], "sparse": "csr_array", "init": "positive_definite", "density": 0.01}, [9]]},
            "cg(9x9 csr_array positive_definite density=0.01, 9, float64)",
        ),
        ("a.f", {"x": "y" * 200}, "f(x=" + "y" * 83 + "-71dbf6646d14"),
    ],
)
def test_a_case_is_named_after_its_inputs(operator: str, inputs: dict[str, Any], name: str) -> None:
    data = document(operator, inputs)
    VALIDATOR.validate(data)
    (case,) = expand_cases(validate(data), metrics=["time"])
    assert case.id == name
    assert (case.direction, case.context, case.mode) == ("", "", "")
    (memory,) = expand_cases(validate(data), metrics=["memory"])
    assert (memory.id, memory.time_id) == (f"{name}/memory", name)


def test_another_case_renames_none() -> None:
    inputs = [{"a": [10]}, {"a": [20]}, {"a": [30]}]
    names = [case.id for case in expand_cases(validate(document("numpy.sort", inputs)))]  # type: ignore[arg-type]
    assert names == [f"sort({size}, float64)" for size in (10, 20, 30)]
    more = expand_cases(validate(document("numpy.sort", [{"a": [5]}, *inputs])))  # type: ignore[arg-type]
    assert {case.id for case in more} == {*names, "sort(5, float64)"}
    alike = r"tests\[0\].inputs\[1\] and .* the same id, sort\(10, float64\): leave one out, or give one an identifier"
    with pytest.raises(UsageError, match=alike):
        expand_cases(validate(document("numpy.sort", [{"a": [10]}] * 2)))  # type: ignore[arg-type]


@pytest.mark.parametrize(
    "dtype", ["complex128", "bool", "int", "uint16", "float16", ">f8", "U10", "S3", "O", "datetime64[s]", "m8", "f8,i4"]
)
def test_every_dtype_of_numpy_is_one_of_an_array(dtype: str) -> None:
    inputs = {"a": [3], "b": {"shape": [3], "dtype": dtype}}
    for data in (document("a.b", inputs, dtype=dtype), document("a.b", {**inputs, "case": {"dtype": dtype}})):
        VALIDATOR.validate(data)
        assert numpy.dtype(expand_cases(validate(data))[0].dtype) == numpy.dtype(dtype)


def test_the_dtype_of_the_command_line_is_for_arrays_without_one() -> None:
    inputs = [{"a": [3]}, {"a": {"call": "numpy.ones", "args": [3]}}, {"a": {"shape": [3], "dtype": "int8"}}]
    spec = validate(document("numpy.sort", inputs))  # type: ignore[arg-type]
    cases = expand_cases(spec, settings=Settings(dtype="complex64"))
    assert [case.id for case in cases] == ["sort(3, complex64)", "sort(ones(3))", "sort(3 int8)"]
    with pytest.raises(UsageError, match=r"--dtype is 'bfloat16': use a dtype of NumPy's, such as float64"):
        expand_cases(spec, settings=Settings(dtype="bfloat16"))
    with pytest.raises(UsageError, match=r"--ctx: numpy.sort has none: leave it out"):
        expand_cases(spec, settings=Settings(context="gpu"))


@pytest.mark.parametrize(
    ("inputs", "test", "message"),
    [
        (A, {"dtype": "float31"}, r"tests\[0\].dtype is 'float31': use a dtype of NumPy's"),
        (A, {"dtype": "V8"}, r"tests\[0\].dtype is 'V8': use a dtype of NumPy's"),
        (A, {"dtype": "bfloat16"}, r"tests\[0\].dtype is 'bfloat16': use a dtype of NumPy's"),
        ({"a": {"shape": [2], "dtype": "x"}}, {}, r"tests\[0\].inputs.a.dtype is 'x'"),
        ({"a": {"call": "a.b"}}, {"dtype": "int8"}, r"tests\[0\].inputs has the dtype int8, and no array that would"),
        (A, {"run_backward": True}, r"tests\[0\].inputs has run_backward, which is not for numpy.sort: leave it out"),
        (A, {"mode": "hybridized"}, r"tests\[0\].inputs has mode, which is not for numpy.sort"),
        (A, {"identifier": "x_{DIRECTION}"}, r"tests\[0\].inputs has no direction for {DIRECTION} in the identifier"),
        ({"a": {"shape": [2, 2], "sparse": "csr"}}, {}, r"inputs.a.sparse is 'csr': use one of bsr_array, "),
        ({"a": {"shape": [2, 2], "stype": "csr"}}, {}, r"inputs.a.stype is not for arrays of NumPy: .* use \"sparse\""),
    ],
)
def test_what_arrays_can_not_be(inputs: dict[str, Any], test: dict[str, Any], message: str) -> None:
    with pytest.raises(UsageError, match=message):
        expand_cases(validate(document("numpy.sort", inputs, **test)))
