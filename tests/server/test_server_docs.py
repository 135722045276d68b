"""docs/how-to/server.md: its examples are run, and its tables name all options and answers."""

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
from opduel.server.api import _POST_PROBLEMS
from opduel.server.command_line import server_parser
from opduel.server.settings import DEFAULT_MAX_REPORT_BYTES

HEAD = "v0007"  # of the migrations
ROOT = Path(__file__).resolve().parents[2]
TEXT = (ROOT / "docs" / "how-to" / "server.md").read_text(encoding="utf-8")


def test_the_examples_run_as_they_stand(tmp_path: Path) -> None:
    """One after the other, in one shell, in the folder of a report."""
    if shutil.which("curl") is None:
        pytest.skip("no curl on the PATH")
    report = replace(
        numbered(1), comparisons=(*samples.EVERY_VERDICT, samples.comparison("conv2d/forward", "regressed", 1.1))
    )
    (tmp_path / "report.json").write_bytes(to_bytes(report))
    examples = re.findall(r"^```sh\n(.*?)^```$", TEXT, re.MULTILINE | re.DOTALL)
    assert len(examples) == 7
    script = "set -euo pipefail\n" + "echo\n".join(examples)
    with running_server(tmp_path) as server:
        named = {"SERVER": server.url, "TOKEN": server.token, "DATABASE_FILE": str(tmp_path / "results.sqlite")}
        (tmp_path / ".venv").symlink_to(ROOT / ".venv")
        done = subprocess.run(
            ["bash", "-c", script],
            cwd=tmp_path,
            env={**os.environ, **named},
            capture_output=True,
            text=True,
            check=False,
        )
    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stderr == ""
    assert '"stored":true' in done.stdout
    assert '"total":1' in done.stdout
    assert '"points":[{"run_id":"run-1"' in done.stdout
    assert done.stdout.endswith('{"status":"ok"}')
    assert (tmp_path / "again.json").read_bytes() == to_bytes(report)
    with sqlite3.connect(tmp_path / "copy.sqlite") as copy:
        assert copy.execute("SELECT version_num FROM alembic_version").fetchall() == [(HEAD,)]


def test_every_option_and_answer_is_documented() -> None:
    options = {option for option in re.findall(r"--\w+", _serve_help()) if option != "--help"}
    assert set(re.findall(r"^\| `(--\w+)", TEXT, re.MULTILINE)) == options
    answers = {int(code) for row in re.findall(r"^\| ([\d, ]+) \|", TEXT, re.MULTILINE) for code in row.split(",")}
    assert answers == {200, 201, *_POST_PROBLEMS}
    assert f"Default: {DEFAULT_MAX_REPORT_BYTES}," in TEXT


def _serve_help() -> str:
    """The help of `serve`."""
    commands = next(action for action in server_parser()._actions if action.choices)
    assert isinstance(commands.choices, dict)
    return str(commands.choices["serve"].format_help())
