"""Asks for samples of the thread that calls: where a call's time is in native code, by function, on both sides.

The worker takes them (harness/worker/samples.py). Unlike callgrind's counts they are time, and of the code that the
processor itself runs; they know no callers, and only as much as a few thousand samples can say.
"""

from collections.abc import Mapping
from typing import Any

from opduel.causes.collectors.callgrind_file import NAMELESS, CallgrindProfile, FunctionCost, FunctionId
from opduel.causes.collectors.native_parts import parts_of, shared_names
from opduel.causes.collectors.process_pairs import Answers, Question, UnansweredError
from opduel.causes.collectors.symbols import symbol_at
from opduel.records.cause import Observation
from opduel.records.measurement import SIDES

QUESTION = Question("samples", work_ns=200_000_000, most=200_000)
FEWEST = 100  # samples of a side in a process pair; fewer say nothing
NOTE = "sampled: time in user code of the thread that calls"


def sample_observations(answers: Answers) -> list[Observation]:
    """Return ns of a call by native function for each process pair. Raises UnansweredError: no answers, or samples."""
    sampled = [{side: profile_of(pair[side]) for side in SIDES} for pair in answers.about(QUESTION.op)]
    sampled = [pair for pair in sampled if all(profile.total >= FEWEST for profile in pair.values())]
    if not sampled:
        raise UnansweredError(f"fewer than {FEWEST} samples")
    shared = shared_names(profile for pair in sampled for profile in pair.values())
    return [{side: parts_of(profile, shared) for side, profile in pair.items()} for pair in sampled]


def profile_of(answer: Mapping[str, Any]) -> CallgrindProfile:
    """Return the samples of each function, each (path of the library, offset in it, how many), as costs of so many
    calls that the parts come to the ns of a call."""
    functions: dict[FunctionId, FunctionCost] = {}
    for path, offset, count in answer["samples"]:
        function = FunctionId((symbol_at(path, offset) if path else "") or NAMELESS, path)
        functions.setdefault(function, FunctionCost()).self_cost += count
    total = sum(cost.self_cost for cost in functions.values())
    return CallgrindProfile(functions, total, calls=total / float(answer["ns"]))
