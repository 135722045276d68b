"""benchmarks/hostile.py: its trials, the problems that it finds, and a small sample of real commands."""

import subprocess
import sys
from pathlib import Path

import pytest

from benchmarks.hostile import find_problems
from benchmarks.hostile_input.trials import KINDS, Trial, draw_trials

ROOT = Path(__file__).resolve().parents[2]
TRIAL = Trial("option", "harness.py", ("-b", "x"))
LINE = "harness.py: error: no such spec\n"


def test_trials_are_those_of_their_seed() -> None:
    assert draw_trials(3, 5) == draw_trials(3, 5)
    assert draw_trials(3, 5) != draw_trials(4, 5)
    assert {trial.kind for trial in draw_trials(1, 1)} == set(KINDS)
    few, many = ([trial for trial in draw_trials(3, count) if trial.kind == "spec"] for count in (5, 9))
    assert few == many[:5]


@pytest.mark.parametrize(
    ("code", "err", "expected"),
    [
        (2, LINE, []),
        (None, "", ["still runs"]),
        (1, LINE, ["exit code 1"]),
        (2, "Traceback (most recent call last):\n", ["Traceback"]),
        (3, "harness.py: internal error: KeyError: 'x'\n", ["exit code 3", "internal error"]),
        (2, LINE * 2, ["in 2 lines"]),
        (2, "x" * 5000, ["a line of 5000"]),
        (2, "error: https://me:secret@host/\n", ["shows a secret"]),
    ],
)
def test_problems_are_found(code: int | None, err: str, expected: list[str]) -> None:
    problems = list(find_problems(TRIAL, code, "", err))
    assert len(problems) == len(expected)
    assert all(any(words in problem for problem in problems) for words in expected)


@pytest.mark.nightly
def test_a_sample_ends_as_it_should() -> None:
    """Those that need no interpreter of their own; make nightly tries hundreds of every kind."""
    command = [sys.executable, str(ROOT / "benchmarks" / "hostile.py"), "--count", "4", "--seed", "11", "--forked"]
    process = subprocess.run(command, capture_output=True, text=True, timeout=600, check=False)
    assert process.returncode == 0, process.stdout + process.stderr
    assert "4 option, 4 other command, 4 spec" in process.stdout
    assert process.stdout.endswith(" tried; 0 went wrong\n")
