"""Runs cases in process pairs under valgrind, after all measuring: a failure costs a case its cause alone."""

import math
import platform
import random
import shutil
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TypeVar

from opduel.frameworks import Framework
from opduel.harness.planning.budget import NO_TIME_LEFT
from opduel.harness.processes.case_request import CaseRequest
from opduel.harness.processes.process import Worker
from opduel.harness.processes.worker_errors import CaseRefusedError
from opduel.harness.profiles import Profiling
from opduel.harness.rounds.blocks import Processes
from opduel.harness.rounds.counter_round import Measure, run_counter_round, sample_of
from opduel.harness.rounds.instructions import MACHINES, START_TIMEOUT_S
from opduel.harness.rounds.pair import Round, RoundResult
from opduel.records import Case, Failure, Frame, PairSample
from opduel.records.cause import Observation
from opduel.records.measurement import Side

PAIRS = 3  # what is counted hardly varies between processes
Seen = TypeVar("Seen")
# Asks both sides about a case. Raises CaseRefusedError, CaseLostError, WorkerLostError: with the side, or "both".
Look = Callable[[Processes, CaseRequest, Round], Seen]


@dataclass(frozen=True)
class Observed:
    """What a source saw of a case: an observation for each process pair. ``note`` says why there are none, or fewer
    than asked for, and what limits them; ``flame`` is the call as a tree of frames. ``branches`` has the mispredicted
    branches of the same process pairs, and ``placement`` says whether and where the hottest code is the same."""

    observations: Sequence[Observation] = ()
    note: str = ""
    flame: tuple[Frame, ...] = ()
    branches: Sequence[Observation] = ()
    placement: str = ""


def why_not(framework: Framework, case: Case) -> str:
    """Return why a case can't be looked at under valgrind, in one line; empty if it can."""
    if shutil.which("valgrind") is None:
        return "needs valgrind, which is not on the PATH"
    if platform.machine() not in MACHINES:
        return f"works only on x86-64, not on {platform.machine()}"
    if not framework.calls_in_worker:
        return "a program of its own is not looked at under valgrind"
    if framework.cases.is_network(case):
        return "a whole network is not looked at under valgrind"
    if not (case.on_processor and framework.can_fork(1, case.context)):
        return f"a case on {case.context} can't be looked at under valgrind"
    return ""


def fit_cases(framework: Framework, cases: Sequence[Case]) -> list[Case]:
    """Return the cases that can be looked at under valgrind: what the others import isn't loaded there for nothing."""
    return [case for case in cases if not why_not(framework, case)]


@dataclass(frozen=True)
class Tool:
    """How a worker runs under one of valgrind's tools: the ``variable`` of its environment has the beginning of the
    paths that the tool writes, and ``command`` makes the tool's command of that. ``label``: of random choices."""

    label: str
    script: Path
    variable: str
    environment: Mapping[str, str]
    command: Callable[[Path], Sequence[str]]
    longest_pair_s: float = math.inf


def look_in_pairs(
    profiling: Profiling, cases: Sequence[Case], tool: Tool, look: Look[Seen], pairs: int
) -> dict[str, tuple[list[Seen], str]]:
    """Return for each case id what ``look`` returned in fresh process pairs, and why there is less than was asked for.

    A case that failed in a pair, or for which a pair had no time left, is not looked at in further ones.
    """
    results: dict[str, list[Seen]] = {case.id: [] for case in cases}
    failures = {case.id: reason for case in cases if (reason := why_not(profiling.framework, case))}

    def measure(processes: Processes, request: CaseRequest, this_round: Round) -> PairSample:
        results[request.case.id].append(look(processes, request, this_round))
        return sample_of(request, this_round, 1.0, 1.0, 1)

    for number in range(pairs):
        due = [case for case in cases if case.id not in failures and len(results[case.id]) == number]
        requests = [CaseRequest(case, profiling.seed) for case in due]
        failures |= _look_in_a_pair(profiling, requests, number, tool, measure)
    observed: dict[str, tuple[list[Seen], str]] = {}
    for case_id, values in results.items():
        reason = failures.get(case_id, NO_TIME_LEFT) if len(values) < pairs else ""
        fewer = f"{len(values)} of {pairs} process pairs: " if values and reason else ""
        observed[case_id] = values, fewer + reason
    return observed


def _look_in_a_pair(
    profiling: Profiling, requests: Sequence[CaseRequest], number: int, tool: Tool, measure: Measure
) -> dict[str, str]:
    """Look at each case in one fresh process pair, and in further ones where one is lost. Return for each case id why
    it could not be looked at; cases for which no time was left are not among them."""
    failed: dict[str, str] = {}
    rng = random.Random(f"{tool.label} {profiling.seed} {number}")
    deadline = min(profiling.deadline, time.monotonic() + tool.longest_pair_s)
    while requests and time.monotonic() < deadline:
        result, plan = RoundResult(), Round(requests, number, deadline=deadline)
        with TemporaryDirectory(prefix="opduel-valgrind-", ignore_cleanup_errors=True) as folder:
            start = partial(_start, profiling, tool, Path(folder))
            run_counter_round(plan, rng, result, start, START_TIMEOUT_S, measure)
        failed |= {case_id: _reason(failure) for case_id, failure in {**result.refused, **result.lost}.items()}
        if result.lost_worker and len(result.unmeasured) == len(requests):
            return failed | {request.case.id: _reason(result.lost_worker) for request in requests}
        requests = result.unmeasured if result.lost_worker else []
    return failed


def _start(profiling: Profiling, tool: Tool, folder: Path, side: Side, drawn: Mapping[str, str]) -> Worker:
    bench, paths = profiling.bench, folder / side[0]
    environment = {**drawn, **tool.environment, tool.variable: str(paths)}
    command = tool.command(paths)
    return Worker(side, bench.builds[side], bench.adaptor, environment, bench.cpus.start, tool.script, command)


@contextmanager
def reading_files(side: Side, tool: str, paths: Sequence[Path]) -> Iterator[None]:
    """Remove the files of a ``tool`` when they have been read. Raises CaseRefusedError: they can't be."""
    try:
        yield
    except (OSError, ValueError) as error:
        reason = error.strerror if isinstance(error, OSError) else error
        raise CaseRefusedError(Failure(side, "error", f"{tool}'s file: {reason}")) from None
    finally:
        for path in paths:
            path.unlink(missing_ok=True)


def _reason(failure: Failure) -> str:
    side = "" if failure.side == "both" else f"{failure.side}: "
    lacking = ", which lacks AVX-512 and some other instructions" if "SIGILL" in failure.reason else ""
    return f"{side}{failure.reason} (under valgrind{lacking})"
