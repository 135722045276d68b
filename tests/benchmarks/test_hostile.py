"""benchmarks/hostile.py: its trials, and the problems that it finds; `make nightly` runs it."""

import pytest

from benchmarks.hostile import find_problems
from benchmarks.hostile_input.trials import KINDS, Trial, draw_trials

TRIAL = Trial("option", "harness.py", ("-b", "x"))
LINE = "harness.py: error: no such spec\n"


def test_trials_are_those_of_their_seed() -> None:
    assert draw_trials(3, 5) == draw_trials(3, 5)
    assert draw_trials(3, 5) != draw_trials(4, 5)
    assert {trial.kind for trial in draw_trials(1, 1)} == set(KINDS)


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
