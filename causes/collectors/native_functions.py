"""Counts a call's instructions, or its simulated cache misses, by native function on both sides: valgrind's callgrind.

Each process pair is a fresh one, as those of ``rounds.instructions``, and counts whole calls, with what Python
itself executes. docs/explanation/instructions.md says what such counts show and what they don't.
"""

import re
import shutil
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any

from opduel.causes.attribution.flame import flame_of_graphs
from opduel.causes.collectors.callgrind_file import INSTRUCTIONS, MISSES, CallgrindProfile, read_callgrind
from opduel.causes.collectors.code_placement import describe_placement
from opduel.causes.collectors.native_parts import call_graph, describe_stripped, mispredicted, parts_of, shared_names
from opduel.causes.collectors.stripped import locate, vector_size, with_owners
from opduel.causes.collectors.valgrind_pairs import PAIRS, Observed, Tool, fit_cases, look_in_pairs, reading_files
from opduel.harness.machine.host import PROC, text_of
from opduel.harness.processes.case_request import CaseRequest
from opduel.harness.profiles import Profiling, case_folders
from opduel.harness.rounds.blocks import Processes
from opduel.harness.rounds.instructions import (
    CASE_INSTRUCTIONS,
    SCRIPT,
    ask_counts,
    callgrind,
    plan_counting,
    plan_counts,
)
from opduel.harness.rounds.pair import Round
from opduel.records import Case, Part
from opduel.records.cause import NO_AVX512, Observation
from opduel.records.measurement import SIDES, Side

LARGE_CALL = 5 * CASE_INSTRUCTIONS  # a call that executes more is counted once, and none is discarded before it
FILE = "callgrind.out"
# The files say how often each instruction was executed, not only each line, and which branches were mispredicted.
INSTRUCTION_OPTIONS = ("--dump-instr=yes", "--branch-sim=yes")
MISS_OPTIONS = ("--cache-sim=yes",)  # of this processor's caches, by their sizes
MOST_STORED_BYTES = 64 * 2**20  # of callgrind's files in the folder
MODEL = "valgrind's model of the first-level data cache, which reads nothing ahead: not what the processor counted"


def observe_native(
    profiling: Profiling,
    cases: Sequence[Case],
    *,
    env: Mapping[str, str] | None = None,
    pairs: int = PAIRS,
    folder: Path | None = None,
    among: Sequence[Case] = (),
    misses: bool = False,
) -> dict[str, Observed]:
    """Return for each case id the instructions per call by native function, in ``pairs`` fresh process pairs, both
    sides at once; with ``misses`` the misses of a simulated cache, without a tree of frames.

    ``env``: the user's own variables. In ``folder``, if given, ``<case>/<side>/callgrind.out`` is what the last pair's
    process executed, as long as all files together have at most ``MOST_STORED_BYTES``; ``among``: all cases that have a
    folder there. Never raises for what a worker does: it costs a case its observations alone.
    """
    # whole calls, for every framework: what changed may be outside the functions that it counts in
    fit = fit_cases(profiling.framework, cases)
    counting = replace(plan_counting(profiling.framework, env, fit), functions=())
    folders = case_folders(among or cases) if folder else {}
    places = {case.id: folder / folders[case.time_id] for case in cases} if folder else {}
    label, options = ("misses", MISS_OPTIONS) if misses else ("native", INSTRUCTION_OPTIONS)
    tool = Tool(label, SCRIPT, "OPDUEL_COUNTS", counting.environment, lambda paths: callgrind(counting, paths, options))
    counter = _Counter(MISSES if misses else INSTRUCTIONS, places)
    results = look_in_pairs(profiling, cases, tool, counter.count, pairs)
    describe = _describe_misses if misses else _describe
    return {case_id: describe(of_case, note) for case_id, (of_case, note) in results.items()}


ProfilePair = Mapping[Side, CallgrindProfile]


@dataclass
class _Counter:
    """Counts ``events`` in cases. ``places``: case id -> folder of its files; ``stored``: file -> its bytes."""

    events: Sequence[bytes]
    places: Mapping[str, Path]
    stored: dict[Path, int] = field(default_factory=dict)

    def count(self, processes: Processes, request: CaseRequest, this_round: Round) -> ProfilePair:
        """Return what both sides execute in one case."""
        case = request.case
        prepare = {"op": "prepare", "case": request.description(), "seed": request.seed, "whole_calls": True}
        one_call = ask_counts(processes, dict.fromkeys(SIDES, prepare), case, this_round)
        discard, calls = plan_calls({side: int(one_call[side]["count"]) for side in SIDES})
        message = {"op": "functions", "discard": discard, "calls": calls}
        answers = ask_counts(processes, dict.fromkeys(SIDES, message), case, this_round)
        return {side: replace(self._read(side, case, answers[side]), calls=calls) for side in SIDES}

    def _read(self, side: Side, case: Case, answer: Mapping[str, Any]) -> CallgrindProfile:
        """Return what a side has executed, without what it executes around the calls."""
        dump, empty = Path(answer["dump"]), Path(answer["empty"])
        read = partial(read_callgrind, locate=locate, vector_size=vector_size, events=self.events)
        with reading_files(side, "callgrind", (dump, empty)):
            with dump.open("rb") as stream, empty.open("rb") as around:
                profile = read(stream)
                profile.subtract(read(around))
            profile = with_owners(profile)
            if case.id in self.places:
                self._store(dump, self.places[case.id] / side / FILE)
        return profile

    def _store(self, dump: Path, place: Path) -> None:
        """Copy a file to its place, unless all of them would then be too large."""
        size = dump.stat().st_size
        if sum(self.stored.values()) - self.stored.get(place, 0) + size > MOST_STORED_BYTES:
            return
        place.parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(dump, place)
        self.stored[place] = size


def plan_calls(instructions: Mapping[Side, int]) -> tuple[int, int]:
    """Return how many calls to discard, and how many to count, by the instructions of one call on each side."""
    if max(instructions.values()) > LARGE_CALL:
        return 0, 1
    plan = plan_counts(instructions, 0.0)
    return plan.discard, plan.scale


def _describe_misses(pairs: Sequence[ProfilePair], note: str) -> Observed:
    observations = _observations(pairs, parts_of, _shared_names(pairs))
    return Observed(observations, "; ".join(filter(None, (note, MODEL if pairs else ""))))


def _describe(pairs: Sequence[ProfilePair], note: str) -> Observed:
    """Return instructions by function, the tree of frames, mispredicted branches, and where the hottest code lies."""
    if not pairs:
        return Observed(note=note)
    shared, profiles = _shared_names(pairs), {side: [pair[side] for pair in pairs] for side in SIDES}
    notes = filter(None, [note, describe_stripped(profiles), NO_AVX512 if has_avx512() else ""])
    counted_branches = [pair for pair in pairs if all(profile.branches for profile in pair.values())]
    control, treatment = (pairs[-1][side] for side in SIDES)
    return Observed(
        _observations(pairs, parts_of, shared),
        "; ".join(notes),
        flame_of_graphs({side: call_graph(profiles[side], shared) for side in SIDES}),
        tuple(_observations(counted_branches, mispredicted, shared)),
        describe_placement(control, treatment, shared),
    )


def _shared_names(pairs: Sequence[ProfilePair]) -> set[str]:
    return shared_names(profile for pair in pairs for profile in pair.values())


def _observations(
    pairs: Sequence[ProfilePair],
    divide: Callable[[CallgrindProfile, set[str]], dict[str, Part]],
    shared: set[str],
) -> list[Observation]:
    return [{side: divide(profile, shared) for side, profile in pair.items()} for pair in pairs]


def has_avx512(proc: Path = PROC) -> bool:
    """Return whether this processor has AVX-512."""
    return re.search(r"^flags\s*:.*\bavx512f\b", text_of(proc / "cpuinfo"), re.M) is not None
