"""Rules and a registry become tests: what each argument is given, how cases are named, what is left out and why."""

import json
from pathlib import Path
from typing import Any

import pytest
from toy_framework import Toy

from opduel.driver.catalogue.apply import apply_rules
from opduel.driver.catalogue.registry import Function, Registry
from opduel.driver.catalogue.rules import Rules, load_rules
from opduel.driver.catalogue.write import spec_files, write_specs
from opduel.records import UsageError

FUNCTIONS = {
    "nd.exp": ("exp", {"data": "tensor"}),
    "nd.sum": ("sum", {"data": "tensor", "axis": "optional"}),
    "nd.one_hot": ("one_hot", {"indices": "tensor", "depth": "required", "dtype": "optional"}),
    "nd.concat": ("Concat", {"data": "tensors", "num_args": "required", "dim": "optional"}),
    "nd.Concat": ("Concat", {"data": "tensors", "num_args": "required", "dim": "optional"}),
    "nd._internal._plus": ("_plus", {"lhs": "tensor", "rhs": "tensor"}),
    "nd.odd": ("odd", {"strange": "tensor"}),
    "np.exp": ("_npi_exp", {"x": "required", "where": "optional"}),
}
REGISTRY = Registry(
    "1.0",
    {own: [own] for own, _ in FUNCTIONS.values()}
    | {"Concat": ["Concat", "concat"], "_backward_exp": ["_backward_exp"]},
    {name: Function(name, own, arguments) for name, (own, arguments) in FUNCTIONS.items()},  # type: ignore[arg-type]
)


def rules(categories: dict[str, Any], **more: Any) -> Rules:
    return Rules.model_validate(
        {
            "arguments": {"data": [2, 3], "x": [2], "lhs": [2], "rhs": [2]},
            "categories": {name: {"description": name, **category} for name, category in categories.items()},
            **more,
        }
    )


def only_test(operator: str, category: dict[str, Any] | None = None, **more: Any) -> dict[str, Any]:
    catalogue = apply_rules(rules({"c": {"operators": [operator], **(category or {})}}, **more), REGISTRY)
    (test,) = catalogue.tests["c"]
    return test


def test_tensors_and_required_arguments_are_given_and_optional_ones_are_not() -> None:
    assert only_test("nd.exp") == {
        "operator": "nd.exp",
        "inputs": [{"data": [2, 3], "case": {"identifier": "exp"}}],
    }
    more = {"arguments": {"indices": [4], "depth": 5, "dtype": "int32"}}
    assert only_test("nd.one_hot", **more)["inputs"][0] == {
        "indices": [4],
        "depth": 5,
        "case": {"identifier": "one_hot"},
    }


def test_the_nearest_level_wins_and_null_leaves_an_argument_out() -> None:
    category = {"inputs": {"data": [7], "axis": 1}}
    assert only_test("nd.sum", category)["inputs"][0] == {"data": [7], "axis": 1, "case": {"identifier": "sum"}}
    own = {"inputs": {"axis": None}, "cases": {"a": {"data": [8]}, "b": {"axis": 0}}}
    assert only_test("nd.sum", category, operators={"nd.sum": own})["inputs"] == [
        {"data": [8], "case": {"identifier": "sum_a"}},
        {"data": [7], "axis": 0, "case": {"identifier": "sum_b"}},
    ]


def test_sizes_make_cases_in_the_usual_order() -> None:
    by_size = {"large": [64, 2], "small": [4, 2]}
    category = {"inputs": {"data": {"shape": by_size, "init": "ones"}, "axis": {"large": 1}}}
    inputs = only_test("nd.sum", category)["inputs"]
    assert [case_input["case"]["identifier"] for case_input in inputs] == ["sum_small", "sum_large"]
    assert [case_input["data"] for case_input in inputs] == [
        {"shape": [4, 2], "init": "ones"},
        {"shape": [64, 2], "init": "ones"},
    ]
    restricted = only_test("nd.sum", {**category, "sizes": ["large", "skewed"]})["inputs"]
    assert [case_input["case"]["identifier"] for case_input in restricted] == ["sum_large"]


def test_an_operator_may_have_sizes_of_its_own() -> None:
    category = {"inputs": {"data": {"small": [4], "large": [64], "skewed": [9, 1]}}, "sizes": ["large"]}
    own = {"nd.sum": {"sizes": ["small", "skewed"]}}
    inputs = only_test("nd.sum", category, operators=own)["inputs"]
    assert [case_input["case"]["identifier"] for case_input in inputs] == ["sum_small", "sum_skewed"]


def test_what_is_required_may_be_given_without_a_name() -> None:
    functions = {"np.cov": Function("np.cov", None, {"m": "required", "y": "optional"})}
    category = {"operators": ["np.cov"], "inputs": {"args": [[2, 3]]}}
    catalogue = apply_rules(rules({"c": category}, arguments={"m": [9]}), Registry("1.0", {}, functions))
    assert catalogue.tests["c"][0]["inputs"] == [{"args": [[2, 3]], "case": {"identifier": "np.cov"}}]


def test_a_case_may_have_settings_of_its_own() -> None:
    own = {"cases": {"a": {"case": {"directions": ["forward"]}}, "b": {}}}
    test = only_test("nd.sum", {"backward": True}, operators={"nd.sum": own})
    assert test["run_backward"] is True
    assert test["inputs"] == [
        {"data": [2, 3], "case": {"identifier": "sum_a", "directions": ["forward"]}},
        {"data": [2, 3], "case": {"identifier": "sum_b"}},
    ]


def test_a_methods_name_is_readable() -> None:
    method = {"nd.NDArray.__iadd__": Function("nd.NDArray.__iadd__", None, {"self": "tensor", "other": "required"})}
    catalogue = apply_rules(
        rules({"c": {"operators": ["nd.NDArray.__iadd__"], "inputs": {"self": [2], "other": 1}}}),
        Registry("1.0", {}, method),
    )
    assert catalogue.tests["c"][0]["inputs"][0]["case"] == {"identifier": "NDArray.iadd"}


def test_variadic_operators_get_args_and_no_count() -> None:
    category = {"inputs": {"args": [[2], {"small": [3], "large": [4]}]}}
    assert [case_input["args"] for case_input in only_test("nd.concat", category)["inputs"]] == [[[2], [3]], [[2], [4]]]


def test_backward_is_the_categorys_unless_the_operator_says() -> None:
    assert "run_backward" not in only_test("nd.exp")
    assert only_test("nd.exp", {"backward": True})["run_backward"] is True
    assert "run_backward" not in only_test("nd.exp", {"backward": True}, operators={"nd.exp": {"backward": False}})


def test_what_depends_on_values_alternates_between_sets_of_inputs() -> None:
    sets = {"input_sets": {"nd.e*": 8, "nd.exp": 4}}
    assert list(only_test("nd.exp", {"backward": True}, **sets)) == ["operator", "input_sets", "run_backward", "inputs"]
    assert only_test("nd.exp", **sets)["input_sets"] == 8  # the first that says something
    assert "input_sets" not in only_test("nd.sum", **sets)


def test_blocks_have_cases_of_both_modes_where_they_can() -> None:
    hybrid = {"gluon.nn.Dense": True, "gluon.nn.Lambda": False, "gluon.nn.Odd": True, "gluon.nn.Forgotten": False}
    functions = {name: Function(name, None, {"data": "tensor"}, value) for name, value in hybrid.items()}
    category = {"operators": ["gluon.nn.[DLO]*"]}
    own = {"gluon.nn.Odd": {"hybrid": False}}
    catalogue = apply_rules(rules({"c": category}, operators=own), Registry("1.0", {}, functions))
    assert {test["operator"]: test.get("mode") for test in catalogue.tests["c"]} == {
        "gluon.nn.Dense": ["imperative", "hybridized"],
        "gluon.nn.Lambda": None,
        "gluon.nn.Odd": None,
    }
    assert catalogue.left_out == {"gluon.nn.Forgotten": "no rule yet"}


def test_rules_in_several_files_are_one(tmp_path: Path) -> None:
    first = "more: [b.yaml]\narguments: {x: 1}\ncategories: {a: {description: x, operators: [nd.exp]}}"
    (tmp_path / "operators.yaml").write_text(first)
    (tmp_path / "b.yaml").write_text("arguments: {y: 2}\ncategories: {b: {description: x, operators: [nd.sum]}}")
    joined = load_rules(Toy(tmp_path))
    assert (list(joined.categories), joined.arguments) == (["a", "b"], {"x": 1, "y": 2})
    (tmp_path / "b.yaml").write_text("arguments: {x: 2}\ncategories: {b: {description: x, operators: [nd.sum]}}")
    with pytest.raises(UsageError, match=r"b\.yaml: arguments\.x: is in operators\.yaml or another file"):
        load_rules(Toy(tmp_path))


def test_patterns_take_one_name_of_an_operator_and_none_that_is_named() -> None:
    category = {"operators": ["nd.*oncat", "nd._internal._*"], "inputs": {"args": [[2]]}, "prefix": "p."}
    tests = apply_rules(rules({"c": category}), REGISTRY).tests["c"]
    assert [test["operator"] for test in tests] == ["nd.Concat", "nd._internal._plus"]
    assert tests[1]["inputs"][0]["case"] == {"identifier": "p.internal.plus"}
    both = {"operators": ["nd.concat", "nd.*oncat"], "inputs": {"args": [[2]]}}
    assert [test["operator"] for test in apply_rules(rules({"c": both}), REGISTRY).tests["c"]] == ["nd.concat"]


def test_nothing_is_dropped_without_a_reason() -> None:
    category = {"operators": ["nd.exp", "nd.odd", "nd.gone", "nd.sum", "np.exp"]}
    catalogue = apply_rules(rules({"c": category}, cannot={"nd.s*": "too dull", "_backward_*": "no call"}), REGISTRY)
    assert [test["operator"] for test in catalogue.tests["c"]] == ["nd.exp", "np.exp"]
    assert catalogue.left_out == {
        "nd.odd": "no rule for its argument strange",
        "nd.gone": "this build has no such operator",
        "nd.sum": "too dull",
        "odd": "no rule for its argument strange",
        "sum": "too dull",
        "_backward_exp": "no call",
        "one_hot": "no rule yet",
        "Concat": "no rule yet",
        "_plus": "no rule yet",
        "nd.one_hot": "no rule yet",
        "nd.concat": "no rule yet",
        "nd.Concat": "no rule yet",
    }
    unlisted = apply_rules(rules({"c": category}, unlisted={"nd.*oncat": "too long", "nd.exp": "is listed"}), REGISTRY)
    assert (unlisted.left_out["nd.Concat"], unlisted.left_out["nd.one_hot"]) == ("too long", "no rule yet")
    assert "nd.exp" not in unlisted.left_out


def test_a_rule_for_what_is_no_argument_is_an_error() -> None:
    with pytest.raises(UsageError, match=r"operators\.nd\.sum: axes is no argument: use one of data, axis"):
        only_test("nd.sum", operators={"nd.sum": {"inputs": {"axes": 1}}})


def test_files_are_valid_json_and_old_ones_go(tmp_path: Path) -> None:
    several = rules(
        {"a": {"operators": ["nd.exp"]}, "b": {"operators": ["np.exp"]}, "none": {"operators": ["nd.gone"]}}
    )
    files = spec_files(apply_rules(several, REGISTRY), several, "mxnet")
    assert list(files) == ["operators/a.json", "operators/b.json", "all.json"]
    assert json.loads(files["all.json"])["specs"] == ["operators/a.json", "operators/b.json"]
    beside = several.model_copy(update={"beside": ["own.json"]})
    bundle = spec_files(apply_rules(beside, REGISTRY), beside, "mxnet")["all.json"]
    assert json.loads(bundle)["specs"] == ["operators/a.json", "operators/b.json", "own.json"]
    (tmp_path / "operators").mkdir()
    (tmp_path / "operators" / "old.json").write_text("{}")
    write_specs(files, "operators", tmp_path)
    assert sorted(str(path.relative_to(tmp_path)) for path in tmp_path.rglob("*.json")) == sorted(files)
    assert json.loads((tmp_path / "operators" / "a.json").read_text())["tests"][0]["operator"] == "nd.exp"


@pytest.mark.parametrize(
    ("text", "words"),
    [
        (None, "it has the rules for this framework's operators; restore it"),
        ("arguments: {}\ncategories: {}", "categories"),
        (
            "arguments: {}\ncategories: {a: {description: x, operators: [nd.exp], sizes: [huge]}}",
            "categories.a.sizes[0]",
        ),
        ("arguments: {}\ncategories: {a: {description: x, operators: [nd.exp], input: {}}}", "categories.a.input"),
    ],
)
def test_bad_rules_are_named(tmp_path: Path, text: str | None, words: str) -> None:
    if text is not None:
        (tmp_path / "operators.yaml").write_text(text)
    with pytest.raises(UsageError) as caught:
        load_rules(Toy(tmp_path))
    assert words in str(caught.value)
    assert str(tmp_path / "operators.yaml") in str(caught.value)
    assert len(str(caught.value).splitlines()) == 1


PACKAGE = Registry(
    "1.0",
    {},
    {
        "p.add": Function(
            "p.add", "p.add", {"x1": "positional", "x2": "positional"}, kind="ufunc", dtypes=["float64", "int32"]
        ),
        "p.plus": Function("p.plus", "p.add", {"x1": "positional", "x2": "positional"}, kind="ufunc"),
        "p.sort": Function("p.sort", "p.sort", {"a": "required", "kind": "optional"}),
        "p.within.sort": Function("p.within.sort", "p.within.sort", {"a": "required"}),
        "p.mean": Function("p.mean", "p.mean", {"a": "positional", "rest": "tensors"}),
    },
)


def of_package(category: dict[str, Any], **more: Any) -> dict[str, list[dict[str, Any]]]:
    """Operator -> its inputs."""
    catalogue = apply_rules(rules({"c": {"operators": ["p.*"], **category}}, **more), PACKAGE)
    return {test["operator"]: test["inputs"] for test in catalogue.tests.get("c", ())}


def test_functions_of_packages_are_chosen_by_kind_and_namespace() -> None:
    settings = {"arguments": {"x1": [2], "x2": 3, "a": [4]}}
    assert set(of_package({"kinds": ["ufunc"], **settings})) == {"p.add"}, "by its own name, not by an alias"
    assert set(of_package({"kinds": ["function"], "but": ["p.*.*"], "inputs": {"args": [[4]]}})) == {"p.sort", "p.mean"}


def test_arguments_without_names_are_given_by_their_places() -> None:
    (add,) = of_package({"kinds": ["ufunc"], "arguments": {"x1": [2], "x2": 3}})["p.add"]
    assert add["args"] == [[2], {"value": 3}]
    own = {"p.m*": {"inputs": {"args": [[[2], [3]]], "axis": 1}}}
    (mean,) = of_package({"operators": ["p.mean"]}, operators=own)["p.mean"]
    assert mean == {"args": [{"call": "builtins.list", "args": [[[2], [3]]]}], "case": {"identifier": "p.mean"}}, (
        "a glob's rule holds as far as the function has the arguments"
    )
    none = {"p.mean": {"inputs": {"args": None}}}
    (mean,) = of_package({"operators": ["p.mean"], "arguments": {"a": [5]}}, operators=none)["p.mean"]
    assert mean["args"] == [[5]]


def test_dtypes_make_cases_where_they_say_something() -> None:
    sizes = {"small": [2], "large": [9]}
    category = {"kinds": ["ufunc"], "arguments": {"x1": sizes, "x2": sizes}, "dtypes": ["float64", "float32", "int32"]}
    cases = [
        (case_input["case"]["identifier"], case_input["case"]["dtype"]) for case_input in of_package(category)["p.add"]
    ]
    assert cases == [("p.add_small", "float64"), ("p.add_large", "float64"), ("p.add_large", "int32")]
    drawn = {"call": "p.rand", "args": [7]}  # no array of a shape is among the inputs
    (sort,) = of_package({"operators": ["p.sort"], "inputs": {"a": drawn}, "dtypes": ["float64"]})["p.sort"]
    assert "dtype" not in sort["case"]
    nested = {"call": "p.masked", "args": [[7], -1]}
    (sort,) = of_package({"operators": ["p.sort"], "inputs": {"a": nested}, "dtypes": ["float64"]})["p.sort"]
    assert sort["case"]["dtype"] == "float64"
