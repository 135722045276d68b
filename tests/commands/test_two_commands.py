"""opduel run COMMAND COMMAND: two command lines against each other, in the user's folder."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from command_line import ANYWAY, LONG_S, ROOT, Outcome


def run(folder: Path, *words: str) -> Outcome:
    """Call it in ``folder``."""
    process = subprocess.run(
        [sys.executable, "-m", "opduel", "run", *words],
        cwd=folder,
        env={**os.environ, "PYTHONPATH": str(ROOT), "XDG_CACHE_HOME": str(folder / "cache")},
        capture_output=True,
        text=True,
        timeout=LONG_S,
        check=False,
    )
    return Outcome(process.returncode, process.stdout, process.stderr)


def test_two_commands_are_compared_with_what_is_around_each_run(tmp_path: Path) -> None:
    (tmp_path / "input").write_text("7\n")
    slow, fast = 'sh -c "read n; test -e there; sleep 0.03; exit $n"', 'sh -c "read n; test -e there; exit $n"'
    around = (
        "--time_budget",
        "60",
        "-p",
        "touch there",
        "--cleanup",
        "rm there",
        "--input",
        "input",
        "--ignore-failure",
    )
    outcome = run(tmp_path, *around, "--simple_local_reporter", "report", *ANYWAY, fast, slow)
    report = json.loads((tmp_path / "report" / "report.json").read_text())
    assert outcome.code in (0, 1, 3), outcome.err
    assert [report["control"]["requested"], report["treatment"]["requested"]] == [fast, slow]
    (comparison,) = report["comparisons"]
    assert comparison["failure"] is None
    assert comparison["ratio"] > 2
    assert not (tmp_path / "there").exists()


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["gzip -k big"], "give two commands, each in quotes"),
        (["cat big | wc", "wc big"], "cat big | wc: has '|', and there is no shell: write sh -c"),
        (["ls", "no-such-command -x"], "no-such-command: no such program"),
        (["ls", "ls -l", "-p", "cp a b && rm a"], "--prepare has '&&', and there is no shell"),
        (["ls", "ls -l", "--input", "missing"], "missing"),
        (["ls", "ls -l", "--control", "cat"], "--control: the two commands say what is measured"),
    ],
)
def test_what_can_not_be_run_is_wrong_usage(tmp_path: Path, words: list[str], message: str) -> None:
    assert message in run(tmp_path, *words).error_line()


def test_a_cache_that_can_not_be_written_is_one_line(tmp_path: Path) -> None:
    (tmp_path / "cache").write_text("a file where the folder should be")
    outcome = run(tmp_path, "ls", "ls -l")
    assert outcome.code == 3
    assert outcome.err.count("\n") == 1
    assert "internal error" not in outcome.err
