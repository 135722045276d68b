"""Whole networks on real builds: the same numbers on each, steps that train, operators that the profiler tells of."""

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest
from build_oracle import answers_of
from mxnet_workers import MXNetWorkers, prepare

from opduel.harness.profiles import operator_times
from opduel.records import Build, Case, Failure, ModelFile

pytestmark = pytest.mark.mxnet
SMALL = {"data": [1, 3, 32, 32], "classes": 7}
Answers = list[dict[str, Any]]


@pytest.fixture(scope="module")
def saved(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of a network that the first build saved and all others load."""
    return tmp_path_factory.mktemp("saved")


@pytest.fixture(scope="module")
def computed(saved: Path, mxnet_1_5: Build, mxnet_1_8: Build, mxnet_1_9: Build) -> Mapping[str, Any]:
    """By release, what ``networks_of.py`` answers."""
    builds = (mxnet_1_5, mxnet_1_8, mxnet_1_9)
    return {build.version: answers_of(build, "networks_of.py", [str(saved)])[0] for build in builds}


def test_each_release_computes_the_same(computed: Mapping[str, Any]) -> None:
    first, *later_releases = (release["outputs"] for release in computed.values())
    assert len(first) == 5
    for name, values in first.items():
        assert max(map(abs, values)) > 1e-3, name
        assert len({round(value, 5) for value in values}) > 1, name
        for other in later_releases:
            assert other[name] == pytest.approx(values, rel=1e-3, abs=1e-4 * max(map(abs, values))), name


def test_a_training_step_updates_every_parameter_and_lowers_the_loss(computed: Mapping[str, Any]) -> None:
    for release in computed.values():
        assert release["changed"] == release["parameters"] > 20
        assert release["loss"][1] < release["loss"][0]


Ask = Callable[..., Answers | Failure]


@pytest.fixture(scope="module")
def ask(mxnet_1_9: Build, mxnet_workers: MXNetWorkers) -> Ask:
    """``ask(operator, direction, calls, files, **inputs)``: prepared, timed once, and profiled in one process."""
    worker = mxnet_workers.profiling(mxnet_1_9)

    def ask_worker(
        operator: str, direction: Any = "forward", files: Mapping[str, str] | None = None, **inputs: Any
    ) -> Answers | Failure:
        model_files = {name: ModelFile(path, md5="", path=path) for name, path in (files or {}).items()}
        case = Case("a", operator, direction, inputs, "float32", "cpu", 0.02, 60.0, files=model_files)
        block = {"op": "block", "discard": 0, "calls": 2, "inner": 1}
        return worker.ask([prepare(case), block, {"op": "profile", "calls": 2}], 60.0)

    return ask_worker


@pytest.mark.parametrize("direction", ["forward", "backward", "both"])
@pytest.mark.parametrize("kind", ["model_zoo.mobilenet0_25", "saved.net"])
def test_every_direction_runs_and_tells_of_its_operators(
    ask: Ask, computed: object, saved: Path, kind: str, direction: str
) -> None:
    files = {"symbol": str(saved / "net-symbol.json"), "params": str(saved / "net-0000.params")}
    files_and_inputs = (files, {"data": [1, 3, 8, 8]}) if kind == "saved.net" else (None, SMALL)
    answers = ask(kind, direction, files_and_inputs[0], **files_and_inputs[1], hybridize=False)
    assert not isinstance(answers, Failure), answers
    assert answers[0]["call_ns"] > 0
    assert min(answers[1]["ns"]) > 0
    counts = {row.name: row.count for row in operator_times(answers[2]["calls"])}
    convolutions = 27 if kind.startswith("model_zoo") else 1
    assert counts.get("Convolution", 0) == (0 if direction == "backward" else convolutions)
    assert counts.get("_backward_Convolution", 0) == (0 if direction == "forward" else convolutions)
    assert any(name.endswith("sgd_update") for name in counts) == (direction == "both")


BLOCK = """
import mxnet as mx
from mxnet.gluon import nn

class Net(nn.HybridBlock):
    def __init__(self, hidden, classes=5, **kwargs):
        super().__init__(**kwargs)
        with self.name_scope():
            self.scale = self.params.get_constant("scale", mx.nd.array([2.0]))
            self.first = nn.Dense(hidden)
            self.second = nn.Dense(classes)

    def hybrid_forward(self, F, data, mask, scale):
        inner = self.first(data) * mask
        return self.second(inner), [F.broadcast_mul(inner, scale)]

class Plain(nn.Block):
    def forward(self, data):
        return data * 2
"""


@pytest.fixture(scope="module")
def module(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """A user's Python file, as the files of a case."""
    path = tmp_path_factory.mktemp("module") / "net"
    path.write_text(BLOCK, encoding="utf-8")
    return {"module": str(path)}


@pytest.mark.parametrize("direction", ["forward", "backward", "both"])
def test_a_block_of_a_python_file_runs_in_every_direction(ask: Ask, module: dict[str, str], direction: str) -> None:
    answers = ask("block.Net", direction, module, data=[4, 6], mask=[4, 3], hidden=3, hybridize=False)
    assert not isinstance(answers, Failure), answers
    counts = {row.name: row.count for row in operator_times(answers[2]["calls"])}
    assert counts.get("FullyConnected", 0) == (0 if direction == "backward" else 2)
    assert not isinstance(ask("block.Plain", "forward", module, data=[4, 6]), Failure)
    assert not (Path(module["module"]).parent / "__pycache__").exists()


@pytest.mark.parametrize(
    ("operator", "inputs", "words"),
    [
        ("block.Other", {"data": [4, 6]}, "net has no Gluon block Other: its blocks are Net, Plain"),
        ("block.Net", {"hidden": 3}, "Net is given no tensor"),
        ("block.Net", {"data": [4, 6], "mask": [4, 3]}, "missing 1 required positional argument: 'hidden'"),
    ],
)
def test_a_block_that_can_not_be_made_says_why(
    ask: Ask, module: dict[str, str], operator: str, inputs: Any, words: str
) -> None:
    failure = ask(operator, "forward", module, **inputs)
    assert isinstance(failure, Failure)
    assert words in failure.reason


@pytest.mark.parametrize("with_params", [True, False])
def test_wrong_inputs_of_a_saved_network_are_named(ask: Ask, computed: object, saved: Path, with_params: bool) -> None:
    files = {"symbol": str(saved / "net-symbol.json")}
    if with_params:
        files["params"] = str(saved / "net-0000.params")
    failure = ask("saved.net", "forward", files, image=[1, 3, 8, 8])
    assert isinstance(failure, Failure)
    assert failure.reason == "ValueError: the network has no input image: its inputs are data"


@pytest.mark.parametrize("direction", ["forward", "backward", "both"])
def test_hybridized_is_the_default(ask: Ask, direction: str) -> None:
    answers = ask("model_zoo.mobilenet0_25", direction, **SMALL)
    assert not isinstance(answers, Failure), answers


@pytest.mark.parametrize(
    ("operator", "inputs", "kind", "words"),
    [
        ("model_zoo.resnet9000", SMALL, "missing", "has no network resnet9000 in its model zoo"),
        ("model_zoo.get_model", SMALL, "missing", "has no network get_model"),
        ("model_zoo.mobilenet0_25", {"classes": 3}, "error", "inputs need data"),
        ("model_zoo.mobilenet0_25", {"data": 3}, "error", "data is 3: give the shape of a tensor"),
        ("model_zoo.mobilenet0_25", {**SMALL, "pretrained": True}, "error", "pretrained is not accepted"),
        ("model_zoo.mobilenet0_25", {**SMALL, "loss": "hinge"}, "error", "loss 'hinge' is not known"),
        ("model_zoo.mobilenet0_25", {"data": [1, 3, 32]}, "error", "Check failed"),
    ],
)
def test_what_can_not_be_run_is_said(ask: Ask, operator: str, inputs: Any, kind: str, words: str) -> None:
    failure = ask(operator, **inputs)
    assert isinstance(failure, Failure)
    assert failure.kind == kind
    assert words in failure.reason


def test_what_has_to_be_fixed_to_list_a_networks_calls_is_said(mxnet_1_9: Build) -> None:
    picture = [1, 3, 32, 32]
    wrong: list[tuple[str, dict[str, list[int]], str]] = [
        ("resnet19", {"data": picture}, "no such file, and no model of the zoo"),
        ("resnet18_v1", {"date": picture}, "no input is called date: use data"),
        ("resnet18_v1", {}, "give the shape of data"),
    ]
    unsaved = {"file": None, "block": None}
    requests = [
        {**unsaved, "zoo": name, "inputs": shapes, "shapes": shapes, "dtypes": dict.fromkeys(shapes, "float32")}
        for name, shapes, _ in wrong
    ]
    answers = answers_of(mxnet_1_9, "network_calls_of.py", requests)
    for answer, (_, _, words) in zip(answers, wrong, strict=True):
        assert words in answer["error"]


@pytest.mark.parametrize(("content", "params"), [("{}", False), ("no symbol", False), ("", True)])
def test_files_that_are_no_network(ask: Ask, saved: Path, tmp_path: Path, content: str, params: bool) -> None:
    bad = tmp_path / "bad"
    bad.write_text(content)
    files = {"symbol": str(bad)} if not params else {"symbol": str(saved / "net-symbol.json"), "params": str(bad)}
    failure = ask("saved.net", "forward", files, data=[1, 3, 8, 8])
    assert isinstance(failure, Failure)
    assert failure.kind in ("error", "crash")
