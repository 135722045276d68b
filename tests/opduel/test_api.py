"""The Python API: wrong use is said at once, failures are told, and older builds answer alike."""

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from frameworks import get_framework
from opduel import OperatorBenchmark, run_benchmark_operator, run_category_benchmarks, run_performance_test
from opduel.__main__ import inside_environment
from records import Build, UsageError

ROOT = Path(__file__).resolve().parents[2]
RELEASE = "mxnet==1.9.1"
ADD = {"lhs": (8, 8), "rhs": (8, 8)}

INSIDE = """
import json
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
print(json.dumps([add, dot, refused, raised, layer, sorted(found)], default=str))
"""


def test_inside_needs_a_framework() -> None:
    with pytest.raises(ValueError, match=r"can import none of mxnet: run it with `python -m opduel BUILD`"):
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
        ("nd.add", {**ADD, "initializer": "normal"}, "initializer: from outside it is said of each array"),
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


def test_the_users_variables_go_before_the_fixed_ones() -> None:
    build = Build("mxnet", "x", "interpreter", "/bin/true", "1", "3.11", "d", environment={"PYTHONPATH": "/build"})
    found = inside_environment(build, get_framework("mxnet"), {"OMP_NUM_THREADS": "2", "PYTHONPATH": "/mine"})
    assert found["OMP_NUM_THREADS"] == "2"
    assert found["MXNET_USE_OPERATOR_TUNING"] == "0"
    assert found["PYTHONPATH"] == f"/build:/mine:{ROOT}"


@pytest.mark.mxnet
def test_what_fails_from_outside_is_told_beside_what_runs() -> None:
    inputs = [{"lhs": (8, 8), "rhs": (8, 8)}, {"lhs": (8, 8), "rhs": (9, 9)}]
    ((results,),) = (one.values() for one in run_performance_test(["nd.dot"], inputs, build=RELEASE, runs=5))
    assert results[0]["avg_time_backward_dot"] > 0
    assert "avg_time_forward_dot" not in results[1]
    assert results[1]["failed_forward"].startswith("MXNetError: ")


@pytest.mark.mxnet
def test_a_category_from_outside() -> None:
    (name, results), *others = run_category_benchmarks("gemm", operators=["nd.dot"], build=RELEASE, runs=3).items()
    assert (name, others) == ("dot", [])
    assert len(results) > 1
    assert all(one["avg_time_forward_dot"] >= 0 for one in results)


@pytest.mark.mxnet
def test_an_older_build(mxnet_1_5: Build) -> None:
    command = ["env", f"PYTHONPATH={ROOT}", sys.executable, "-m", "opduel", mxnet_1_5.requested, "-c", INSIDE]
    done = subprocess.run(command, capture_output=True, text=True, timeout=300, cwd="/")
    assert done.returncode == 0, done.stderr
    add, dot, refused, raised, layer, namespaces = json.loads(done.stdout.splitlines()[-1])
    assert [one["max_storage_mem_alloc_cpu/0"] for one in add["add"]] == [16.384, 32.768]
    assert all(one["avg_time_backward_dot"] > 0 for one in dot["dot"])
    assert refused["sum"][0]["failed_backward"] == "no input is of floating point: there is no gradient"
    assert "Shape" in raised or "shape" in raised
    assert layer[0]["Dense"][0]["p90_time_backward_Dense"] > 0
    assert namespaces == ["nd"]
