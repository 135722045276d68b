"""PyTorch's adaptor in a real build: functions, methods, modules, gradients, refusals; skipped without a wheel."""

import json
import subprocess
from pathlib import Path
from typing import Any

import numpy
import pytest
from torch_at_hand import torch_build

from opduel.frameworks import get_framework, worker_environment

pytestmark = pytest.mark.wheels
TORCH = get_framework("torch")
ONES = {"shape": [2, 3], "init": "ones"}
INDICES = {"shape": [4], "dtype": "int64", "init": "randint", "low": 0, "high": 5}
LAYERS = {"value": [{"block": "torch.nn.Linear", "in_features": 3, "out_features": 4}, {"block": "torch.nn.ReLU"}]}
CASES: dict[str, dict[str, Any]] = {
    "function": {"operator": "torch.add", "inputs": {"input": ONES, "other": 2, "alpha": 3}},
    "method": {"operator": "torch.Tensor.sum", "inputs": {"self": ONES, "dim": {"value": [0]}}},
    "in place": {"operator": "torch.Tensor.neg_", "inputs": {"self": ONES}},
    "product backward": {"operator": "torch.mul", "direction": "backward", "inputs": {"input": [3], "other": [3]}},
    "product both": {"operator": "torch.mul", "direction": "both", "inputs": {"input": [3], "other": [3]}},
    "indices": {
        "operator": "torch.nn.functional.embedding",
        "direction": "backward",
        "inputs": {"input": INDICES, "weight": [5, 2]},
    },
    "module": {"operator": "torch.nn.Linear", "inputs": {"input": [2, 3], "in_features": 3, "out_features": 4}},
    "module backward": {
        "operator": "torch.nn.Linear",
        "direction": "backward",
        "inputs": {"input": [2, 3], "in_features": 3, "out_features": 4},
    },
    "container": {"operator": "torch.nn.Sequential", "inputs": {"input": [2, 3], "layers": LAYERS}},
    "half": {"operator": "torch.exp", "dtype": "float16", "inputs": {"input": [100]}},
    "bfloat16": {"operator": "torch.exp", "dtype": "bfloat16", "inputs": {"input": [100]}},
    "large bfloat16": {
        "operator": "torch.mul",
        "dtype": "bfloat16",
        "inputs": {"input": {"shape": [2], "init": "ones"}, "other": 1048576},
    },
    "cast": {"operator": "torch.Tensor.to", "inputs": {"self": [2], "dtype": "torch.float64"}},
    "call": {"operator": "torch.numel", "inputs": {"input": {"call": "torch.eye", "args": [{"value": 3}]}}},
    "complex": {"operator": "torch.fft.fft", "inputs": {"input": [4]}},
    "random": {"operator": "torch.bernoulli", "inputs": {"input": {"shape": [50], "init": "uniform"}}},
    "large": {"operator": "torch.exp", "inputs": {"input": [1000, 250]}},
    "missing": {"operator": "torch.addd", "inputs": {"input": [2]}},
    "no gradient": {"operator": "torch.argmax", "direction": "backward", "inputs": {"input": [2]}},
    "no input": {"operator": "torch.eye", "direction": "backward", "inputs": {"n": 3}},
    "gpu": {"operator": "torch.exp", "context": "gpu", "inputs": {"input": [2]}},
    "unknown argument": {"operator": "torch.nn.ReLU", "inputs": {"data": [2]}},
    "shapes": {"operator": "torch.mm", "inputs": {"input": [2, 3], "mat2": [2, 3]}},
    "dtype": {"operator": "torch.eye", "dtype": "float64", "inputs": {"n": 3}},
    "unknown block": {
        "operator": "torch.nn.Sequential",
        "inputs": {"input": [2], "layers": {"value": [{"block": "torch.nn.No"}]}},
    },
}


@pytest.fixture(scope="module")
def answers() -> dict[str, Any]:
    """Return torch_in.py's answers for CASES by name, and the rest of its output as ``rest``."""
    usual = {"dtype": "float32", "context": "cpu", "direction": "forward"}
    cases = [{**usual, "id": f"{name}/x", **case} for name, case in CASES.items()]
    first = next(case for case in cases if case["direction"] == "backward")
    environment = {**worker_environment(), **TORCH.environment(1), **TORCH.profiling.variables}
    script = Path(__file__).with_name("torch_in.py")
    command = [torch_build().interpreter, str(script), json.dumps(cases), json.dumps(first)]
    process = subprocess.run(command, env=environment, capture_output=True, text=True, check=True)
    answer = json.loads(process.stdout)
    return {**dict(zip(CASES, answer.pop("cases"), strict=True)), "rest": answer}


def outputs(answers: dict[str, Any], name: str) -> dict[str, Any]:
    return {key: numpy.array(result["values"]) for key, result in answers[name]["results"].items()}


def test_functions_methods_and_calls(answers: dict[str, Any]) -> None:
    assert outputs(answers, "function")["output"].tolist() == [[7, 7, 7], [7, 7, 7]]
    assert outputs(answers, "method")["output"].tolist() == [2, 2, 2]
    assert outputs(answers, "in place")["self after the call"].tolist() == [[-1, -1, -1], [-1, -1, -1]]
    assert outputs(answers, "call")["output"] == 9
    assert set(outputs(answers, "complex")) == {"output.real", "output.imag"}
    assert answers["cast"]["results"]["output"]["dtype"] == "<f8"


def test_gradients_are_those_of_autograd(answers: dict[str, Any]) -> None:
    assert set(outputs(answers, "product backward")) == {"gradient of input", "gradient of other"}
    both = outputs(answers, "product both")
    # d(xy)/dx * d(xy)/dy with one head gradient w: (w y)(w x) = w^2 times the output
    product = both["gradient of input"] * both["gradient of other"]
    assert numpy.all(product / both["output"] > 0)
    assert set(outputs(answers, "indices")) == {"gradient of weight"}
    assert any("Backward" in name for name in answers["product backward"]["operators"])
    assert not any("Backward" in name for name in answers["function"]["operators"])
    assert "aten::add" in answers["function"]["operators"]


def test_a_gradient_imports_nothing(answers: dict[str, Any]) -> None:
    """As every backward case would, in a process of its own."""
    assert answers["rest"]["imported"] == []


def test_modules_are_made_first_with_weights_from_the_seed(answers: dict[str, Any]) -> None:
    assert outputs(answers, "module")["output"].shape == (2, 4)
    assert set(outputs(answers, "module backward")) == {"gradient of input", "gradient of weight", "gradient of bias"}
    container = outputs(answers, "container")["output"]
    assert container.shape == (2, 4)
    assert container.min() == 0 < container.max()  # ReLU


@pytest.mark.parametrize("name", ["function", "module", "random", "bfloat16"])
def test_inputs_come_from_the_seed_alone(answers: dict[str, Any], name: str) -> None:
    first, again, other = answers[name]["digests"]
    assert first == again
    assert (first == other) == (name == "function")  # ones


def test_dtypes(answers: dict[str, Any]) -> None:
    assert answers["half"]["results"]["output"]["dtype"] == "<f2"
    assert answers["bfloat16"]["results"]["output"]["dtype"] == "<f4"  # NumPy has none
    assert [answers[name]["results"]["output"]["precision"] for name in ("half", "bfloat16")] == ["", "bfloat16"]
    assert outputs(answers, "large bfloat16")["output"].tolist() == [1048576, 1048576]  # no float16
    values = outputs(answers, "bfloat16")["output"].astype("float32")
    assert numpy.all(values.view("uint32") & 0xFFFF == 0)  # rounded to bfloat16 by PyTorch, exact in what is compared


def test_memory_is_what_the_allocator_gave(answers: dict[str, Any]) -> None:
    assert answers["large"]["memory"] == {"cpu/0": 1_000_000}
    assert answers["in place"]["memory"] == {"cpu/0": 0}


@pytest.mark.parametrize(
    ("name", "kind", "words"),
    [
        ("missing", "missing", "torch.addd does not exist"),
        ("no gradient", "error", "its direction is forward"),
        ("no input", "error", "no input has a gradient: its direction is forward"),
        ("gpu", "error", "gpu: this build of PyTorch has no CUDA: use cpu"),
        (
            "unknown argument",
            "error",
            "data is neither an argument of the constructor (inplace, layers) nor of the call",
        ),
        ("shapes", "error", "mat1 and mat2 shapes cannot be multiplied (2x3 and 2x3)"),
        ("dtype", "error", "nothing in this case would be float64"),
        ("unknown block", "error", "torch.nn.No does not exist"),
    ],
)
def test_what_can_not_run_is_one_line(answers: dict[str, Any], name: str, kind: str, words: str) -> None:
    assert answers[name].get("kind") == kind
    assert words in answers[name]["error"]


def test_threads_and_the_profiler_s_files(answers: dict[str, Any]) -> None:
    assert answers["rest"]["threads"] == 1
    assert answers["rest"]["files"] == ["table.txt", "trace.json"]


def test_calls_that_are_recorded_together_have_their_own_times(answers: dict[str, Any]) -> None:
    """As on a GPU; here of a call on a CPU."""
    assert [call_profile["kernels"] for call_profile in answers["rest"]["together"]] == [[], []], "nothing ran on a GPU"
    first, second = (call_profile["operators"] for call_profile in answers["rest"]["together"])
    assert first.keys() == second.keys() >= {"aten::add"}
    assert len(first["aten::add"]) == len(second["aten::add"]) == 1
    assert first["aten::add"][0] > 0


def test_kernels_are_told_apart_from_ranges_that_a_gpu_s_recording_repeats(answers: dict[str, Any]) -> None:
    """Of a made recording. An operator that takes no time is counted all the same."""
    expected = {
        "operators": {"a range": [5000], "aten::add": [9000], "aten::view": [0], "add_kernel": [30000, 20000]},
        "kernels": ["add_kernel"],
    }
    assert answers["rest"]["on GPU"] == [expected, expected]


def test_out_of_a_gpu_s_memory_is_said_without_what_every_process_holds(answers: dict[str, Any]) -> None:
    assert answers["rest"]["out of memory"] == "CUDA out of memory. Tried to allocate 596.05 GiB"


def test_a_process_can_be_forked_on_a_gpu_too() -> None:
    assert all(TORCH.can_fork(*arguments) for arguments in ((1, "cpu"), (2, "cpu"), (1, "gpu"), (1, "gpu(1)")))
    assert TORCH.environment(3)["OMP_NUM_THREADS"] == TORCH.environment(3)["MKL_NUM_THREADS"] == "3"
    assert TORCH.cases.is_block("torch.nn.Conv2d")
    assert not TORCH.cases.is_block("torch.nn.functional.conv2d")
    assert not TORCH.cases.can_be_hybridized("torch.nn.Conv2d")
