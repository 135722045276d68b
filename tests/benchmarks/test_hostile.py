"""benchmarks/hostile.py: a small sample of it is tried here, and what it would find is found."""

import subprocess
import sys
from pathlib import Path

import pytest

from benchmarks.hostile import judged
from benchmarks.hostile_input.trials import KINDS, Trial, trials

ROOT = Path(__file__).resolve().parents[2]
OURS = Trial("option", "harness.py", ("-b", "x"))
LINE = "harness.py: error: no such spec\n"


def test_trials_are_those_of_their_seed() -> None:
    assert trials(3, 5) == trials(3, 5)
    assert trials(3, 5) != trials(4, 5)
    assert {one.kind for one in trials(1, 1)} == set(KINDS)
    few, many = ([one for one in trials(3, count) if one.kind == "spec"] for count in (5, 9))
    assert few == many[:5]


@pytest.mark.parametrize(
    ("code", "err", "seconds", "words"),
    [
        (2, LINE, 1.0, []),
        (None, "", 60.0, ["still runs"]),
        (1, LINE, 1.0, ["exit code 1"]),
        (2, "Traceback (most recent call last):\n", 1.0, ["Traceback"]),
        (3, "harness.py: internal error: KeyError: 'x'\n", 1.0, ["exit code 3", "internal error"]),
        (2, LINE * 2, 1.0, ["in 2 lines"]),
        (2, "x" * 5000, 1.0, ["a line of 5000"]),
        (2, "error: https://me:secret@host/\n", 1.0, ["shows a secret"]),
    ],
)
def test_what_is_wrong_is_found(code: int | None, err: str, seconds: float, words: list[str]) -> None:
    found = list(judged(OURS, code, "", err, seconds))
    assert len(found) == len(words)
    assert all(any(word in one for one in found) for word in words)


@pytest.mark.nightly
def test_a_sample_ends_as_it_should() -> None:
    """Those that need no interpreter of their own; make nightly tries hundreds of every kind."""
    command = [sys.executable, str(ROOT / "benchmarks" / "hostile.py"), "--count", "4", "--seed", "11", "--forked"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=600, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "4 option, 4 other command, 4 spec" in done.stdout
    assert done.stdout.endswith(" tried; 0 went wrong\n")
