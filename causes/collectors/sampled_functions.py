"""Where a call's time is in native code, by function, on both sides: samples of the thread that calls.

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
    """Of one case, as answered to ``QUESTION``: ns of a call by native function, for each process pair; or why there
    are none, in one line."""
    found = answers.about(QUESTION.op)
    if isinstance(found, str):
        return found
    seen = [{side: (by_function(pair[side]["samples"]), float(pair[side]["ns"])) for side in SIDES} for pair in found]
    seen = [pair for pair in seen if all(sum(counts.values()) >= FEWEST for counts, _ in pair.values())]
    if not seen:
        return f"fewer than {FEWEST} samples"
    shared = _shared([counts for pair in seen for counts, _ in pair.values()])
    return [{side: _parts(*pair[side], shared) for side in SIDES} for pair in seen]


def by_function(samples: Sequence[Sequence[Any]]) -> dict[FunctionId, int]:
    """How many samples are in each function, of those in places of files."""
    found: dict[FunctionId, int] = {}
    for path, place, count in samples:
        function = FunctionId((symbol_at(path, place) if path else "") or NAMELESS, path)
        found[function] = found.get(function, 0) + count
    return found


def _shared(counted: Sequence[Mapping[FunctionId, int]]) -> set[str]:
    """Names that functions of several libraries have."""
    libraries: dict[str, set[str]] = {}
    for counts in counted:
        for function in counts:
            libraries.setdefault(function.name, set()).add(library_name(function.library))
    return {name for name, of in libraries.items() if name != NAMELESS and len(of) > 1}


def _parts(counts: Mapping[FunctionId, int], ns: float, shared: set[str]) -> dict[str, Part]:
    whole = sum(counts.values())
    found: dict[str, Part] = {}
    for function, count in counts.items():
        name = part_name(function, shared)
        amount = ns * count / whole + (found[name].amount if name in found else 0.0)
        found[name] = Part(amount, None, PurePosixPath(function.library).name)
    return found
