"""An operator that is named for --inputs, and that no build has, is wrong usage: also beside a good one."""

import json
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from made_reports import Measuring, build, comparison

from opduel.commands import named_operators
from opduel.commands.case_selection import choose_cases
from opduel.commands.harness_adapter import HarnessAdapter
from opduel.commands.named_operators import refuse_unknown_operators
from opduel.commands.options import read_options
from opduel.commands.round_log import FileRoundLog
from opduel.commands.session import plan_session
from opduel.driver.runs import RunOrder
from opduel.frameworks import get_framework
from opduel.harness.other_runs.smoke_check import SmokeCheck
from opduel.records import Build, Case, Failure, UsageError

INPUTS = ["--inputs", '{"lhs": [8, 8], "rhs": [8, 8]}']
HAS = {"control": {"nd.new_one"}, "treatment": {"nd.new_one", "nd.newer"}}


@pytest.fixture
def tried(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Builds that have certain operators; filled with what they are asked for."""
    operators: list[str] = []

    def smoke_check(build: Build, framework: Any, cases: Sequence[Case], **_: object) -> Iterator[SmokeCheck]:
        for case in cases:
            operators.append(f"{build.requested}: {case.operator}")
            there = case.operator in HAS[build.requested]
            kind = "error" if case.operator == "nd.refuses" else "missing"
            yield SmokeCheck(case, None if there else Failure("treatment", kind, "x"))

    monkeypatch.setattr(named_operators, "smoke_check", smoke_check)
    return operators


def look(*operators: str, more: Sequence[str] = INPUTS) -> None:
    options = read_options([word for operator in operators for word in ("--operators", operator)] + [*more])
    cases = choose_cases(options, 0).cases
    refuse_unknown_operators(options, cases, get_framework("mxnet"), [build("control"), build("treatment")])


def test_operators_of_the_specs_are_not_looked_for(tried: list[str]) -> None:
    look("nd.add", "nd.maximum")
    look("exp", more=["-b", "smoke"])
    assert tried == []


def test_others_are_looked_for_in_one_build_after_the_other(tried: list[str]) -> None:
    look("nd.add", "nd.new_one", "nd.newer")
    assert tried == ["control: nd.new_one", "control: nd.newer", "treatment: nd.newer"]


def test_what_fails_otherwise_is_there(tried: list[str]) -> None:
    look("nd.refuses")
    assert tried == ["control: nd.refuses"]


def test_what_no_build_has_is_wrong_usage(tried: list[str]) -> None:
    with pytest.raises(
        UsageError, match=r"^--operators nd\.addd: none of the builds has this operator: similar: nd\.add"
    ):
        look("nd.add", "nd.addd")
    with pytest.raises(UsageError, match=r"see opduel list"):
        look("nd.qqqqqqqq")


def look_at_spec(folder: Path, *operators: str, builds: Sequence[str] = ("control", "treatment")) -> None:
    """The same for a spec of the user's, in a bundle."""
    tests = [
        {"operator": operator, "identifier": f"t{number}", "inputs": {}} for number, operator in enumerate(operators)
    ]
    (folder / "own.json").write_text(json.dumps({"framework": "mxnet", "tests": tests}), encoding="utf-8")
    bundle = folder / "bundle.json"
    bundle.write_text(json.dumps({"framework": "mxnet", "specs": ["own.json"]}), encoding="utf-8")
    options = read_options(["-b", str(bundle)])
    chosen = choose_cases(options, 0)
    refuse_unknown_operators(options, chosen.cases, get_framework("mxnet"), list(map(build, builds)), chosen.path)


def test_a_misspelt_operator_of_a_spec_is_reported_with_file_and_case(tried: list[str], tmp_path: Path) -> None:
    words = r"bundle\.json: t1/forward: operator nd\.addd: none of the builds has this operator: similar: nd\.add"
    with pytest.raises(UsageError, match=words):
        look_at_spec(tmp_path, "nd.add", "nd.addd")
    assert tried == ["control: nd.addd", "treatment: nd.addd"]


def test_an_operator_that_one_build_has_is_no_misspelt_one(tried: list[str], tmp_path: Path) -> None:
    look_at_spec(tmp_path, "nd.newer", "nd.exp")
    assert tried == ["control: nd.newer", "treatment: nd.newer"]
    with pytest.raises(UsageError, match="newer"):
        look_at_spec(tmp_path, "nd.newer", "nd.exp", builds=["control"])


def test_the_driver_logs_a_misspelt_operator_of_a_spec_and_measures_the_others(
    tried: list[str], tmp_path: Path, measuring: Measuring, caplog: pytest.LogCaptureFixture
) -> None:
    """Its next commit may have it; what the command line names is refused by the driver, too."""
    spec = tmp_path / "own.json"
    spec.write_text('{"framework": "mxnet", "tests": [{"operator": "nd.addd", "inputs": {}}]}', encoding="utf-8")
    measuring.give(comparison("unchanged"), interrupted=True)
    for arguments in (["-b", str(spec)], ["--operators", "nd.addd", *INPUTS]):
        options = read_options([*arguments, "--local_reporter", str(tmp_path)])
        session = plan_session(options, {}, ["repo_driver.py"])
        rounds = FileRoundLog(tmp_path / f"rounds{len(arguments)}", lambda: 1)
        control, treatment = build("control"), replace(build("treatment"), digest="11")
        order = RunOrder("run", "benchmark", control, treatment, rounds)
        if "-b" in arguments:
            assert HarnessAdapter(session).measure(order).comparisons
            assert "own.json: addd_0/forward: operator nd.addd: none of" in caplog.text
        else:
            with pytest.raises(UsageError, match=r"nd\.addd"):
                HarnessAdapter(session).measure(order)
            with pytest.raises(UsageError, match=r"nd\.addd"):  # before it is its turn: nothing is measured then
                HarnessAdapter(session).measure_ahead(order, 1, lambda: False)


@pytest.mark.mxnet
def test_a_real_build_is_asked(mxnet_1_9: Build) -> None:
    options = read_options(["--operators", "nd.add", "--operators", "nd.addd", *INPUTS])
    with pytest.raises(UsageError, match=r"nd\.addd"):
        refuse_unknown_operators(options, choose_cases(options, 0).cases, get_framework("mxnet"), [mxnet_1_9])
