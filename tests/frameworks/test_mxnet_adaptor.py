"""MXNet's operators through the worker, on real builds."""

from dataclasses import asdict, replace
from typing import Any

import pytest
from build_oracle import answers_of
from mxnet_workers import MXNetWorkers, answers, prepare

from opduel.harness.processes.restarting_worker import RestartingWorker
from opduel.harness.specs import expand_cases, find_spec, load_spec
from opduel.records import Build, Case, Failure

pytestmark = pytest.mark.mxnet


def case(operator: str, direction: Any = "forward", dtype: str = "float32", **inputs: Any) -> Case:
    return Case(f"{operator}/{direction}", operator, direction, inputs, dtype, "cpu", 0.02, 60.0)


@pytest.fixture
def worker(mxnet_1_9: Build, mxnet_workers: MXNetWorkers) -> RestartingWorker:
    return mxnet_workers.worker(mxnet_1_9)


def seconds_per_call(worker: RestartingWorker, tested_case: Case) -> float:
    (answer,) = answers(worker, prepare(tested_case))
    return float(1e-9 * answer["call_ns"])


CONV = {"data": [1, 3, 9, 9], "weight": [4, 3, 3, 3], "bias": [4], "kernel": [3, 3], "num_filter": 4}


@pytest.mark.parametrize("release", ["mxnet_1_8", "mxnet_1_9"])
def test_each_direction_runs_what_it_says(release: str, request: pytest.FixtureRequest) -> None:
    build: Build = request.getfixturevalue(release)
    cases = [case("nd.exp", direction, data=[64, 64]) for direction in ("forward", "backward", "both")]
    assert answers_of(build, "calls_of.py", cases) == [[1, 0], [0, 1], [1, 1]]


def test_what_has_no_tensors_is_made_where_the_case_says(worker: RestartingWorker) -> None:
    zeros_case = replace(case("nd.zeros", shape=[64, 64]), context="cpu(1)")
    _, profile = answers(worker, prepare(zeros_case), {"op": "profile", "calls": 1})
    (call,) = profile["calls"]
    # MXNet's counter of a second CPU is "cpu/1" or "cpu pinned/", by what the process allocated before; never "cpu/0".
    (device,) = call["memory"]
    assert device in ("cpu/1", "cpu pinned/")
    assert call["memory"][device] == 64 * 64 * 4


@pytest.mark.parametrize("direction", ["forward", "backward", "both"])
def test_a_timed_call_waits_for_the_engine(worker: RestartingWorker, direction: str) -> None:
    """Pushing an operator takes microseconds whatever its size: the time must grow with the work."""
    small, large = (seconds_per_call(worker, case("nd.dot", direction, lhs=[n, n], rhs=[n, n])) for n in (32, 512))
    assert large > 20 * small  # 4,096 times the multiplications; so is what a call costs besides


@pytest.mark.parametrize(
    ("refused_case", "kind", "reason"),
    [
        (case("nd.no_such_operator", data=[3]), "missing", "mxnet 1.9.1 has no operator nd.no_such_operator"),
        (case("nd.contrib", data=[3]), "missing", "is not an operator"),
        (case("base.os.system", command="true"), "error", "operators live under nd, np, npx"),
        (case("nd.elemwise_add", lhs=[3], rhs=[4]), "error", "MXNetError"),
        (case("nd.Convolution", **{**CONV, "no_such_argument": 1}), "error", "no_such_argument"),
    ],
    ids=lambda value: value.id if isinstance(value, Case) else str(value)[:20],
)
def test_refusals_are_reported_and_survived(
    worker: RestartingWorker, refused_case: Case, kind: str, reason: str
) -> None:
    failure = worker.ask([prepare(refused_case)], 60.0)
    assert isinstance(failure, Failure)
    assert failure.kind == kind
    assert reason in failure.reason
    assert seconds_per_call(worker, case("nd.exp", data=[3])) > 0


def test_inputs_come_from_the_seed_and_are_the_same_in_both_builds(mxnet_1_8: Build, mxnet_1_9: Build) -> None:
    cases = expand_cases(load_spec(find_spec("smoke")))
    requests = [(asdict(seeded_case), 7) for seeded_case in cases] + [(asdict(cases[0]), 8)]
    control, treatment = (answers_of(build, "inputs_of.py", requests) for build in (mxnet_1_8, mxnet_1_9))
    assert control == treatment
    assert control[0] != control[-1], "another seed, other inputs"


@pytest.mark.parametrize("name", [pytest.param("conv", marks=pytest.mark.nightly), "smoke"])
def test_shipped_specs_run_on_both_releases(
    name: str, mxnet_workers: MXNetWorkers, mxnet_1_8: Build, mxnet_1_9: Build
) -> None:
    block = {"op": "block", "discard": 0, "calls": 2, "inner": 1}
    for worker in map(mxnet_workers.worker, (mxnet_1_8, mxnet_1_9)):
        for shipped_case in expand_cases(load_spec(find_spec(name))):
            _, timing = answers(worker, prepare(shipped_case), block)
            assert min(timing["ns"]) > 0
