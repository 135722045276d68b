"""Asks which Python functions, and functions in C as Python sees them, a call's time goes into on either side.

The worker times them, and takes out what watching adds: harness/worker/functions.py.
"""

from collections.abc import Mapping, Sequence
from typing import Any

from opduel.causes.collectors.process_pairs import Answers, Question
from opduel.records.cause import Observation, Part
from opduel.records.measurement import SIDES, Side

Pairs = Sequence[Mapping[Side, Mapping[str, Any]]]  # what both sides answered, in each process pair
QUESTION = Question("functions", work_ns=50_000_000, most=50_000)
LEAST_SOUND = 3  # process pairs
_SAME_NAMES = ("calls", "where", "called_at", "inclusive", "doubt", "inclusive_doubt", "code")  # in answers and parts
_TIMES = ("ns", "inclusive", "doubt", "inclusive_doubt")
NOTE = (
    "time in NumPy's ufuncs, operators and compiled extensions that Python doesn't see counts for the function that "
    "runs them"
)


def function_observations(answers: Answers) -> list[Observation]:
    """Return an observation for each process pair, in ns a call. The parts of a side add up to what its call takes
    without being watched. Raises UnansweredError."""
    pairs = _sound(answers.about(QUESTION.op))
    return [{side: _parts(pair[side]["functions"]) for side in SIDES} for pair in pairs]


def _sound(pairs: Pairs) -> Pairs:
    """Return the process pairs whose functions add up to the call on both sides; where too few do all of them, with
    functions that are made to: one side's would else be larger by what watching added."""
    sound = [pair for pair in pairs if not any("seen_ns" in pair[side] for side in SIDES)]
    return sound if len(sound) >= LEAST_SOUND else [{side: _scaled(pair[side]) for side in SIDES} for pair in pairs]


def _scaled(answer: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return a side's answer with times in proportion to those that were seen, and with the call's for their sum."""
    if "seen_ns" not in answer:
        return answer
    scale = answer["ns"] / answer["seen_ns"]
    functions = [function | {name: scale * function[name] for name in _TIMES} for function in answer["functions"]]
    return {**answer, "functions": functions, "stacks": [[path, scale * ns] for path, ns in answer["stacks"]]}


def function_note(answers: Answers) -> str:
    """Return what limits the observations, in one line."""
    pairs = answers.of.get(QUESTION.op, [])
    sound = _sound(pairs)
    if side := next((side for pair in sound for side in SIDES if "seen_ns" in pair[side]), None):
        shares = sorted(pair[side]["seen_ns"] / pair[side]["ns"] for pair in pairs if "seen_ns" in pair[side])
        share = f"{shares[len(shares) // 2]:.0%} of what a call takes when it isn't watched"
        return f"{side}: the functions added up to {share}, and were scaled to it; {NOTE}"
    if omitted := len(pairs) - len(sound):
        return f"{omitted} of {len(pairs)} process pairs left out, whose functions did not add up to the call; {NOTE}"
    return NOTE


def function_stacks(answers: Answers) -> dict[Side, dict[tuple[str, ...], float]]:
    """Return for each side: function names from the outermost caller inwards -> ns a call that the innermost takes by
    itself when it is called so; means over process pairs. Empty where there are no answers."""
    pairs = _sound(answers.of.get(QUESTION.op, []))
    stacks_by_side: dict[Side, dict[tuple[str, ...], float]] = {side: {} for side in SIDES if pairs}
    for pair in pairs:
        for side, stacks in stacks_by_side.items():
            names = [function["name"] for function in pair[side]["functions"]]
            for path, ns in pair[side]["stacks"]:
                stack = tuple(names[place] for place in path)
                stacks[stack] = stacks.get(stack, 0.0) + ns / len(pairs)
    return stacks_by_side


def _parts(functions: list[Mapping[str, Any]]) -> dict[str, Part]:
    return {
        function["name"]: Part(
            function["ns"], callers=dict(function["callers"]), **{name: function[name] for name in _SAME_NAMES}
        )
        for function in functions
    }
