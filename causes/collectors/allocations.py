"""Counts what a call allocates, by native function on both sides: valgrind's massif.

massif replaces the C library's malloc, or looks at the memory that a process gets from the kernel, and knows the whole
stack of each request. It runs code as valgrind does without a tool, so that looking costs little beside callgrind.
"""

import random
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

from opduel.causes.collectors.allocation_parts import parts_of
from opduel.causes.collectors.massif_file import Allocated, Stack, allocated_between
from opduel.causes.collectors.valgrind_pairs import PAIRS, Observed, look_in_a_pair, note_on, why_not
from opduel.frameworks import run_environment
from opduel.harness.planning.budget import NO_TIME_LEFT
from opduel.harness.processes.case_request import CaseRequest, time_left
from opduel.harness.processes.process import WORKER, Worker
from opduel.harness.processes.worker_errors import CaseRefusedError
from opduel.harness.profiles import Profiling
from opduel.harness.rounds.blocks import Processes
from opduel.harness.rounds.counter_round import ask_both, sample_of
from opduel.harness.rounds.instructions import SLOWDOWN, plan_counting
from opduel.harness.rounds.pair import Round
from opduel.records import Case, Failure, PairSample
from opduel.records.cause import Observation
from opduel.records.measurement import SIDES, Side

SCRIPT = WORKER.with_name("allocating.py")
Kind = Literal["allocations", "mapped memory"]
ALLOCATIONS: Kind = "allocations"  # asked of malloc
MAPPED: Kind = "mapped memory"  # asked of the kernel
KINDS = (ALLOCATIONS, MAPPED)
WORK_NS = 300_000_000.0  # about how long the calls take that are counted, under valgrind
MOST_CALLS = 20
# A process pair's, starting included. massif's files have what was allocated since the process began: of a library such
# as MXNet 110 MiB each, of which a case takes two.
LONGEST_PAIR_S = 40.0
NOTES: Mapping[Kind, str] = {
    ALLOCATIONS: "what is asked of the C library's malloc and C++'s new; not Python's objects of up to 512 bytes, "
    "which lie in memory that it has already",
    MAPPED: "what is asked of the kernel (mmap, brk), also by malloc, in whole pages",
}


@dataclass
class _Counter:
    """Counts in cases, one process pair after another, ``observations``: case
    id -> those of each pair, of the number and of the bytes; ``failures``: case id -> why it can't be counted in."""

    profiling: Profiling
    kind: Kind
    command: Sequence[str]
    environment: Mapping[str, str]
    observations: dict[str, list[tuple[Observation, Observation]]] = field(default_factory=dict)
    failures: dict[str, str] = field(default_factory=dict)

    def count_in_pair(self, cases: Sequence[Case], number: int) -> None:
        """Count in each case once, for at most ``LONGEST_PAIR_S``."""
        seed, deadline = self.profiling.seed, min(self.profiling.deadline, time.monotonic() + LONGEST_PAIR_S)
        rng = random.Random(f"{self.kind} {seed} {number}")
        requests = [CaseRequest(case, seed) for case in cases]
        self.failures |= look_in_a_pair(requests, number, rng, deadline, self._start, self._measure)

    def is_due(self, case: Case, pairs: int) -> bool:
        """Return whether a case has an observation of each of so many pairs; else further ones would claim nothing."""
        return case.id not in self.failures and len(self.observations.get(case.id, [])) == pairs

    def observed(self, case: Case, asked_pairs: int) -> tuple[Observed, Observed]:
        """Return the observations of a case: of numbers, and of bytes."""
        pairs = self.observations.get(case.id, [])
        note = note_on(len(pairs), asked_pairs, self.failures.get(case.id) or NO_TIME_LEFT)
        if not pairs:
            return Observed(note=note), Observed(note=note)
        note = "; ".join(filter(None, (note, NOTES[self.kind])))
        return Observed([numbers for numbers, _ in pairs], note), Observed([sizes for _, sizes in pairs], note)

    def _start(self, side: Side, padding: Mapping[str, str], folder: Path) -> Worker:
        environment = {**self.environment, "OPDUEL_ALLOCATIONS": str(folder / side[0]), **padding}
        bench = self.profiling.bench
        return Worker(side, bench.builds[side], bench.adaptor, environment, bench.cpus.start, SCRIPT, self.command)

    def _measure(self, processes: Processes, request: CaseRequest, this_round: Round) -> PairSample:
        """Count in one case. Raises CaseRefusedError, CaseLostError, WorkerLostError: with the side, or "both"."""
        prepare = {"op": "prepare", "case": request.description(), "seed": request.seed}
        prepared = self._ask(processes, prepare, request.case, this_round)
        calls = plan_calls(max(float(prepared[side]["call_ns"]) for side in SIDES))
        question = {"op": "allocations", "discard": calls // 2, "calls": calls}
        answers = self._ask(processes, question, request.case, this_round)
        parts = {side: parts_of(_read(side, answers[side]), int(answers[side]["calls"])) for side in SIDES}
        numbers, sizes = ({side: parts[side][column] for side in SIDES} for column in (0, 1))
        self.observations.setdefault(request.case.id, []).append((numbers, sizes))
        return sample_of(request, this_round, 1.0, 1.0, calls)

    def _ask(
        self, processes: Processes, message: Mapping[str, Any], case: Case, this_round: Round
    ) -> dict[Side, dict[str, Any]]:
        return ask_both(processes, dict.fromkeys(SIDES, message), time_left(case, this_round.deadline, SLOWDOWN))


def observe_allocations(
    profiling: Profiling,
    cases: Sequence[Case],
    kind: Kind = ALLOCATIONS,
    *,
    env: Mapping[str, str] | None = None,
    pairs: int = PAIRS,
) -> dict[str, tuple[Observed, Observed]]:
    """Return for each case id, by native function, how many times a call allocates (or how many pages it maps), and how
    many bytes, in ``pairs`` fresh process pairs, both sides at once.

    Arguments are those of ``observe_native``. Never raises for what a worker does: it costs a case its observations.
    """
    framework = profiling.framework
    unfit = {case.id: Observed(note=reason) for case in cases if (reason := why_not(framework, case))}
    fit = [case for case in cases if case.id not in unfit]
    if not fit:
        return {case_id: (observed, observed) for case_id, observed in unfit.items()}
    counting = plan_counting(framework, env, fit)
    # malloc as it is in production: where memory is mapped, the memory that malloc holds back decides
    environment = {
        **run_environment(framework, 1, env or {}),
        **framework.preparation(fit),
        **framework.profiling.counting_variables,
    }
    counter = _Counter(profiling, kind, massif(counting.valgrind, kind), environment)
    for number in range(pairs):
        counter.count_in_pair([case for case in fit if counter.is_due(case, number)], number)
    return {case.id: (unfit[case.id],) * 2 if case.id in unfit else counter.observed(case, pairs) for case in cases}


def massif(valgrind: str, kind: Kind) -> list[str]:
    """Return the command that runs an interpreter so that a worker can ask what was allocated."""
    return [
        valgrind,
        "--tool=massif",
        "--quiet",
        "--vgdb=no",
        "--time-unit=ms",  # no instructions are counted
        "--massif-out-file=/dev/null",
        "--xtree-memory=full",
        "--xtree-memory-file=/dev/null",  # the one of its end
        "--depth=12",
        "--merge-recursive-frames=12",  # of modules that import each other: files are a third as large
        "--read-inline-info=no",  # which takes three times as long, and makes the files ten times as large
        *(["--pages-as-heap=yes"] if kind == MAPPED else []),
    ]


def plan_calls(call_ns: float) -> int:
    """Return how many calls are counted, by how long one takes (ns)."""
    return max(1, min(MOST_CALLS, int(WORK_NS / max(call_ns, 1.0))))


def _read(side: Side, answer: Mapping[str, Any]) -> dict[Stack, Allocated]:
    """Return what a side has allocated. Raises CaseRefusedError: its files can't be read."""
    before, after = Path(answer["before"]), Path(answer["after"])
    try:
        return allocated_between(before.read_bytes(), after.read_bytes())
    except (OSError, ValueError) as error:
        reason = error.strerror if isinstance(error, OSError) else error
        raise CaseRefusedError(Failure(side, "error", f"massif's file: {reason}")) from None
    finally:
        for path in (before, after):
            with suppress(OSError):
                path.unlink()
