"""The metric ``memory`` on real MXNet: what its own counter says, workspaces included, and the same every time."""

from typing import Any

import pytest
from build_oracle import MXNET, answers_of
from mxnet_workers import MXNetWorkers, answers

from opduel.harness.processes.case_request import CaseRequest
from opduel.harness.processes.restarting_worker import RestartingWorker
from opduel.harness.rounds.counter_round import storage_question
from opduel.records import Build, Case

pytestmark = pytest.mark.mxnet
ROWS = {"data": [256, 4000]}
WITH_WORKSPACE: list[tuple[str, dict[str, Any]]] = [
    ("nd.topk", {**ROWS, "k": 3}),
    ("nd.sort", ROWS),
    ("nd.argsort", ROWS),
    ("nd.shuffle", ROWS),
    ("nd.pick", {"data": [256, 400], "index": {"shape": [256], "init": "ones"}}),
    ("nd.Correlation", {"data1": [1, 3, 32, 32], "data2": [1, 3, 32, 32]}),
    ("nd.contrib.box_nms", {"data": {"shape": [1, 100, 6], "init": "uniform"}}),
    ("nd.linalg.gelqf", {"A": [20, 40]}),
    ("nd.exp", ROWS),  # has none
]


CROP = {"area": {"value": [0.1, 1.0]}, "ratio": {"value": [0.75, 1.33]}}


def case_of(operator: str, direction: Any = "forward", mode: Any = "imperative", **inputs: Any) -> Case:
    return Case(f"{operator}/{direction}", operator, direction, inputs, "float32", "cpu", 0.01, 60.0, mode=mode)


class Stored:
    """What calls need, each time measured in a process of its own."""

    def __init__(self, worker: RestartingWorker) -> None:
        self._worker = worker

    def __call__(self, case: Case, calls: int = 3) -> float:
        (answer,) = answers(self._worker, dict(storage_question(CaseRequest(case, 1), calls)))
        assert set(answer["bytes"]) == {"cpu/0"}
        size: float = answer["bytes"]["cpu/0"]
        return size


@pytest.fixture
def stored(mxnet_1_9: Build, mxnet_workers: MXNetWorkers) -> Stored:
    return Stored(mxnet_workers.worker(mxnet_1_9, **MXNET.profiling.memory_variables))


def test_it_is_what_mxnets_counter_says_of_a_first_call(mxnet_1_9: Build, stored: Stored) -> None:
    cases = [case_of(operator, **inputs) for operator, inputs in WITH_WORKSPACE]
    peaks = answers_of(mxnet_1_9, "counted_in.py", [CaseRequest(case, 1).description() for case in cases])
    counted = {case.id: 1000 * float(peak) for case, peak in zip(cases, peaks, strict=True)}
    assert {case.id: stored(case) for case in cases} == pytest.approx(counted, rel=1e-3), "it has four digits"
    assert counted["nd.topk/forward"] > 10 * 1024 * 1024, "its workspace, and not its output of 3 kB"


@pytest.mark.parametrize(
    "case",
    [
        case_of("nd.sort", data=[64, 1000]),
        case_of("nd.topk", "backward", data=[64, 1000], k=3, ret_typ="value"),
        case_of("gluon.rnn.LSTMCell", "both", data=[4, 10, 16], hidden_size=16, unroll=10),
        case_of("gluon.nn.Dense", mode="hybridized", data=[64, 64], units=32),
        case_of("nd.Custom", "both", op_type="opduel_add_one", args=[[50, 50]]),
    ],
    ids=lambda case: case.id,
)
def test_it_is_the_same_however_many_calls_are_made(case: Case, stored: Stored) -> None:
    sizes = [stored(case, calls) for calls in (1, 3, 8)]
    assert len(set(sizes)) == 1, sizes


def test_what_is_drawn_is_drawn_from_the_seed(stored: Stored) -> None:
    case = case_of("image.random_size_crop", src=[64, 64, 3], size={"value": [24, 24]}, **CROP)
    assert len({stored(case) for _ in range(3)}) == 1


def test_what_a_call_is_given_does_not_count(stored: Stored) -> None:
    assert stored(case_of("nd.exp", "backward", data=[256, 256])) == 0, "gradient and head gradient are there"
    assert stored(case_of("nd.exp", "both", data=[256, 256])) == 256 * 256 * 4
    assert stored(case_of("gluon.nn.Dense", data=[64, 64], units=32)) == 64 * 32 * 4, "without the weights"
    assert stored(case_of("nd.NDArray.reshape", self=[50, 50], shape={"value": [2500]})) == 0


def test_the_buffers_of_a_hybridized_network_count(stored: Stored) -> None:
    """They are made in the first call, and kept."""
    image = {"data": [1, 3, 64, 64]}
    imperative, hybridized = (
        stored(case_of("model_zoo.vision.mobilenet_v2_0_25", **image, hybridize=is_hybridized))
        for is_hybridized in (False, True)
    )
    assert hybridized > 0.5 * imperative > 64 * 64 * 4
