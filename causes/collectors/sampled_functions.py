"""Asks for samples of the thread that calls: where a call's time is in native code, by function, on both sides.

The worker takes them (harness/worker/samples.py). Unlike callgrind's counts they are time, and of the code that the
processor itself runs; they know no callers, and only as much as a few thousand samples can say.
"""

from collections.abc import Mapping, Sequence
from pathlib import PurePosixPath
from typing import Any

from opduel.causes.collectors.callgrind_file import NAMELESS, FunctionId
from opduel.causes.collectors.native_parts import library_name, part_name
from opduel.causes.collectors.process_pairs import Answers, Question
from opduel.causes.collectors.symbols import symbol_at
from opduel.records.cause import Observation, Part
from opduel.records.measurement import SIDES

QUESTION = Question("samples", work_ns=200_000_000, most=200_000)
FEWEST = 100  # samples of a side in a process pair; fewer say nothing
NOTE = "sampled: time in user code of the thread that calls"


def sample_observations(answers: Answers) -> list[Observation] | str:
    """Return ns of a call by native function for each process pair, by the answers to ``QUESTION``; or why there are
    none, in one line."""
    pairs = answers.about(QUESTION.op)
    if isinstance(pairs, str):
        return pairs
    sampled = [
        {side: (count_by_function(pair[side]["samples"]), float(pair[side]["ns"])) for side in SIDES} for pair in pairs
    ]
    sampled = [pair for pair in sampled if all(sum(counts.values()) >= FEWEST for counts, _ in pair.values())]
    if not sampled:
        return f"fewer than {FEWEST} samples"
    shared = _shared_names([counts for pair in sampled for counts, _ in pair.values()])
    return [{side: _parts(*pair[side], shared) for side in SIDES} for pair in sampled]


def count_by_function(samples: Sequence[Sequence[Any]]) -> dict[FunctionId, int]:
    """Return how many samples are in each function, by ``samples`` of (path of the library, offset in it, how many)."""
    counts: dict[FunctionId, int] = {}
    for path, offset, count in samples:
        function = FunctionId((symbol_at(path, offset) if path else "") or NAMELESS, path)
        counts[function] = counts.get(function, 0) + count
    return counts


def _shared_names(samples: Sequence[Mapping[FunctionId, int]]) -> set[str]:
    """Return names that functions of several libraries have."""
    libraries: dict[str, set[str]] = {}
    for counts in samples:
        for function in counts:
            libraries.setdefault(function.name, set()).add(library_name(function.library))
    return {name for name, paths in libraries.items() if name != NAMELESS and len(paths) > 1}


def _parts(counts: Mapping[FunctionId, int], ns: float, shared: set[str]) -> dict[str, Part]:
    total = sum(counts.values())
    parts: dict[str, Part] = {}
    for function, count in counts.items():
        name = part_name(function, shared)
        amount = ns * count / total + (parts[name].amount if name in parts else 0.0)
        parts[name] = Part(amount, None, PurePosixPath(function.library).name)
    return parts
