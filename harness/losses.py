"""How a worker, or the process of one case, is lost: the errors, and what an exit code and last words tell."""

import contextlib
import re
import signal

from records import Failure
from records.measurement import Side

_FATAL = re.compile(r"(segmentation fault|floating point exception|aborted|illegal instruction|bus error)", re.I)


class _FailureError(Exception):
    def __init__(self, failure: Failure) -> None:
        super().__init__(failure.reason)
        self.failure = failure


class CaseRefusedError(_FailureError):
    """The framework raised on a request; the case's process lives on."""


class CaseLostError(_FailureError):
    """The process that measured the case died or hung; the worker lives on and can begin another."""


class WorkerLostError(_FailureError):
    """The worker died, hung or spoke nonsense; it is gone now."""


def out_of_memory_kills() -> int:
    """How many processes the kernel has killed for memory since boot; 0 where it doesn't say."""
    with contextlib.suppress(OSError), open("/proc/vmstat", encoding="ascii") as lines:
        for line in lines:
            if line.startswith("oom_kill "):
                return int(line.split()[1])
    return 0


def cause_of_death(side: Side, code: int, words: str, kills_before: int) -> Failure:
    """What an exit code (-N for signal N) and last words tell; ``kills_before``: the kernel's count at the start."""
    if code == -signal.SIGKILL:
        if out_of_memory_kills() > kills_before:
            return Failure(side, "out-of-memory", "killed by the kernel: out of memory", words)
        return Failure(side, "killed", "killed by SIGKILL (by hand, or a memory limit)", words)
    if code < 0:
        name = signal.Signals(-code).name if -code in set(signal.Signals) else f"signal {-code}"
        return Failure(side, "crash", f"killed by {name}", words)
    # Frameworks that catch SIGSEGV print it and exit with a code of their own.
    fatal = _FATAL.findall(words)
    said = f", having printed {fatal[-1]!r}" if fatal else ""
    return Failure(side, "crash", f"exited with code {code}{said}", words)
