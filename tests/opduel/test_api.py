"""The Python API: wrong use is said at once, failures are told, and older builds answer alike."""

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy
import pytest

from opduel import OperatorBenchmark, run_benchmark_operator, run_category_benchmarks, run_performance_test
from opduel.commands.in_build import import_folder, inside_environment
from opduel.frameworks import get_framework
from opduel.harness.specs import expand_cases, find_spec, load_spec
from opduel.records import Build, UsageError
from opduel.user_inputs import read_input

ROOT = Path(__file__).resolve().parents[2]
RELEASE = "mxnet==1.9.1"
ADD = {"lhs": (8, 8), "rhs": (8, 8)}

INSIDE = """
import json
import os
import tempfile
import mxnet as mx
from opduel import run_benchmark_operator, run_performance_test

square = {"lhs": (64, 64), "rhs": (64, 64)}
add, dot = run_performance_test([mx.nd.add, "nd.dot"], inputs=[square, dict(square, dtype="float64")], warmup=1, runs=4)
whole = {"data": mx.nd.array([1, 2], dtype="int32")}
(refused,) = run_performance_test(mx.nd.sum, inputs=[whole], warmup=1, runs=2)
try:
    run_performance_test(mx.nd.dot, inputs=[{"lhs": (2, 3), "rhs": (4, 5)}])
    raised = None
except mx.base.MXNetError as error:
    raised = str(error)
layer = run_performance_test(mx.gluon.nn.Dense, inputs=[{"data": (4, 8), "units": 3}], profiler="python", runs=2)
found = run_benchmark_operator("exp", size=(32, 32), runs=2)
left = os.listdir(tempfile.gettempdir())
print(json.dumps([add, dot, refused, raised, layer, sorted(found), left], default=str))
"""

# What the scripts below begin with. Each runs in MXNet 1.9.1, in one process.
BEGINNING = """
import json
import mxnet as mx
import numpy
from mxnet.gluon import nn, rnn
from opduel import OperatorBenchmark, run_benchmark_operator, run_category_benchmarks, run_performance_test


def one(operator, given, **options):
    (result,) = run_performance_test(operator, [given], warmup=0, runs=1, **options)[0].values()
    return result


def held(operator, given, **options):
    return one(operator, given, run_backward=False, **options)[0]["max_storage_mem_alloc_cpu/0"]


class Pair(nn.HybridBlock):
    def __init__(self, units):
        super().__init__()
        self.first, self.second = nn.Dense(units), nn.Dense(units)

    def hybrid_forward(self, F, x, y):
        return self.first(x) + self.second(y)


answers = {}
"""
# Whatever a call of the API takes away from an operator, or doesn't take.
THROUGHOUT = """
answers["gluon"] = {
    name: run_category_benchmarks("gluon_" + name, warmup=0, runs=1)
    for name in ("activation", "basic", "convolution", "fused", "loss", "pooling", "recurrent")
}
answers["taken away before"] = [
    run_category_benchmarks(category, operators, warmup=0, runs=1)
    for category, operators in (
        ("array_manipulation", ["nd.cast", "nd.amp_cast"]),
        ("ndarray_conversion", ["nd.NDArray.astype"]),
        ("ndarray_indexing", None),
        ("numpy_array", ["np.ndarray.astype"]),
        ("numpy_extension", ["npx.cast"]),
        ("indexing", ["nd.contrib.SparseEmbedding"]),
        ("nn_basic", ["nd.contrib.SyncBatchNorm"]),
        ("sparse", ["nd.sparse.Embedding"]),
    )
]
square = {"data": (256, 256)}
answers["held"] = {
    "cast": held(mx.nd.cast, dict(square, dtype="float64")),
    "cast of a double": held("nd.cast", dict(square, dtype="float16", case={"dtype": "float64"})),
    "astype": held(mx.nd.NDArray.astype, {"self": (256, 256), "dtype": numpy.float64}),
    "zeros": held(mx.nd.zeros, {"shape": (256, 256), "dtype": "float64"}),
    "normal": held(mx.nd.random.normal, {"shape": (256, 256), "dtype": "float64"}),
    "softmax by a method": held("nd.NDArray.softmax", {"self": (256, 256), "dtype": "float64"}),
    "square has no dtype": held(mx.nd.square, dict(square, dtype="float64")),
    "numpy's arrays": held(mx.nd.square, {"data": numpy.ones((256, 256))}),
    "Dense": held(nn.Dense, {"data": (8, 8), "units": 8, "dtype": "float64"}),
    "np": held("np.square", {"x": (256, 256), "initializer": mx.nd.normal}),
}
weight = mx.nd.ones((16, 4))
weight.attach_grad(stype="row_sparse")
index = mx.nd.array([1, 3])
index.attach_grad("null")
sizes = {"input_dim": 16, "output_dim": 4, "sparse_grad": True}
answers["own gradient"] = one(mx.nd.Embedding, dict(sizes, data=index, weight=weight)), weight.grad.stype
answers["elsewhere"] = one(mx.nd.zeros, {"shape": (256, 256)}, ctx=mx.cpu(1), run_backward=False)[0]
answers["kernel"] = one(
    mx.nd.contrib.DeformableConvolution,
    dict(data=(1, 4, 8, 8), offset=(1, 18, 6, 6), weight=(4, 4, 3, 3), kernel=(3, 3), num_filter=4, no_bias=True),
)
"""
# What blocks and names mean.
BLOCKS_AND_NAMES = """
held("np.square", {"x": (256, 256), "initializer": mx.nd.normal})
answers["numpy is on"] = mx.util.is_np_array()
made = nn.HybridSequential()
made.add(nn.Dense(3), nn.Dense(2))
made.initialize()
made.hybridize()
cell = rnn.GRUCell(4)
cell.initialize()
states = {"inputs": (4, 8), "states": [(4, 16), (4, 16)], "hidden_size": 16}
answers["blocks"] = [
    one(rnn.LSTMCell, {"data": (4, 8), "hidden_size": 16}),
    one(rnn.LSTMCell, states),
    one(rnn.LSTM, {"data": (5, 4, 8), "states": [(1, 4, 16), (1, 4, 16)], "hidden_size": 16}),
    one(cell, {"data": (4, 8)}),
    one(Pair, {"x": (4, 8), "y": (4, 2), "units": 3, "case": {"mode": ["imperative", "hybridized"]}}),
    one(made, {"data": (4, 8)}),
    one("gluon.nn.Dense", {"data": (4, 8), "units": 3, "case": {"directions": ["both"]}}),
    one(mx.gluon.model_zoo.vision.squeezenet1_1, {"data": (1, 3, 224, 224)}, run_backward=False),
]
quick = {"size": (8, 8), "warmup": 0, "runs": 1}
names = ("matmul", "np.add", "linalg.gemm2", "linalg.norm", "concat", "add")
answers["namespaces"] = {name: sorted(run_benchmark_operator(name, **quick)) for name in names}
dense = OperatorBenchmark("gluon.nn.Dense", run_backward=False, warmup=0, runs=1)
answers["object"] = dense.run_benchmark()[0]["Dense"]
answers["double"] = run_category_benchmarks("gemm", ["nd.dot"], dtype="float64", run_backward=False, warmup=0, runs=1)
"""
ENDING = "print(json.dumps(answers, default=str))"
SIZE = 256 * 256 / 1000  # elements in kB


def test_inside_needs_a_framework() -> None:
    with pytest.raises(ValueError, match=r"can import none of mxnet: run it with `opduel python BUILD`"):
        run_performance_test("nd.add", [ADD])
    with pytest.raises(ValueError, match="can import none of"):
        run_benchmark_operator("add")


@pytest.mark.parametrize(
    ("options", "error"),
    [({"profiler": "perf"}, "use 'native' or 'python'"), ({"runs": 0}, "runs 0"), ({"warmup": -1}, "warmup -1")],
)
def test_arguments_that_make_no_sense(options: dict[str, Any], error: str) -> None:
    with pytest.raises(ValueError, match=error):
        run_performance_test("nd.add", [ADD], **options)


def test_a_category_says_the_same_at_once() -> None:
    with pytest.raises(ValueError, match="use 'native' or 'python'"):
        run_category_benchmarks("gemm", profiler="perf", build=RELEASE)
    with pytest.raises(ValueError, match="can import none of mxnet"):
        run_category_benchmarks("gemm")
    with pytest.raises(UsageError, match=r"dtype float31: use one of"):
        run_category_benchmarks("gemm", dtype="float31", build=RELEASE)


@pytest.mark.parametrize(
    ("user_inputs", "takes_dtype", "is_block", "arguments", "settings"),
    [
        ({"data": (2,), "dtype": "int8"}, False, False, {"data": (2,)}, {"dtype": "int8"}),
        ({"data": (2,), "dtype": "int8"}, True, False, {"data": (2,), "dtype": "int8"}, {}),
        ({"data": (2,), "dtype": "int8"}, True, True, {"data": (2,), "dtype": "int8"}, {"dtype": "int8"}),
        ({"dtype": "a", "case": {"dtype": "b"}}, True, False, {"dtype": "a"}, {"dtype": "b"}),
        ({"dtype": "a", "case": {"dtype": "b"}}, False, False, {}, {"dtype": "b"}),
        ({"run_backward": True, "case": {"directions": ["both"]}}, False, False, {}, {"directions": ["both"]}),
        ({"data_initializer": len, "mode": "clip"}, False, False, {"mode": "clip"}, {"initializer": len}),
        ({"args": (2, 3)}, False, False, {"args": [(2, 3)]}, {}),
        ({"args": [(2, 3), (2, 3)]}, False, False, {"args": [(2, 3), (2, 3)]}, {}),
    ],
)
def test_what_is_the_operators_and_what_is_ours(
    user_inputs: dict[str, Any], takes_dtype: bool, is_block: bool, arguments: dict[str, Any], settings: dict[str, Any]
) -> None:
    assert read_input(user_inputs, takes_dtype, is_block) == (arguments, settings)


def test_names_that_are_not_there() -> None:
    with pytest.raises(ValueError, match="no category 'none': use one of array_manipulation, "):
        run_category_benchmarks("none")
    with pytest.raises(ValueError, match=r"gemm has no nd\.add"):
        run_category_benchmarks("gemm", operators=["nd.dot", "nd.add"])
    with pytest.raises(ValueError, match=r"the catalogue has no inputs for nd\.none"):
        OperatorBenchmark("nd.none")


@pytest.mark.parametrize(
    ("operator", "inputs", "error"),
    [
        (len, ADD, "takes operators by name"),
        ("nd.add", {**ADD, "initializer": "normal"}, "initializer: with build=, give it for each array"),
        ("nd.add", {**ADD, "dtype": "float31"}, "float31"),
        ("add", ADD, "operator"),
    ],
)
def test_what_can_not_be_said_from_outside(operator: Any, inputs: dict[str, Any], error: str) -> None:
    with pytest.raises(UsageError, match=error):
        run_performance_test(operator, [inputs], build=RELEASE)


def test_the_catalogues_inputs_and_ones_own() -> None:
    ours = OperatorBenchmark("nd.add", inputs={"dtype": "float64", "lhs": [2, 2]}).inputs
    assert (ours["dtype"], ours["lhs"], ours["run_backward"]) == ("float64", [2, 2], True)
    assert ours["rhs"] == OperatorBenchmark("nd.add").inputs["rhs"]
    assert "run_backward" not in OperatorBenchmark("nd.add", run_backward=False).inputs, "what is asked for counts"
    assert OperatorBenchmark("nd.cast").inputs["dtype"] != "float32", "cast's own"
    assert OperatorBenchmark("gluon.nn.Dense").inputs["case"]["mode"] == ["imperative", "hybridized"]


def test_the_users_variables_go_before_the_fixed_ones() -> None:
    build = Build("mxnet", "x", "interpreter", "/bin/true", "1", "3.11", "d", environment={"PYTHONPATH": "/build"})
    environment = inside_environment(build, get_framework("mxnet"), {"OMP_NUM_THREADS": "2", "PYTHONPATH": "/mine"})
    assert environment["OMP_NUM_THREADS"] == "2"
    assert environment["MXNET_USE_OPERATOR_TUNING"] == "0"
    assert environment["PYTHONPATH"] == f"/build:/mine:{import_folder()}"


def test_a_build_is_given_opduel_and_no_other_module(tmp_path: Path) -> None:
    folder = import_folder(tmp_path)
    assert import_folder(tmp_path) == folder, "made once"
    assert [path.name for path in folder.iterdir()] == ["opduel"]
    code = "import importlib.util as u, opduel; print([u.find_spec(n) for n in ('driver', 'harness', 'numpy')])"
    process = subprocess.run(
        [getattr(sys, "_base_executable", sys.executable), "-S", "-c", code],
        env={"PYTHONPATH": str(folder)}, cwd=tmp_path, capture_output=True, text=True, check=True,
    )  # fmt: skip
    assert process.stdout == "[None, None, None]\n"


@pytest.mark.mxnet
def test_what_fails_from_outside_is_reported_beside_what_runs() -> None:
    inputs = [{"lhs": (8, 8), "rhs": (8, 8)}, {"lhs": (8, 8), "rhs": (9, 9)}]
    ((results,),) = (
        results_by_name.values() for results_by_name in run_performance_test(["nd.dot"], inputs, build=RELEASE, runs=5)
    )
    assert results[0]["avg_time_backward_dot"] > 0
    assert "avg_time_forward_dot" not in results[1]
    assert results[1]["failed_forward"].startswith("MXNetError: ")


@pytest.mark.nightly  # test_a_category_says_the_same_at_once compares the arguments
@pytest.mark.mxnet
def test_a_category_from_outside() -> None:
    few: dict[str, Any] = {"build": RELEASE, "warmup": 0, "runs": 3}
    (results_of_block,) = run_category_benchmarks("gluon_basic", operators=["gluon.nn.Dense"], **few).items()
    assert results_of_block[0] == "Dense"
    assert [result["mode"] for result in results_of_block[1]] == ["imperative", "hybridized"] * (
        len(results_of_block[1]) // 2
    )
    assert all(result["avg_time_backward_Dense"] >= 0 for result in results_of_block[1])


@pytest.mark.mxnet
def test_an_operator_from_outside_gets_its_own_dtype(capsys: pytest.CaptureFixture[str]) -> None:
    additional_inputs = {"dtype": numpy.float64, "case": {"dtype": "float16"}}
    few: dict[str, Any] = {"build": RELEASE, "warmup": 0, "runs": 2}
    results = run_benchmark_operator("cast", size=(256, 256), additional_inputs=additional_inputs, **few)
    assert sorted(results) == ["nd", "npx"]
    for (result,) in (results["nd"][0]["cast"], results["npx"][0]["cast"]):
        assert (result["dtype"], result["inputs"]) == ("float16", {"data": [256, 256], "dtype": "float64"})
        assert result["max_storage_mem_alloc_cpu/0"] == 8 * SIZE
    assert f"{RELEASE} nd.cast" in capsys.readouterr().out
    with pytest.raises(UsageError, match=r"^none: mxnet==1\.9\.1 has no such operator under nd, np, npx, image"):
        run_benchmark_operator("none", build=RELEASE)


def answers_of(script: str) -> dict[str, Any]:
    """What a script has found."""
    code = BEGINNING + script + ENDING
    command = ["env", f"PYTHONPATH={ROOT}", sys.executable, "-m", "opduel", "python", RELEASE, "-c", code]
    process = subprocess.run(command, capture_output=True, text=True, timeout=300, cwd="/")
    assert process.returncode == 0, process.stderr
    documents: dict[str, Any] = json.loads(process.stdout.splitlines()[-1])
    return documents


@pytest.fixture(scope="module")
def answers() -> dict[str, Any]:
    """What ``BLOCKS_AND_NAMES`` has found."""
    return answers_of(BLOCKS_AND_NAMES)


@pytest.fixture(scope="module")
def answers_throughout() -> dict[str, Any]:
    """What ``THROUGHOUT`` has found."""
    return answers_of(THROUGHOUT)


def failures(value: Any) -> list[dict[str, Any]]:
    """Every result with a failure, wherever it is."""
    if isinstance(value, dict) and any(str(key).startswith("failed_") for key in value):
        return [value]
    inner = value.values() if isinstance(value, dict) else value if isinstance(value, list) else ()
    return [failure for part in inner for failure in failures(part)]


@pytest.mark.nightly  # test_blocks_of_all_kinds_run_inside_a_build has one of each kind
@pytest.mark.mxnet
def test_every_gluon_input_runs_inside_a_build(answers_throughout: dict[str, Any]) -> None:
    assert failures(answers_throughout["gluon"]) == []
    for category, results_by_block in answers_throughout["gluon"].items():
        cases = expand_cases(load_spec(find_spec(f"operators/gluon_{category}")))
        results = [result for block in results_by_block.values() for result in block]
        assert len(results) == len({case.id.removesuffix(f"/{case.direction}") for case in cases})
        assert {result["mode"] for result in results} == {"imperative", "hybridized"}


@pytest.mark.nightly
@pytest.mark.mxnet
def test_an_operator_gets_all_that_is_its_own(answers_throughout: dict[str, Any]) -> None:
    assert failures(answers_throughout["taken away before"]) == []
    arguments = answers_throughout["held"]
    assert arguments.pop("Dense") == pytest.approx(8 * 64 / 1000)
    assert arguments.pop("cast of a double") == pytest.approx(2 * SIZE)
    assert arguments.pop("numpy's arrays") == arguments.pop("np") == pytest.approx(4 * SIZE)
    assert arguments == dict.fromkeys(arguments, pytest.approx(8 * SIZE))
    assert failures(answers_throughout["kernel"]) == []
    assert answers_throughout["elsewhere"]["context"] == "cpu(1)"
    result, stype = answers_throughout["own gradient"]
    assert (failures(result), stype) == ([], "row_sparse")


@pytest.mark.mxnet
def test_blocks_of_all_kinds_run_inside_a_build(answers: dict[str, Any]) -> None:
    assert failures(answers["blocks"]) == []
    assert not answers["numpy is on"], "np.square needed it, the user's process is as it was"
    lstm, dense, layer, cell, pair, constructed, training, network = answers["blocks"]
    for results, name in ((lstm, "LSTMCell"), (dense, "LSTMCell"), (layer, "LSTM"), (cell, "GRUCell")):
        assert results[0][f"avg_time_backward_{name}"] >= 0
    assert [result["mode"] for result in (*pair, *constructed, *network)] == [
        "imperative",
        "hybridized",
        "hybridized",
        None,
    ]
    assert "avg_time_both_Dense" in training[0]
    assert "avg_time_forward_squeezenet1_1" in network[0]


@pytest.mark.mxnet
def test_names_and_options_reach_what_they_mean(answers: dict[str, Any]) -> None:
    assert answers["namespaces"] == {
        "matmul": ["np"],
        "np.add": ["np"],
        "linalg.gemm2": ["nd"],
        "linalg.norm": ["np"],
        "concat": ["nd"],
        "add": ["nd", "np"],
    }
    assert [result["mode"] for result in answers["object"]] == ["imperative", "hybridized"]
    assert not any("avg_time_backward_Dense" in result for result in answers["object"]), "run_backward=False"
    assert {result["dtype"] for result in answers["double"]["dot"]} == {"float64"}
    assert not any("avg_time_backward_dot" in result for result in answers["double"]["dot"])


@pytest.mark.mxnet
def test_an_older_build(mxnet_1_5: Build, tmp_path: Path) -> None:
    command = [
        "env",
        f"PYTHONPATH={ROOT}",
        f"TMPDIR={tmp_path}",
        sys.executable,
        "-m",
        "opduel",
        "python",
        mxnet_1_5.requested,
        "-c",
        INSIDE,
    ]
    process = subprocess.run(command, capture_output=True, text=True, timeout=300, cwd="/")
    assert process.returncode == 0, process.stderr
    add, dot, refused, raised, layer, namespaces, remaining = json.loads(process.stdout.splitlines()[-1])
    assert [result["max_storage_mem_alloc_cpu/0"] for result in add["add"]] == [16.384, 32.768]
    assert all(result["avg_time_backward_dot"] > 0 for result in dot["dot"])
    assert refused["sum"][0]["failed_backward"] == "no input is of floating point: there is no gradient"
    assert "Shape" in raised or "shape" in raised
    assert layer[0]["Dense"][0]["p90_time_backward_Dense"] > 0
    assert namespaces == ["nd"]
    assert (remaining, list(tmp_path.iterdir())) == ([], []), "neither while it runs, whatever ends it, nor afterwards"
