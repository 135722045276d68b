"""The operator calls of networks as specs: on real MXNet, and the files that are no networks."""

import subprocess
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from opduel.driver.catalogue.network import Call, Input, Network, ask_network, network_spec, operator_tests
from opduel.driver.catalogue.rules import load_rules
from opduel.frameworks import get_framework
from opduel.harness.other_runs.smoke_check import smoke_check
from opduel.harness.specs import expand_cases, load_spec
from opduel.records import Build, Case, UsageError

MXNET = get_framework("mxnet")
# Variadic, scalar, index-like and reduced operators, one twice, one of nothing but attributes' tuples.
SMALL = """
import mxnet as mx
words = mx.sym.var("words")
x = mx.sym.Embedding(words, input_dim=50, output_dim=8, name="embed")
x = mx.sym.Concat(x, x * 2.5, dim=2)
x = mx.sym.relu(mx.sym.FullyConnected(x, num_hidden=16, flatten=False, name="dense"))
x = mx.sym.relu(x)
x = mx.sym.transpose(x, axes=(1, 0, 2)) + 1.0
x = mx.sym.reshape(mx.sym.LayerNorm(x, name="norm"), shape=(-1, 16))
x = mx.sym.contrib.div_sqrt_dim(mx.sym.clip(x, a_min=-1, a_max=1))
x = mx.sym.SoftmaxOutput(mx.sym.BatchNorm(x, name="bn"), mx.sym.var("label"), name="out")
x.save({path!r})
"""


def small_symbol(build: Build, folder: Path) -> Path:
    path = folder / "small-symbol.json"
    subprocess.run([build.interpreter, "-c", SMALL.replace("{path!r}", repr(str(path)))], check=True)
    return path


def cases_of(text: str, folder: Path) -> list[Case]:
    path = folder / "from_network.json"
    path.write_text(text, encoding="utf-8")
    return expand_cases(load_spec(path))


def failures(builds: Sequence[Build], cases: Sequence[Case]) -> dict[str, str | None]:
    attempts = [attempt for build in builds for attempt in smoke_check(build, MXNET, cases)]
    assert len(attempts) == len(builds) * len(cases)
    return {attempt.case.id: attempt.reason for attempt in attempts if attempt.failure}


@pytest.mark.nightly  # test_networks.py runs saved networks
@pytest.mark.mxnet
def test_a_saved_symbol_becomes_a_spec_that_runs_on_both_releases(
    mxnet_1_8: Build, mxnet_1_9: Build, tmp_path: Path
) -> None:
    path = small_symbol(mxnet_1_8, tmp_path)
    inputs = {"words": Input((4, 6)), "label": Input((24,))}
    network = ask_network(mxnet_1_9, MXNET, str(path), inputs)
    assert network.left_out == {}
    text = network_spec(network, path.name, inputs, operator_tests(network, path.name, load_rules(MXNET)), "mxnet")
    cases = cases_of(text, tmp_path)
    by_operator = {case.operator: case for case in cases}
    assert {"nd.Embedding", "nd.Concat", "nd.FullyConnected", "nd.relu", "nd.contrib.div_sqrt_dim"} <= set(by_operator)
    assert by_operator["nd.Embedding"].inputs["data"] == {"shape": [4, 6], "init": "randint", "low": 0, "high": 50}
    assert by_operator["nd.Concat"].inputs["args"] == [[4, 6, 8], [4, 6, 8]]
    assert by_operator["nd.FullyConnected"].inputs["weight"] == [16, 16]
    assert "relu_4x6x16_times2/backward" in {case.id for case in cases}
    assert "small-symbol.json" in text
    assert failures([mxnet_1_8, mxnet_1_9], cases) == {}


@pytest.mark.nightly  # test_networks.py runs networks of the zoo
@pytest.mark.mxnet
def test_a_model_of_the_zoo_becomes_a_spec_that_runs_on_both_releases(
    mxnet_1_8: Build, mxnet_1_9: Build, tmp_path: Path
) -> None:
    inputs = {"data": Input((1, 3, 32, 32))}
    network = ask_network(mxnet_1_8, MXNET, "resnet18_v1", inputs)
    assert network.left_out == {}
    convolutions = [call for call in network.calls if call.functions[0] == "nd.Convolution"]
    assert sum(call.times for call in convolutions) == 20
    assert convolutions[0].inputs["weight"]["shape"] == [64, 3, 7, 7]
    cases = cases_of(
        network_spec(
            network, "resnet18_v1", inputs, operator_tests(network, "resnet18_v1", load_rules(MXNET)), "mxnet"
        ),
        tmp_path,
    )
    assert {case.direction for case in cases if case.operator == "nd.Convolution"} == {"forward", "backward"}
    assert failures([mxnet_1_8, mxnet_1_9], cases) == {}


@pytest.mark.mxnet
def test_what_the_user_has_to_fix_is_one_line(mxnet_1_9: Build) -> None:
    """tests/frameworks/test_mxnet_networks.py has the other reasons."""
    with pytest.raises(UsageError, match=r"^resnet18_v1: MXNet rejects it: [^\n]+$"):
        ask_network(mxnet_1_9, MXNET, "resnet18_v1", {"data": Input((3, 32))})


def test_names_are_unique_and_within_the_limits(tmp_path: Path) -> None:
    @dataclass(frozen=True)
    class Rules:
        operators: dict[str, Any] = field(default_factory=dict)
        categories: dict[str, Any] = field(default_factory=dict)

    long = {"data": {"shape": [123456] * 1 + [1] * 31, "dtype": "float32"}}
    calls = [Call(["nd.relu"], {"data": {"shape": [2], "dtype": "float32"}}, 3)]
    calls += [Call(["nd.sum"], {**long, "axis": axis}, 1) for axis in range(12)]
    network = Network("1", calls, {"Custom": "why"})  # type: ignore[arg-type]
    text = network_spec(network, "net", {}, operator_tests(network, "net", Rules()), "mxnet")
    cases = cases_of(text, tmp_path)
    assert len(cases) == len(calls)
    assert cases[0].id == "relu_2_times3/forward"
    assert "Custom (why)" in text
