"""The HTML report of a real run on MXNet: the command that it shows for a case measures that case, and no other."""

import json
import os
import shlex
import sys
from pathlib import Path
from typing import Any

import pytest
from forked import ONE_FORK, Forked

from opduel.records import Build
from opduel.reporters import read_report

# tests/reporters/test_reproduce.py is about the commands themselves.
pytestmark = [pytest.mark.mxnet, pytest.mark.nightly]
ROOT = Path(__file__).resolve().parent.parent.parent
SHORT = ("--max_rounds", "2", "--busy_host", "report", "--sentinels", "0")  # as long as it takes, on any machine


def run(folder: Path, command: list[str]) -> Any:
    """Run the command in the checkout; returns its report, and the data of the page beside it."""
    state = {"XDG_CONFIG_HOME": str(folder / "config"), "XDG_STATE_HOME": str(folder / "state")}
    words = [*command, *SHORT, "--simple_local_reporter", str(folder)]
    with Forked(words, cwd=ROOT, env={**os.environ, **state}, first=ONE_FORK) as process:
        _, errors = process.communicate()
    assert process.returncode in (0, 1, 3), errors  # 3: two rounds settle little
    page = (folder / "report.html").read_text(encoding="utf-8")
    data = json.loads(page.split('<script type="application/json" id="data">')[1].split("</script>")[0])
    return read_report(folder / "report.json"), data


def test_the_command_shown_measures_that_case_alone(tmp_path: Path, mxnet_1_8: Build, mxnet_1_9: Build) -> None:
    sides = ["--control", "mxnet==1.8.0.post0", "--treatment", "mxnet==1.9.1"]
    picked = ["--operators", "exp", "--operators", "softmax", "--metric", "time,error", "--threads", "1"]
    report, data = run(tmp_path / "first", [sys.executable, "harness.py", "-b", "smoke", *sides, *picked])
    assert len(report.comparisons) > 2
    first_case = next(case for case in data["cases"] if case["id"].endswith("forward"))
    program, *words = shlex.split(f"{data['here']} {first_case['again']}")
    assert program == "python3"
    again, _ = run(tmp_path / "again", [sys.executable, *words])
    assert [case.id for case in again.cases] == [first_case["id"]]
    assert [case for case in report.cases if case.id == first_case["id"]] == list(again.cases)
    assert [build.digest for build in (again.control, again.treatment)] == [mxnet_1_8.digest, mxnet_1_9.digest]
    assert again.run.seed == report.run.seed
    (comparison,) = again.comparisons
    assert comparison.rounds > 0
    assert comparison.failure is None
