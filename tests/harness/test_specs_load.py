"""Bad specs: the loader names the file, the field and the fix; the JSON Schema refuses them too where it can."""

import copy
import json
from pathlib import Path
from typing import Any

import pytest
from schema_validator import VALIDATOR

from opduel.harness.specs import expand_cases, load_spec
from opduel.records import UsageError

GOOD: dict[str, Any] = {
    "framework": "mxnet",
    "defaults": {"dtype": "float32"},
    "tests": [
        {"identifier": "a_{ID}", "operator": "nd.exp", "inputs": [{"data": [2]}, {"data": [3], "case": {}}]},
        {"operator": "nd.sum", "inputs": {"data": [2, 3], "axis": 0}},
    ],
}
ABSENT = object()
IDENTIFIER_FIX = "use letters, digits, any of _ . + = , @ - and placeholders"
OPERATOR_FIX = "use an operator's name such as nd.Convolution, under nd, np, npx"
SHAPE_FIX = 'write an attribute as {"value": [...]}'

# (where to put it, what to put there, the field named, the fix)
COPY = {"operator": "nd.NDArray.copy", "inputs": {"self": [3]}}
BAD: list[tuple[str, Any, str, str]] = [
    # The file
    ("", [], "the spec", "use an object"),
    ("", 3, "the spec", "use an object"),
    ("framework", ABSENT, "framework", "is missing: add it"),
    ("framework", "caffe2", "framework", "use one of mxnet"),
    ("framework", None, "framework", "is null: leave the field out"),
    ("framework", ["mxnet"], "framework", "use one of mxnet"),
    ("tests", ABSENT, "tests", "is missing: add it"),
    ("tests", [], "tests", "is empty: it needs at least 1"),
    ("tests", {}, "tests", "use a list"),
    ("test", [], "test", "did you mean tests? use $schema, framework, description, defaults, tests, specs"),
    ("description", 3, "description", "use a string"),
    ("defaults", None, "defaults", "is null"),
    ("defaults", [], "defaults", "use an object"),
    ("defaults.repeat", 3, "defaults.repeat", "use dtype, context, metric, run_backward"),
    ("defaults.identifier", "x", "defaults.identifier", "is not a field"),
    # A test
    ("tests[0]", "nd.exp", "tests[0]", "use an object"),
    ("tests[1].operator", ABSENT, "tests[1].operator", "is missing"),
    ("tests[1].inputs", ABSENT, "tests[1].inputs", "is missing"),
    ("tests[1].iter", 10, "tests[1].iter", "is not a field"),
    ("tests[1].identifer", "x", "tests[1].identifer", "did you mean identifier?"),
    *[
        ("tests[1].operator", name, "tests[1].operator", OPERATOR_FIX)
        for name in (
            "Convolution",
            "nd.",
            "nd..exp",
            ".exp",
            "nd.__class__",
            "nd.NDArray.__reduce__",
            "nd.NDArray.__init__",
            "nd.NDArray.exp.__add__",
            "nd.exp.__globals__",
            "nd.__init__",
            "nd._internal.__dict__",
            "base.os.system",
            "nd._internal._os.system",
            "npx.ctypes.CDLL",
            "library.load",
            "test_utils.download",
            "nd.load_frombuffer",
            "npx.savez",
            "npx.image.imread",
            "image.save",
            "init.Load",
            "nd.register.exec",
            "gluon.Trainer",
            "gluon.nn..Dense",
            "gluon.nn.basic_layers.Dense",
            "gluon.model_zoo.get_model",
            "gluonxnn.Dense",
            "os.system",
            "nd.exp()",
            "nd.exp; import os",
            "nd.éxp",
            "nd." + "x" * 100,
            "",
        )
    ],
    ("tests[1].operator", 3, "tests[1].operator", "use a string"),
    ("tests[1].operator", "nd.exp\n", "tests[1].operator", OPERATOR_FIX),  # Python's $ lets it through
    ("tests[1].operator", None, "tests[1].operator", "is null"),
    # Identifiers
    ("tests[0].identifier", "a_{Id}", "tests[0].identifier", "unknown placeholder {Id}: use {ID}, {OPERATOR}"),
    ("tests[0].identifier", "a{}", "tests[0].identifier", "unknown placeholder {}"),
    ("tests[0].identifier", "{ID.__class__}", "tests[0].identifier", "unknown placeholder {ID.__class__}"),
    ("tests[0].identifier", "a_{ID", "tests[0].identifier", IDENTIFIER_FIX),
    ("tests[0].identifier", "../a{ID}", "tests[0].identifier", IDENTIFIER_FIX),
    ("tests[0].identifier", "a/{ID}", "tests[0].identifier", IDENTIFIER_FIX),
    ("tests[0].identifier", ".a{ID}", "tests[0].identifier", IDENTIFIER_FIX),
    ("tests[0].identifier", "-a{ID}", "tests[0].identifier", IDENTIFIER_FIX),
    ("tests[0].identifier", "a {ID}", "tests[0].identifier", IDENTIFIER_FIX),
    ("tests[0].identifier", "a\t{ID}", "tests[0].identifier", IDENTIFIER_FIX),
    ("tests[0].identifier", "ä{ID}", "tests[0].identifier", IDENTIFIER_FIX),
    ("tests[0].identifier", "", "tests[0].identifier", IDENTIFIER_FIX),
    ("tests[0].identifier", 7, "tests[0].identifier", IDENTIFIER_FIX),
    ("tests[0].identifier", "a" * 101, "tests[0].identifier", "is 101 characters long: use at most 100"),
    ("tests[0].identifier", "{OPERATOR}" * 10, "tests[0].inputs[1]", "have the same id"),
    ("tests[0].identifier", "a", "tests[0].inputs[1]", "add {ID} to the identifier of tests[0]"),
    ("tests[1].identifier", "a_0", "tests[1].inputs", "give their tests different identifiers"),
    ("tests[1].inputs", {"axis": 0, "case": {"identifier": "s{SHAPE}"}}, "tests[1].inputs", "no shape for"),
    (
        "tests[1].inputs",
        {"a": [2**31 - 1] + [1] * 31, "case": {"identifier": "{SHAPE}{SHAPE}{SHAPE}"}},
        "tests[1].inputs",
        "more than 200 characters",
    ),
    # Settings, at each level
    ("defaults.dtype", "float", "defaults.dtype", "use one of float16, bfloat16, float32, float64, int8, int32, int64"),
    ("tests[0].dtype", "float32 ", "tests[0].dtype", "use one of float16"),
    ("tests[0].inputs[1].case.dtype", 32, "tests[0].inputs[1].case.dtype", "use one of float16"),
    ("tests[0].dtype", None, "tests[0].dtype", "is null: leave the field out"),
    ("defaults.context", "tpu", "defaults.context", "use cpu, gpu, or one of several such as gpu(1)"),
    ("tests[1].context", "cpu(-1)", "tests[1].context", "use cpu, gpu"),
    ("tests[1].context", "cpu(01)", "tests[1].context", "use cpu, gpu"),
    ("tests[1].context", "gpu(1", "tests[1].context", "use cpu, gpu"),
    ("tests[1].context", "gpu(1000)", "tests[1].context", "use cpu, gpu"),
    ("tests[1].metric", "mood", "tests[1].metric", "use one of time, instructions, memory"),
    ("tests[1].tolerance", {}, "tests[1].tolerance.rtol", "give one of them"),
    ("tests[1].tolerance", {"rtol": -1}, "tests[1].tolerance.rtol", "use at least 0"),
    ("tests[1].tolerance", {"rtol": "1%"}, "tests[1].tolerance.rtol", "use a number"),
    ("tests[1].tolerance", {"etol": 1}, "tests[1].tolerance.etol", "did you mean"),
    ("tests[1].metric", ["time", 3], "tests[1].metric", "is 3: use one of time"),
    ("tests[1].metric", ["time", "time"], "tests[1].metric", "name each metric once"),
    ("defaults.metric", [], "defaults.metric", "name each metric once"),
    ("tests[1].mode", "hybrid", "tests[1].mode", "use one of imperative, hybridized, or a list"),
    ("tests[1].mode", ["hybridized"] * 2, "tests[1].mode", "name each mode once"),
    ("tests[1]", {**COPY, "mode": "hybridized"}, "tests[1].inputs", "which nd.NDArray.copy doesn't support: remove it"),
    ("tests[1].run_backward", "true", "tests[1].run_backward", "use true or false"),
    ("tests[1].run_backward", 1, "tests[1].run_backward", "use true or false"),
    ("tests[1].directions", [], "tests[1].directions", "is empty"),
    ("tests[1].directions", "forward", "tests[1].directions", "use a list"),
    ("tests[1].directions", ["up"], "tests[1].directions[0]", "use one of forward, backward, both"),
    ("tests[1].directions", ["both", "both"], "tests[1].directions", "name each once"),
    ("defaults", {"run_backward": False, "directions": ["both"]}, "defaults.directions", "keep one"),
    (
        "tests[0].inputs[1].case",
        {"run_backward": True, "directions": ["both"]},
        "tests[0].inputs[1].case.directions",
        "and run_backward say the same thing: keep one",
    ),
    *[
        ("tests[1].threshold", value, "tests[1].threshold", 'use a share such as 0.02, or "2%"')
        for value in (1, 1.0, 2, -0.01, "100%", "-1%", "0.05", "5 %", "%", "5%%", "1e1%", "", True, [0.1], "٥%")
    ],
    ("tests[1].timeout", 0, "tests[1].timeout", "use a number greater than 0"),
    ("tests[1].timeout", -1, "tests[1].timeout", "use a number greater than 0"),
    ("tests[1].timeout", 86401, "tests[1].timeout", "use at most 86400"),
    ("tests[1].timeout", "60", "tests[1].timeout", "use a number"),
    ("tests[1].timeout", True, "tests[1].timeout", "use a number"),
    # Inputs
    ("tests[1].inputs", [], "tests[1].inputs", "is empty: it needs at least 1"),
    ("tests[1].inputs", "data", "tests[1].inputs", "use an object"),
    ("tests[0].inputs[1]", [2, 3], "tests[0].inputs[1]", "use an object"),
    ("tests[0].inputs[1].case", "x", "tests[0].inputs[1].case", "use an object"),
    ("tests[0].inputs[1].case.operator", "nd.log", "tests[0].inputs[1].case.operator", "is not a field"),
    ("tests[1].inputs", {"__class__": [1]}, "tests[1].inputs.__class__", "is not an argument's name"),
    ("tests[1].inputs", {"da ta": [1]}, "tests[1].inputs.da ta", "is not an argument's name"),
    ("tests[1].inputs", {"": [1]}, "tests[1].inputs.", "is not an argument's name"),
    ("tests[1].inputs", {"self.x": [1]}, "tests[1].inputs.self.x", "is not an argument's name"),
    ("tests[0].inputs[1].data", [2, -1], "tests[0].inputs[1].data[1]", SHAPE_FIX),
    ("tests[0].inputs[1].data", [2, 0.5], "tests[0].inputs[1].data[1]", SHAPE_FIX),
    ("tests[0].inputs[1].data", [2, "3"], "tests[0].inputs[1].data[1]", SHAPE_FIX),
    ("tests[0].inputs[1].data", [True], "tests[0].inputs[1].data[0]", SHAPE_FIX),
    ("tests[0].inputs[1].data", [None], "tests[0].inputs[1].data[0]", SHAPE_FIX),
    ("tests[0].inputs[1].data", [2**41], "tests[0].inputs[1].data[0]", "use at most 1099511627776"),
    ("tests[0].inputs[1].data", [2**21, 2**20], "tests[0].inputs[1].data", "has 2199023255552 elements: use at most"),
    ("tests[0].inputs[1].data", [1] * 33, "tests[0].inputs[1].data", "has 33 items: use at most 32"),
    ("tests[0].inputs[1].data", [[2], 3], "tests[0].inputs[1].data[0]", "use an integer"),
    ("tests[0].inputs[1].data", [[2], [3, -1]], "tests[0].inputs[1].data[1][1]", SHAPE_FIX),
    ("tests[0].inputs[1].data", [[[2]]], "tests[0].inputs[1].data[0][0]", "use an integer"),
    ("tests[1].inputs.args", [], "tests[1].inputs.args", "is empty"),
    ("tests[1].inputs.args", [2, 3], "tests[1].inputs.args[0]", "use a list"),
    ("tests[1].inputs.args", [[2], {"valu": 1}], "tests[1].inputs.args[1].valu", "is not a field"),
    ("tests[1].inputs.args", None, "tests[1].inputs.args", "is null"),
    # Tensors, attributes and blocks in their long forms
    *[
        ("tests[1].inputs.axis", {"value": value}, "tests[1].inputs.axis.value", "use a block's name such as")
        for value in ({"block": "nd.exp"}, [{"block": "gluon.nn.Dense", "a": {"block": "os.system"}}], {"block": None})
    ],
    ("tests[1].inputs.data", {}, "tests[1].inputs.data.shape", "is missing: add it"),
    ("tests[1].inputs.data", {"shapes": [1]}, "tests[1].inputs.data.shapes", "did you mean shape?"),
    ("tests[1].inputs.data", {"shape": 3}, "tests[1].inputs.data.shape", "use a list"),
    ("tests[1].inputs.data", {"shape": [[3]]}, "tests[1].inputs.data.shape[0]", "use an integer"),
    ("tests[1].inputs.data", {"shape": [3], "dtype": "int"}, "tests[1].inputs.data.dtype", "use one of"),
    ("tests[1].inputs.data", {"shape": [3], "init": "eye"}, "tests[1].inputs.data.init", "use one of 'normal'"),
    ("tests[1].inputs.data", {"shape": [3], "low": 0, "dtype": "int32"}, "tests[1].inputs.data.high", "give both"),
    ("tests[1].inputs.data", {"shape": [3], "high": 0, "init": "uniform"}, "tests[1].inputs.data.low", "give both"),
    (
        "tests[1].inputs.data",
        {"shape": [3], "low": 0, "high": 1, "init": "zeros", "dtype": "int32"},
        "tests[1].inputs.data.low",
        "and high are not for zeros: leave them out",
    ),
    (
        "tests[1].inputs.data",
        {"shape": [3], "low": 0.5, "high": 4, "init": "randint"},
        "tests[1].inputs.data.low",
        "must be integers",
    ),
    (
        "tests[1].inputs.data",
        {"shape": [3], "low": 4, "high": 4, "init": "randint"},
        "tests[1].inputs.data.high",
        "is 4, not more than low",
    ),
    (
        "tests[1].inputs.data",
        {"shape": [3], "low": "0", "high": 4, "init": "randint"},
        "tests[1].inputs.data.low",
        "is '0': use a number",
    ),
    ("tests[1].inputs.axis", {"value": 0, "shape": [1]}, "tests[1].inputs.axis.shape", "is not a field"),
    # Pictures, sparse tensors, subscripts, contexts, and the same tensor twice
    ("tests[1].inputs.data", {"shape": [3], "density": 0.5}, "tests[1].inputs.data.density", "is for sparse ones"),
    (
        "tests[1].inputs.data",
        {"shape": [3, 3], "sparse": "csr_array"},
        "tests[1].inputs.data.sparse",
        "needs the framework",
    ),
    ("tests[1].inputs.data", {"shape": [3], "stype": "coo"}, "tests[1].inputs.data.stype", "use one of"),
    (
        "tests[1].inputs.data",
        {"shape": [3], "stype": "row_sparse", "density": 1.5},
        "tests[1].inputs.data.density",
        "use at most 1",
    ),
    ("tests[1].inputs.data", {"shape": [3], "grad_req": None}, "tests[1].inputs.data.grad_req", "is null"),
    *[
        ("tests[1].inputs.axis", {"index": text}, "tests[1].inputs.axis.index", "between the brackets")
        for text in ("", "1;2", "a", "1,", ",1", "1:2:3:4", "__import__", "1.5", [1], 3)
    ],
    # No path: what is read is made, and what is written goes.
    *[
        ("tests[1]", {"operator": operator, "inputs": given}, f"tests[1].inputs.{name}", 'must be {"file": ...}')
        for operator, name, given in (
            ("nd.save", "fname", {"fname": "/etc/passwd", "data": [3]}),
            ("nd.load", "fname", {"fname": {"value": "/etc/passwd"}}),
            ("nd.load", "fname", {"args": [{"value": "/etc/passwd"}]}),
            ("npx.load", "file", {"file": [3]}),
            ("image.imread", "filename", {"filename": "a.png"}),
        )
    ],
    ("tests[1].inputs.axis", {"file": None}, "tests[1].inputs.axis", "is a file, which nd.sum doesn't take"),
    ("tests[1].inputs.axis", {"file": "a"}, "tests[1].inputs.axis.file", "use an object"),
    ("tests[1].inputs.axis", {"file": []}, "tests[1].inputs.axis.file", "is empty"),
    ("tests[1].inputs.axis", {"function": "os.system"}, "tests[1].inputs.axis.function", "the name of a function"),
    ("tests[1].inputs.axis", {"function": "double", "args": []}, "tests[1].inputs.axis.args", "is empty"),
    ("tests[1].inputs.axis", {"tuple": []}, "tests[1].inputs.axis.tuple", "is empty"),
    ("tests[1].inputs.axis", {"shape": [3], "grad_stype": "numpy"}, "tests[1].inputs.axis.grad_stype", "use one of"),
    ("tests[1].inputs.axis", {"context": "tpu"}, "tests[1].inputs.axis.context", "use cpu, gpu"),
    ("tests[1].inputs.axis", {"same_as": "a b"}, "tests[1].inputs.axis.same_as", "another argument"),
    ("tests[1].inputs.axis", {"same_as": "lhs"}, "tests[1].inputs.axis", "which is not a tensor here"),
    ("tests[1].inputs", {"a": 1, "b": {"same_as": "a"}}, "tests[1].inputs.b", "which is not a tensor here"),
]


def with_value(where: str, value: Any) -> Any:
    """GOOD with ``value`` at a path such as ``tests[0].inputs[1].data``."""
    if not where:
        return value
    document = copy.deepcopy(GOOD)
    *path, last = [
        int(part) if part.isdigit() else part for part in where.replace("[", ".").replace("]", "").split(".")
    ]
    target: Any = document
    for part in path:
        target = target[part]
    if value is ABSENT:
        del target[last]
    else:
        target[last] = value
    return document


def test_the_good_one_is_good(tmp_path: Path) -> None:
    path = tmp_path / "good.json"
    path.write_text(json.dumps(GOOD))
    assert [case.id for case in expand_cases(load_spec(path))] == ["a_0/forward", "a_1/forward", "sum_0/forward"]
    VALIDATOR.validate(GOOD)


@pytest.mark.parametrize(("where", "value", "field", "fix"), BAD)
def test_the_loader_names_field_and_fix(tmp_path: Path, where: str, value: Any, field: str, fix: str) -> None:
    path = tmp_path / "bad.json"
    path.write_text(json.dumps(with_value(where, value)))
    with pytest.raises(UsageError) as caught:
        load_spec(path)
    message = str(caught.value)
    assert message.startswith(f"{path}: {field} ")
    assert fix in message
    assert "\n" not in message
    assert len(message) < len(str(path)) + 300


@pytest.mark.parametrize(
    ("where", "value"),
    [
        ("framework", "caffe2"),
        ("test", []),
        ("tests[1].operator", "nd.exp()"),
        ("tests[0].identifier", "a_{Id}"),
        ("tests[1].threshold", "5 %"),
        ("tests[1].inputs.data", {"shape": [3], "init": "eye"}),
        ("tests[1].inputs.axis", {"index": "1;2"}),
    ],
)
def test_the_schema_tells_editors_of_most_of_them(where: str, value: Any) -> None:
    assert not VALIDATOR.is_valid(with_value(where, value))


def test_several_mistakes_are_counted(tmp_path: Path) -> None:
    path = tmp_path / "bad.json"
    path.write_text(json.dumps({"framework": "x", "tests": [{"operator": "y", "inputs": [], "count": 0}]}))
    with pytest.raises(UsageError, match=r"bad\.json: framework is 'x'.*\(and 2 more\)$"):
        load_spec(path)
