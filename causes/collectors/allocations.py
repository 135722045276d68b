"""Counts what a call allocates, by native function on both sides: valgrind's massif.

massif replaces the C library's malloc, or looks at the memory that a process gets from the kernel, and knows the whole
stack of each request. It runs code as valgrind does without a tool, so that looking costs little beside callgrind.
"""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Literal

from opduel.causes.collectors.allocation_parts import parts_of
from opduel.causes.collectors.massif_file import Allocated, Stack, allocated_between
from opduel.causes.collectors.valgrind_pairs import PAIRS, Observed, Tool, fit_cases, look_in_pairs, reading_files
from opduel.frameworks import run_environment
from opduel.harness.processes.case_request import CaseRequest, time_left
from opduel.harness.profiles import Profiling
from opduel.harness.rounds.blocks import Processes
from opduel.harness.rounds.counter_round import ask_both
from opduel.harness.rounds.instructions import SCRIPT, SLOWDOWN, plan_counting
from opduel.harness.rounds.pair import Round
from opduel.records import Case
from opduel.records.cause import Observation
from opduel.records.measurement import SIDES, Side

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


def observe_allocations(
    profiling: Profiling,
    cases: Sequence[Case],
    kind: Kind = ALLOCATIONS,
    *,
    env: Mapping[str, str] | None = None,
    pairs: int = PAIRS,
    longest_pair_s: float = LONGEST_PAIR_S,
) -> dict[str, tuple[Observed, Observed]]:
    """Return for each case id, by native function, how many times a call allocates (or how many pages it maps), and how
    many bytes, in ``pairs`` fresh process pairs, both sides at once. Arguments and failures: as of
    ``observe_native``."""
    framework, fit = profiling.framework, fit_cases(profiling.framework, cases)
    counting = plan_counting(framework, env, fit)
    # malloc as it is in production: where memory is mapped, the memory that malloc holds back decides
    environment = {
        **run_environment(framework, 1, env or {}),
        **framework.preparation(fit),
        **framework.profiling.counting_variables,
    }
    command = massif(counting.valgrind, kind)
    tool = Tool(kind, SCRIPT, "OPDUEL_ALLOCATIONS", environment, lambda _paths: command, longest_pair_s)
    results = look_in_pairs(profiling, cases, tool, _count, pairs)
    return {case_id: _observed(of_case, note, NOTES[kind]) for case_id, (of_case, note) in results.items()}


def _observed(
    pairs: Sequence[tuple[Observation, Observation]], note: str, explanation: str
) -> tuple[Observed, Observed]:
    if not pairs:
        return (Observed(note=note),) * 2
    note = "; ".join(filter(None, (note, explanation)))
    return Observed([numbers for numbers, _ in pairs], note), Observed([sizes for _, sizes in pairs], note)


def _count(processes: Processes, request: CaseRequest, this_round: Round) -> tuple[Observation, Observation]:
    def ask(message: Mapping[str, Any]) -> dict[Side, dict[str, Any]]:
        limit_s = time_left(request.case, this_round.deadline, SLOWDOWN)
        return ask_both(processes, dict.fromkeys(SIDES, message), limit_s)

    prepared = ask({"op": "prepare", "case": request.description(), "seed": request.seed})
    calls = plan_calls(max(float(prepared[side]["call_ns"]) for side in SIDES))
    answers = ask({"op": "allocations", "discard": calls // 2, "calls": calls})
    parts = {side: parts_of(_read(side, answers[side]), int(answers[side]["calls"])) for side in SIDES}
    numbers, sizes = ({side: parts[side][column] for side in SIDES} for column in (0, 1))
    return numbers, sizes


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
    before, after = Path(answer["before"]), Path(answer["after"])
    with reading_files(side, "massif", (before, after)):
        return allocated_between(before.read_bytes(), after.read_bytes())
