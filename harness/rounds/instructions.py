"""One round of instruction counting: a fresh process pair under valgrind's callgrind, both sides at once.

Counts don't mind what else the machine does, so that the sides need not take turns; The rest is in
docs/explanation/instructions.md.
"""

import itertools
import math
import platform
import random
import shutil
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from opduel.frameworks import Framework, run_environment
from opduel.harness.processes.case_request import CaseRequest, time_left
from opduel.harness.processes.pair_pool import Counting, PairPool
from opduel.harness.processes.process import WORKER, Worker
from opduel.harness.processes.worker_errors import CaseRefusedError, merged_error
from opduel.harness.rounds.blocks import Processes
from opduel.harness.rounds.counter_round import ask_both, run_counter_round, sample_of
from opduel.harness.rounds.pair import Round, RoundResult
from opduel.records import Case, Failure, PairSample, UsageError
from opduel.records.measurement import SIDES, Side

SCRIPT = WORKER.with_name("counting.py")
MACHINES = ("x86_64", "AMD64")
START_TIMEOUT_S = 900.0  # an import takes some ten times as long as without valgrind
SLOWDOWN = 20  # a request may take this many times what it may take without valgrind
CASE_INSTRUCTIONS = 20_000_000  # large calls are counted fewer times, to stay near this many a side ...
FEWEST_CALLS, MOST_CALLS = 2, 50  # ... within these bounds
# glibc's malloc then keeps what is freed in lists of one size each, where finding a block takes the same number of
# instructions whatever was freed before: without it counts of one build differ by up to 0.3 %
# (docs/explanation/instructions.md).
ALLOCATOR = {"GLIBC_TUNABLES": "glibc.malloc.tcache_count=65535"}
NOTHING = "executes nothing in the functions that are counted"
DISCARD = 0.5  # calls before those that are counted, as a share of them: pools and caches settle


@dataclass(frozen=True)
class CountPlan:
    """How many calls of a case are counted on each side, and how many come before. ``scale`` is the number of calls
    by which the count is divided: fewer than ``calls`` on a side that an injection makes to do more."""

    discard: int
    calls: dict[Side, int]
    scale: int


def require_counting(framework: Framework, cases: Sequence[Case]) -> None:
    """See that the instructions of those ``cases`` that ask for it can be counted on this machine. Raises UsageError:
    they can't; the text says why and names the fix."""
    counted = [case for case in cases if case.metric == "instructions"]
    if not counted:
        return
    if not framework.profiling.counts_instructions:
        raise UsageError(
            f"--metric instructions: {framework.name} doesn't say which functions to count in; leave it out"
        )
    if shutil.which("valgrind") is None:
        raise UsageError(
            "--metric instructions needs valgrind, which is not on the PATH: install it (Debian, Ubuntu: "
            "apt install valgrind; Fedora: dnf install valgrind), or measure only time"
        )
    if platform.machine() not in MACHINES:
        raise UsageError(f"--metric instructions works only on x86-64, not on {platform.machine()}: measure time alone")
    for case in counted:
        if framework.cases.is_network(case):
            raise UsageError(f"{case.id}: instructions of whole networks are not counted: measure it by time alone")
        if not (case.on_processor and framework.can_fork(1, case.context)):
            raise UsageError(
                f"{case.id}: the instructions of {case.context} can't be counted: choose others with --operators, or "
                "measure time alone"
            )


def threads_of(case: Case, threads: int) -> int:
    """Return the compute threads of a worker that measures ``case``: counting is done with one."""
    return 1 if case.metric == "instructions" else threads


def plan_counting(framework: Framework, env: Mapping[str, str] | None = None, cases: Sequence[Case] = ()) -> Counting:
    """Return how a run of these cases counts, with the user's variables ``env``; ``require_counting`` has found
    valgrind."""
    ours = {**run_environment(framework, 1, env or {}), **framework.preparation(cases)}
    environment = {**ours, **ALLOCATOR, **framework.profiling.counting_variables}
    return Counting(shutil.which("valgrind") or "valgrind", tuple(framework.profiling.counted_functions), environment)


def callgrind(counting: Counting, paths: Path, more: Sequence[str] = ()) -> list[str]:
    """Return the command that runs an interpreter so that ``counting.functions`` are counted in, once a worker says so;
    where there are none, the worker says when to count, too. ``paths`` is the beginning of the paths of what callgrind
    writes."""
    return [
        counting.valgrind,
        "--tool=callgrind",
        "--quiet",
        "--vgdb=no",
        "--instr-atstart=no",
        "--collect-atstart=no",
        *(f"--toggle-collect={function}" for function in counting.functions),
        *more,
        f"--callgrind-out-file={paths}.%p",
    ]


def run_counting_round(pool: PairPool, this_round: Round, rng: random.Random, result: RoundResult) -> None:
    """Count the round's cases in one fresh process pair; the rest is as in ``run_counter_round``.

    The pair is none of ``pool``'s. Raises ValueError: the bench doesn't say how to count."""
    bench, counting = pool.bench, pool.bench.counting
    if counting is None:
        raise ValueError("this bench counts no instructions")

    def start(side: Side, drawn: Mapping[str, str]) -> Worker:
        paths = Path(folder) / side[0]  # of one length: what a process's heap looks like depends on it
        environment = {**drawn, **counting.environment, "OPDUEL_COUNTS": str(paths)}
        command = callgrind(counting, paths)
        return Worker(side, bench.builds[side], bench.adaptor, environment, bench.cpus.start, SCRIPT, command)

    with TemporaryDirectory(prefix="opduel-counts-") as folder:
        count = partial(_count, whole_calls=not counting.functions)
        run_counter_round(this_round, rng, result, start, START_TIMEOUT_S, count)


def _count(processes: Processes, request: CaseRequest, this_round: Round, *, whole_calls: bool) -> PairSample:
    """Count one case, in whole calls if ``whole_calls``. Raises what ``ask_counts`` does."""
    preparation = {"op": "prepare", "case": request.description(), "seed": request.seed}
    if whole_calls:
        preparation["whole_calls"] = True
    first = ask_counts(processes, dict.fromkeys(SIDES, preparation), request.case, this_round)
    counts = plan_counts({side: int(first[side]["count"]) for side in SIDES}, request.inject)
    messages = {side: {"op": "count", "discard": counts.discard, "calls": counts.calls[side]} for side in SIDES}
    answers = ask_counts(processes, messages, request.case, this_round)
    control, treatment = (int(answers[side]["count"]) / counts.scale for side in SIDES)
    return sample_of(request, this_round, control, treatment, counts.scale)


def ask_counts(
    processes: Processes, messages: Mapping[Side, Mapping[str, Any]], case: Case, this_round: Round
) -> dict[Side, dict[str, Any]]:
    """Return both sides' answers, whose counts are all above 0. Raises AskError: with the side, or "both"."""
    answers = ask_both(processes, messages, time_left(case, this_round.deadline, SLOWDOWN))
    if nothing := [side for side in SIDES if int(answers[side]["count"]) <= 0]:
        raise merged_error({side: CaseRefusedError(Failure(side, "error", NOTHING)) for side in nothing})
    return answers


def plan_counts(first: Mapping[Side, int], inject: float) -> CountPlan:
    """Plan how often to call, from both sides' instructions of one call: the same number of times. ``inject`` (a share)
    is injected as calls: of so many that the share of them is nearly a whole number, the treatment makes that share
    more."""
    calls = max(FEWEST_CALLS, min(MOST_CALLS, math.ceil(CASE_INSTRUCTIONS / max(first.values()))))
    if inject:
        enough = itertools.count(max(calls, math.ceil(0.5 / inject)))
        calls = next(n for n in enough if abs(round(inject * n) - inject * n) <= 0.01 * inject * n)
    extra = round(inject * calls)
    return CountPlan(math.ceil(DISCARD * calls), {"control": calls, "treatment": calls + extra}, calls)
