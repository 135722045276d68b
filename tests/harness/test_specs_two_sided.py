"""Specs for two frameworks: an operator of either in one case, on the same inputs."""

from typing import Any

import pytest

from opduel.frameworks import get_framework
from opduel.harness.specs import expand_cases, validate
from opduel.records import UsageError

DOT = {"framework": "python", "operator": "numpy.dot"}
ND = {"framework": "mxnet", "operator": "nd.dot"}


def spec(*tests: dict[str, Any], framework: str = "cross", **more: Any) -> dict[str, Any]:
    return {"framework": framework, "tests": list(tests), **more}


def test_a_case_has_both_operators_and_one_set_of_inputs() -> None:
    test = {"control": DOT, "treatment": {**ND, "inputs": {"transpose_b": True}}, "inputs": {"args": [[4, 4], [4, 4]]}}
    (case,) = expand_cases(validate(spec({**test, "identifier": "dot"})))
    assert (case.id, case.operator) == ("dot/forward", "numpy.dot_against_nd.dot")
    assert case.inputs == {
        "control": DOT,
        "treatment": {**ND, "inputs": {"transpose_b": True}},
        "inputs": {"args": [[4, 4], [4, 4]]},
    }
    framework = get_framework("cross").for_cases([case])
    assert [framework.of_side(side).name for side in ("control", "treatment")] == ["python", "mxnet"]
    again = validate(spec({**test, "operator": case.operator}))  # as a model dumps it
    assert expand_cases(again)[0].inputs == case.inputs


def test_settings_and_directions_are_those_of_any_test() -> None:
    test = {"control": DOT, "treatment": ND, "inputs": [{"args": [[4], [4]]}, {"args": [[8], [8]]}]}
    cases = expand_cases(validate(spec(test, defaults={"run_backward": True, "dtype": "float64"})))
    assert [case.id for case in cases] == [
        f"dot_{number}/float64/{direction}" for number in (0, 1) for direction in ("forward", "backward")
    ]


@pytest.mark.parametrize(
    ("test", "framework", "message"),
    [
        ({"control": DOT}, "cross", "tests[0].treatment is missing: control has an operator of its own, so add it"),
        ({"operator": "nd.dot"}, "cross", "tests[0] lacks control and treatment"),
        ({"control": DOT, "treatment": ND}, "mxnet", "tests[0].control is for the framework cross: use operator"),
        ({}, "mxnet", "tests[0].operator is missing: add it"),
        ({"control": DOT, "treatment": ND, "operator": "nd.dot"}, "cross", "tests[0].operator is given beside control"),
        ({"control": DOT, "treatment": {"framework": "mxnet"}}, "cross", "tests[0].treatment.operator is missing"),
        (
            {"control": DOT, "treatment": {**ND, "framework": "cross"}},
            "cross",
            "tests[0].treatment.framework is 'cross'",
        ),
        (
            {"control": DOT, "treatment": {**ND, "operator": "os.system"}},
            "cross",
            "tests[0].treatment.operator is 'os.",
        ),
        ({"control": DOT, "treatment": {**ND, "inputs": {"lhs": {"shape": [4]}}}}, "cross", "treatment.inputs.lhs"),
    ],
)
def test_what_is_wrong_is_named(test: dict[str, Any], framework: str, message: str) -> None:
    with pytest.raises(UsageError) as caught:
        validate(spec({**test, "inputs": {"args": [[4], [4]]}}, framework=framework))
    assert message in str(caught.value), str(caught.value)


def test_one_run_has_two_frameworks() -> None:
    other = {"control": DOT, "treatment": {"framework": "python", "operator": "numpy.vdot"}, "identifier": "vdot"}
    inputs = {"inputs": {"args": [[4], [4]]}}
    cases = expand_cases(validate(spec({"control": DOT, "treatment": ND, **inputs}, {**other, **inputs})))
    with pytest.raises(UsageError, match=r"compares python with mxnet, and vdot/forward python with python"):
        get_framework("cross").for_cases(cases)
