"""run_bench.py --calibrate on real MXNet, kept short: that what it says is what its reports hold.

For the night: tests/commands/test_calibrate_command.py has the same command on made reports.
"""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from opduel.comparator.calibration import evaluate
from opduel.records import Build
from opduel.reporters import read_report

pytestmark = [pytest.mark.mxnet, pytest.mark.nightly]
ROOT = Path(__file__).resolve().parent.parent.parent


def test_a_short_calibration(tmp_path: Path, mxnet_1_9: Build) -> None:
    options = ["-b", "smoke", "--operators", "exp", "--operators", "dot", "--operators", "take", "--operators", "topk"]
    process = subprocess.run(
        [sys.executable, str(ROOT / "run_bench.py"), "--calibrate", *options, "--control", "mxnet==1.9.1",
         "--threshold", "20%", "--time_budget", "30", "--seed", "3", "--local_reporter", str(tmp_path)],
        env={**os.environ, "XDG_CONFIG_HOME": str(tmp_path / "config"), "XDG_STATE_HOME": str(tmp_path / "state")},
        stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=540, check=False,
    )  # fmt: skip
    assert process.returncode == 0, process.stderr
    (path,) = tmp_path.rglob("calibration.json")
    document = json.loads(path.read_text(encoding="utf-8"))
    reports = [read_report(path.parent / name) for name in document["reports"]]
    assert {report.run.inject or 0.0 for report in reports} | set(document["not_run"]) == {0.0, 0.3, 0.5}
    assert {report.control.digest for report in reports} == {report.treatment.digest for report in reports}
    assert len(reports) == document["runs"] >= 2
    rows = evaluate(reports)
    assert [row.share for row in rows] == [row["share"] for row in document["rows"]]
    for row, written_row in zip(rows, document["rows"], strict=True):
        assert written_row["detected"] == {"count": row.detected.count, "of": row.detected.of}
        assert written_row["false_flags"] == {"count": row.false_flags.count, "of": row.false_flags.of}
    flags = [sum(getattr(row.false_flags, name) for row in rows) for name in ("count", "of")]
    assert f"false flags: {flags[0]} of {flags[1]} (" in process.stdout
    smallest = document["smallest"]
    if not any(row.detected.of for row in rows):
        assert "no slowed case was measured" in process.stdout
    elif smallest is None:
        assert "no injected slowdown was found in 80 %" in process.stdout
    else:
        assert smallest["detected"]["count"] >= 0.8 * smallest["detected"]["of"] > 0
        assert f"+{smallest['share'] * 100:g} %, with --threshold 20%" in process.stdout
    assert "advice:" in process.stdout
    assert str(path.parent) in process.stdout
