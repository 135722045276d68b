"""The whole product on PyTorch, where a wheel is at hand: a slowdown, a case that fails, its own benchmarks."""

import json
import logging
import sys
from pathlib import Path
from typing import Any

import pytest
from forked import ONE_FORK, Forked
from torch_at_hand import WHY_NOT, torch_build, torch_request

from opduel.commands import own_benchmarks
from opduel.harness.specs import expand_cases, load_spec
from opduel.harness.specs.load import validate
from opduel.records import UsageError

pytestmark = [pytest.mark.wheels, pytest.mark.nightly]
ROOT = Path(__file__).resolve().parent.parent.parent
# As in a checkout of PyTorch: what makes the configurations, and files that register benchmarks.
UTILS = """
def config_list(attr_names, attrs, tags, **others):
    return [[{name: value} for name, value in zip(attr_names, one)] + [{"tags": tags[0]}] for one in attrs]
def op_list(attr_names, attrs):
    return [dict(zip(attr_names, one)) for one in attrs]
"""
ADDED = """
import operator_benchmark as op_bench
import torch

class Added(op_bench.TorchBenchmarkBase):
    def init(self, M, N):
        self.inputs = {"one": torch.rand(M, N, requires_grad=self.auto_set()), "two": torch.rand(N)}
        self.set_module_name("added")
    def forward(self, one, two):
        return torch.add(one, two, alpha=2)

class Unary(op_bench.TorchBenchmarkBase):
    def init(self, M, N, op_func):
        self.inputs = {"one": torch.rand(N, M).t()}
        self.op_func = op_func
    def forward(self, one):
        return self.op_func(one)

configs = op_bench.config_list(attr_names=["M", "N"], attrs=[[2, 3]], tags=["short"])
configs += op_bench.config_list(attr_names=["M", "N"], attrs=[[2000, 3000]], tags=["long"])
op_bench.generate_pt_test(configs, Added)
op_bench.generate_pt_gradient_test(configs, Added)
ops = op_bench.op_list(attr_names=["op_name", "op_func"], attrs=[["abs", torch.abs], ["two", lambda x: x.abs().exp()]])
op_bench.generate_pt_tests_from_op_list(ops, configs, Unary)
"""


def finished(folder: Path, code: int, *arguments: str) -> dict[str, Any]:
    """The report of a run."""
    request = torch_request()
    if request is None:
        pytest.skip(WHY_NOT)
    sides = ["--control", request, "--treatment", request, "--busy_host", "report"]
    command = [sys.executable, str(ROOT / "harness.py"), *arguments, *sides, "--simple_local_reporter", str(folder)]
    process = Forked(command, cwd=ROOT, first=ONE_FORK)
    _, errors = process.communicate(timeout=600)
    assert process.returncode == code, errors
    report: dict[str, Any] = json.loads((folder / "report.json").read_text(encoding="utf-8"))
    return report


def test_an_injected_slowdown_is_found_and_the_rest_is_not_flagged(tmp_path: Path) -> None:
    operators = [word for name in ("torch.mm", "torch.nn.Conv2d") for word in ("--operators", name)]
    report = finished(
        tmp_path, 1, "-b", "torch", *operators, "--inject", "0.5", "--threshold", "10%", "--max_rounds", "10"
    )
    injected = {row["case"] for row in report["comparisons"] if row["injected"]}
    assert {row["case"] for row in report["comparisons"] if row["verdict"] == "regressed"} == injected


def test_metrics_and_what_can_not_run(tmp_path: Path) -> None:
    spec = tmp_path / "spec.json"
    tests = [
        {"operator": "torch.exp", "inputs": {"input": [1000, 250]}, "metric": ["memory", "process_memory", "error"]},
        {"operator": "torch.exp", "identifier": "on_gpu", "inputs": {"input": [8]}, "context": "gpu"},
    ]
    spec.write_text(json.dumps({"framework": "torch", "tests": tests}), encoding="utf-8")
    report = finished(tmp_path, 3, "-b", str(spec), "--max_rounds", "2")
    by_name = {row["case"]: row for row in report["comparisons"]}
    failure = by_name["on_gpu/gpu/forward"]["failure"]
    assert (failure["side"], failure["kind"]) == ("both", "error")
    assert "this build of PyTorch has no CUDA: use cpu" in failure["reason"]
    assert by_name["exp_0/forward/memory"]["control"] == 1_000_000
    assert by_name["exp_0/forward/process_memory"]["control"] > 1_000_000
    assert by_name["exp_0/forward/error"]["verdict"] == "unchanged"


def test_pytorch_s_own_benchmarks_become_a_spec(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    build = torch_build()
    (tmp_path / "pt").mkdir()
    (tmp_path / "benchmark_utils.py").write_text(UTILS)
    (tmp_path / "pt" / "added_test.py").write_text(ADDED)
    (tmp_path / "pt" / "broken_test.py").write_text("import no_such_module\n")
    output = tmp_path / "made.json"
    environment = Path(build.interpreter).parent.parent
    with caplog.at_level(logging.INFO):
        assert own_benchmarks.main([str(tmp_path), "--build", str(environment), "--output", str(output)]) == 0
    cases = {case.id: case for case in expand_cases(load_spec(output))}
    assert set(cases) == {"added_M2_N3/forward", "added_M2_N3/backward", "abs_M2_N3/forward"}
    added = cases["added_M2_N3/forward"].inputs
    assert added["alpha"] == 2
    assert [argument["shape"] for argument in added["args"]] == [[2, 3], [3]]
    assert [argument.get("grad_req") for argument in added["args"]] == [None, "null"]
    assert cases["abs_M2_N3/forward"].inputs["args"][0]["call"] == "torch.as_strided"
    assert "broken_test.py: left out: ModuleNotFoundError" in caplog.text
    assert "calls 2 functions of PyTorch, not one (1)" in caplog.text
    assert "2 files: 0 as a whole, 1 in part, 1 not" in caplog.text


def test_the_command_names_what_is_wrong(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    arguments = [str(tmp_path / "none"), "--build", "torch==2.13.0", "--output", str(tmp_path / "made.json")]
    assert own_benchmarks.main(arguments) == 2
    assert "no such folder" in caplog.text
    with pytest.raises(UsageError, match="is not a field"):
        validate({"framework": "torch", "tests": [{"operator": "torch.add", "inputs": [{"args": [{"shap": [2]}]}]}]})
