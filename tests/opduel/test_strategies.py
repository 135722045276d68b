"""opduel.strategies: inputs that operators take, for property-based tests."""

import re
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from opduel.frameworks import get_framework, worker_environment
from opduel.harness.machine.cpus import plan_cpus
from opduel.harness.processes.case_request import CaseRequest
from opduel.harness.processes.restarting_worker import RestartingWorker
from opduel.harness.specs import expand_cases, validate
from opduel.records import Build, Failure, UsageError
from opduel.strategies import inputs, operators

USUAL = ["nd.dot", "nd.FullyConnected", "nd.broadcast_add", "nd.softmax", "gluon.nn.Dense"]


def test_every_operator_of_the_catalogue_has_one() -> None:
    assert set(USUAL) <= set(operators())
    assert operators("conv") == ["nd.Convolution", "nd.Deconvolution"]


@given(inputs("nd.FullyConnected", most_elements=500))
def test_inputs_are_those_of_a_spec(arguments: dict[str, Any]) -> None:
    assert expand_cases(
        validate({"framework": "mxnet", "tests": [{"operator": "nd.FullyConnected", "inputs": arguments}]})
    )
    assert arguments["weight"][0] == arguments["num_hidden"]


def test_an_operator_that_is_not_there_is_named() -> None:
    with pytest.raises(UsageError, match=r"nd\.nothing: all has no case of it for forward"):
        inputs("nd.nothing")


@pytest.mark.mxnet
def test_the_framework_takes_them(mxnet_1_9: Build) -> None:
    """Of usual operators none is refused; of all of them a few are (docs/how-to/fuzzing.md)."""
    framework = get_framework("mxnet")
    environment = {**worker_environment(), **framework.environment(1)}
    with RestartingWorker("treatment", mxnet_1_9, framework.adaptor, environment, plan_cpus(1).start) as worker:

        def runs(operator: str, arguments: dict[str, Any]) -> None:
            (case,) = expand_cases(
                validate({"framework": "mxnet", "tests": [{"operator": operator, "inputs": arguments}]})
            )
            answer = worker.ask([CaseRequest(case, 1).message("treatment")], 30.0)
            assert not isinstance(answer, Failure), answer

        usual = settings(max_examples=8, deadline=None, database=None, suppress_health_check=list(HealthCheck))
        for operator in USUAL:
            usual(given(st.just(operator), inputs(operator, most_elements=1 << 14))(runs))()


@pytest.mark.mxnet
def test_the_example_of_the_docs_runs() -> None:
    """With the smallest example alone: each of them starts a worker."""
    text = (Path(__file__).parents[2] / "docs" / "how-to" / "api.md").read_text(encoding="utf-8")
    (example,) = [block for block in re.findall(r"```python\n(.*?)```", text, re.DOTALL) if "hypothesis" in block]
    names: dict[str, Any] = {}
    exec(example, names)
    (test,) = [test_function for name, test_function in names.items() if name.startswith("test_")]
    settings(max_examples=1, deadline=None, database=None, suppress_health_check=list(HealthCheck))(test)()
