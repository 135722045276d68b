"""How a worker or the process of a case fails: the errors, the side that they are attributed to, and the meaning of an
exit code and an output tail."""

import re
import signal
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TypeVar

from opduel.harness.machine.host import PROC, out_of_memory_kills
from opduel.records import Failure
from opduel.records.measurement import FROM_OUTSIDE, SIDES, SKIPPED, Side
from opduel.support.output import key_line

T = TypeVar("T")
_FATAL = re.compile(r"(segmentation fault|floating point exception|aborted|illegal instruction|bus error)", re.I)
# How allocators say that there is no memory: Python's, C++'s, those of frameworks and devices, the system's.
_NO_MEMORY = re.compile(r"\bMemoryError\b|bad_alloc|failed to allocate|cannot allocate memory|out of memory", re.I)


class AskError(Exception):
    """What asking a process comes to instead of an answer."""

    def __init__(self, failure: Failure) -> None:
        super().__init__(failure.reason)
        self.failure = failure


class CaseRefusedError(AskError):
    """The framework raised on a request; the case's process lives on."""


class CaseLostError(AskError):
    """The process that measured the case died or hung; the worker lives on and can begin another."""


class WorkerLostError(AskError):
    """The worker died, hung or spoke nonsense; it is gone now."""


def merged_error(errors: Mapping[Side, AskError]) -> AskError:
    """Return one error for what went wrong on one side, or on both: of the worst kind. Its failure is a timeout if one
    of them is, which may have been the run's own time; it is a skip only if both are."""
    worst = next(
        error
        for kind in (WorkerLostError, CaseLostError, AskError)
        for error in errors.values()
        if isinstance(error, kind)
    )
    if len(errors) < len(SIDES):
        return worst
    failure_by_kind = {error.failure.kind: error.failure for error in errors.values()}
    refused = [failure for kind, failure in failure_by_kind.items() if kind != SKIPPED]
    usual = refused[0] if worst.failure.kind == SKIPPED and refused else worst.failure
    reported = failure_by_kind.get("timeout", usual)
    return type(worst)(replace(reported, side="both", reason=_reasons([errors[side].failure for side in SIDES])))


def on_both_sides(call: Callable[[Side], T], sides: Sequence[Side] = SIDES) -> dict[Side, T]:
    """Return what ``call`` returns for each side, one after the other; when one fails, still call it for the other:
    "both" is worth knowing. Raises AskError: with the side, or "both"."""
    results: dict[Side, T] = {}
    errors: dict[Side, AskError] = {}
    for side in sides:
        try:
            results[side] = call(side)
        except AskError as error:
            errors[side] = error
    if errors:
        raise merged_error(errors)
    return results


def merged_failure(failures: Sequence[Failure]) -> Failure:
    """Return one failure for several of one case: the last, on "both" sides unless all were on one. A failure that may
    have come from outside isn't blamed on the build."""
    reported = next((failure for failure in failures if failure.kind in FROM_OUTSIDE), failures[-1])
    if len({failure.side for failure in failures}) == 1:
        return reported
    return replace(reported, side="both", reason=_reasons(failures))


def _reasons(failures: Sequence[Failure]) -> str:
    """Return the reasons in one line: each once, and with its side when there are several."""
    if len(same := {failure.reason for failure in failures}) == 1:
        return same.pop()
    reasons = [
        failure.reason if failure.side == "both" else f"{failure.side}: {failure.reason}" for failure in failures
    ]
    return "; ".join(dict.fromkeys(reasons))


def refusal(side: Side, kind: str, reason: str, words: str) -> Failure:
    """Return a framework's error as a failure: ``kind`` and ``reason`` are the worker's, ``words`` the output tail.
    Running out of memory is classified as such, whichever layer noticed."""
    if kind == "error" and _NO_MEMORY.search(reason):
        kind = "out-of-memory"
    return Failure(side, kind, reason, words)


def cause_of_death(side: Side, code: int, words: str, kills_before: int | None, proc: Path = PROC) -> Failure:
    """Return what an exit code (-N: signal N) and the output tail say; ``kills_before``: the kernel's earlier count."""
    if code == -signal.SIGKILL:
        if kills_before is not None and (out_of_memory_kills(proc) or 0) > kills_before:
            return Failure(side, "out-of-memory", "killed by the kernel: out of memory", words)
        return Failure(side, "killed", "killed by SIGKILL (by hand, or a memory limit)", words)
    if code < 0:
        name = signal.Signals(-code).name if -code in set(signal.Signals) else f"signal {-code}"
        if code == -signal.SIGABRT and (wanting := _NO_MEMORY.search(words)):
            return Failure(
                side, "out-of-memory", f"ran out of memory and aborted, after printing {wanting[0]!r}", words
            )
        return Failure(side, "crash", f"killed by {name}", words)
    # Frameworks that catch SIGSEGV print it and exit with a code of their own.
    if fatal := _FATAL.findall(words):
        after = f", having printed {fatal[-1]!r}"
    else:
        after = f": {line}" if (line := key_line(words)) else ""
    return Failure(side, "crash", f"exited with code {code}{after}", words)
