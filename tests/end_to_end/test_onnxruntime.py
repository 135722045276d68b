"""The whole product on two releases of ONNX Runtime: a model from a file, single operators, failures of one side."""

import hashlib
import json
import subprocess
import sys
from pathlib import Path

import pytest
from forked import ONE_FORK, Forked

from opduel.driver.builds import BuildCache, resolve_build
from opduel.frameworks import get_framework

pytestmark = pytest.mark.wheels
ROOT = Path(__file__).resolve().parent.parent.parent
SIDES = ("onnxruntime==1.19.2", "onnxruntime==1.20.1")
MODEL = """
import sys
import numpy, onnx
from onnx import helper, numpy_helper

random = numpy.random.RandomState(1)
weights = [numpy_helper.from_array(random.normal(size=shape).astype("float32"), name)
           for name, shape in (("filters", (8, 3, 3, 3)), ("matrix", (8, 10)))]
nodes = [helper.make_node("Conv", ["input.1", "filters"], ["a"]), helper.make_node("Relu", ["a"], ["b"]),
         helper.make_node("GlobalAveragePool", ["b"], ["c"]), helper.make_node("Flatten", ["c"], ["d"]),
         helper.make_node("MatMul", ["d", "matrix"], ["classes"])]
given = helper.make_tensor_value_info("input.1", 1, ["batch", 3, 32, 32])
found = helper.make_tensor_value_info("classes", 1, ["batch", 10])
graph = helper.make_graph(nodes, "small", [given], [found], weights)
onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8), sys.argv[1])
"""


def saved_model(path: Path) -> str:
    """Write a small network to ``path``; returns its checksum."""
    build = resolve_build(SIDES[1], get_framework("onnxruntime"), BuildCache())
    subprocess.run([build.interpreter, "-c", MODEL, path], check=True, timeout=60)
    return hashlib.sha256(path.read_bytes()).hexdigest()


def test_a_model_and_single_operators(tmp_path: Path) -> None:
    checksum = saved_model(tmp_path / "small.onnx")
    spec = tmp_path / "spec.json"
    convolution = {"X": [1, 3, 16, 16], "W": [4, 3, 3, 3], "constant": {"value": ["W"]}}
    tests = [
        {
            "operator": "model.small",
            "inputs": {"args": [[2, 3, 32, 32]]},  # a spec can't say input.1
            "metric": ["time", "error", "memory"],
            "files": {"model": {"location": "small.onnx", "sha256": checksum}},
        },
        {"operator": "onnx.Conv", "inputs": convolution, "metric": ["time", "error"]},
        {"operator": "com.microsoft.UnfoldTensor", "inputs": {"input": [4, 16], "size": 4}},  # since 1.20
        {"operator": "onnx.Abs", "inputs": {"Y": [8]}},
    ]
    spec.write_text(json.dumps({"framework": "onnxruntime", "tests": tests}), encoding="utf-8")
    options = ("--max_rounds", "2", "--busy_host", "report", "--breakdown", "--simple_local_reporter", str(tmp_path))
    command = [
        sys.executable,
        str(ROOT / "harness.py"),
        "-b",
        str(spec),
        "--control",
        SIDES[0],
        "--treatment",
        SIDES[1],
    ]
    process = Forked([*command, *options], cwd=ROOT, first=ONE_FORK)
    _, errors = process.communicate(timeout=300)
    assert process.returncode == 3, errors
    report = json.loads((tmp_path / "report.json").read_text(encoding="utf-8"))
    rows = {row["case"]: row for row in report["comparisons"]}
    failures = {case: (row["failure"]["side"], row["failure"]["kind"]) for case, row in rows.items() if row["failure"]}
    assert failures == {"unfoldtensor_0/forward": ("control", "missing"), "abs_0/forward": ("both", "error")}
    assert rows["conv_0/forward/error"]["verdict"] == rows["small_0/forward/error"]["verdict"] == "unchanged"
    assert rows["small_0/forward"]["rounds"] == 2
    sizes = {rows["small_0/forward/memory"][side] for side in ("control", "treatment")}
    assert len(sizes) == 1, "of both releases the same"
    assert sizes.pop() >= 4 * 2 * 8 * 30 * 30, "what the convolution computes"
    for side in ("control", "treatment"):  # ONNX Runtime has joined Conv and Relu
        names = [row["name"] for row in rows["small_0/forward"]["breakdown"][side]]
        assert {"Conv", "MatMul"} < set(names)
        assert "Relu" not in names
        assert [row["name"] for row in rows["conv_0/forward"]["breakdown"][side]] == ["onnx.Conv"]
    assert report["run"]["environment"]["OPDUEL_ORT_LEVEL_MODEL"] == "all"
    assert report["control"]["packages"]["onnx"] == report["treatment"]["packages"]["onnx"]
