"""Whole runs through the real command, on real MXNet: exit codes, clean streams, the report on disk."""

import os
import subprocess
import sys
import time
from pathlib import Path
from typing import get_type_hints

import pytest
from command_line import (
    ANYWAY,
    HARNESS,
    PYTHON_SAME_BUILD,
    PYTHON_SPEC,
    SAME_BUILD,
    Outcome,
    only_report,
    run_script,
    write_spec,
)

from opduel.records import Build, Comparison, PairSample, Report, RunConfiguration
from opduel.records.host_record import HostRecord
from opduel.records.run_record import AACheckRecord, CpusRecord, LooksRecord, RunRecord, ValidityRecord
from opduel.reporters import read_report
from opduel.reporters.simple_screen import COLUMNS

pytestmark = pytest.mark.mxnet

Finished = tuple[Outcome, Path]


def keys(record: type) -> list[str]:
    """The keys of a record, which docs/pages.py documents."""
    return list(get_type_hints(record))


def test_without_a_regression_it_ends_in_0(finished: Finished) -> None:
    assert finished[0].code == 0, finished[0].err


def test_a_pipe_gets_tab_separated_lines_and_nothing_else(finished: Finished) -> None:
    header, *rows = finished[0].out.splitlines()
    assert header.removeprefix("#").split("\t") == list(COLUMNS)
    lines = [line for line in rows if not line.startswith("#")]  # a busy machine has a line of its own
    assert [line.split("\t")[1] for line in lines] == ["exp_0/forward", "exp_1/forward"]
    assert all(line.count("\t") == header.count("\t") for line in lines)


def test_errors_and_progress_are_plain_text(finished: Finished) -> None:
    assert "\x1b" not in finished[0].err
    assert "\r" not in finished[0].err
    assert "Traceback" not in finished[0].err


def test_the_path_of_the_report_is_said(finished: Finished) -> None:
    outcome, folder = finished
    (line,) = [line for line in outcome.err.splitlines() if line.startswith("report: ")]
    path = Path(line.removeprefix("report: "))
    assert path.is_relative_to(folder / "state" / "opduel" / "reports" / "mxnet" / "host" / "tiny")
    assert len(read_report(path).comparisons) == 2


def test_the_report_has_exactly_the_documented_keys(finished: Finished) -> None:
    document = only_report(finished[1])
    assert set(document) == set(keys(Report))
    assert list(document["run"]) == keys(RunRecord)
    assert list(document["run"]["looks"]) == keys(LooksRecord)
    assert list(document["run"]["cpus"]) == keys(CpusRecord)
    assert list(document["run"]["configuration"]) == keys(RunConfiguration)
    assert list(document["control"]) == list(document["treatment"]) == keys(Build)
    assert list(document["run"]["validity"]) == keys(ValidityRecord)
    assert [list(check) for check in document["run"]["validity"]["aa_checks"]] == [keys(AACheckRecord)]
    assert list(document["host"]) == keys(HostRecord)
    for comparison in document["comparisons"]:
        assert list(comparison) == keys(Comparison)
        assert len(comparison["samples"]) == comparison["rounds"]
        for sample in comparison["samples"]:
            assert list(sample) == keys(PairSample)


def test_the_report_tells_how_the_run_went(finished: Finished) -> None:
    run = only_report(finished[1])["run"]
    keys = ("complete", "aborted", "stop_reason", "incidents", "inject")
    assert [run[key] for key in keys] == [True, False, None, [], None]
    assert run["rounds"] in (2, 4)  # by what the first look says
    assert isinstance(run["seed"], int)
    assert run["cpus"]["nice"] in (-20, os.getpriority(os.PRIO_PROCESS, 0))
    assert 0 < run["timed_s"] < run["wall_s"]
    assert run["environment"]["OMP_NUM_THREADS"] == "1"


@pytest.mark.nightly  # tests/end_to_end/test_two_releases.py finds an injected slowdown, too
def test_a_regression_ends_in_1_and_the_injection_is_accounted_for(finished: Finished, home: Path) -> None:
    options = ["--inject", "95%", "--threshold", "20%", "--max_rounds", "10", "--seed", "5", "--screen_reporter"]
    reporter = ["--simple_local_reporter", str(home / "reports")]
    outcome = run_script(HARNESS, "-b", write_spec(home), *SAME_BUILD, *ANYWAY, *options, *reporter)
    assert outcome.code == 1, outcome.out + outcome.err
    document = only_report(home / "reports")
    assert sorted(comparison["injected"] for comparison in document["comparisons"]) == [False, True]
    assert all(
        (comparison["verdict"] == "regressed") == comparison["injected"] for comparison in document["comparisons"]
    )
    assert (document["run"]["seed"], document["run"]["inject"]) == (5, 0.95)
    assert "injected +95 %: found 1 of 1, missed 0; false alarms 0 of 1" in outcome.out


def test_a_spent_budget_says_so_and_that_nothing_was_compared(home: Path) -> None:
    options = ["--time_budget", "0.01", "--simple_local_reporter", str(home), "--simple_screen_reporter"]
    outcome = run_script(HARNESS, "-b", write_spec(home, PYTHON_SPEC), *PYTHON_SAME_BUILD, *ANYWAY, *options)
    run = only_report(home)["run"]
    assert (run["complete"], run["aborted"], run["time_budget"]) == (False, False, 0.01)
    assert "time budget" in run["stop_reason"]
    assert outcome.code == 3, outcome.err
    assert "nothing was compared" in outcome.err
    assert any(line.startswith("# not complete") for line in outcome.out.splitlines())


@pytest.mark.nightly  # tests/end_to_end/test_two_releases.py has failures, test_reporting.py their exit codes
def test_what_only_the_treatment_lacks_ends_in_1(finished: Finished, home: Path) -> None:
    tests = [
        {"operator": "nd.exp", "identifier": "both", "inputs": {"data": [8, 8]}},
        {"operator": "np.exp", "identifier": "new", "inputs": {"x": [8, 8]}},
    ]
    spec = write_spec(home, {"framework": "mxnet", "tests": tests})
    builds = ["--control", "mxnet==1.9.1", "--treatment", "mxnet==1.5.1.post0", *ANYWAY]
    options = ["--max_rounds", "2", "--threshold", "99%", "--simple_local_reporter", str(home)]
    outcome = run_script(HARNESS, "-b", spec, *builds, *options)
    both, new = only_report(home)["comparisons"]
    assert new["verdict"] == "failed", outcome.err
    assert (new["failure"]["side"], new["failure"]["kind"]) == ("treatment", "missing")
    assert both["verdict"] not in ("failed", "regressed")
    assert outcome.code == 1


@pytest.mark.nightly  # tests/end_to_end/test_repo_driver.py does the same on the native toy
def test_a_run_that_was_killed_goes_on_where_it_was(home: Path) -> None:
    rounds = home / "rounds"
    folder = ["--simple_local_reporter", str(home / "reports")]
    options = ["-b", write_spec(home), *SAME_BUILD, *ANYWAY, *folder, "--threshold", "50%", "--round_log", str(rounds)]
    command = [sys.executable, HARNESS, *options]
    with subprocess.Popen(
        [*command, "--max_rounds", "30"], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
    ) as run:
        while not rounds.exists() or rounds.read_bytes().count(b'"kind": "round"') < 2:
            assert run.poll() is None
            time.sleep(0.02)
        run.kill()
    round_count = rounds.read_bytes().count(b'"kind": "round"')
    outcome = run_script(HARNESS, *options, "--max_rounds", "30")
    assert outcome.code == 0, outcome.err
    (report,) = [read_report(path) for path in home.rglob("report.json")]
    assert len(report.run.resumed) == 1
    assert report.run.rounds > round_count
    assert report.run.complete
    assert not rounds.exists()
