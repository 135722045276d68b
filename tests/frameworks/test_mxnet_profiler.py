"""MXNet's own profiler through the worker, on real builds."""

from collections.abc import Mapping
from typing import Any

import pytest

from frameworks import get_framework, worker_environment
from harness.blocks import CaseRequest
from harness.cpus import plan_cpus
from harness.solo import Solo
from records import Build, Case, Failure

pytestmark = pytest.mark.mxnet
MXNET = get_framework("mxnet")
KIB = 1024


def profiled(build: Build, operator: str, direction: Any, calls: int, **inputs: Any) -> list[Mapping[str, Any]]:
    case = Case("a", operator, direction, inputs, "float32", "cpu", 0.02, 60.0)
    environment = {**worker_environment(), **MXNET.environment(1), **MXNET.profiling_environment()}
    with Solo("treatment", build, MXNET.adaptor, environment, plan_cpus(1).start) as solo:
        requests = [CaseRequest(case, 1).message("treatment"), {"op": "profile", "calls": calls}]
        answers = solo.ask(requests, 60.0)
    assert not isinstance(answers, Failure), answers
    found: list[Mapping[str, Any]] = answers[1]["calls"]
    return found


@pytest.mark.parametrize("release", ["mxnet_1_8", "mxnet_1_9"])
def test_every_call_is_told_of(release: str, request: pytest.FixtureRequest) -> None:
    calls = profiled(request.getfixturevalue(release), "nd.exp", "forward", 4, data=[256, 256])
    assert len(calls) == 4
    for call in calls:
        assert list(call["operators"]) == ["exp"]
        assert len(call["operators"]["exp"]) == 1
        assert call["memory"] == {"cpu/0": 256 * KIB}, "the output: four bytes for each of 256 x 256"


def test_time_grows_with_the_work(mxnet_1_9: Build) -> None:
    small, large = (profiled(mxnet_1_9, "nd.dot", "forward", 5, lhs=[n, n], rhs=[n, n]) for n in (64, 512))
    assert min(one["operators"]["dot"][0] for one in large) > 20 * min(one["operators"]["dot"][0] for one in small)


@pytest.mark.parametrize("release", ["mxnet_1_5", "mxnet_1_9"])
def test_backward_is_there_by_name(release: str, request: pytest.FixtureRequest) -> None:
    build = request.getfixturevalue(release)
    (call,) = profiled(build, "nd.softmax", "both", 1, data=[64, 64])
    assert sorted(call["operators"]) == ["_backward_softmax", "softmax"]


@pytest.mark.parametrize("release", ["mxnet_1_5", "mxnet_1_9"])
def test_no_call_makes_the_head_gradients(release: str, request: pytest.FixtureRequest) -> None:
    """exp's backward writes into the gradient that is there: a head gradient made in the call would show as memory."""
    build = request.getfixturevalue(release)
    held = {
        direction: profiled(build, "nd.exp", direction, 2, data=[256, 256])[-1]["memory"].get("cpu/0", 0)
        for direction in ("backward", "both")
    }
    assert held == {"backward": 0, "both": 256 * KIB}, "of both, the output"
