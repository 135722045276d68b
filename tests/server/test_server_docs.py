"""docs/how-to/server.md: its examples are run."""

import os
import re
import shutil
import sqlite3
import subprocess
from dataclasses import replace
from pathlib import Path

import pytest
import report_samples as samples
from results_server import numbered, running_server

from opduel.reporters.document import to_bytes

ROOT = Path(__file__).resolve().parents[2]
TEXT = (ROOT / "docs" / "how-to" / "server.md").read_text(encoding="utf-8")


def test_the_examples_run_as_they_stand(tmp_path: Path) -> None:
    """Run them in order, in one shell, in the folder of a report."""
    if shutil.which("curl") is None:
        pytest.skip("no curl on the PATH")
    report = replace(
        numbered(1), comparisons=(*samples.EVERY_VERDICT, samples.comparison("conv2d/forward", "regressed", 1.1))
    )
    (tmp_path / "report.json").write_bytes(to_bytes(report))
    examples = re.findall(r"^```sh\n(.*?)^```$", TEXT, re.MULTILINE | re.DOTALL)
    # The database is copied last, with the report in it.
    script = "set -euo pipefail\n" + "echo\n".join([*examples[1:], examples[0]])
    with running_server(tmp_path) as server:
        variables = {"SERVER": server.url, "TOKEN": server.token, "DATABASE_FILE": str(tmp_path / "results.sqlite")}
        (tmp_path / ".venv").symlink_to(ROOT / ".venv")
        process = subprocess.run(
            ["bash", "-c", script],
            cwd=tmp_path,
            env={**os.environ, **variables},
            capture_output=True,
            text=True,
            check=False,
        )
    assert process.returncode == 0, process.stdout + process.stderr
    assert process.stderr == ""
    assert '"stored":true' in process.stdout
    assert '"total":1' in process.stdout
    assert '"points":[{"run_id":"run-1"' in process.stdout
    assert '"hosts":[' in process.stdout
    assert process.stdout.strip().endswith('{"status":"ok"}')
    assert (tmp_path / "again.json").read_bytes() == to_bytes(report)
    with sqlite3.connect(tmp_path / "copy.sqlite") as copy:
        assert copy.execute("SELECT count(*) FROM runs").fetchall() == [(1,)]
