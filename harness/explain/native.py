"""Where a call's instructions are, by native function, on both sides, and where it would miss a processor's cache:
counted by valgrind's callgrind.

Each process pair is a fresh one, as those of ``opduel.harness.instructions``, and counts whole calls, with what Python
itself executes. docs/explanation/instructions.md says what such counts show and what they don't.
"""

import math
import random
import re
import shutil
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from opduel.frameworks import Framework
from opduel.harness.blocks import Processes
from opduel.harness.budget import NO_TIME_LEFT
from opduel.harness.case_request import CaseRequest
from opduel.harness.counter_round import sample_of
from opduel.harness.explain.callgrind_file import INSTRUCTIONS, MISSES, CallgrindProfile, read_callgrind
from opduel.harness.explain.flame import call_graph, flame_of_graphs
from opduel.harness.explain.native_parts import mispredicted, parts_of, shared_names, without_symbols
from opduel.harness.explain.placement import placement
from opduel.harness.explain.stripped import described, locate, vector_size
from opduel.harness.explain.valgrind_pairs import PAIRS, Observed, look_in_a_pair, note_on, why_not
from opduel.harness.host import PROC, text_of
from opduel.harness.instructions import (
    CASE_INSTRUCTIONS,
    SCRIPT,
    ask_counts,
    callgrind,
    plan_counting,
    plan_counts,
)
from opduel.harness.pair import Round
from opduel.harness.pair_pool import Bench, Counting
from opduel.harness.process import CaseRefusedError, Worker
from opduel.harness.profiles import case_folders
from opduel.records import Case, Failure, Frame, PairSample
from opduel.records.cause import NO_AVX512, Observation
from opduel.records.measurement import SIDES, Side

LARGE = 5 * CASE_INSTRUCTIONS  # a call that executes more is counted once, and none is discarded before it
FILE = "callgrind.out"
# Its files say how often each instruction was executed, not only each line, and which branches were mispredicted.
IN_DETAIL = ("--dump-instr=yes", "--branch-sim=yes")
MOST_KEPT = 64 * 2**20  # bytes of such files in all
SIMULATING = "--cache-sim=yes"  # of this processor's caches, by their sizes
MODEL = "valgrind's model of the first-level data cache, which reads nothing ahead: not what the processor counted"


def observe_native(
    bench: Bench,
    framework: Framework,
    cases: Sequence[Case],
    seed: int,
    *,
    env: Mapping[str, str] | None = None,
    pairs: int = PAIRS,
    deadline: float = math.inf,
    folder: Path | None = None,
    among: Sequence[Case] = (),
    misses: bool = False,
) -> dict[str, Observed]:
    """Case id -> instructions per call by native function, of ``pairs`` fresh process pairs, both sides at once.

    ``misses``: in place of instructions, misses of a simulated cache, without a tree of frames.
    ``bench`` says the builds, the adaptor and the processors; ``env`` has the user's own variables. Nothing is begun
    after ``deadline`` (of the monotonic clock). In ``folder``, if given, ``<case>/<side>/callgrind.out`` is what the
    last pair's process executed; those that would exceed ``MOST_KEPT`` together are left out; ``among``:
    all cases that have a folder there, by which ids that are alike as paths are distinguished. Never raises for what a
    worker does: it costs a case its observations alone.
    """
    unfit = {case.id: Observed(note=why) for case in cases if (why := why_not(framework, case))}
    fit = [case for case in cases if case.id not in unfit]
    if not fit:
        return unfit
    # whole calls, for every framework: what changed may be outside the functions that it counts in
    counting = replace(plan_counting(framework, env, fit), functions=())
    folders = case_folders(among or fit) if folder else {}
    places = {case.id: folder / folders[case.time_id] for case in fit} if folder else {}
    looking = _Looking(bench, counting, seed, deadline, places, misses)
    for number in range(pairs):
        looking.look([case for case in fit if case.id not in looking.failed], number)
    describe = _observed_misses if misses else _observed
    found = {
        case.id: describe(looking.profiles.get(case.id, []), looking.failed.get(case.id, ""), pairs) for case in fit
    }
    return {case.id: {**unfit, **found}[case.id] for case in cases}


@dataclass(frozen=True)
class _Profile:
    """What one process executed in ``calls`` calls."""

    functions: CallgrindProfile
    calls: int


@dataclass
class _Looking:
    """Looks at cases, one process pair after another, and collects what was found: ``profiles``, case id -> one for
    each pair, by side; ``failed``, case id -> why."""

    bench: Bench
    counting: Counting
    seed: int
    deadline: float
    places: Mapping[str, Path]  # case id -> where its files are kept
    misses: bool
    profiles: dict[str, list[dict[Side, _Profile]]] = field(default_factory=dict)
    failed: dict[str, str] = field(default_factory=dict)
    kept: dict[Path, int] = field(default_factory=dict)  # the files in ``places`` -> bytes

    def look(self, cases: Sequence[Case], number: int) -> None:
        """One observation of each case; from further pairs where one is lost."""
        rng = random.Random(f"{'misses' if self.misses else 'native'} {self.seed} {number}")
        requests = [CaseRequest(case, self.seed) for case in cases]
        self.failed |= look_in_a_pair(requests, number, rng, self.deadline, self._start, self._measure)

    def _start(self, side: Side, padding: Mapping[str, str], folder: Path) -> Worker:
        paths = folder / side[0]
        environment = {**self.counting.environment, "OPDUEL_COUNTS": str(paths), **padding}
        options = (SIMULATING,) if self.misses else IN_DETAIL
        command, bench = callgrind(self.counting, paths, options), self.bench
        return Worker(side, bench.builds[side], bench.adaptor, environment, bench.cpus.start, SCRIPT, command)

    def _measure(self, processes: Processes, request: CaseRequest, plan: Round) -> PairSample:
        """Look at one case. Raises CaseRefusedError, CaseLostError, WorkerLostError: with the side, or "both"."""
        case = request.case
        prepare = {"op": "prepare", "case": request.description(), "seed": request.seed, "whole": True}
        first = ask_counts(processes, dict.fromkeys(SIDES, prepare), case, plan)
        discard, calls = plan_calls({side: int(first[side]["count"]) for side in SIDES})
        message = {"op": "functions", "discard": discard, "calls": calls}
        answers = ask_counts(processes, dict.fromkeys(SIDES, message), case, plan)
        found = {side: _Profile(self._read(side, case, answers[side]), calls) for side in SIDES}
        self.profiles.setdefault(case.id, []).append(found)
        control, treatment = (max(1, found[side].functions.total) / calls for side in SIDES)
        return sample_of(request, plan, control, treatment, calls)

    def _read(self, side: Side, case: Case, answer: Mapping[str, Any]) -> CallgrindProfile:
        """What a side has executed. Raises CaseRefusedError: its files can't be read, or kept."""
        dump, empty = Path(answer["dump"]), Path(answer["empty"])
        events = MISSES if self.misses else INSTRUCTIONS
        try:
            with dump.open("rb") as stream, empty.open("rb") as nothing:
                found = read_callgrind(stream, locate=locate, vector_size=vector_size, events=events)
                found.subtract(read_callgrind(nothing, locate=locate, vector_size=vector_size, events=events))
                found = described(found)
            if case.id in self.places:
                self._keep(dump, self.places[case.id] / side / FILE)
        except (OSError, ValueError) as error:
            said = error.strerror if isinstance(error, OSError) else error
            raise CaseRefusedError(Failure(side, "error", f"callgrind's file: {said}")) from None
        finally:
            for path in (dump, empty):
                with suppress(OSError):
                    path.unlink()
        return found

    def _keep(self, dump: Path, place: Path) -> None:
        """Copy a file to its place, unless all of them would then be too large. Raises OSError: it can't be written."""
        size = dump.stat().st_size
        if sum(self.kept.values()) - self.kept.get(place, 0) + size > MOST_KEPT:
            return
        place.parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(dump, place)
        self.kept[place] = size


def plan_calls(first: Mapping[Side, int]) -> tuple[int, int]:
    """How many calls to discard, and how many to count, from both sides' instructions of one call."""
    if max(first.values()) > LARGE:
        return 0, 1
    plan = plan_counts(first, 0.0)
    return plan.discard, plan.scale


def _observed(pairs: Sequence[Mapping[Side, _Profile]], why: str, asked: int) -> Observed:
    """A case's observations, and the note on them: why there are fewer than ``asked`` for, too."""
    why = note_on(len(pairs), asked, why or NO_TIME_LEFT)
    if not pairs:
        return Observed(note=why)
    shared = shared_names(one.functions for pair in pairs for one in pair.values())
    observations = _parts(pairs, shared)
    stripped = without_symbols({side: [pair[side].functions for pair in pairs] for side in SIDES})
    note = "; ".join(filter(None, [why, stripped, NO_AVX512 if has_avx512() else ""]))
    counted = all(one.functions.branches for pair in pairs for one in pair.values())
    branches = tuple(
        {side: mispredicted(one.functions, one.calls, shared) for side, one in pair.items()}
        for pair in (pairs if counted else ())
    )
    control, treatment = (pairs[-1][side].functions for side in SIDES)
    place = placement(control, treatment, shared)
    return Observed(observations, note, _flame(pairs, shared), branches, place)


def _observed_misses(pairs: Sequence[Mapping[Side, _Profile]], why: str, asked: int) -> Observed:
    """The same of a simulated cache's misses."""
    why = note_on(len(pairs), asked, why or NO_TIME_LEFT)
    if not pairs:
        return Observed(note=why)
    shared = shared_names(one.functions for pair in pairs for one in pair.values())
    return Observed(_parts(pairs, shared), "; ".join(filter(None, [why, MODEL])))


def _parts(pairs: Sequence[Mapping[Side, _Profile]], shared: set[str]) -> list[Observation]:
    return [{side: parts_of(one.functions, one.calls, shared) for side, one in pair.items()} for pair in pairs]


def _flame(pairs: Sequence[Mapping[Side, _Profile]], shared: set[str]) -> tuple[Frame, ...]:
    of_sides = {side: [pair[side] for pair in pairs] for side in SIDES}
    return flame_of_graphs(
        {
            side: call_graph([one.functions for one in profiles], [one.calls for one in profiles], shared)
            for side, profiles in of_sides.items()
        }
    )


def has_avx512(proc: Path = PROC) -> bool:
    """Whether this processor has AVX-512."""
    return re.search(r"^flags\s*:.*\bavx512f\b", text_of(proc / "cpuinfo"), re.M) is not None
