"""Every case once, on one build: does it run at all, and how long does a call take, about?"""

import json
import subprocess
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

from frameworks import Framework, worker_environment
from records import Build, Case, RunError

SCRIPT = Path(__file__).resolve().parent / "worker" / "trying.py"
LIMIT_S = 10.0  # for one case, inputs and several calls


@dataclass(frozen=True)
class Attempt:
    """How one case went."""

    case: Case
    call_ns: float | None  # the median of three calls; None if it failed
    reason: str | None  # why it failed


def try_cases(
    build: Build, framework: Framework, cases: Sequence[Case], *, seed: int = 0, limit_s: float = LIMIT_S
) -> Iterator[Attempt]:
    """Try each case in a process of its own, which may crash, or hang for ``limit_s`` at most; in order, as they come.

    Raises:
        RunError: the build stopped answering.
    """
    environment = {**worker_environment(), **framework.environment(1), **build.environment}
    command = [str(build.interpreter), str(SCRIPT), "--adaptor", str(framework.adaptor)]
    with subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, env=environment, text=True
    ) as process:
        assert process.stdin
        assert process.stdout
        try:
            for case in cases:
                request = {"case": asdict(case), "seed": seed, "seconds": limit_s}
                try:
                    process.stdin.write(json.dumps(request) + "\n")
                    process.stdin.flush()
                    answer = json.loads(process.stdout.readline())
                except (OSError, ValueError):
                    raise RunError(f"{build.requested}: stopped answering at {case.id}") from None
                yield Attempt(case, answer["ns"], answer["reason"])
        finally:
            process.kill()
