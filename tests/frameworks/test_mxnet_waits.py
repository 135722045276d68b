"""A call returns when all that it started is done: known examples, and at night every case of the catalogue."""

from collections.abc import Sequence
from typing import Any

import pytest
from build_oracle import MXNET, answers_of

from opduel.harness.processes.case_request import CaseRequest
from opduel.harness.specs import expand_cases, find_spec, load_spec
from opduel.records import Build, Case

pytestmark = pytest.mark.mxnet
# With newer instructions oneDNN refuses contrib.quantized_rnn.
VARIABLES = {**MXNET.profiling.variables, "DNNL_MAX_CPU_ISA": "AVX512_CORE"}
PAIR = {"weight": [50, 50], "grad": [50, 50]}
EXAMPLES: list[tuple[str, Any, dict[str, Any]]] = [
    ("nd.reset_arrays", "forward", {"args": [[50, 50], [60, 60]], "num_arrays": 2}),  # returns []
    ("nd.sgd_mom_update", "forward", {**PAIR, "mom": [50, 50], "lr": 0.1}),  # changes an argument beside its output
    ("nd.split", "forward", {"data": [50, 50], "num_outputs": 2}),
    ("nd.BatchNorm", "both", {"data": [4, 3, 8, 8], **{name: [3] for name in ("gamma", "beta", "moving_mean")}}),
    ("nd.Custom", "both", {"op_type": "opduel_add_one", "args": [[50, 50]]}),
    ("nd.NDArray.reshape", "forward", {"self": [50, 50], "shape": {"value": [2500]}}),  # runs no operator
    ("nd.NDArray.asnumpy", "forward", {"self": [50, 50]}),
]
EXAMPLES[3][2]["moving_var"] = {"shape": [3], "init": "ones"}


def unwaited(build: Build, cases: Sequence[Case]) -> dict[str, dict[str, Any]]:
    """``unwaited_in.py``'s answer for each case."""
    questions = [CaseRequest(case, 1).description() for case in cases]
    answers = answers_of(build, "unwaited_in.py", questions, **VARIABLES)
    return {case.id: answer for case, answer in zip(cases, answers, strict=True)}


def test_nothing_is_left_running_when_a_call_returns(mxnet_1_9: Build) -> None:
    cases = [Case(name, name, way, inputs, "float32", "cpu", 0.02, 60.0) for name, way, inputs in EXAMPLES]
    bad = Case("bad", "unwaited", "forward", {}, "float32", "cpu", 0.02, 60.0)
    answers = unwaited(mxnet_1_9, [*cases, bad])
    assert answers.pop("bad") == {"unwaited": ["exp"]}, "or else nothing is found at all"
    assert answers == {case.id: {"unwaited": []} for case in cases}


@pytest.mark.nightly
def test_nothing_in_the_catalogue_is_left_running(mxnet_1_9: Build) -> None:
    answers = unwaited(mxnet_1_9, expand_cases(load_spec(find_spec("all")), seed=1))
    hostile = [case for case in answers if case.startswith("hostile.")]
    assert {
        case: answer for case, answer in answers.items() if answer != {"unwaited": []} and case not in hostile
    } == {}
    assert len(answers) - len(hostile) > 3000
