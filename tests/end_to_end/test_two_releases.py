"""The whole product on real MXNet: what is found, what fails, what a killed worker costs."""

import contextlib
import csv
import json
import os
import signal
import sys
import time
from pathlib import Path
from typing import Any

import psutil
import pytest
from forked import ONE_FORK, Forked

from opduel.records import Build

pytestmark = pytest.mark.mxnet
ROOT = Path(__file__).resolve().parent.parent.parent


def harness(folder: Path, *arguments: str) -> Forked:
    anyway = ["--busy_host", "report"]  # the tests share their machine
    command = [sys.executable, str(ROOT / "harness.py"), *arguments, *anyway, "--simple_local_reporter", str(folder)]
    return Forked(command, cwd=ROOT, first=ONE_FORK)


def finish(process: Forked, folder: Path, code: int) -> tuple[dict[str, Any], str]:
    output, errors = process.communicate(timeout=540)
    assert process.returncode == code, errors
    return json.loads((folder / "report.json").read_text(encoding="utf-8")), output


def spec_of(folder: Path, *tests: dict[str, Any]) -> str:
    path = folder / "spec.json"
    path.write_text(json.dumps({"framework": "mxnet", "tests": tests}), encoding="utf-8")
    return str(path)


def verdicts(report: dict[str, Any]) -> dict[str, str]:
    return {comparison["case"]: comparison["verdict"] for comparison in report["comparisons"]}


def test_a_real_difference_between_releases_is_found(tmp_path: Path, mxnet_1_8: Build, mxnet_1_9: Build) -> None:
    """LayerNorm forward became several times faster from 1.8.0 to 1.9.1."""
    sides = {"control": "mxnet==1.8.0.post0", "treatment": "mxnet==1.9.1"}
    report = compare_layer_norm(tmp_path, sides, code=0)
    (comparison,) = report["comparisons"]
    assert comparison["verdict"] == "improved"
    assert comparison["ratio"] < 0.5
    assert comparison["ci"][0] <= comparison["ratio"] <= comparison["ci"][1] < 1
    assert report["control"]["version"] == "1.8.0"
    assert report["treatment"]["version"] == "1.9.1"


@pytest.mark.nightly  # tests/comparator/test_invariances.py swaps the sides; test_python_packages.py ends in 1
def test_the_other_way_round_it_is_a_regression(tmp_path: Path, mxnet_1_8: Build, mxnet_1_9: Build) -> None:
    sides = {"control": "mxnet==1.9.1", "treatment": "mxnet==1.8.0.post0"}
    assert verdicts(compare_layer_norm(tmp_path, sides, code=1)) == {"layer_norm/forward": "regressed"}


def compare_layer_norm(folder: Path, sides: dict[str, str], code: int) -> dict[str, Any]:
    """Until it is settled; returns the report."""
    builds = [word for side, release in sides.items() for word in (f"--{side}", release)]
    words = ("-b", "specs/smoke.json", "--operators", "layer_norm/forward", "--seed", "5")
    enough = ("--max_rounds", "6", "--sentinels", "0", "--explain", "none")  # for a change as large: a look, and 3 more
    process = harness(folder, *words, *enough, *builds)
    report, _ = finish(process, folder, code)
    return report


@pytest.mark.nightly  # test_python_packages.py has the same on NumPy
def test_an_injected_slowdown_is_found_and_the_rest_is_not_flagged(tmp_path: Path, mxnet_1_9: Build) -> None:
    release = "mxnet==1.9.1"
    process = harness(
        tmp_path,
        *("-b", "smoke", "--operators", "exp", "--operators", "dot", "--operators", "take", "--operators", "concat"),
        *("--control", release, "--treatment", release, "--inject", "0.5", "--threshold", "10%"),
        *("--max_rounds", "10"),  # enough for changes as large; how sure it is of the others is no matter here
        "--simple_screen_reporter",
    )
    report, output = finish(process, tmp_path, code=1)
    injected = {comparison["case"] for comparison in report["comparisons"] if comparison["injected"]}
    regressed = {case for case, verdict in verdicts(report).items() if verdict == "regressed"}
    assert len(injected) == 2
    assert regressed == injected
    lines = output.splitlines()
    assert "found 2 of 2, missed 0; false alarms 0 of 2" in lines[-1]
    rows = list(csv.reader((line for line in lines if not line.startswith("#")), delimiter="\t"))
    assert {cell for row in rows for cell in row} >= injected


@pytest.mark.nightly  # test_python_packages.py has the same on NumPy
def test_failures_name_their_side_and_the_rest_goes_on(tmp_path: Path, mxnet_1_5: Build, mxnet_1_9: Build) -> None:
    """Three ways in which MXNet itself fails: no such operator, a clean error, a crash of the process."""
    spec = spec_of(
        tmp_path,
        {"operator": "np.add", "identifier": "new", "inputs": {"x1": [2, 3], "x2": [2, 3]}},
        {"operator": "nd.elemwise_add", "identifier": "bad_shapes", "inputs": {"lhs": [2], "rhs": [3]}},
        {
            "operator": "nd.Convolution",
            "identifier": "no_groups",
            "inputs": {
                "data": [1, 2, 8, 8],
                "weight": [2, 2, 3, 3],
                "kernel": [3, 3],
                "num_filter": 2,
                "num_group": 0,
                "no_bias": True,
            },
        },
        {"operator": "nd.exp", "identifier": "fine", "inputs": {"data": [64, 64]}, "threshold": 0.9},
    )
    process = harness(tmp_path, "-b", spec, "--control", "mxnet==1.5.1.post0", "--treatment", "mxnet==1.9.1")
    report, _ = finish(process, tmp_path, code=0)
    rows = {comparison["case"]: comparison for comparison in report["comparisons"]}
    assert rows["fine/forward"]["verdict"] == "unchanged"
    assert rows["new/forward"]["verdict"] == "failed"
    assert rows["new/forward"]["failure"]["side"] == "control"
    assert rows["new/forward"]["failure"]["kind"] == "missing"
    assert rows["bad_shapes/forward"]["failure"]["side"] == "both"
    assert rows["bad_shapes/forward"]["failure"]["kind"] == "error"
    assert "Check failed" in rows["bad_shapes/forward"]["failure"]["reason"]
    assert rows["no_groups/forward"]["failure"]["side"] == "both"
    assert rows["no_groups/forward"]["failure"]["kind"] == "crash"
    assert {incident["case_id"] for incident in report["run"]["incidents"]} == {"no_groups/forward"}


@pytest.mark.nightly  # tests/harness/test_process.py kills a worker, test_schedule.py counts what is lost
def test_kill_9_of_a_worker_in_mid_run(tmp_path: Path, mxnet_1_9: Build) -> None:
    """Only a sample is lost, and that is reported. A kill that comes too late hits nothing: then once more."""
    release = "mxnet==1.9.1"
    arguments = ["-b", "smoke", "--operators", "dot", "--operators", "exp", "--threshold", "50%"]
    for attempt in range(5):
        folder = tmp_path / str(attempt)
        process = harness(folder, *arguments, "--control", release, "--treatment", release)
        kill_one_that_measures(process)
        report, _ = finish(process, folder, code=0)
        if report["run"]["incidents"]:
            break
    (incident,) = report["run"]["incidents"]
    assert incident["failure"]["kind"] == "killed"
    assert set(verdicts(report).values()) == {"unchanged"}
    assert report["run"]["complete"] is True


def kill_one_that_measures(process: Forked) -> None:
    """Kill a forked child: it lives for one case."""
    end = time.monotonic() + 120
    while time.monotonic() < end and process.poll() is None:
        with contextlib.suppress(psutil.Error):
            for worker in psutil.Process(process.pid).children():
                for child in worker.children():
                    os.kill(child.pid, signal.SIGKILL)
                    return
        time.sleep(0.01)
    pytest.fail("no child of a worker was seen")
