"""Specs whose operators are functions of any package: dotted names, and calls that make arguments."""

import json
from typing import Any

import jsonschema
import pytest

from opduel.harness.specs import expand_cases, validate
from opduel.harness.specs.schema import SCHEMA_FILE
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
    jsonschema.validate(data, json.loads(SCHEMA_FILE.read_text(encoding="utf-8")))


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
    with pytest.raises(jsonschema.ValidationError):
        jsonschema.validate(data, json.loads(SCHEMA_FILE.read_text(encoding="utf-8")))


def test_only_one_kind_of_framework_takes_any_name() -> None:
    """In the schema, too, for editors."""
    schema = json.loads(SCHEMA_FILE.read_text(encoding="utf-8"))
    with pytest.raises(jsonschema.ValidationError):
        jsonschema.validate(document("os.system", {"command": "true"}, "mxnet"), schema)
