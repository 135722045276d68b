"""From specs to cases: names, settings and their levels, directions, and round trips through JSON and YAML."""

import json
import re
from dataclasses import replace
from pathlib import Path
from typing import Any, get_args

import pytest
import yaml
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from schema_validator import VALIDATOR

from opduel.harness.specs import expand_cases, load_spec, select_cases
from opduel.harness.specs.fields import PLACEHOLDERS
from opduel.harness.specs.load import validate
from opduel.harness.specs.values import Init
from opduel.records import Case, UsageError
from opduel.records.case import CONTEXT_PATTERN, DTYPES


def cases_of(
    *tests: dict[str, Any], thresholds: dict[str, float] | None = None, metrics: tuple[str, ...] = (), **defaults: Any
) -> list[Case]:
    spec = validate({"framework": "mxnet", "defaults": defaults, "tests": list(tests)})
    return expand_cases(spec, thresholds=thresholds, metrics=metrics)


def ids_of(*tests: dict[str, Any], **defaults: Any) -> list[str]:
    return [case.id for case in cases_of(*tests, **defaults)]


EXP: dict[str, Any] = {"operator": "nd.exp", "inputs": {"data": [2, 3]}}


@pytest.mark.parametrize(
    ("test", "wants"),
    [
        ({}, ["exp_0/forward"]),
        ({"operator": "nd.linalg.gemm2"}, ["gemm2_0/forward"]),
        ({"operator": "nd._internal._plus_scalar"}, ["plus_scalar_0/forward"]),
        ({"operator": "nd.NDArray.__iadd__"}, ["iadd_0/forward"]),
        ({"inputs": {"args": [{"value": "ij"}, [3, 4]]}, "identifier": "{SHAPE}"}, ["3x4/forward"]),
        ({"inputs": [{"data": [1]}, {"data": [2]}]}, ["exp_0/forward", "exp_1/forward"]),
        ({"identifier": "e"}, ["e/forward"]),
        ({"identifier": "e_{ID}_{ID}"}, ["e_0_0/forward"]),
        ({"identifier": "{OPERATOR}"}, ["nd.exp/forward"]),
        ({"identifier": "e_{SHAPE}"}, ["e_2x3/forward"]),
        ({"identifier": "e_{DIRECTION}"}, ["e_forward/forward"]),
        ({"identifier": "e_{CONTEXT}_{DTYPE}"}, ["e_cpu_float32/forward"]),
        ({"dtype": "float64"}, ["exp_0/float64/forward"]),
        ({"dtype": "float64", "identifier": "e_{DTYPE}"}, ["e_float64/forward"]),
        ({"context": "gpu(1)"}, ["exp_0/gpu1/forward"]),
        ({"context": "cpu(0)", "dtype": "int8"}, ["exp_0/int8/cpu0/forward"]),
        ({"context": "gpu", "identifier": "e_{CONTEXT}"}, ["e_gpu/forward"]),
        ({"run_backward": True}, ["exp_0/forward", "exp_0/backward"]),
        ({"run_backward": False}, ["exp_0/forward"]),
        ({"directions": ["both", "forward"]}, ["exp_0/both", "exp_0/forward"]),
        ({"inputs": {"args": [[4, 5], [6]]}, "identifier": "{SHAPE}"}, ["4x5/forward"]),
        ({"inputs": {"axis": 1, "x": {"shape": [7, 1]}}, "identifier": "{SHAPE}"}, ["7x1/forward"]),
        ({"inputs": {"x": [[8], [9]]}, "identifier": "{SHAPE}"}, ["8/forward"]),
        ({"inputs": {"x": []}, "identifier": "{SHAPE}"}, ["scalar/forward"]),
        ({"inputs": {"x": {"value": [1, 2]}, "y": [3]}, "identifier": "{SHAPE}"}, ["3/forward"]),
        ({"inputs": {"data": [1], "case": {"identifier": "mine", "dtype": "int32"}}}, ["mine/int32/forward"]),
    ],
)
def test_ids(test: dict[str, Any], wants: list[str]) -> None:
    assert ids_of({**EXP, **test}) == wants


def test_order_is_the_files() -> None:
    tests = [{**EXP, "identifier": name, "run_backward": True} for name in ("z", "a", "m")]
    assert ids_of(*tests) == [f"{name}/{way}" for name in ("z", "a", "m") for way in ("forward", "backward")]


@pytest.mark.parametrize(
    ("field", "attribute", "values", "built_in"),
    [
        ("dtype", "dtype", ("float64", "int32", "uint8"), "float32"),
        ("context", "context", ("gpu", "gpu(1)", "cpu(1)"), "cpu"),
        ("threshold", "threshold", (0.1, 0.0, 0.3), 0.02),
        ("timeout", "timeout_s", (10, 20.5, 30), 60.0),
        ("input_sets", "input_sets", (2, 8, 1000), 1),
    ],
)
def test_the_nearest_level_wins(field: str, attribute: str, values: tuple[Any, ...], built_in: Any) -> None:
    for subset in range(8):  # every subset of the three levels
        levels = [{field: value} if subset & (1 << place) else {} for place, value in enumerate(values)]
        case = cases_of({**EXP, **levels[1], "inputs": {"data": [2], "case": levels[2]}}, **levels[0])[0]
        want = next((level[field] for level in reversed(levels) if level), built_in)
        assert getattr(case, attribute) == want


def test_directions_are_settled_at_the_nearest_level_that_says_either() -> None:
    confirmation = {"data": [2], "case": {"run_backward": False}}
    assert ids_of({**EXP, "directions": ["both"], "inputs": confirmation}) == ["exp_0/forward"]
    assert ids_of({**EXP, "directions": ["backward"]}, run_backward=True) == ["exp_0/backward"]
    assert ids_of(EXP, run_backward=True) == ["exp_0/forward", "exp_0/backward"]
    assert ids_of({**EXP, "run_backward": False}, directions=["both"]) == ["exp_0/forward"]


def test_the_command_lines_threshold_holds_where_the_spec_says_none() -> None:
    stated = {**EXP, "identifier": "said", "threshold": "5%"}
    assert [case.threshold for case in cases_of(EXP, stated, thresholds={"time": 0.1})] == [0.1, 0.05]
    assert [case.threshold for case in cases_of(EXP, stated, thresholds={"time": 0.0})] == [0.0, 0.05]
    assert [case.threshold for case in cases_of(EXP, stated)] == [0.02, 0.05]
    assert [case.threshold for case in cases_of(EXP, thresholds={"time": 0.1})] == [0.1]


def test_a_case_for_each_metric() -> None:
    both = {"metric": ["time", "instructions"], "run_backward": True}
    want = ["exp_0/forward", "exp_0/forward/instructions", "exp_0/backward", "exp_0/backward/instructions"]
    assert ids_of({**EXP, **both}) == want
    assert ids_of(EXP, **both) == want
    assert ids_of({**EXP, **both, "metric": "time"}) == want[::2]
    cases = cases_of({**EXP, **both})
    assert [case.threshold for case in cases] == [0.02, 0.005] * 2
    assert [case.time_id for case in cases] == [want[0], want[0], want[2], want[2]]
    limits = {"instructions": 0.01}
    assert [case.threshold for case in cases_of({**EXP, **both}, thresholds=limits)] == [0.02, 0.01] * 2
    assert [case.threshold for case in cases_of({**EXP, **both, "threshold": 0.03})] == [0.03] * 4


def test_a_case_for_each_mode_of_a_block() -> None:
    block = {"operator": "gluon.nn.Dense", "dtype": "float64", "inputs": {"data": [2, 3], "units": 4}}
    assert ids_of(block) == ["dense_0/float64/forward"]
    both = cases_of({**block, "mode": ["imperative", "hybridized"], "run_backward": True, "metric": "instructions"})
    assert [(case.id, case.mode) for case in both] == [
        ("dense_0/float64/forward/instructions", "imperative"),
        ("dense_0/float64/backward/instructions", "imperative"),
        ("dense_0/float64/hybridized/forward/instructions", "hybridized"),
        ("dense_0/float64/hybridized/backward/instructions", "hybridized"),
    ]
    assert ids_of({**block, "mode": "imperative"}, EXP, mode="imperative")[1] == "exp_0/forward"
    refused = r"tests\[0\].inputs has the mode hybridized, which image.imresize doesn't support"
    with pytest.raises(UsageError, match=refused):
        cases_of({**EXP, "operator": "image.imresize"}, mode=["imperative", "hybridized"])
    assert ids_of(EXP, mode="hybridized") == ["exp_0/hybridized/forward"], "as a graph of its own"


def test_the_command_lines_metrics_hold_whatever_the_spec_says() -> None:
    stated = {**EXP, "metric": ["time", "instructions"]}
    assert [case.id for case in cases_of(stated, metrics=("instructions",))] == ["exp_0/forward/instructions"]
    assert [case.metric for case in cases_of(EXP, metrics=("instructions", "time"))] == ["instructions", "time"]


@pytest.mark.parametrize(("text", "share"), [("2%", 0.02), ("0%", 0.0), ("0.5%", 0.005), ("99.9%", 0.999), (0, 0.0)])
def test_thresholds(text: str | float, share: float) -> None:
    assert cases_of({**EXP, "threshold": text})[0].threshold == pytest.approx(share, abs=1e-12)


def test_inputs_reach_the_case_as_they_were_written() -> None:
    inputs = {
        "data": [2, 3],
        "several": [[1], [2, 3]],
        "scalar": [],
        "count": 3,
        "share": 0.5,
        "kind": "max",
        "flag": True,
        "none": None,
        "full": {"shape": [4], "dtype": "int32", "init": "randint", "low": 0, "high": 9},
        "bare": {"shape": []},
        "list": {"value": [-1, None, {"a": [0.5]}]},
        "nothing": {"value": None},
        "args": [[1], {"shape": [2], "init": "ones"}, {"value": "ij,jk"}, {"index": "1"}],
        "sparse": {"shape": [2, 3], "stype": "csr", "density": 0.5, "grad_stype": "default", "grad_req": "add"},
        "key": {"index": "1:2, ..., ::-1,None"},
        "elsewhere": {"context": "cpu(1)"},
        "out": {"same_as": "data"},
        "array": {"shape": [2], "stype": "numpy"},
        "body": {"function": "double", "args": [[2], {"shape": [3]}]},
        "pair": {"tuple": [[2], {"shape": [3], "init": "ones"}]},
    }
    case = cases_of({**EXP, "inputs": {**inputs, "case": {"dtype": "int8"}}})[0]
    assert case.inputs == inputs
    assert json.loads(json.dumps(case.inputs)) == inputs
    assert (type(case.inputs["flag"]), type(case.inputs["count"])) == (bool, int)


def test_select_cases() -> None:
    cases = cases_of({**EXP, "run_backward": True}, {**EXP, "identifier": "conv2d"})
    assert [case.id for case in select_cases(cases, ["backward"])] == ["exp_0/backward"]
    assert [case.id for case in select_cases(cases, ["conv*", "exp_0/f*"])] == ["exp_0/forward", "conv2d/forward"]
    assert [case.id for case in select_cases(cases, ["*"])] == [case.id for case in cases]
    assert select_cases(cases, []) == []
    odd = [replace(cases[0], id=id) for id in ("f('C++ [fast]')", "f('C++ f')", "f('C++ [fast]')/value")]
    assert [case.id for case in select_cases(odd, ["f('C++ [fast]')"])] == ["f('C++ [fast]')"]  # a name is no pattern
    with pytest.raises(UsageError, match=r"no case matches 'exp\*ward\?'"):
        select_cases(cases, ["conv", "exp*ward?"])


# Round trips

sizes = st.integers(0, 64)
shapes = st.lists(sizes, max_size=4)
names = st.from_regex(r"\A_?[A-Za-z][A-Za-z0-9_]{0,8}\Z").filter(lambda name: name not in ("case", "args"))
finite = st.floats(allow_nan=False, allow_infinity=False)
int64 = st.integers(-(2**63) + 1, 2**63 - 1)
# White space and line ends of Unicode, quotes, words that YAML could misread: strings must come back unharmed.
strings = st.text(st.characters(exclude_categories=("Cs", "Cc")), max_size=8) | st.sampled_from(
    ["yes", "null", "~", "1e3", "010", "2020-01-01", "<<", "*a", "&a", "!!int 1", "- a", "a: b", "#", "'", '"', "="]
)
scalars = st.none() | st.booleans() | int64 | finite | strings
anything = st.recursive(
    scalars, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(strings, inner, max_size=3)
)
SHAPES_OF = {"positive_definite": [3, 3], "symmetric": [3, 3], "hermitian": [3, 3], "png": [2, 2, 3]}
plain_tensors: st.SearchStrategy[dict[str, Any]] = st.fixed_dictionaries(
    {"shape": shapes}, optional={"dtype": st.sampled_from(DTYPES), "init": st.sampled_from(get_args(Init))}
).map(lambda tensor: {**tensor, "shape": SHAPES_OF.get(tensor.get("init", ""), tensor["shape"])})
sparse_tensors = st.fixed_dictionaries(
    {"shape": st.lists(sizes, min_size=2, max_size=2), "stype": st.sampled_from(["csr", "row_sparse"])},
    optional={
        "density": st.floats(0, 1) | st.integers(0, 1),
        "grad_stype": st.sampled_from(["default", "csr", "row_sparse"]),
        "grad_req": st.sampled_from(["write", "add", "null"]),
        "dtype": st.sampled_from(DTYPES),
    },
)
ranged_tensors = st.builds(
    lambda shape, low, width, dtype: {"shape": shape, "dtype": dtype, "low": low, "high": low + width},
    shapes,
    st.integers(-9, 9),
    st.integers(1, 9),
    st.sampled_from(["int32", "int64"]),
)
tensors = plain_tensors | ranged_tensors | sparse_tensors
parts = st.lists(shapes | tensors, min_size=1, max_size=2)
other_inputs = (
    st.builds(lambda some: {"tuple": some}, parts)
    | st.builds(
        lambda name, some: {"function": name, **some},
        st.just("double"),
        st.fixed_dictionaries({}, optional={"args": parts}),
    )
    | st.builds(lambda text: {"index": text}, st.sampled_from(["0", "-1, :", "1:2:-1", "...,None"]))
    | st.builds(lambda text: {"context": text}, st.sampled_from(["cpu", "cpu(1)", "gpu(0)"]))
)
values = (
    shapes
    | st.lists(shapes, min_size=1, max_size=3)
    | tensors
    | other_inputs
    | st.builds(lambda x: {"value": x}, anything)
    | scalars
)
thresholds = st.floats(0, 0.999) | st.sampled_from(["2%", "0.5%", "99%"])
ways = st.fixed_dictionaries({}, optional={"run_backward": st.booleans()}) | st.builds(
    lambda some: {"directions": some},
    st.lists(st.sampled_from(["forward", "backward", "both"]), min_size=1, unique=True),
)
levels = st.builds(
    lambda way, settings: {**way, **settings},
    ways,
    st.fixed_dictionaries(
        {},
        optional={
            "dtype": st.sampled_from(DTYPES),
            "context": st.from_regex(re.compile(CONTEXT_PATTERN.removesuffix("$") + r"\Z", re.ASCII)),
            "metric": st.sampled_from(["time", "instructions", ["instructions"], ["time", "instructions"]]),
            "threshold": thresholds,
            "timeout": st.floats(0.001, 86400) | st.integers(1, 86400),
        },
    ),
)
inputs = st.builds(
    lambda arguments, reserved: {**arguments, **reserved},
    st.dictionaries(names, values, max_size=3),
    st.fixed_dictionaries(
        {}, optional={"case": levels, "args": st.lists(shapes | tensors | other_inputs, min_size=1, max_size=3)}
    ),
)
placeholders = st.sampled_from([f"{{{name}}}" for name in PLACEHOLDERS if name not in ("SHAPE", "DRAWN")])
identifiers = st.builds(lambda parts: "t{ID}." + "-".join(parts), st.lists(placeholders, max_size=3))


@st.composite
def specs(draw: st.DrawFn) -> dict[str, Any]:
    tests = []
    for number in range(draw(st.integers(1, 3))):
        several = draw(st.lists(inputs, min_size=1, max_size=3))
        test = {
            "operator": draw(st.sampled_from(["nd.exp", "nd.linalg.gemm2", "np.add", "npx.relu", "nd.contrib.fft"])),
            "identifier": f"n{number}_" + draw(identifiers),
            "inputs": several if draw(st.booleans()) else several[0],
            **draw(levels),
        }
        tests.append(test)
    top = draw(st.fixed_dictionaries({}, optional={"defaults": levels, "description": strings}))
    return {"framework": "mxnet", "tests": tests, **top}


class QuotingDumper(yaml.SafeDumper):
    """Quotes every string: PyYAML writes YAML 1.1, in which 0E0 is a string; specs are YAML 1.2, where it is not."""


QuotingDumper.add_representer(str, lambda dumper, text: dumper.represent_scalar("tag:yaml.org,2002:str", text, '"'))


@settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large])
@given(specs())
def test_json_and_yaml_give_the_same_cases(tmp_path_factory: pytest.TempPathFactory, document: dict[str, Any]) -> None:
    folder = tmp_path_factory.mktemp("spec")
    texts = {
        "a.json": json.dumps(document),
        "b.json": json.dumps(document, ensure_ascii=False, indent=1),
        "a.yaml": yaml.dump(document, Dumper=QuotingDumper, sort_keys=False),
        "b.yml": yaml.dump(
            document, Dumper=QuotingDumper, sort_keys=False, default_flow_style=True, allow_unicode=True
        ),
    }
    cases_by_file = []
    for name, text in texts.items():
        (folder / name).write_text(text, encoding="utf-8", newline="")
        cases_by_file.append([replace(case, category=None) for case in expand_cases(load_spec(folder / name))])
    assert all(cases == cases_by_file[0] for cases in cases_by_file)
    assert VALIDATOR.is_valid(document)

    tests: list[dict[str, Any]] = document["tests"]
    flat = [
        inputs
        for test in tests
        for inputs in (test["inputs"] if isinstance(test["inputs"], list) else [test["inputs"]])
    ]
    written = [{key: value for key, value in inputs.items() if key != "case"} for inputs in flat]
    assert len({case.id for case in cases_by_file[0]}) == len(cases_by_file[0])
    assert len(cases_by_file[0]) >= len(flat)
    assert all(case.inputs in written for case in cases_by_file[0])
    for case in cases_by_file[0]:
        assert re.fullmatch(r"[A-Za-z0-9_.+=,@-]+(/[a-z0-9]+)*/(forward|backward|both)(/instructions)?", case.id)
        assert 0 <= case.threshold < 1
        assert case.timeout_s > 0


@settings(max_examples=100)
@given(st.binary(max_size=60) | st.text(max_size=60).map(lambda text: text.encode("utf-8", "replace")))
def test_any_bytes_load_or_are_refused_in_one_line(tmp_path_factory: pytest.TempPathFactory, content: bytes) -> None:
    for name in ("any.json", "any.yaml"):
        path: Path = tmp_path_factory.getbasetemp() / name
        path.write_bytes(content)
        with pytest.raises(UsageError) as caught:
            load_spec(path)
        assert str(caught.value).startswith(f"{path}: ")
        assert len(str(caught.value).splitlines()) == 1


@settings(max_examples=100)
@given(st.dictionaries(st.sampled_from(["framework", "tests", "defaults", "x"]), anything) | anything)
def test_any_data_is_valid_or_refused_in_one_line(data: Any) -> None:
    with pytest.raises(UsageError) as caught:
        validate(data)
    assert len(str(caught.value).splitlines()) == 1
