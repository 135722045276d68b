"""Gluon blocks through the worker, on real builds."""

import json
from dataclasses import replace
from typing import Any

import pytest
from build_oracle import answers_of
from mxnet_workers import MXNetWorkers, answers, prepare

from opduel.harness.processes.restarting_worker import RestartingWorker
from opduel.harness.specs import expand_cases, find_spec, load_spec
from opduel.records import MODES, Build, Case, Failure
from opduel.records.case import Mode

pytestmark = pytest.mark.mxnet
RANDOM = ("Dropout", "Zoneout")  # in training each call draws again
LSTM = {"value": {"block": "gluon.rnn.LSTMCell", "hidden_size": 8}}


def block(name: str, direction: Any = "forward", mode: Mode = "imperative", **inputs: Any) -> Case:
    return Case(f"{name}/{direction}", f"gluon.{name}", direction, inputs, "float32", "cpu", 0.02, 60.0, mode=mode)


def smallest_hybrid_cases(without: tuple[str, ...] = ()) -> list[Case]:
    """One case of each hybrid block in the catalogue, with its gradients where they don't depend on chance."""
    first: dict[str, Case] = {}
    for case in expand_cases(load_spec(find_spec("all"))):
        is_layer = case.operator.startswith("gluon.") and not case.operator.startswith("gluon.data.")
        if case.mode == "hybridized" and is_layer and case.operator not in without:
            chance = any(word in json.dumps([case.operator, case.inputs]) for word in RANDOM)
            if case.direction == "forward" or not chance:
                first[case.operator] = first.get(case.operator, case)
                if first[case.operator].inputs == case.inputs:
                    first[case.operator] = case
    return [*first.values()]


@pytest.mark.nightly
def test_modes_and_releases_agree(mxnet_1_8: Build, mxnet_1_9: Build) -> None:
    cases = smallest_hybrid_cases(without=("gluon.nn.Conv3DTranspose",))  # which 1.8 can't on a CPU
    double = {"data": [4, 6], "layers": {"value": [{"block": "gluon.nn.Dense", "units": 3}]}}
    cases.append(replace(block("nn.HybridSequential", "backward", **double), dtype="float64"))
    assert len(cases) > 70
    assert sum(case.direction == "backward" for case in cases) > 60
    control, treatment = (answers_of(build, "blocks_of.py", cases) for build in (mxnet_1_8, mxnet_1_9))
    for case, *both in zip(cases, control, treatment, strict=True):
        assert len({digest for answer in both for digest in answer["weights"]}) == 1, case.id
        for answer in both:
            assert max(answer["outputs"], answer["gradients"]) < 1e-4, (case.id, answer)
            assert answer["repeated"] < 1e-4, (case.id, "a backward call changes its own head gradients")
            assert max(answer["largest"]) > 0, case.id
    assert treatment[-1]["dtypes"] == ["float64"]
    assert len(treatment[-1]["largest"]) == 1 + 3, "the output; gradients of data, weight and bias"
    another = answers_of(mxnet_1_9, "blocks_of.py", [replace(cases[0], id="another")])
    assert another[0]["weights"] != treatment[0]["weights"], "weights come from the case's id, too"


@pytest.fixture
def worker(mxnet_1_9: Build, mxnet_workers: MXNetWorkers) -> RestartingWorker:
    return mxnet_workers.worker(mxnet_1_9)


@pytest.mark.parametrize(
    ("case", "kind", "reason"),
    [
        (block("nn.NoSuch", data=[3]), "missing", "mxnet 1.9.1 has no block gluon.nn.NoSuch"),
        (block("nn.Trainer", data=[3]), "missing", "has no block gluon.nn.Trainer"),
        (block("utils.download", url="x"), "error", "gluon.utils.download: blocks live under gluon.nn, gluon.rnn"),
        (block("nn.Dense", data=[3, 4]), "error", "missing 1 required positional argument: 'units'"),
        (
            block("nn.Dense", data=[3, 4], unit=3),
            "error",
            "unit is neither an argument of the constructor nor a tensor",
        ),
        (block("nn.Dense", data=[3, 4], units=3, layers=LSTM), "error", "gluon.nn.Dense takes no layers"),
        (block("nn.Dense", data=[3, 4], units=3, unroll=2), "error", "unroll is for recurrent cells, not for Dense"),
        (block("nn.Dense", units=3), "error", "gluon.nn.Dense is given no tensors"),
        (block("nn.Lambda", "forward", "hybridized", data=[3], function="relu"), "error", "can't be hybridized"),
        (block("rnn.BidirectionalCell", data=[3, 8], l_cell=LSTM, r_cell=LSTM), "error", "Please use unroll"),
        (block("nn.Conv2D", data=[3, 4], channels=3, kernel_size=[3, 3]), "error", "MXNetError"),
    ],
    ids=lambda value: value.id if isinstance(value, Case) else None,
)
def test_what_is_wrong_is_said(worker: RestartingWorker, case: Case, kind: str, reason: str) -> None:
    failure = worker.ask([prepare(case)], 60.0)
    assert isinstance(failure, Failure)
    assert failure.kind == kind
    assert reason in failure.reason


def test_a_hybridized_block_is_one_graph(worker: RestartingWorker) -> None:
    """MXNet runs a graph's operators in bulk, and its profiler names them together."""
    layers = {"value": [{"block": "gluon.nn.Dense", "units": 8, "activation": "relu"}] * 3}
    together: dict[Mode, bool] = {}
    for mode in MODES:
        case = block("nn.HybridSequential", "both", mode, data=[4, 8], layers=layers)
        _, profile = answers(worker, prepare(case), {"op": "profile", "calls": 1})
        together[mode] = any("FullyConnected,Activation" in name for name in profile["calls"][0]["operators"])
    assert together == {"imperative": False, "hybridized": True}
