"""harness.py --single: what it takes and refuses, and a run on real MXNet with a later comparison."""

import json
import re
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from command_line import HARNESS, RELEASE, Outcome, run_script, write_spec

from opduel.commands.config import config_path, write_config
from opduel.commands.entry import DONE, INCOMPLETE, REGRESSED
from opduel.commands.option_rules import is_single
from opduel.commands.options import read_options
from opduel.commands.single import open_lines, outcome_of
from opduel.comparator.baseline import compare_with_baseline
from opduel.records import Build, Failure
from opduel.records.host_record import HostRecord
from opduel.records.run_record import SingleRunRecord
from opduel.records.single import Distribution, SingleReport, SingleResult
from opduel.reporters.single import read_single

ALONE = ("--single", "--treatment", RELEASE)
BUILD = Build("toy", "toy", "interpreter", "/bin/true", "1.0", "3.11", "digest")


def harness(*arguments: str | Path) -> Outcome:
    return run_script(HARNESS, *arguments)


TWO_SIDES = '{"control": {"program": "/bin/true"}, "treatment": {"program": "/bin/true"}}'


@pytest.mark.parametrize(
    ("arguments", "error"),
    [
        ((*ALONE, "--verify"), "--verify: belongs to an A/B, not to --single or an option of it: leave one out"),
        ((*ALONE, "--local_reporter", "reports"), "--local_reporter: belongs to an A/B"),
        ((*ALONE, "--export_reporter", "md=a.md"), "--export_reporter: belongs to an A/B"),
        ((*ALONE, "--threshold", "5%"), "--threshold: one build alone is compared with nothing"),
        ((*ALONE, "--baseline", "/no/such/file"), "/no/such/file: cannot be read"),
        ((*ALONE, "--output-file", "/no/such/folder/x"), "its folder does not exist"),
        (("--rounds", "3", "--verify"), "--verify: belongs to an A/B, not to --single"),
        (("--warmup", "0", "--metric", "time"), "--metric: belongs to an A/B, not to --single"),
        (
            ("--single", "--control", RELEASE),
            "--control: --single, or an option of it, measures one build alone: leave one of the two",
        ),
        (
            ("--single", "--info", TWO_SIDES),
            "--info: --single, or an option of it, measures one build alone: leave one of the two",
        ),
        (("--control", RELEASE, "--baseline", "x"), "--baseline: only applies to one build alone"),
        (
            ("--control", RELEASE, "--warmup", "0"),
            "--warmup: an A/B makes as many calls as it needs: leave it out",
        ),
        (
            ("--control", RELEASE, "-r", "100"),
            "--runs: an A/B makes as many calls as it needs: leave it out",
        ),
        ((*ALONE, "--runs", "0"), "argument -r/--runs: '0' is not a whole number of at least 1"),
        ((*ALONE, "-p", "native"), "-p native: -p is --platform here: use --profiler native"),
    ],
)
def test_options_that_do_not_fit_are_refused(
    run: Callable[..., Outcome], home: Path, arguments: tuple[str, ...], error: str
) -> None:
    assert error in run("-b", write_spec(home), *arguments).error_line()


@pytest.mark.parametrize(
    ("words", "alone"),
    [
        ("--treatment x", False),
        ("--control x", False),
        ("", False),
        ("--treatment x --profile_output p --roofline --wipe_cache", False),
        ("--single", True),
        ("--treatment x --single", True),
        ("--treatment x --output-format json", True),
        ("--treatment x -o result.json", True),
        ("--rounds 2", True),
        ("--warmup 0", True),
        ("--control x --rounds 2", False),
    ],
)
def test_one_build_is_measured_alone_where_that_is_asked_for(words: str, alone: bool) -> None:
    assert is_single(read_options(["-b", "smoke", *words.split()])) is alone


def test_a_treatment_without_a_control_is_compared_with_the_one_that_is_configured(
    run: Callable[..., Outcome], home: Path
) -> None:
    write_config(config_path(), {"control": str(home / "ours")})
    outcome = run("-b", write_spec(home), "--treatment", RELEASE)
    assert f"control: {home / 'ours'}, from {config_path()}" in outcome.err
    assert f"{home / 'ours'}: " in outcome.err.splitlines()[-1]
    assert outcome.code == 2


def test_one_build_alone_is_the_one_that_is_configured(run: Callable[..., Outcome], home: Path) -> None:
    write_config(config_path(), {"treatment": str(home / "ours")})
    outcome = run("-b", write_spec(home), "--single")
    assert f"treatment: {home / 'ours'}, from {config_path()}" in outcome.err
    assert outcome.code == 2


FAILED = Failure("treatment", "error", "shapes differ")


def single(broken: bool = False, **times: float | Failure | None) -> SingleReport:
    """A report of cases with these times (ns), None for one that there was no time for."""
    return SingleReport(
        SingleRunRecord(aborted=broken), BUILD, HostRecord(), tuple(result(name, time) for name, time in times.items())
    )


def result(name: str, time: float | Failure | None) -> SingleResult:
    failure = time if isinstance(time, Failure) else None
    p50 = time if isinstance(time, float) else None
    calls = None if p50 is None else Distribution(p50, p50, p50, p50, p50, p50, 0.0)
    processes = () if p50 is None else (p50,)
    rounds = len(processes)
    return SingleResult(name, "nd.exp", "forward", "", "", {}, calls, rounds, rounds, processes, None, None, failure)


@pytest.mark.parametrize(
    ("now", "then", "code", "line"),
    [
        (single(a=1.0, b=1.0), None, DONE, ""),
        (single(a=1.0, b=FAILED), None, DONE, ""),
        (
            single(a=1.0, b=None, c=None),
            None,
            INCOMPLETE,
            "2 of 3 cases were not measured before the time ran out: b, c",
        ),
        (
            replace(single(a=1.0), cases=(*single(a=1.0).cases, replace(single(b=None).cases[0], note="a view"))),
            None,
            DONE,
            "",
        ),
        (single(a=None), None, INCOMPLETE, "nothing was measured"),
        (single(a=FAILED), None, INCOMPLETE, "nothing was measured"),
        (single(aborted=True, a=1.0), None, INCOMPLETE, ""),
        (single(a=1.0, b=1.0), single(a=1.0, b=1.0), DONE, ""),
        (single(a=1.0, b=None), single(a=1.0, b=1.0), INCOMPLETE, "1 of 2 cases were not measured"),
        (single(a=9.0, b=None), single(a=1.0, b=1.0), REGRESSED, "1 of 2 cases were not measured"),
        (single(a=1.0), single(z=1.0), INCOMPLETE, "nothing was compared with the baseline"),
        (single(a=1.0, b=1.0), single(a=FAILED, b=FAILED), INCOMPLETE, "nothing was compared with the baseline"),
    ],
)
def test_a_build_of_which_cases_were_not_measured_or_compared_is_not_done(
    now: SingleReport, then: SingleReport | None, code: int, line: str
) -> None:
    compared = compare_with_baseline(now, then) if then else []
    assert outcome_of(now, compared) == code
    assert "; ".join(open_lines(now, compared)).startswith(line)


@pytest.mark.mxnet
def test_a_budget_that_leaves_cases_unmeasured_ends_in_3(home: Path) -> None:
    outcome = harness("-b", "smoke", *ALONE, "--rounds", "1", "--time_budget", "0.5")
    assert outcome.code == 3, outcome.err
    assert re.search(r"(\d+ of 22 cases were not measured before the time ran out|nothing was measured)", outcome.err)


@pytest.mark.mxnet
def test_a_build_is_measured_and_compared_with_later(home: Path) -> None:
    tests = [
        {"operator": "nd.softmax", "identifier": "softmax", "run_backward": True, "inputs": {"data": [64, 64]}},
        {"operator": "nd.dot", "identifier": "mismatch", "inputs": {"lhs": [2, 3], "rhs": [4, 5]}},
    ]
    spec = write_spec(home, {"framework": "mxnet", "tests": tests})
    path = home / "result.json"
    native = ("--warmup", "1", "--runs", "7", "--profiler", "native", "--seed", "4")
    first = harness("-b", spec, *ALONE, *native, "--rounds", "2", "--output-format", "json", "--output-file", path)
    assert first.code == 0, first.err
    assert "softmax/backward" in first.out
    assert "MXNetError" in first.out
    document = read_single(path)
    forward, backward, mismatch = document.cases
    assert (forward.rounds, forward.calls) == (2, 2 * 7), "in each process as many as --runs says"
    assert (document.run.warmup, document.run.runs) == (1, 7)
    configuration = document.run.configuration
    assert (
        configuration.rounds,
        configuration.warmup,
        configuration.runs,
        configuration.profiler,
        configuration.treatment,
    ) == (2, 1, 7, "native", RELEASE)
    assert set(forward.operators or ()) == {"softmax"}
    assert set(backward.operators or ()) == {"_backward_softmax"}
    assert forward.memory == {"cpu/0": 64 * 64 * 4}
    assert mismatch.failure is not None
    entry = json.loads(path.read_text())["results"]["softmax"][0]
    assert entry["max_storage_mem_alloc_cpu/0"] == pytest.approx(16.384)
    assert entry["avg_time_forward_softmax"] > 0

    other_clock = harness("-b", spec, *ALONE, "--baseline", path)
    assert "was timed with --profiler native: use that" in other_clock.error_line()

    quicker = _with_a_hundredth_of_the_times(json.loads(path.read_text()))
    path.write_text(json.dumps(quicker))
    options = ("--operators", "softmax/forward", "--baseline", path, "--threshold", "5%", "--output_format", "csv")
    slower = harness("-b", spec, *ALONE, *native, "--rounds", "1", *options)
    assert slower.code == 1, slower.err
    assert slower.out.startswith("case,operator,")
    assert "Much weaker than an A/B" in slower.err
    assert "slower   softmax/forward" in slower.err


def _with_a_hundredth_of_the_times(document: dict[str, Any]) -> dict[str, Any]:
    """The document as if the build had been far quicker then: no machine makes up for a hundredth."""
    for case in document["cases"]:
        case["process_p50"] = [value / 100 for value in case["process_p50"]]
    return document
