"""Runs cases in process pairs under valgrind, after all measuring: a failure costs a case its cause alone."""

import platform
import random
import shutil
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory

from opduel.frameworks import Framework
from opduel.harness.processes.case_request import CaseRequest
from opduel.harness.processes.process import Worker
from opduel.harness.rounds.counter_round import Measure, run_counter_round
from opduel.harness.rounds.instructions import MACHINES, START_TIMEOUT_S
from opduel.harness.rounds.pair import Round, RoundResult
from opduel.records import Case, Failure, Frame
from opduel.records.cause import Observation
from opduel.records.measurement import Side

PAIRS = 3  # what is counted hardly varies between processes
Start = Callable[
    [Side, Mapping[str, str], Path], Worker
]  # with further variables, and a folder for what valgrind writes


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


def look_in_a_pair(
    requests: Sequence[CaseRequest], number: int, rng: random.Random, deadline: float, start: Start, measure: Measure
) -> dict[str, str]:
    """Run ``measure`` for each case once, in one fresh process pair, and in further ones where one is lost.

    Return for each case id why it could not be looked at, in one line; cases for which no time was left are not among
    them.
    """
    failed: dict[str, str] = {}
    open_requests = list(requests)
    while open_requests and time.monotonic() < deadline:
        result, plan = RoundResult(), Round(open_requests, number, deadline=deadline)
        with TemporaryDirectory(prefix="opduel-valgrind-", ignore_cleanup_errors=True) as folder:
            in_folder = partial(_start, start, Path(folder))
            run_counter_round(plan, rng, result, in_folder, START_TIMEOUT_S, measure)
        for case_id, failure in {**result.refused, **result.lost}.items():
            failed[case_id] = _reason(failure)
        if result.lost_worker and len(result.unmeasured) == len(open_requests):
            return failed | {request.case.id: _reason(result.lost_worker) for request in open_requests}
        open_requests = result.unmeasured if result.lost_worker else []
    return failed


def _start(start: Start, folder: Path, side: Side, padding: Mapping[str, str]) -> Worker:
    return start(side, padding, folder)


def _reason(failure: Failure) -> str:
    """Return why a case was not looked at, in one line."""
    side = "" if failure.side == "both" else f"{failure.side}: "
    lacking = ", which lacks AVX-512 and some other instructions" if "SIGILL" in failure.reason else ""
    return f"{side}{failure.reason} (under valgrind{lacking})"


def note_on(measured_pairs: int, asked_pairs: int, reason: str) -> str:
    """Return why there are fewer process pairs than were asked for; empty if there aren't."""
    if measured_pairs == asked_pairs:
        return ""
    return f"{measured_pairs} of {asked_pairs} process pairs: {reason}" if measured_pairs else reason
