"""Instructions of real MXNet operators under valgrind."""

import math
import platform
import random
import shutil
from dataclasses import replace
from typing import Any

import pytest
from build_oracle import ENVIRONMENT, MXNET

from opduel.harness.machine.cpus import plan_cpus
from opduel.harness.processes.case_request import CaseRequest
from opduel.harness.processes.pair_pool import Bench, PairPool
from opduel.harness.rounds.instructions import plan_counting, run_counting_round
from opduel.harness.rounds.pair import Round, RoundResult
from opduel.records import Build, Case
from opduel.records.case import Mode

pytestmark = [
    pytest.mark.mxnet,
    pytest.mark.nightly,  # and in the CI; tests/harness/test_instructions.py counts the toy's
    pytest.mark.skipif(
        shutil.which("valgrind") is None or platform.machine() != "x86_64",
        reason="instructions are counted by valgrind, on x86-64",
    ),
]


def counted(name: str, operator: str, direction: Any, mode: Mode = "imperative", **inputs: Any) -> Case:
    case = Case(f"{name}/instructions", operator, direction, inputs, "float32", "cpu", 0.005, 60.0, "instructions")
    return replace(case, mode=mode)


def test_counts_of_one_build_agree_and_grow_with_the_work(mxnet_1_9: Build) -> None:
    """One pair for all of it: most of its time goes into starting.

    The bound on what one build may differ by is that of the documentation, 0.1 %.
    """
    cases = {
        "small": counted("small", "nd.exp", "forward", data=[64, 64]),
        "large": counted("large", "nd.exp", "forward", data=[64, 256]),
        "gradient": counted("gradient", "nd.sum", "backward", data=[64, 64], axis=1),
        "step": counted("step", "nd.sum", "both", data=[64, 64], axis=1),
        "graph": counted("graph", "gluon.nn.Dense", "forward", "hybridized", data=[8, 8], units=8),
        "injected": counted("injected", "nd.exp", "forward", data=[64, 64]),
    }
    bench = Bench(
        {"control": mxnet_1_9, "treatment": mxnet_1_9},
        MXNET.adaptor,
        ENVIRONMENT,
        plan_cpus(1),
        plan_counting(MXNET),
    )
    requests = [CaseRequest(case, 1, 0.02 if name == "injected" else 0.0) for name, case in cases.items()]
    result, rng = RoundResult(), random.Random(1)
    run_counting_round(PairPool(bench, rng), Round(requests, 0), rng, result)
    assert (result.lost, result.lost_worker, result.unmeasured) == ({}, None, [])
    sample_by_name = {sample.case_id.partition("/")[0]: sample for sample in result.samples}
    for name in ("small", "large", "gradient", "step", "graph"):
        assert abs(sample_by_name[name].log_ratio) < 0.001
    assert sample_by_name["injected"].log_ratio == pytest.approx(math.log(1.02), abs=0.001)
    assert 3 * 64 * 64 < sample_by_name["small"].control < sample_by_name["large"].control
    assert sample_by_name["large"].control < 4 * sample_by_name["small"].control, "what a call costs besides is in it"
    assert 0 < sample_by_name["gradient"].control < sample_by_name["step"].control
    assert sample_by_name["graph"].control > 0
