"""MXNet's own profiler through the worker, on real builds."""

import json
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest
from build_oracle import MXNET, answers_of
from mxnet_workers import MXNetWorkers, answers, prepare

from opduel.records import Build, Case

pytestmark = pytest.mark.mxnet
KIB = 1024
Profiled = Callable[..., list[Mapping[str, Any]]]


@pytest.fixture
def profiled(request: pytest.FixtureRequest, mxnet_workers: MXNetWorkers) -> Profiled:
    """``profiled(release, operator, direction, calls, **inputs)``: the calls, in a child of that release's worker."""

    def profile(release: str, operator: str, direction: Any, calls: int, **inputs: Any) -> list[Mapping[str, Any]]:
        worker = mxnet_workers.profiling(request.getfixturevalue(release))
        case = Case("a", operator, direction, inputs, "float32", "cpu", 0.02, 60.0)
        profiles: list[Mapping[str, Any]] = answers(worker, prepare(case), {"op": "profile", "calls": calls})[1][
            "calls"
        ]
        return profiles

    return profile


@pytest.mark.parametrize("release", ["mxnet_1_8", "mxnet_1_9"])
def test_every_call_is_reported(release: str, profiled: Profiled) -> None:
    calls = profiled(release, "nd.exp", "forward", 4, data=[256, 256])
    assert len(calls) == 4
    for call in calls:
        assert list(call["operators"]) == ["exp"]
        assert len(call["operators"]["exp"]) == 1
        assert call["memory"] == {"cpu/0": 256 * KIB}, "the output: four bytes for each of 256 x 256"


def test_time_grows_with_the_work(profiled: Profiled) -> None:
    small, large = (profiled("mxnet_1_9", "nd.dot", "forward", 5, lhs=[n, n], rhs=[n, n]) for n in (64, 512))
    assert min(call["operators"]["dot"][0] for call in large) > 20 * min(call["operators"]["dot"][0] for call in small)


@pytest.mark.parametrize("release", ["mxnet_1_5", "mxnet_1_9"])
def test_backward_is_there_by_name(release: str, profiled: Profiled) -> None:
    (call,) = profiled(release, "nd.softmax", "both", 1, data=[64, 64])
    assert sorted(call["operators"]) == ["_backward_softmax", "softmax"]


@pytest.mark.parametrize("release", ["mxnet_1_5", "mxnet_1_9"])
def test_no_call_makes_the_head_gradients(release: str, profiled: Profiled) -> None:
    """exp's backward writes into the gradient that is there: a head gradient made in the call would show as memory."""
    memory_by_direction = {
        direction: profiled(release, "nd.exp", direction, 2, data=[256, 256])[-1]["memory"].get("cpu/0", 0)
        for direction in ("backward", "both")
    }
    assert memory_by_direction == {"backward": 0, "both": 256 * KIB}, "of both, the output"


def test_a_custom_operator_is_its_python_code_and_what_that_calls(profiled: Profiled) -> None:
    """The first call of a process seeds generators, and every call deletes variables: neither is an operator."""
    for call in profiled("mxnet_1_9", "nd.Custom", "both", 3, op_type="opduel_add_one", args=[[500, 500]]):
        names = {"opduel_add_one::_plus_scalar", "opduel_add_one::CopyCPU2CPU", "opduel_add_one::pure_python"}
        backward = {"_backward_opduel_add_one::CopyCPU2CPU", "_backward_opduel_add_one::pure_python"}
        assert set(call["operators"]) == names | backward
        assert all(min(times) > 0 for times in call["operators"].values())


def test_before_1_6_a_custom_operator_has_one_name(profiled: Profiled) -> None:
    for call in profiled("mxnet_1_5", "nd.Custom", "forward", 3, op_type="opduel_add_one", args=[[500, 500]]):
        assert set(call["operators"]) == {"Custom", "_plus_scalar", "CopyCPU2CPU"}


@pytest.mark.parametrize("release", ["mxnet_1_5", "mxnet_1_9"])
def test_the_time_of_a_call_holds_the_python_code_and_nothing_twice(
    release: str, request: pytest.FixtureRequest
) -> None:
    build: Build = request.getfixturevalue(release)
    (calls,) = answers_of(build, "profiled_in.py", [4], **MXNET.profiling.variables)
    for call in calls:
        assert any("dot" in name for name in call["operators"])
        spent = sum(map(sum, call["operators"].values()))
        assert 5e6 <= spent <= call["taken"], "5 ms asleep; no longer than the call, though code waits for operators"


def test_copies_to_python_are_timed(profiled: Profiled) -> None:
    small, large = (profiled("mxnet_1_9", "nd.NDArray.asnumpy", "forward", 5, self=[n, 1000]) for n in (1, 3000))
    for call in small + large:
        assert set(call["operators"]) == {"MXNDArraySyncCopyToCPU"}
    fastest = [min(sum(map(sum, call["operators"].values())) for call in calls) for calls in (small, large)]
    assert fastest[1] > 10 * max(fastest[0], 1000), "12 MB take longer than 4 kB, and than a tick"
    for name in ("tolist", "item"):
        calls = profiled("mxnet_1_9", f"np.ndarray.{name}", "forward", 2, self=[1])
        assert all(set(call["operators"]) == {"MXNDArraySyncCopyToCPU"} for call in calls), name


@pytest.mark.parametrize(("release", "counted", "log"), [("mxnet_1_5", 6, False), ("mxnet_1_9", 3, True)])
def test_mxnets_own_files(
    release: str, counted: int, log: bool, request: pytest.FixtureRequest, mxnet_workers: MXNetWorkers, tmp_path: Path
) -> None:
    """A trace that a browser can open, MXNet's table (1.5's counts all twice), and oneDNN's log where it is there."""
    build: Build = request.getfixturevalue(release)
    inputs = {"data": [1, 3, 16, 16], "weight": [8, 3, 3, 3], "no_bias": True, "kernel": [3, 3], "num_filter": 8}
    case = Case('a "quoted" name', "nd.Convolution", "forward", inputs, "float32", "cpu", 0.02, 60.0)
    question = {"op": "write_profile", "calls": 3, "folder": str(tmp_path), "name": case.id}
    answers(mxnet_workers.profiling(build), prepare(case), question)
    events = json.loads((tmp_path / "trace.json").read_text())["traceEvents"]
    calls = [(event["name"], event["ph"]) for event in events if event.get("cat") == "opduel"]
    assert calls == 3 * [("a _quoted_ name", "b"), ("a _quoted_ name", "e")]
    assert sum(event["name"] == "Convolution" and event["ph"] == "B" for event in events) == 3
    (row,) = (line for line in (tmp_path / "table.txt").read_text().splitlines() if line.startswith("Convolution "))
    assert int(row.split()[1]) == counted
    assert ("exec,cpu,convolution" in (tmp_path / "output.txt").read_text()) == log


def test_what_runs_no_operator_has_none(profiled: Profiled) -> None:
    for call in profiled("mxnet_1_9", "nd.NDArray.reshape", "forward", 2, self=[50, 50], shape={"value": [2500]}):
        assert call["operators"] == {}
