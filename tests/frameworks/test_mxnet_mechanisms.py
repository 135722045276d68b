"""Arguments other than tensors and attributes, and what can be called other than operators; on real builds."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from build_oracle import BuildOracle, answers_of
from mxnet_workers import MXNetWorkers, answers, prepare

from opduel.harness.processes.case_request import CaseRequest
from opduel.harness.processes.restarting_worker import RestartingWorker
from opduel.harness.specs import expand_cases
from opduel.harness.specs.load import validate
from opduel.records import Build, Case, Failure

pytestmark = pytest.mark.mxnet


@pytest.fixture(scope="module")
def build(mxnet_1_9: Build) -> Iterator[BuildOracle]:
    with BuildOracle(mxnet_1_9) as build:
        yield build


@pytest.fixture
def worker(mxnet_1_9: Build, mxnet_workers: MXNetWorkers) -> RestartingWorker:
    return mxnet_workers.profiling(mxnet_1_9)


def case(
    operator: str, direction: str = "forward", mode: str = "imperative", dtype: str = "float32", **inputs: Any
) -> Case:
    test = {"operator": operator, "directions": [direction], "mode": mode, "dtype": dtype, "inputs": inputs}
    (expanded,) = expand_cases(validate({"framework": "mxnet", "tests": [test]}))
    return expanded


PLAIN = ["float32", "default"]
NUMPY = {"shape": [2, 3], "stype": "numpy"}
STEPS = {"cond": {"function": "few_steps"}, "func": {"function": "add_one"}, "max_iterations": 12}


@pytest.mark.parametrize(
    ("tested_case", "outputs"),
    [
        (case("nd.array", source_array=NUMPY), [[[2, 3], *PLAIN]]),
        (case("np.array", object={"value": [1.0, 2.0]}), [[[2], *PLAIN]]),
        (case("nd.from_numpy", ndarray={**NUMPY, "dtype": "float64"}), [[[2, 3], "float64", "default"]]),
        (case("nd.save", fname={"file": None}, data=[2, 3]), [["NoneType"]]),
        (
            case("nd.load", fname={"file": [[2, 3], {"shape": [4], "dtype": "int32"}]}),
            [[[2, 3], *PLAIN], [[4], "int32", "default"]],
        ),
        (case("npx.load", file={"file": [[2, 3]]}), [[[2, 3], *PLAIN]]),
        (
            case("image.imread", filename={"file": {"shape": [6, 5, 3], "init": "png"}}),
            [[[6, 5, 3], "uint8", "default"]],
        ),
        (
            case(
                "nd.sparse.row_sparse_array",
                arg1={"tuple": [[2, 3], {"shape": [2], "dtype": "int64", "init": "arange"}]},
                shape={"value": [9, 3]},
            ),
            [[[9, 3], "float32", "row_sparse"]],
        ),
        (
            case("nd.contrib.foreach", body={"function": "add_to_state"}, data=[5, 3], init_states=[3]),
            [[[5, 3], *PLAIN], [[3], *PLAIN]],
        ),
        (
            case("nd.contrib.while_loop", loop_vars=[{"shape": [1], "init": "zeros"}, [2, 3]], **STEPS),
            [["list"], ["list"]],
        ),
        (
            case(
                "nd.contrib.cond",
                pred={"shape": [1], "init": "ones"},
                then_func={"function": "double", "args": [[2, 3]]},
                else_func={"function": "square", "args": [[4]]},
            ),
            [[[2, 3], *PLAIN]],
        ),
        (case("np.insert", arr=[5, 3], obj={"index": "1:3"}, values=[2, 3], axis=0), [[[7, 3], *PLAIN]]),
        (case("np.linalg.qr", args=[[4, 3]]), [[[4, 3], *PLAIN], [[3, 3], *PLAIN]]),
    ],
    ids=lambda value: value.operator if isinstance(value, Case) else None,
)
def test_calls_give_what_python_writes(build: BuildOracle, tested_case: Case, outputs: list[Any]) -> None:
    assert build.outputs(tested_case) == outputs


FUSED = {
    "data": [1, 4, 8, 8],
    "layers": {"value": [{"block": "gluon.nn.Conv2D", "channels": 4, "kernel_size": [3, 3]}]},
}
BYTES = {"shape": [4, 4], "dtype": "int8"}
RANGE = {name: {"shape": [1], "init": "ones"} for name in ("lhs_min", "lhs_max", "rhs_min", "rhs_max")}
NORM = {
    "data": [2, 3, 4, 4],
    "gamma": [3],
    "beta": [3],
    "moving_mean": [3],
    "moving_var": {"shape": [3], "init": "ones"},
}


@pytest.mark.parametrize(
    ("tested_case", "operators"),
    [
        (case("nd.exp", mode="hybridized", data=[4]), {"exp"}),
        (case("np.add", mode="hybridized", x1=[4], x2=[4]), {"_npi_add"}),
        (case("nd.concat", mode="hybridized", args=[[2, 3], [2, 3]]), {"Concat"}),
        (case("nd.BatchNorm_v1", mode="hybridized", **NORM), {"BatchNorm_v1"}),
        (case("nd.BatchNorm_v1", "backward", "hybridized", **NORM), {"_backward_BatchNorm_v1"}),
        (
            case("nd.contrib.quantized_elemwise_mul", mode="hybridized", lhs=BYTES, rhs=BYTES, **RANGE),
            {"_contrib_quantized_elemwise_mul"},
        ),
        (case("gluon.nn.HybridSequential", mode="hybridized", backend="MKLDNN", **FUSED), {"_sg_mkldnn_conv"}),
        (
            case("gluon.nn.HybridLambda", "both", "hybridized", data=[4, 3], function={"function": "foreach"}),
            {"elemwise_add"},
        ),
        (
            case("gluon.nn.Lambda", "backward", data=[4, 3], function={"function": "logistic"}),
            {"_backward_CustomFunction"},
        ),
        (case("metric.Accuracy", labels={"shape": [4], "init": "randint"}, preds=[4, 10]), {"argmax"}),
        (case("init.Xavier", data=[4, 3]), {"_random_uniform"}),
        (case("optimizer.Adam", weight=[4, 3], grad=[4, 3]), {"adam_update"}),
        (case("gluon.data.DataLoader", data=[6, 3], label=[6], batch_size=2), {"stack"}),
        (case("io.NDArrayIter", data=[6, 3], batch_size=2), {"slice_axis"}),
        (
            case("gluon.data.vision.transforms.ToTensor", data={"shape": [4, 4, 3], "dtype": "uint8"}),
            {"_image_to_tensor"},
        ),
    ],
    ids=lambda value: value.id + value.operator if isinstance(value, Case) else None,
)
def test_what_is_called_is_what_runs(worker: RestartingWorker, tested_case: Case, operators: set[str]) -> None:
    """By MXNet's own profiler."""
    _, profile = answers(worker, prepare(tested_case), {"op": "profile", "calls": 1}, timeout_s=20.0)
    assert operators <= set(profile["calls"][0]["operators"])


@pytest.mark.parametrize(
    ("tested_case", "words"),
    [
        (
            case("gluon.nn.Lambda", data=[3], function={"function": "remove"}),
            "function 'remove' is not known: use one of",
        ),
        (
            case("nd.BatchNorm_v1", mode="hybridized", **{**NORM, "moving_men": [3]}),
            "moving_men is neither an argument nor a state",
        ),
        (case("gluon.nn.Dense", data=[2, 3], units=4, backend="MKLDNN"), "backend rewrites only hybridized blocks"),
        (case("metric.CustomMetric", labels=[3], preds=[3]), "has no metric.CustomMetric that can be used"),
        (case("io.CSVIter", data=[3]), "has no io.CSVIter that can be used"),
        (case("gluon.data.RecordFileDataset", filename="/etc/passwd"), "has no gluon.data.RecordFileDataset"),
        (
            case(
                "metric.Accuracy",
                dtype="float64",
                labels={"shape": [3], "dtype": "int32"},
                preds={"shape": [3, 4], "dtype": "float32"},
            ),
            "nothing in this case would be float64",
        ),
    ],
    ids=lambda value: value.operator if isinstance(value, Case) else None,
)
def test_what_cannot_be_called_says_why(worker: RestartingWorker, tested_case: Case, words: str) -> None:
    failure = worker.ask([prepare(tested_case)], 20.0)
    assert isinstance(failure, Failure)
    assert words in failure.reason


def test_data_are_shuffled_alike_in_every_process(mxnet_1_9: Build, tmp_path: Path) -> None:
    """Each process begins with another state of NumPy's generator."""
    request = CaseRequest(case("io.NDArrayIter", data=[64, 3], batch_size=16, shuffle=True), 1)
    contents = []
    for folder in (tmp_path / "first", tmp_path / "second"):
        ((arrays, _),) = answers_of(mxnet_1_9, "results_of.py", [(request.description(), str(folder), 10**6)])
        contents.append([(folder / array["file"]).read_bytes() for array in arrays])
    assert contents[0] == contents[1]
    assert len(contents[0]) == 4
