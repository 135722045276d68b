"""An operator that is named for --inputs, and that no build has, is wrong usage: also beside a good one."""

from collections.abc import Iterator, Sequence
from typing import Any

import pytest
from made_reports import build

from commands import named_operators
from commands.named_operators import refuse_unknown_operators
from commands.options import harness_parser
from commands.picking import choose
from frameworks import get_framework
from harness.trial import Attempt
from records import Build, Case, Failure, UsageError

INPUTS = ["--inputs", '{"lhs": [8, 8], "rhs": [8, 8]}']
HAS = {"control": {"nd.new_one"}, "treatment": {"nd.new_one", "nd.newer"}}


@pytest.fixture
def tried(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Builds that have certain operators; filled with what they are asked for."""
    asked: list[str] = []

    def try_cases(build: Build, framework: Any, cases: Sequence[Case]) -> Iterator[Attempt]:
        for case in cases:
            asked.append(f"{build.requested}: {case.operator}")
            there = case.operator in HAS[build.requested]
            kind = "error" if case.operator == "nd.refuses" else "missing"
            yield Attempt(case, 1.0 if there else None, None if there else Failure("treatment", kind, "x"))

    monkeypatch.setattr(named_operators, "try_cases", try_cases)
    return asked


def look(*operators: str, more: Sequence[str] = INPUTS) -> None:
    options = harness_parser().parse_args([word for one in operators for word in ("--operators", one)] + [*more])
    cases = choose(options, 0).cases
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
        UsageError, match=r"^--operators nd\.addd: no build that is measured has such an operator: similar: nd\.add"
    ):
        look("nd.add", "nd.addd")
    with pytest.raises(UsageError, match=r"see run_bench\.py --list"):
        look("nd.qqqqqqqq")


@pytest.mark.mxnet
def test_a_real_build_is_asked(mxnet_1_9: Build) -> None:
    options = harness_parser().parse_args(["--operators", "nd.add", "--operators", "nd.addd", *INPUTS])
    with pytest.raises(UsageError, match=r"nd\.addd"):
        refuse_unknown_operators(options, choose(options, 0).cases, get_framework("mxnet"), [mxnet_1_9])
