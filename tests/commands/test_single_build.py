"""harness.py with a treatment alone: what it takes and refuses, and a run on real MXNet with a later comparison."""

import json
import sys
from pathlib import Path
from typing import Any

import pytest
from command_line import HARNESS, RELEASE, Outcome, run_process, write_spec

from reporters.single_document import read_single

ALONE = ("--treatment", RELEASE)


def harness(*arguments: str | Path) -> Outcome:
    return run_process([sys.executable, HARNESS, *arguments])


@pytest.mark.parametrize(
    ("arguments", "error"),
    [
        ((*ALONE, "--verify"), "--verify: belongs to an A/B: give --control"),
        ((*ALONE, "--local_reporter", "reports"), "--local_reporter: belongs to an A/B"),
        ((*ALONE, "--export_reporter", "md=a.md"), "--export_reporter: belongs to an A/B"),
        ((*ALONE, "--threshold", "5%"), "--threshold: one build alone has nothing to differ from"),
        ((*ALONE, "--baseline", "/no/such/file"), "/no/such/file: cannot be read"),
        ((*ALONE, "--output-file", "/no/such/folder/x"), "its folder is not there"),
        (("--rounds", "3"), "--rounds: only applies to one build alone (--treatment without --control)"),
        (("--control", RELEASE, "--baseline", "x"), "--baseline: only applies to one build alone"),
        (("--warmup", "0"), "--warmup: an A/B warms up by itself, until calls have settled: leave it out"),
        (("-r", "100"), "--runs: an A/B makes as many calls as it needs: bound it with --time_budget or --max_rounds"),
        ((*ALONE, "--runs", "0"), "argument -r/--runs: '0' is below 1"),
        ((*ALONE, "-p", "native"), "-p native: -p is --platform here: use --profiler native"),
    ],
)
def test_options_that_do_not_fit_are_refused(home: Path, arguments: tuple[str, ...], error: str) -> None:
    assert error in harness("-b", write_spec(home), *arguments).error_line()


@pytest.mark.mxnet
def test_a_build_is_measured_and_compared_with_later(home: Path) -> None:
    tests = [
        {"operator": "nd.softmax", "identifier": "softmax", "run_backward": True, "inputs": {"data": [64, 64]}},
        {"operator": "nd.gone", "identifier": "gone", "inputs": {"data": [2]}},
    ]
    spec = write_spec(home, {"framework": "mxnet", "tests": tests})
    path = home / "result.json"
    native = ("--rounds", "2", "--warmup", "1", "--runs", "7", "--profiler", "native", "--seed", "4")
    first = harness("-b", spec, *ALONE, *native, "--output-format", "json", "--output-file", path)
    assert first.code == 0, first.err
    assert "softmax/backward" in first.out
    assert "MissingOperator" in first.out
    document = read_single(path)
    forward, backward, gone = document.cases
    assert (forward.rounds, forward.calls) == (2, 2 * 7), "in each process as many as --runs says"
    assert (document.run["warmup"], document.run["runs"]) == (1, 7)
    assert set(forward.operators or ()) == {"softmax"}
    assert set(backward.operators or ()) == {"_backward_softmax"}
    assert forward.memory == {"cpu/0": 64 * 64 * 4}
    assert gone.failure is not None
    entry = json.loads(path.read_text())["results"]["softmax"][0]
    assert entry["max_storage_mem_alloc_cpu/0"] == pytest.approx(16.384)
    assert entry["avg_time_forward_softmax"] > 0

    other_clock = harness("-b", spec, *ALONE, "--baseline", path)
    assert "was timed with --profiler native: give that" in other_clock.error_line()

    quicker = _with_a_hundredth_of_the_times(json.loads(path.read_text()))
    path.write_text(json.dumps(quicker))
    slower = harness("-b", spec, *ALONE, *native, "--baseline", path, "--threshold", "5%", "--output_format", "csv")
    assert slower.code == 1, slower.err
    assert slower.out.startswith("case,operator,")
    assert "Much weaker than an A/B" in slower.err
    assert "slower   softmax/forward" in slower.err


def _with_a_hundredth_of_the_times(document: dict[str, Any]) -> dict[str, Any]:
    """The document as if the build had been far quicker then: no machine makes up for a hundredth."""
    for case in document["cases"]:
        case["process_p50"] = [value / 100 for value in case["process_p50"]]
    return document
