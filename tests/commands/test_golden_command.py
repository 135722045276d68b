"""harness.py --golden: which options go with it, what it says, and that real MXNet builds are compared through it."""

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
from command_line import RELEASE, Outcome, write_spec
from made_reports import Measuring, comparison

from opduel.harness.numerics.output_check import OTHER_INPUTS
from opduel.reporters import read_report
from opduel.reporters.reproduce import reproduction

Run = Callable[..., Outcome]


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ((), "--golden: measures one build: give it with --treatment"),
        (("--control", RELEASE, "--treatment", RELEASE), "--golden: measures one build: give it with --treatment"),
        (("--treatment", RELEASE, "--metric", "time"), "compares outputs only: use --metric error"),
        (("--treatment", RELEASE, "--metric", "time,error"), "compares outputs only"),
        (("--treatment", RELEASE, "--rounds", "3"), "--rounds: has no meaning with --golden: leave it out"),
        (("--treatment", RELEASE, "--verify"), "--verify: has no meaning with --golden"),
        (("--treatment", RELEASE, "--wipe_cache"), "--wipe_cache: has no meaning with --golden"),
        (("--treatment", RELEASE, "--screen_reporter"), "--screen_reporter: reports a comparison: add --metric error"),
        (("--treatment", RELEASE, "--metric", "error"), "golden.json: does not exist: give a folder that"),
    ],
)
def test_what_does_not_go_with_it_is_one_line(run: Run, home: Path, arguments: tuple[str, ...], words: str) -> None:
    assert words in run("-b", "smoke", "--golden", str(home / "golden"), *arguments).error_line()
    assert not (home / "golden").exists()


def test_of_an_ab_and_of_the_driver_it_is_no_option(run: Run, home: Path) -> None:
    line = run("-b", "smoke", "--golden", str(home)).error_line()
    assert "--golden" in line


SPEC = {
    "framework": "mxnet",
    "tests": [
        {"operator": "nd.dot", "identifier": "dot", "inputs": {"lhs": [8, 8], "rhs": [8, 8]}},
        {"operator": "nd.random.normal", "identifier": "normal", "inputs": {"shape": {"value": [4]}}},
    ],
}


@pytest.mark.nightly
@pytest.mark.mxnet
def test_a_real_build_s_outputs_are_kept_and_found_again(run: Run, home: Path, request: pytest.FixtureRequest) -> None:
    spec, folder = write_spec(home, SPEC), str(home / "golden")
    outcome = run("-b", spec, "--treatment", RELEASE, "--golden", folder, "--seed", "5")
    assert (outcome.code, outcome.out) == (0, "")
    assert f"golden outputs of 2 cases: {folder}" in outcome.err
    assert "holds golden outputs" in run("-b", spec, "--treatment", RELEASE, "--golden", folder).error_line()

    compare = ("-b", spec, "--treatment", RELEASE, "--metric", "error", "--golden", folder)
    assert "was written with seed 5" in run(*compare, "--seed", "6").error_line()
    assert "float64" in run(*compare, "--dtype", "float64").error_line()
    outcome = run(*compare, "--simple_local_reporter", str(home / "same"))
    assert outcome.code == 0, outcome.err
    report = read_report(home / "same" / "report.json")
    assert {result.case: result.verdict for result in report.comparisons} == {
        "dot/forward/error": "unchanged",
        "normal/forward/error": "unchanged",
    }
    assert (report.run.golden, report.run.seed, report.run.complete) == (folder, 5, True)
    assert f"--golden {folder} --treatment {RELEASE}" in reproduction(report).here
    assert "--control" not in reproduction(report).here

    with_other_inputs = replace(comparison("inconclusive"), case="dot/forward/error", note=OTHER_INPUTS, rounds=0)
    measuring: Measuring = request.getfixturevalue("measuring")
    measuring.give(with_other_inputs, replace(comparison("unchanged"), case="normal"))
    outcome = run(*compare)
    assert outcome.code == 3
    assert "1 case with other inputs than the golden outputs: dot/forward/error" in outcome.err
    measuring.give(comparison("regressed"))
    assert run(*compare).code == 1
