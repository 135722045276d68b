"""Numbers, memory and the roofline on real MXNet: a build that computes other numbers is found out."""

import json
from dataclasses import replace
from pathlib import Path

import pytest

from opduel.commands.session import exit_code
from opduel.frameworks import get_framework
from opduel.harness.run import run_ab
from opduel.harness.run_request import RunRequest
from opduel.harness.specs import expand_cases
from opduel.harness.specs.model import Spec
from opduel.records import Build, RunConfiguration
from opduel.records.run_record import RunLabels
from opduel.reporters.screen import render

# And in the CI. Each metric by itself: test_mxnet_results.py, test_mxnet_storage.py, test_mxnet_profiler.py.
pytestmark = [pytest.mark.mxnet, pytest.mark.nightly]

# In float16 the squares of 4096 ones add up to 2048 and no further, unless they are added up in float32.
SPEC = {
    "framework": "mxnet",
    "defaults": {"metric": ["error", "memory"]},
    "tests": [
        {
            "operator": "nd.norm",
            "identifier": "norm",
            "dtype": "float16",
            "inputs": {"data": {"shape": [4096], "init": "ones"}},
        },
        {"operator": "nd.dot", "identifier": "dot", "inputs": {"lhs": [64, 64], "rhs": [64, 64]}},
        {
            "operator": "nd.topk",
            "identifier": "topk",
            "metric": "memory",
            "inputs": {"data": [256, 4000], "k": 3},
        },
    ],
}


def test_other_numbers_are_a_regression_and_memory_is_the_same(mxnet_1_9: Build, tmp_path: Path) -> None:
    safe = replace(mxnet_1_9, environment={**mxnet_1_9.environment, "MXNET_SAFE_ACCUMULATION": "1"})
    request = RunRequest(
        framework=get_framework("mxnet"),
        control=mxnet_1_9,
        treatment=safe,
        cases=expand_cases(Spec.model_validate(SPEC)),
        seed=3,
        configuration=RunConfiguration(max_rounds=5, roofline=True, profile_output=str(tmp_path)),
        labels=RunLabels(spec="numbers"),
        env={"DNNL_VERBOSE": "1"},
    )
    report = run_ab(request)
    assert exit_code(report) == 1
    comparisons = {comparison.case: comparison for comparison in report.comparisons}
    both = [f"{name}/forward/{metric}" for name in ("norm/float16", "dot") for metric in ("error", "memory")]
    assert list(comparisons) == [*both, "topk/forward/memory"]
    norm = comparisons["norm/float16/forward/error"]
    assert (norm.verdict, norm.rounds) == ("regressed", 2)
    assert norm.note.startswith("output: at (0,) 45.25 against 64.0; 1 of 1 differ")
    assert (comparisons["dot/forward/error"].verdict, comparisons["dot/forward/error"].control) == ("unchanged", 0.0)
    memory = comparisons["dot/forward/memory"]
    assert (memory.verdict, memory.control, memory.rounds) == ("unchanged", 64 * 64 * 4, 3)
    topk = comparisons["topk/forward/memory"]
    assert (topk.verdict, topk.control) == ("unchanged", 12_291_072), "a workspace of 12 MB, and an output of 3 kB"
    assert report.run.validity.valid, "nothing was timed"
    assert "output: at (0,) 45.25 against 64.0" in " ".join(render(report).split())
    assert report.host.roofline.gflops["float32"] > 0
    assert report.run.environment["DNNL_VERBOSE"] == "1"
    assert (report.run.profile_output.written, report.run.profile_output.problems) == (6, ())
    for side in ("control", "treatment"):
        folder = tmp_path / "dot" / "forward" / side
        assert any(event["name"] == "dot" for event in json.loads((folder / "trace.json").read_text())["traceEvents"])
        assert "\ndot " in (folder / "table.txt").read_text()
