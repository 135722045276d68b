"""Bundles: the tests of several specs as one, each with its own file's defaults."""

import json
from pathlib import Path
from typing import Any

import pytest

from opduel.harness.specs import expand_cases, is_bundle, load_spec
from opduel.records import UsageError

UNARY = {
    "framework": "mxnet",
    "defaults": {"run_backward": True, "dtype": "float64"},
    "tests": [
        {"operator": "nd.exp", "inputs": {"data": [2]}},
        {"operator": "nd.log", "inputs": {"data": [2]}, "directions": ["both"], "dtype": "float32"},
    ],
}
BINARY = {"framework": "mxnet", "tests": [{"operator": "nd.dot", "inputs": {"lhs": [2, 2], "rhs": [2, 2]}}]}


def written(folder: Path, bundle: dict[str, Any], **specs: Any) -> Path:
    (folder / "inner").mkdir(exist_ok=True)
    for name, document in {"unary": UNARY, "binary": BINARY, **specs}.items():
        (folder / "inner" / f"{name}.json").write_text(json.dumps(document))
    path = folder / "bundle.json"
    path.write_text(json.dumps({"framework": "mxnet", **bundle}))
    return path


def ids(path: Path) -> list[str]:
    return [case.id for case in expand_cases(load_spec(path))]


def test_a_bundle_has_the_tests_of_all(tmp_path: Path) -> None:
    path = written(tmp_path, {"specs": ["inner/unary.json", "inner/binary.json"]})
    members = [tmp_path / "inner" / name for name in ("unary.json", "binary.json")]
    assert ids(path) == [*ids(members[0]), *ids(members[1])]
    assert ids(path) == ["exp_0/float64/forward", "exp_0/float64/backward", "log_0/both", "dot_0/forward"]
    assert is_bundle(path)
    assert not any(is_bundle(member) for member in members)


def test_its_own_defaults_come_last(tmp_path: Path) -> None:
    defaults = {"dtype": "float16", "directions": ["backward"], "timeout": 7}
    path = written(tmp_path, {"specs": ["inner/unary.json", "inner/binary.json"], "defaults": defaults})
    assert ids(path) == ["exp_0/float64/forward", "exp_0/float64/backward", "log_0/both", "dot_0/float16/backward"]
    assert {case.timeout_s for case in expand_cases(load_spec(path))} == {7.0}


@pytest.mark.parametrize(
    ("bundle", "words"),
    [
        ({"specs": []}, "specs is empty"),
        ({"specs": ["inner/unary.json"], "tests": BINARY["tests"]}, "specs and tests are both given: keep one"),
        ({"specs": ["inner/gone.json"]}, "specs[0]: inner/gone.json: cannot be read"),
        ({"specs": ["inner/unary.json", "inner/unary.json"]}, "specs[1] 'inner/unary.json' is listed twice"),
        ({"specs": ["/etc/passwd"]}, "specs[0] is '/etc/passwd': use a path relative to this file's folder"),
        ({"specs": [""]}, "specs[0] is '': use a path"),
        ({"specs": [3]}, "specs[0] is 3: use a string"),
        ({"specs": ["inner/nested.json"]}, "specs[0]: inner/nested.json: is a bundle itself: list its specs"),
        ({"specs": ["bundle.json"]}, "specs[0]: bundle.json: is a bundle itself"),
        ({"specs": ["inner/bad.json"]}, "specs[0]: inner/bad.json: tests[0].operator is missing: add it"),
        (
            {"specs": ["inner/unary.json", "inner/other.json"]},
            "inner/unary.json and inner/other.json both have a case log_0/both: rename one of them",
        ),
    ],
)
def test_bad_bundles_are_refused_in_one_line(tmp_path: Path, bundle: dict[str, Any], words: str) -> None:
    path = written(
        tmp_path,
        bundle,
        nested={"framework": "mxnet", "specs": ["unary.json"]},
        bad={"framework": "mxnet", "tests": [{"inputs": {}}]},
        other={"framework": "mxnet", "tests": [UNARY["tests"][1]]},  # type: ignore[index]
    )
    with pytest.raises(UsageError) as caught:
        load_spec(path)
    assert str(caught.value).startswith(f"{path}: ")
    assert words in str(caught.value)
    assert len(str(caught.value).splitlines()) == 1


def test_every_case_has_the_spec_that_it_is_from(tmp_path: Path) -> None:
    """As ``--category`` names it, for a bundle's specs and for one alone."""
    path = written(tmp_path, {"specs": ["inner/unary.json", "inner/binary.json"]})
    category_by_operator = {case.operator: case.category for case in expand_cases(load_spec(path))}
    assert category_by_operator == {"nd.exp": "unary", "nd.log": "unary", "nd.dot": "binary"}
    assert {case.category for case in expand_cases(load_spec(tmp_path / "inner" / "unary.json"))} == {"unary"}
