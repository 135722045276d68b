"""harness.py --fuzz: what it refuses, and the spec that it leaves. The measuring itself is made up."""

import dataclasses
import json
from collections.abc import Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

import opduel.commands.fuzz
import opduel.harness.other_runs.fuzz
from opduel.commands.fuzz import Fuzz
from opduel.commands.launch import run_calibration, run_harness
from opduel.commands.options import read_options
from opduel.frameworks import get_framework
from opduel.harness.other_runs.smoke_check import SmokeCheck
from opduel.harness.run_request import RunRequest
from opduel.harness.specs import expand_cases, find_spec, load_spec, select_cases
from opduel.records import Build, Case, Comparison, RunRecord, UsageError

BUILD = Build("mxnet", "mxnet==1.9.1", "release", "/python", "1.9.1", "3.11", "0")


def compared(case: Case) -> Comparison:
    """Slower where a matrix has 100 rows or more, and different in its numbers there."""
    slow = case.inputs["lhs"][0] >= 100
    comparison = Comparison.without_figures(
        case, "regressed" if slow else "unchanged", note="at (0, 0)" if slow else ""
    )
    return dataclasses.replace(comparison, ratio=3.0 if slow else 1.0)


steps: list[RunRequest] = []  # of shrinking


def aborts_at(request: RunRequest) -> bool:
    """Whether a step is ended by a signal: the second one of a run with seed 8."""
    steps.append(request)
    return request.seed == 8 and len(steps) == 2


@pytest.fixture
def made_up(monkeypatch: pytest.MonkeyPatch) -> None:
    steps.clear()

    def smoke_check(build: object, framework: object, cases: Sequence[Case], *, seed: int, env: object) -> Any:
        return [SmokeCheck(case) for case in cases]

    def run_ab(request: RunRequest) -> Any:
        return SimpleNamespace(
            comparisons=[compared(case) for case in request.cases], run=RunRecord(aborted=aborts_at(request))
        )

    monkeypatch.setattr(opduel.harness.other_runs.fuzz, "smoke_check", smoke_check)
    monkeypatch.setattr(opduel.commands.fuzz, "run_ab", run_ab)


def request_for(*metrics: str, dtype: str = "float32") -> RunRequest:
    spec = load_spec(find_spec("operators/gemm"))
    cases = select_cases(expand_cases(spec, metrics=metrics), ["dot_transposed*"])
    cases = [dataclasses.replace(case, dtype=dtype) for case in cases]
    return RunRequest(get_framework("mxnet"), BUILD, BUILD, cases, 7)


def test_what_differed_is_written_small_and_can_be_measured_again(
    made_up: None, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("INFO")
    path = tmp_path / "found.json"
    fuzz = Fuzz(read_options(["--fuzz", "30", "--fuzz_spec", str(path)]))
    request = request_for("time", "error", dtype="float64")
    drawn = fuzz.drawn(request)
    assert len(drawn.cases) == 60
    run = RunRecord(interrupted=False)
    report: Any = SimpleNamespace(comparisons=[compared(case) for case in drawn.cases], run=run)
    fuzz.keep_findings(drawn, report)
    again = expand_cases(load_spec(path))
    kinds = [(case.metric, case.direction) for case in again]
    assert len(kinds) == len(set(kinds)) == 4, "each kind once"
    for case in again:
        assert case.dtype == "float64"
        assert compared(case).verdict == "regressed"
        assert case.inputs["lhs"][0] < 200, "as small as shows it, but for a step of halving"
        assert case.inputs["lhs"][1] <= 8
    assert {case.metric for case in again} == {"time", "error"}
    assert "seed 7" in json.loads(path.read_text())["description"]
    assert f"opduel compare -b {path}" in caplog.text


def test_a_signal_ends_shrinking_and_what_is_found_is_written(made_up: None, tmp_path: Path) -> None:
    path = tmp_path / "found.json"
    fuzz = Fuzz(read_options(["--fuzz", "30", "--fuzz_spec", str(path), "--explain", "all"]))
    request = dataclasses.replace(request_for("time"), seed=8).configured(
        explain="all", profile_output=str(tmp_path), breakdown=True
    )
    drawn = fuzz.drawn(request)
    report: Any = SimpleNamespace(
        comparisons=[compared(case) for case in drawn.cases], run=RunRecord(interrupted=False)
    )
    fuzz.keep_findings(drawn, report)
    assert len(steps) == 2
    assert expand_cases(load_spec(path))
    settings = [
        (configuration.explain, configuration.profile_output, configuration.breakdown)
        for configuration in (step.configuration for step in steps)
    ]
    assert settings == [("none", None, False)] * 2  # nor are the run's own profiles replaced


def test_without_a_difference_no_file_is_left(
    made_up: None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("INFO")
    monkeypatch.chdir(tmp_path)
    fuzz = Fuzz(read_options(["--fuzz", "2"]))
    drawn = fuzz.drawn(request_for("time"))
    unchanged = [Comparison.without_figures(case, "unchanged") for case in drawn.cases]
    fuzz.keep_findings(drawn, SimpleNamespace(comparisons=unchanged, run=RunRecord(interrupted=False)))  # type: ignore[arg-type]
    assert caplog.messages[-1] == "--fuzz: no input was found on which the builds differ"
    half = [*unchanged[1:], Comparison.without_figures(drawn.cases[0], "inconclusive")]
    fuzz.keep_findings(drawn, SimpleNamespace(comparisons=half, run=RunRecord(interrupted=False)))  # type: ignore[arg-type]
    assert caplog.messages[-1].endswith(f"the builds differ; 1 of {len(half)} cases undecided")
    assert not list(tmp_path.iterdir())


def test_a_file_that_can_t_be_written_is_logged(
    made_up: None, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """And so is what was found."""
    caplog.set_level("INFO")
    fuzz = Fuzz(read_options(["--fuzz", "30", "--fuzz_spec", str(tmp_path / "none" / "a.json")]))
    drawn = fuzz.drawn(request_for("time"))
    (tmp_path / "none").rmdir()
    run = RunRecord(interrupted=False)
    report: Any = SimpleNamespace(comparisons=[compared(case) for case in drawn.cases], run=run)
    fuzz.keep_findings(drawn, report)
    assert "cannot be written (No such file or directory): give another path" in caplog.text
    assert '/forward: regressed, +200.0 %, {"lhs": [' in caplog.text


def test_a_file_that_is_read_is_not_replaced(made_up: None, tmp_path: Path) -> None:
    spec, inputs = tmp_path / "ours.json", tmp_path / "inputs.json"
    for path, words in ((spec, "-b"), (inputs, "--inputs")):
        options = ["--fuzz", "2", "--inputs", f"@{inputs}", "--fuzz_spec", str(path)]
        with pytest.raises(UsageError, match=f"--fuzz_spec {path}: would replace the file of {words}"):
            Fuzz(read_options(options)).drawn(request_for("time"), spec)


def test_a_file_that_can_not_be_written_is_said_before_anything_is_measured(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    for path in (tmp_path, tmp_path / "file" / "a.json"):
        with pytest.raises(UsageError, match="--fuzz_spec"):
            Fuzz(read_options(["--fuzz", "2", "--fuzz_spec", str(path)]))


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["--fuzz", "5", "--verify"], "--verify: can't be combined with --fuzz"),
        (["--fuzz", "5", "--inject", "5%"], "--inject: can't be combined with --fuzz"),
        (["--fuzz", "5", "--round_log", "x"], "--round_log: can't be combined with --fuzz"),
        (["--fuzz_spec", "x.json"], "--fuzz_spec: add --fuzz, or leave it out"),
        (["--fuzz", "0"], "--fuzz: '0' is not a whole number of at least 1"),
    ],
)
def test_bad_usage_is_one_line(home: Path, tmp_path: Path, arguments: list[str], words: str) -> None:
    arguments = [str(tmp_path / "log") if word == "x" else word for word in arguments]
    with pytest.raises(UsageError) as caught:
        run_harness("harness.py", ["-b", "smoke", *arguments])
    assert words in str(caught.value)


def test_one_build_alone_and_a_calibration_have_none(home: Path) -> None:
    with pytest.raises(UsageError, match="--fuzz: belongs to an A/B"):
        run_harness("harness.py", ["-b", "smoke", "--single", "--treatment", "mxnet==1.9.1", "--fuzz", "3"])
    with pytest.raises(UsageError, match="--fuzz: is for one run of opduel compare"):
        run_calibration("opduel calibrate", ["--fuzz", "3"])
